/**
 * Every error code that an answer may carry: its status, what it is called, and what to do about it. The answers, the
 * OpenAPI document and the reference page are all made from this table.
 */
import type { ErrorKind } from '@sluice/sdk'
import type { AuthCode } from '../auth/errors.ts'
import { CATALOG_CODES } from './codes-of-catalog.ts'
import { ERASURE_CODES } from './codes-of-erasures.ts'
import { EXPORT_CODES } from './codes-of-exports.ts'
import { LOG_CODES } from './codes-of-logs.ts'
import { PLATFORM_CODES } from './codes-of-platform.ts'
import { PUSH_CODES } from './codes-of-push.ts'
import { STORE_CODES } from './codes-of-stores.ts'
import { WEBHOOK_CODES } from './codes-of-webhooks.ts'

export interface ErrorCode {
  readonly status: number
  readonly title: string
  readonly remedy: string
}

const TRY_AGAIN = 'Try again after the time in Retry-After.'

export const ERROR_CODES = {
  // Requests that are refused at the edge
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
  rate_limited: { status: 429, title: 'Too many requests', remedy: TRY_AGAIN },
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

  // Who calls
  token_missing: { status: 401, title: 'Token missing', remedy: 'Send the header Authorization: Bearer <token>.' },
  token_malformed: {
    status: 401,
    title: 'Token malformed',
    remedy: 'Send one signed JWT of at most 8 KiB, or a whole application key, as the bearer token.',
  },
  token_invalid: {
    status: 401,
    title: 'Token not accepted',
    remedy: 'Ask a configured issuer for a token of this audience, or a developer for an application key.',
  },
  token_expired: { status: 401, title: 'Token expired', remedy: 'Ask the issuer for a new token.' },
  token_not_yet_valid: {
    status: 401,
    title: 'Token not yet valid',
    remedy: 'Check the clocks of the issuer and of this server.',
  },
  token_claim_refused: {
    status: 401,
    title: 'Token claims refused',
    remedy: 'Ask the administrator which tenants and roles this issuer may claim.',
  },
  trino_user_refused: {
    status: 403,
    title: 'User of Trino refused',
    remedy: 'Let Trino take the claim trino_user of verified tokens for the user.',
  },
  trino_question_malformed: {
    status: 400,
    title: 'Question of Trino malformed',
    remedy: 'Use the version of Trino that this runtime is made for.',
  },
  issuer_unavailable: {
    status: 503,
    title: 'Issuer unavailable',
    remedy: 'Try again; if it lasts, check that this server reaches the issuer.',
  },
  admin_required: { status: 403, title: 'Administrators only', remedy: 'Use a token with the admin role.' },
  tenant_missing: { status: 403, title: 'Token without a tenant', remedy: 'Use a token that names a tenant.' },
  right_ended: {
    status: 403,
    title: 'Right ended',
    remedy: 'Ask for the right again where it is still needed, then come back with a valid token.',
  },
  tenant_not_served: {
    status: 403,
    title: 'No active tenant',
    remedy: 'Use a token of a tenant that has been made, or ask an administrator to make the one that the token names.',
  },
  tenant_header_forbidden: {
    status: 403,
    title: 'X-Tenant-Id not allowed',
    remedy: 'Leave the header out: the token names the tenant.',
  },
  forbidden: {
    status: 403,
    title: 'Not allowed',
    remedy: 'Ask an owner of the product or an administrator for the right.',
  },

  // Resources
  tenant_not_found: { status: 404, title: 'No such tenant', remedy: 'Check the id.' },
  backfill_unsupported: {
    status: 400,
    title: 'Nothing to read again',
    remedy: 'Push the rows once more; rows of a key take the place of its former ones.',
  },
  replay_unsupported: {
    status: 422,
    title: 'Quarantine not replayable',
    remedy: 'Sync the connection, or read the table whole again: sluice backfill.',
  },
  quarantined_row_not_found: {
    status: 404,
    title: 'No such row in quarantine',
    remedy: 'List the quarantine again.',
  },
  connection_not_found: { status: 404, title: 'No such connection', remedy: 'Check the id or the name.' },
  product_not_found: { status: 404, title: 'No such product', remedy: 'Check the id, the name, or namespace.name.' },
  ingestion_not_found: { status: 404, title: 'No such ingestion run', remedy: 'Check the id.' },
  grant_not_found: { status: 404, title: 'No such grant', remedy: 'Check the id.' },
  manifests_not_found: { status: 404, title: 'No such manifests', remedy: 'Upload manifests, or check the version.' },
  application_key_not_found: {
    status: 404,
    title: 'No such application key',
    remedy: 'Check the id; it may be revoked.',
  },
  service_password_not_found: {
    status: 404,
    title: 'No such service password',
    remedy: 'Check the id; it may be deleted.',
  },
  notification_target_not_found: {
    status: 404,
    title: 'No such target of notifications',
    remedy: 'Check the id; it may be removed.',
  },
  notification_owner_required: {
    status: 403,
    title: 'For the maker of the target',
    remedy: 'Ask whoever made it, or an administrator.',
  },
  invalid_notification_target: {
    status: 400,
    title: 'Invalid target of notifications',
    remedy: 'Write a whole https:// address, without a user or a password.',
  },
  too_many_notification_targets: {
    status: 409,
    title: 'Too many targets of notifications',
    remedy: 'Remove targets that nobody listens at any more.',
  },
  notification_failed: {
    status: 503,
    title: 'Target of notifications does not answer',
    remedy: 'Look at who listens there; it is tried again for a day.',
  },
  notification_refused: {
    status: 503,
    title: 'Target of notifications refuses',
    remedy: 'Look at who listens there; it is tried again for a day.',
  },
  key_not_found: { status: 404, title: 'No such key', remedy: 'Check the key; it may have expired.' },
  tenant_exists: { status: 409, title: 'Tenant exists', remedy: 'Choose another slug; slugs are never used again.' },
  tenant_not_active: { status: 409, title: 'Tenant not active', remedy: 'Wait until the tenant is provisioned.' },
  connection_exists: { status: 409, title: 'Connection exists', remedy: 'Choose another name.' },
  connection_owner_required: {
    status: 403,
    title: 'For the creator of the connection',
    remedy: 'Ask the creator of the connection, or an administrator.',
  },
  connection_moved: { status: 409, title: 'Connection moved', remedy: 'Sync the connection.' },
  connection_in_use: { status: 409, title: 'Connection in use', remedy: 'Change or delete the products that use it.' },
  product_exists: { status: 409, title: 'Product exists', remedy: 'Choose another name.' },
  ambiguous_product: { status: 409, title: 'Ambiguous product', remedy: 'Write namespace.name, or add ?namespace=.' },
  too_many_application_keys: {
    status: 409,
    title: 'Too many application keys',
    remedy: 'Revoke keys that are no longer used.',
  },
  too_many_service_passwords: {
    status: 409,
    title: 'Too many service passwords',
    remedy: 'Delete service passwords that are no longer used.',
  },
  tier_limit_exceeded: {
    status: 409,
    title: 'Tier limit reached',
    remedy: 'Remove something, or ask for a higher tier.',
  },
  confirmation_missing: { status: 400, title: 'Confirmation missing', remedy: 'Send ?confirm= with the slug.' },
  run_in_progress: { status: 409, title: 'Run in progress', remedy: 'Wait until the run has ended, or cancel it.' },

  // Roles, grants and masks
  developer_required: { status: 403, title: 'Developers only', remedy: 'Use a token of the group svc-developers.' },
  member_required: { status: 403, title: 'Members only', remedy: 'Use a token of a group of the tenant.' },
  key_needs_member: {
    status: 403,
    title: 'Made by members only',
    remedy: 'Let a member of svc-developers of the tenant make the key.',
  },
  clearance_too_wide: {
    status: 403,
    title: 'Clearance wider than your own',
    remedy: 'Ask for no more than your token claims.',
  },
  key_not_allowed: {
    status: 403,
    title: 'Not for application keys',
    remedy: 'Use a token of a person, or a key that is made for this operation.',
  },
  product_forbidden: { status: 403, title: 'Product not readable for you', remedy: 'Ask its owner for a grant.' },
  raw_table_forbidden: {
    status: 403,
    title: 'Raw table not readable for you',
    remedy: 'Ask for a grant on the table.',
  },
  class_lowering_refused: { status: 403, title: 'Class may not be lowered', remedy: 'Ask the creator of the product.' },
  grant_not_held: {
    status: 403,
    title: 'Not yours to grant',
    remedy: 'Ask the creator of the connections that the rows come from, or an administrator.',
  },
  column_masked: { status: 403, title: 'Column masked', remedy: 'Ask for a grant that unmasks its class.' },
  column_not_visible: { status: 403, title: 'Column not visible', remedy: 'Name columns that you can see.' },
  mask_pending: { status: 409, title: 'Mask pending', remedy: 'Materialize the product, then read again.' },
  snapshot_not_masked: { status: 409, title: 'Snapshot not masked', remedy: 'Ask for a later snapshot.' },
  invalid_grant: { status: 400, title: 'Invalid grant', remedy: 'Correct the grant as the detail says.' },
  folder_refused: {
    status: 403,
    title: 'Folder refused',
    remedy: 'Name a folder that the operator allows for the tenant under folders.allow.',
  },
  address_refused: { status: 403, title: 'Address refused', remedy: 'Use an address that connections may go to.' },

  // Names and values
  invalid_slug: {
    status: 400,
    title: 'Invalid slug',
    remedy: 'Use 3 to 39 lower-case letters, digits and single hyphens.',
  },
  invalid_name: { status: 400, title: 'Invalid name', remedy: 'Use lower-case letters, digits and "_".' },
  invalid_version: { status: 400, title: 'Invalid version', remedy: 'Write major.minor.patch.' },
  invalid_value: { status: 400, title: 'Invalid value', remedy: 'Write a value of the type that the detail names.' },
  unknown_connector_type: { status: 400, title: 'Unknown connector type', remedy: 'Use a type that is loaded.' },
  invalid_connection_config: {
    status: 400,
    title: 'Invalid connection settings',
    remedy: 'Correct what errors[] names.',
  },
  invalid_schedule: { status: 400, title: 'Invalid schedule', remedy: 'Correct what errors[] names.' },

  // Manifests and deployments
  manifests_invalid: { status: 422, title: 'Manifests refused', remedy: 'Correct what errors[] names.' },
  manifests_missing: { status: 409, title: 'No manifests yet', remedy: 'Upload the six manifests first.' },
  transform_invalid: {
    status: 422,
    title: 'Transform refused',
    remedy: 'Correct the transform or the output columns.',
  },
  lossy_cast: {
    status: 422,
    title: 'Cast loses something',
    remedy: 'Change the type, cast in the transform, or name the column in allow_lossy.',
  },
  check_invalid: { status: 422, title: 'Check refused', remedy: 'Correct the checks that errors[] names.' },
  plan_changed: { status: 409, title: 'Plan changed', remedy: 'Plan again, and deploy by the digest of that plan.' },
  draft_of_another: {
    status: 409,
    title: 'Manifests of somebody else',
    remedy: 'Review their plan and deploy by its digest, or upload the manifests that you mean.',
  },
  class_lowering_unnamed: {
    status: 409,
    title: 'Lowered class not named',
    remedy: 'Keep the class, or name the columns in lower.',
  },
  classes_changed: {
    status: 409,
    title: 'Classes changed',
    remedy: 'Plan again, and deploy again.',
  },
  version_exists: { status: 409, title: 'Version exists', remedy: 'Deploy the changes under a new version.' },
  breaking_change: { status: 409, title: 'Breaking change', remedy: 'Deploy it as a new major version.' },
  breaks_downstream: {
    status: 409,
    title: 'Products made of this one would break',
    remedy: 'Keep the columns that they read, or name the products in breaks.',
  },
  product_cycle: { status: 422, title: 'Product made of itself', remedy: 'Take one of the inputs away.' },
  product_in_use: {
    status: 409,
    title: 'Products are made of it',
    remedy: 'Delete those first, or deploy versions of them that do without it.',
  },
  product_being_deleted: {
    status: 409,
    title: 'Product being deleted',
    remedy: 'Wait until it is gone. Where the deletion failed, delete it again, or repeat this in ten minutes.',
  },
  not_deployed: { status: 409, title: 'Not deployed', remedy: 'Deploy a version first.' },
  product_paused: {
    status: 409,
    title: 'Product paused',
    remedy: 'Resume the product, or deploy a version of it.',
  },
  registry_outdated: {
    status: 409,
    title: 'Registry older than the lake',
    remedy: 'Say which one is right: resume the product with right=lake or right=registry.',
  },
  product_not_paused: { status: 409, title: 'Product not paused', remedy: 'Nothing has to be resumed.' },
  too_many_rejected: {
    status: 422,
    title: 'Too many rows rejected',
    remedy: 'Correct the rows in the source, or allow more with max_rejected in quality.yaml.',
  },
  input_failed: { status: 409, title: 'Input failed', remedy: 'Correct what the table says, then sync again.' },
  preview_unsupported: {
    status: 422,
    title: 'No preview of such a transform',
    remedy: 'Deploy the version and read the product.',
  },
  preview_too_large: {
    status: 422,
    title: 'Too much for a preview',
    remedy: 'Deploy the version and read the product.',
  },
  preview_exists: {
    status: 409,
    title: 'Product with a preview',
    remedy: 'Promote the preview or discard it, and wait until its rows are gone.',
  },
  preview_not_found: { status: 404, title: 'No preview', remedy: 'Deploy a version with stage: preview.' },
  input_not_ingested: { status: 409, title: 'Input not ingested', remedy: 'Sync its connection.' },
  input_forbidden: {
    status: 403,
    title: 'Input may not be read',
    remedy: 'Let somebody deploy the product who may read its inputs.',
  },
  inputs_of_several_waves: {
    status: 409,
    title: 'Inputs rest on different rows',
    remedy: 'It is made when the input that is behind has been made.',
  },
  inputs_unchanged: {
    status: 409,
    title: 'Inputs unchanged',
    remedy: 'Nothing is to be done. To make it all the same: sluice product materialize.',
  },
  backing_off: {
    status: 409,
    title: 'Tried again later',
    remedy: 'See the incident of the product, or sync the connection to try it now.',
  },
  input_behind: {
    status: 409,
    title: 'Input not made anew',
    remedy: 'Correct what keeps the product that is its input from being made.',
  },
  version_differs: {
    status: 422,
    title: 'New version differs',
    remedy: 'See what differs in the quality of the product; deploy with accept_differences where it is meant.',
  },
  comparison_forbidden: {
    status: 403,
    title: 'Comparison forbidden',
    remedy: 'Compare columns that you may see, or have somebody deploy who is cleared for them.',
  },
  quality_blocked: { status: 422, title: 'Quality checks failed', remedy: 'Review the checks and the source data.' },

  // Reads
  epoch_not_reached: {
    status: 409,
    title: 'Epoch not reached',
    remedy: 'Look at the run that was to make it, then ask again, or for an earlier epoch.',
  },
  answer_not_consistent: {
    status: 409,
    title: 'Products rest on different rows',
    remedy: 'Ask again when the run that makes them has ended, or without "consistent".',
  },
  too_many_waiting: { status: 429, title: 'Too many reads wait', remedy: 'Ask again when others have been answered.' },
  not_materialized: { status: 409, title: 'Not materialized yet', remedy: 'Sync its connections, then read again.' },
  store_missing: {
    status: 409,
    title: 'No store for this endpoint',
    remedy:
      'Let the operator name the plugin under plugins, and its driver under serving, and start again; or deploy a version without the endpoint.',
  },
  endpoint_not_declared: { status: 404, title: 'No such endpoint', remedy: 'Declare it in serving.yaml.' },
  filter_malformed: {
    status: 400,
    title: 'Malformed filter',
    remedy: 'Write <column>:<value> or <column>.<operator>:<value>.',
  },
  filter_not_indexed: { status: 400, title: 'Filter not indexed', remedy: 'Filter by an indexed column.' },
  too_many_filters: { status: 400, title: 'Too many filters', remedy: 'Send fewer filters.' },
  too_many_values: { status: 400, title: 'Too many values', remedy: 'Send fewer values.' },
  unknown_column: { status: 400, title: 'Unknown column', remedy: 'Name a column of the product.' },
  order_malformed: { status: 400, title: 'Malformed order', remedy: 'Write <column> or <column>:desc.' },
  history_not_kept: { status: 400, title: 'History not kept', remedy: 'Declare history_mode: type_2.' },
  interval_not_kept: { status: 400, title: 'Interval not kept', remedy: 'Use an interval of continuous_aggregates.' },
  key_malformed: { status: 400, title: 'Malformed key', remedy: 'Write an object with a value of each key column.' },
  too_many_keys: { status: 400, title: 'Too many keys', remedy: 'Ask in several requests.' },
  rows_too_large: { status: 422, title: 'Rows too large', remedy: 'Ask for fewer keys, or for fewer columns.' },
  training_set_invalid: {
    status: 400,
    title: 'Invalid training set',
    remedy: 'Correct what the detail says of labels or features.',
  },
  key_missing: { status: 400, title: 'Key missing', remedy: 'Send the parameter key.' },

  // SQL
  sql_not_allowed: { status: 400, title: 'SQL not allowed', remedy: 'Send one SELECT with plain functions.' },
  sql_syntax_error: { status: 400, title: 'SQL syntax error', remedy: 'Correct the statement.' },
  sql_too_long: { status: 400, title: 'SQL too long', remedy: 'Send a shorter statement.' },
  table_not_ingested: {
    status: 400,
    title: 'No such table is read',
    remedy: 'Name a table, as schema.table, that a deployed product reads from the connection.',
  },
  table_not_found: { status: 400, title: 'No such table', remedy: 'Name a table as <namespace>.<product>.' },
  column_not_found: { status: 400, title: 'No such column', remedy: 'Name columns that the tables have.' },
  query_timeout: { status: 408, title: 'Query time over', remedy: 'Ask for less at once.' },
  query_memory_exceeded: { status: 422, title: 'Query memory exceeded', remedy: 'Ask for less at once.' },
  query_result_too_large: { status: 422, title: 'Result too large', remedy: 'Ask for less at once.' },
  query_failed: { status: 422, title: 'Query failed', remedy: 'Write the statement in another way.' },
  version_not_found: { status: 404, title: 'No such version', remedy: 'Take a version that was in service.' },
  snapshot_expired: { status: 409, title: 'Snapshot expired', remedy: 'Choose a snapshot of the list.' },
  deployment_superseded: { status: 409, title: 'Superseded', remedy: 'Ask for it again if it is still wanted.' },
  run_cancelled: { status: 409, title: 'Run cancelled', remedy: 'Start it again if it is still wanted.' },
  snapshot_not_found: { status: 404, title: 'No such snapshot', remedy: 'Take an id from the list of snapshots.' },
  changes_need_key: {
    status: 422,
    title: 'Changes need a key',
    remedy:
      'Give the product an identity column, or ask for a grant that unmasks it; read the product otherwise until then.',
  },
  changes_too_large: {
    status: 422,
    title: 'Changes too large',
    remedy: 'Read the product as parquet by POST /api/v1/query, then follow its changes from now.',
  },
  agent_budget_spent: {
    status: 429,
    title: 'Budget of agents used up',
    remedy: 'Stop here; it begins anew at midnight UTC.',
  },
  cpu_time_spent: { status: 429, title: 'CPU time used up', remedy: 'Wait for as long as Retry-After says.' },
  engine_busy: { status: 503, title: 'Engine busy', remedy: TRY_AGAIN },
  store_unavailable: { status: 503, title: 'Store unavailable', remedy: TRY_AGAIN },

  // What every layer below may say
  internal_error: { status: 500, title: 'Internal error', remedy: 'Report the request_id to the operator.' },
  unsupported: { status: 501, title: 'Not supported', remedy: 'Use a store that declares this capability.' },
  server_busy: { status: 503, title: 'Server busy', remedy: TRY_AGAIN },
  shutting_down: { status: 503, title: 'Shutting down', remedy: TRY_AGAIN },
  deadline_exceeded: { status: 504, title: 'Time over', remedy: 'Ask for less at once, or try again.' },
  tenant_scope_missing: { status: 500, title: 'Internal error', remedy: 'Report the request_id to the operator.' },

  ...CATALOG_CODES,
  ...PLATFORM_CODES,
  ...LOG_CODES,
  ...PUSH_CODES,
  ...EXPORT_CODES,
  ...WEBHOOK_CODES,
  ...ERASURE_CODES,
  ...STORE_CODES,
} as const satisfies Readonly<Record<string, ErrorCode>> & Readonly<Record<AuthCode, ErrorCode>>

