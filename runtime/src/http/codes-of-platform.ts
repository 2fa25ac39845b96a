/** Codes of the processes, the registry and the lake. Part of the one table in `codes.ts`. */

export const PLATFORM_CODES = {
  walls_missing: {
    status: 503,
    title: 'Walls missing',
    remedy: 'Use a kernel with Landlock and seccomp, or set walls: not_required where all tenants trust each other.',
  },

  process_gone: {
    status: 503,
    title: 'Process ended',
    remedy: 'Ask again: another has taken its place, or does so in a moment. The log says how it ended.',
  },

  process_held_up: {
    status: 503,
    title: 'Process held up',
    remedy: 'End it, by its number in a list of processes: another takes its place.',
  },

  // In the detail of a product
  dashboards_unavailable: {
    status: 503,
    title: 'Dashboard server unavailable',
    remedy: 'Check that it is up and reachable where dashboards says; it is tried again by itself.',
  },
  dashboards_login_refused: {
    status: 500,
    title: 'Login of the dashboard server refused',
    remedy: 'Check the login under dashboards in the configuration.',
  },
  dashboards_refused: {
    status: 500,
    title: 'Refused by the dashboard server',
    remedy:
      'Give the runtime’s login there the rights that the driver asks for, and use a release that the driver is made for.',
  },
  dashboards_driver_failed: {
    status: 500,
    title: 'Driver of dashboards failed',
    remedy:
      'Tell the authors of the driver where the log of the process says that it failed; it is tried again by itself.',
  },
  dashboard_login_unsafe: {
    status: 500,
    title: 'Unsafe login of dashboards',
    remedy: 'Take from the roles named sluice_view_… every attribute and membership that they were given.',
  },
  // In logs and metrics
  openlineage_unreachable: {
    status: 503,
    title: 'OpenLineage endpoint unreachable',
    remedy: 'Look at who listens at openlineage.url; it is tried again by itself.',
  },
  openlineage_refused: {
    status: 503,
    title: 'Refused by the OpenLineage endpoint',
    remedy: 'Check openlineage.url and openlineage.api_key in the configuration.',
  },
  // At start-up and in commands: no client meets them, and an answer would not name them
  data_folder_in_use: {
    status: 500,
    title: 'Data folder in use',
    remedy: 'Stop that process, or start this one with another data folder.',
  },
  folder_not_private: {
    status: 500,
    title: 'Folder open to others',
    remedy: 'Make the folder the runtime’s own with mode 0700, on a file system that keeps modes.',
  },
  database_login_refused: {
    status: 500,
    title: 'Database login refused',
    remedy: 'Check the user and password in the configuration.',
  },
  database_missing: {
    status: 500,
    title: 'Database missing',
    remedy: 'Create it, or correct its name in the configuration.',
  },
  database_newer: {
    status: 500,
    title: 'Database of a newer release',
    remedy: 'Start the release that made it, or a later one.',
  },
  database_permission: {
    status: 500,
    title: 'Database right missing',
    remedy: 'Grant the role what the documentation lists.',
  },
  database_pooled: {
    status: 500,
    title: 'Database behind a pooler',
    remedy: 'Name PostgreSQL itself, its own host and port, in database.registry_url.',
  },
  database_statement_failed: {
    status: 500,
    title: 'Database statement failed',
    remedy: 'Report it with the log of the process.',
  },
  database_url_invalid: {
    status: 500,
    title: 'Invalid database address',
    remedy: 'Write it as postgresql://user:password@host:5432/database?sslmode=verify-full.',
  },
  invalid_config: {
    status: 500,
    title: 'Invalid configuration',
    remedy: 'Correct sluice.yaml, the SLUICE_ environment variables or the flags named.',
  },
  invalid_settings: {
    status: 500,
    title: 'Invalid plugin settings',
    remedy: 'Correct the settings under serving in sluice.yaml.',
  },
  issuer_insecure: {
    status: 500,
    title: 'Issuer without https',
    remedy: 'Give the issuer an https address; http is taken from this host alone.',
  },
  issuer_keys_broken: {
    status: 500,
    title: 'Issuer keys broken',
    remedy: 'Restore the key file from a backup, or remove it: tokens issued so far then end.',
  },
  issuer_keys_many: {
    status: 500,
    title: 'Too many issuer keys',
    remedy: 'Rotate again when the oldest has ended, a day after it was replaced.',
  },
  issuer_keys_missing: { status: 500, title: 'Issuer keys missing', remedy: 'Start the server once; it makes them.' },
  issuer_keys_unsafe: {
    status: 500,
    title: 'Issuer keys readable by others',
    remedy: 'Make the key file private (mode 0600), then rotate the keys.',
  },
  cursor_key_invalid: { status: 500, title: 'Key of cursors invalid', remedy: 'Put the file back, or remove it.' },
  master_key_file_invalid: { status: 500, title: 'Master key file invalid', remedy: 'Restore it from a backup.' },
  master_key_file_unwritable: {
    status: 500,
    title: 'Master key file cannot be written',
    remedy: 'Add a key to the file where it is kept, name it as current, and rotate again.',
  },
  master_key_missing: {
    status: 500,
    title: 'Master key missing',
    remedy: 'Put back the master key file that belongs to this registry, or add the key to the file in secrets_dir.',
  },
  master_key_wrong: {
    status: 500,
    title: 'Wrong master key',
    remedy: 'Put back the master key file that belongs to this registry: another key has the same id there.',
  },
  migration_changed: {
    status: 500,
    title: 'Migration changed',
    remedy: 'Restore the text of that migration and put the change into a new one.',
  },
  postgres_account_missing: {
    status: 500,
    title: 'No account for PostgreSQL',
    remedy: 'Start the runtime as an ordinary user, or create the system account.',
  },
  postgres_binaries_missing: {
    status: 500,
    title: 'PostgreSQL not installed',
    remedy: 'Install with optional dependencies, or configure an external PostgreSQL.',
  },
  postgres_binaries_unusable: {
    status: 500,
    title: 'PostgreSQL cannot run here',
    remedy: 'Let programs run in that folder, or configure an external PostgreSQL.',
  },
  postgres_home_missing: {
    status: 500,
    title: 'No folder for PostgreSQL',
    remedy: 'Use a data folder that other accounts can pass through.',
  },
  postgres_home_unreachable: {
    status: 500,
    title: 'Folder of PostgreSQL unreachable',
    remedy: 'Let that account pass through the folders above the data folder.',
  },
  postgres_folder_broken: {
    status: 500,
    title: 'Folder of PostgreSQL not whole',
    remedy: 'Put the data folder back from a backup.',
  },
  registry_lost: {
    status: 500,
    title: 'Registry lost',
    remedy: 'Put back the registry that belongs to this lake.',
  },
  postgres_init_failed: {
    status: 500,
    title: 'PostgreSQL not initialised',
    remedy: 'Check the free disk space and the permissions of the data folder.',
  },
  postgres_not_started: {
    status: 500,
    title: 'PostgreSQL not started',
    remedy: 'Read postgres/server.log in the data folder.',
  },
  postgres_version_mismatch: {
    status: 500,
    title: 'Other version of PostgreSQL',
    remedy: 'Move the data with pg_upgrade or with a dump.',
  },
  settings_invalid: { status: 500, title: 'Invalid settings', remedy: 'Correct the settings that the detail names.' },
  token_ttl_invalid: { status: 500, title: 'Invalid life of a token', remedy: 'Ask for a shorter life, such as 1h.' },
  plugin_invalid: {
    status: 500,
    title: 'Invalid plugin',
    remedy: 'Tell the author of the plugin what the detail says, or take it out of sluice.yaml.',
  },
  unknown_driver: {
    status: 500,
    title: 'Unknown driver',
    remedy: 'Choose a driver for it under serving in sluice.yaml.',
  },

  // Defects, of the runtime or of a plugin
  connector_contract: {
    status: 500,
    title: 'Connector broke its contract',
    remedy: 'Report it with the log of the process.',
  },
  connector_defect: { status: 500, title: 'Connector failed', remedy: 'Report it with the log of the process.' },
  distributed_not_configured: {
    status: 503,
    title: 'No engine outside for transforms',
    remedy: 'Set compute in the configuration, or deploy the product with engine: embedded.',
  },
  engine_failed: { status: 500, title: 'Engine failed', remedy: 'Report it with the log of the process.' },
  engine_output_suspect: {
    status: 500,
    title: 'Engine output suspect',
    remedy: 'Report it with the log of the process.',
  },
  engine_start_failed: { status: 500, title: 'Engine not started', remedy: 'Report it with the log of the process.' },
  internal: { status: 500, title: 'Internal error', remedy: 'Report the request_id to the operator.' },
  extension_missing: {
    status: 503,
    title: 'Extension missing',
    remedy: 'Let a superuser create the extension that the detail names, or choose another driver.',
  },
  store_failure: { status: 500, title: 'Store failed', remedy: 'Report it with the log of the process.' },

  // The registry and the lake
  database_busy: { status: 503, title: 'Database busy', remedy: 'Repeat the call later.' },
  database_conflict: { status: 503, title: 'Database conflict', remedy: 'Repeat the call.' },
  database_constraint: { status: 409, title: 'Conflicting change', remedy: 'Read the current state and try again.' },
  database_full: { status: 503, title: 'Database full', remedy: 'Free disk space.' },
  database_read_only: {
    status: 503,
    title: 'Database read-only',
    remedy: 'Name its primary in the configuration, or make it writable again.',
  },
  database_damaged: {
    status: 503,
    title: 'Database damaged',
    remedy: 'Look at its log and its disk; where files are missing put it back, whole, from a backup.',
  },
  database_timeout: { status: 503, title: 'Database time-out', remedy: 'Repeat the call later.' },
  database_unavailable: {
    status: 503,
    title: 'Database unavailable',
    remedy: 'Check that PostgreSQL runs and accepts connections.',
  },
  database_value_refused: { status: 400, title: 'Value refused', remedy: 'Check the values of the request.' },
  fenced: {
    status: 409,
    title: 'Overtaken by a newer run',
    remedy: 'Nothing to do: the newer run goes on with the work.',
  },
  idempotency_taken_over: {
    status: 409,
    title: 'Request taken over',
    remedy: 'Send the request again with the same key to get the answer.',
  },
  lake_catalog_unavailable: {
    status: 503,
    title: 'Lake catalog unavailable',
    remedy: 'Check that the registry database is up and reachable.',
  },
  lake_commit_conflict: {
    status: 409,
    title: 'Lake commit overtaken',
    remedy: 'Compute the change again from the table as it is now.',
  },
  lake_emptied: {
    status: 409,
    title: 'Lake emptied',
    remedy:
      'Put the bucket back as it was, or stop a runtime whose data folder is not the one that the lake lies in: several runtimes share an object store. Until then nothing is written, and stores serve what they have. If it is lost for good, delete products and connections, and make them anew.',
  },
  lake_foreign: {
    status: 409,
    title: 'Lake of another installation',
    remedy:
      'Let the operator name the right store under object_store, put back the registry that belongs to the bucket, or move its files elsewhere. Nothing in it is changed until then.',
  },
  lake_file_corrupted: {
    status: 500,
    title: 'File of the lake broken',
    remedy:
      'Restore the file from a backup. Or have the table made anew: of a connection by a backfill (sluice backfill CONNECTION), of a product by materializing it, inputs first. A product that keeps rows which its inputs no longer have has to be deleted and deployed again.',
  },
  lake_path_foreign: {
    status: 500,
    title: 'File outside of its table',
    remedy:
      'Find who changed the table’s files; restore them, or have the table made anew: by a backfill of the connection, or by materializing the product.',
  },
  lake_pointer_missing: {
    status: 500,
    title: 'Table missing from the catalog',
    remedy: 'Restore the row of iceberg_tables from a backup, or materialize the product anew.',
  },
  lake_name_invalid: {
    status: 400,
    title: 'Invalid name in the lake',
    remedy: 'Use letters, digits, "_" and "-", at most 240 bytes.',
  },
  lake_partition_value_invalid: {
    status: 422,
    title: 'Value cannot be partitioned by',
    remedy: 'Leave out infinite times and dates BC; partition long text by bucket.',
  },
  lake_partitioning_invalid: {
    status: 422,
    title: 'Invalid partitioning',
    remedy: 'Keep the column, or change the partitioning.',
  },
  lake_schema_change_refused: {
    status: 422,
    title: 'Schema change refused',
    remedy: 'Keep the column as it was and add another, or replace all rows.',
  },
  lake_table_in_use: { status: 409, title: 'Lake table in use', remedy: 'Drop the table first.' },
  lake_table_not_found: {
    status: 409,
    title: 'Nothing in the lake yet',
    remedy: 'Materialize the product, or sync the connection, first.',
  },
  lake_tag_invalid: { status: 400, title: 'Invalid tag', remedy: 'Choose another name.' },
  lake_too_many_files: {
    status: 409,
    title: 'Too many files',
    remedy: 'Partition the table more coarsely, and replace it once.',
  },
  lake_transform_unsupported: {
    status: 501,
    title: 'Partition transform not supported',
    remedy: 'Use one of the known transforms.',
  },
  lake_type_unsupported: {
    status: 501,
    title: 'Type not supported by the lake',
    remedy: 'Remove the column, or change it to one of the logical types.',
  },
  lake_update_invalid: {
    status: 400,
    title: 'Invalid table update',
    remedy: 'Send updates that fit the table as it is.',
  },
  object_exists: { status: 500, title: 'Object exists', remedy: 'Check the disk that holds the data folder.' },
  object_missing: { status: 500, title: 'Object missing', remedy: 'Run "sluice lake check", which names the file.' },
  object_store_refused: {
    status: 503,
    title: 'Object store refuses the key',
    remedy: 'Check object_store in sluice.yaml, and what its key may do.',
  },
  object_store_unsupported: {
    status: 501,
    title: 'Not offered by the object store',
    remedy: 'Use a store that offers every request that its plugin makes.',
  },
  object_store_unavailable: {
    status: 503,
    title: 'Object store unavailable',
    remedy: 'Check that the disk of the data folder, or the object store, is up, reachable and not full.',
  },
  required_value_missing: {
    status: 422,
    title: 'Required value missing',
    remedy: 'Fill the column, reject such rows in the transform, or declare it nullable.',
  },
  run_attempts_exhausted: {
    status: 409,
    title: 'Run given up',
    remedy: 'Look for crashes in the log, often for want of memory, then retry the run.',
  },
  secret_unreadable: {
    status: 500,
    title: 'Secret unreadable',
    remedy: 'Start with the master key it was stored under, or enter the secret again.',
  },
  tenant_key_missing: {
    status: 409,
    title: 'Tenant without a key',
    remedy: 'The tenant was removed, or its provisioning has not finished.',
  },
  tenant_status_conflict: { status: 409, title: 'Tenant changed meanwhile', remedy: 'Read the tenant and try again.' },
  event_unknown: {
    status: 400,
    title: 'Unknown event',
    remedy: 'Resume from the number of an event that you have received.',
  },
  events_expired: {
    status: 409,
    title: 'Events no longer kept',
    remedy: 'Read the present state, then follow the events from the oldest that is kept.',
  },
} as const
