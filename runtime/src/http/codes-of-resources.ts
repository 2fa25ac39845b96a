/** Codes of what is registered, and of the names and values that it is given. Part of the one table in `codes.ts`. */

export const RESOURCE_CODES = {
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
} as const

export const VALUE_CODES = {
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
} as const