export type KnownCode = keyof typeof ERROR_CODES

/** For codes that the table does not know, such as those of third-party plugins: the kind alone decides. */
const KINDS: Readonly<Record<ErrorKind, ErrorCode>> = {
  CONFIG: { status: 422, title: 'Refused configuration', remedy: 'Correct the configuration that the detail names.' },
  TRANSIENT: { status: 503, title: 'Temporarily unavailable', remedy: 'Try again.' },
  CONFLICT: { status: 409, title: 'Conflict', remedy: 'Read the current state, then try again.' },
  FENCED: { status: 409, title: 'Overtaken by a newer writer', remedy: 'Read the current state, then try again.' },
  UNSUPPORTED: { status: 501, title: 'Not supported', remedy: 'Use a store that declares this capability.' },
  INVALID_DATA: { status: 400, title: 'Invalid data', remedy: 'Correct the request.' },
  PERMISSION: { status: 403, title: 'Not allowed', remedy: 'Ask an owner or an administrator for the right.' },
  QUOTA: { status: 429, title: 'Limit reached', remedy: 'Try again later, or ask for a higher limit.' },
  INTERNAL: ERROR_CODES.internal_error,
}

export function errorCode(code: string, kind: ErrorKind): ErrorCode {
  return Object.hasOwn(ERROR_CODES, code) ? ERROR_CODES[code as KnownCode] : KINDS[kind]
}
