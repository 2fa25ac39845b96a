/** Codes of who calls, and of what he may: tokens, roles, grants and masks. Part of the one table in `codes.ts`. */

export const CALLER_CODES = {
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
    title: 'User of an engine refused',
    remedy: 'Let the engine take the claim trino_user of verified tokens for the user.',
  },
  trino_question_malformed: {
    status: 400,
    title: 'Question of an engine malformed',
    remedy: 'Use the version of the engine that its plugin is made for.',
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
} as const

export const RIGHT_CODES = {
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
} as const
