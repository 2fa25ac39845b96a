/** Codes of requests that are refused at the edge, before anybody looks at what they ask for. Part of the one table in `codes.ts`. */

export const REQUEST_CODES = {
  malformed_request: { status: 400, title: 'Malformed request', remedy: 'Send a well-formed HTTP/1.1 request.' },
  malformed_path: {
    status: 400,
    title: 'Malformed path',
    remedy: 'Percent-encode the path as UTF-8, without control characters or dot segments.',
  },
  malformed_query: {
    status: 400,
    title: 'Malformed query string',
    remedy: 'Percent-encode the query as UTF-8 and give every parameter once, unless it may repeat.',
  },
  malformed_header: { status: 400, title: 'Malformed header', remedy: 'Correct the header that the detail names.' },
  malformed_body: {
    status: 400,
    title: 'Malformed body',
    remedy: 'Send one JSON document in UTF-8, with every key once.',
  },
  body_not_expected: { status: 400, title: 'Body not expected', remedy: 'Send this request without a body.' },
  validation_failed: { status: 400, title: 'Validation failed', remedy: 'Correct what errors[] names.' },
  cursor_too_long: {
    status: 422,
    title: 'Page ends at too long a value',
    remedy: 'Order by other columns, or take the rows by a query or an export.',
  },
  cursor_invalid: { status: 400, title: 'Invalid cursor', remedy: 'Start again without a cursor.' },
  tenant_contradictory: {
    status: 400,
    title: 'Two tenants named',
    remedy: 'Name the same tenant in X-Tenant-Id and in tenant_id, or leave one of them out.',
  },
  tenant_required: { status: 400, title: 'Tenant required', remedy: 'Name the tenant in the header X-Tenant-Id.' },
  not_found: {
    status: 404,
    title: 'Not found',
    remedy: 'Check the address and the id; ids of other tenants do not exist for you.',
  },
  method_not_allowed: {
    status: 405,
    title: 'Method not allowed',
    remedy: 'Use one of the methods in the header Allow.',
  },
  origin_not_allowed: {
    status: 403,
    title: 'Origin not allowed',
    remedy: 'Ask the operator to add the page to cors.tenants of the configuration.',
  },
  not_acceptable: {
    status: 406,
    title: 'Not acceptable',
    remedy: 'Ask for one of the media types that the reference names.',
  },
  request_timeout: { status: 408, title: 'Request time-out', remedy: 'Send the whole request faster.' },
  body_too_large: { status: 413, title: 'Body too large', remedy: 'Send a smaller body.' },
  uri_too_long: { status: 414, title: 'Address too long', remedy: 'Send a shorter path and query.' },
  unsupported_media_type: {
    status: 415,
    title: 'Unsupported media type',
    remedy: 'Send the media type that the reference names, without a Content-Encoding.',
  },
  range_not_satisfiable: {
    status: 416,
    title: 'No such part',
    remedy: 'Ask for bytes before the end, which Content-Range tells.',
  },
  headers_too_large: { status: 431, title: 'Headers too large', remedy: 'Send fewer or shorter headers.' },
  input_too_costly: { status: 422, title: 'Too costly to read', remedy: 'Send less at once.' },
  too_many_at_once: { status: 429, title: 'Too many requests at once', remedy: 'Wait for earlier requests to end.' },
  rate_limited: { status: 429, title: 'Too many requests', remedy: 'Try again after the time in Retry-After.' },
  idempotency_key_invalid: {
    status: 400,
    title: 'Invalid Idempotency-Key',
    remedy: 'Send 1 to 255 printable ASCII characters, such as a UUID.',
  },
  idempotency_key_reused: {
    status: 422,
    title: 'Idempotency-Key reused',
    remedy: 'Use a new key for another request.',
  },
  idempotency_in_progress: {
    status: 409,
    title: 'Same request in progress',
    remedy: 'Wait for the first request, then send this one again with the same key.',
  },
} as const
