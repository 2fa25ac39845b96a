/** Codes of the engine, of sources and of serving stores. Part of the one table in `codes.ts`. */

export const STORE_CODES = {
  // SQL
  engine_closed: { status: 503, title: 'Engine closed', remedy: 'Try again.' },
  process_not_started: {
    status: 503,
    title: 'Process not started',
    remedy:
      'Try again in a moment. If it keeps happening, let the operator raise how many files and processes the runtime may have (ulimit -n, LimitNOFILE).',
  },
  engine_crashed: { status: 503, title: 'Engine ended', remedy: 'Try again; ask for less at once.' },
  disk_full: { status: 503, title: 'Disk full', remedy: 'Free space where the data folder is.' },
  engine_io_failed: { status: 503, title: 'Engine could not read', remedy: 'Try again.' },
  query_cancelled: { status: 503, title: 'Query cancelled', remedy: 'Send it again.' },
  sql_conversion_error: {
    status: 400,
    title: 'Value not convertible',
    remedy: 'Use try_cast to get null instead, or leave out the rows at fault.',
  },
  sql_invalid: { status: 400, title: 'Invalid SQL', remedy: 'Correct the statement as the detail says.' },
  sql_invalid_input: { status: 400, title: 'Invalid input of SQL', remedy: 'Correct the values of the statement.' },
  sql_unsupported: { status: 400, title: 'SQL not supported', remedy: 'Write the statement without that feature.' },

  // Sources
  cleartext_password_refused: {
    status: 422,
    title: 'Cleartext password refused',
    remedy: 'Use ssl_mode verify-full, or let the source ask by scram-sha-256.',
  },
  connector_closed: { status: 503, title: 'Connection closed', remedy: 'Open the connection again.' },
  discover_position_invalid: {
    status: 400,
    title: 'Invalid position',
    remedy: 'Start the list again from its beginning.',
  },
  host_not_found: {
    status: 422,
    title: 'Host not found',
    remedy: 'Check the host name, and the DNS that this server uses.',
  },
  incremental_not_possible: {
    status: 422,
    title: 'No incremental read',
    remedy: 'Name a cursor_column and a primary_key in inputs.yaml, or use mode: full.',
  },
  source_broken: { status: 503, title: 'Source broken', remedy: 'Look into the log of the source server.' },
  source_busy: {
    status: 503,
    title: 'Source busy',
    remedy: 'Try again later, or raise max_connections at the source.',
  },
  source_changed: {
    status: 503,
    title: 'Source changed meanwhile',
    remedy: 'Try again: the next read sees the new columns.',
  },
  source_column_missing: { status: 422, title: 'Column missing at the source', remedy: 'Discover the table again.' },
  source_conflict: {
    status: 503,
    title: 'Conflict at the source',
    remedy: 'Try again; on a replica, set hot_standby_feedback.',
  },
  source_cursor_unsafe: {
    status: 422,
    title: 'Cursor not safe',
    remedy: 'Name a timestamp column that changes with every change, or read it in full.',
  },
  source_answer_invalid: {
    status: 422,
    title: 'Source does not keep its protocol',
    remedy:
      'Check that host and port are those of a server of this type, and that nothing between alters what it sends.',
  },
  source_database_missing: {
    status: 422,
    title: 'Database missing at the source',
    remedy: 'Check the setting "database", upper and lower case included.',
  },
  source_exhausted: {
    status: 503,
    title: 'Source exhausted',
    remedy: 'Try again later, and free resources at the source.',
  },
  source_file_changed: {
    status: 503,
    title: 'File changed while it was read',
    remedy: 'Sync again; write files under another name, and rename them once they are whole.',
  },
  source_file_invalid: {
    status: 422,
    title: 'File not readable',
    remedy: 'Correct the file that the detail names, or how the connection says that it is written.',
  },
  source_folder_not_found: {
    status: 422,
    title: 'Folder not found',
    remedy: 'Name in the connection a folder that is there.',
  },
  source_key_not_read: {
    status: 422,
    title: 'Key not read',
    remedy: 'Add the key to the columns that are read, or name another key.',
  },
  source_locked: {
    status: 503,
    title: 'Table locked at the source',
    remedy: 'Try again when the lock at the source is over.',
  },
  program_refused: {
    status: 403,
    title: 'Program refused',
    remedy: 'Name a program that the operator allows for the tenant under programs.',
  },
  too_many_programs: {
    status: 429,
    title: 'Too many programs',
    remedy: 'Report it to whoever wrote the connector.',
  },
  source_config_refused: {
    status: 422,
    title: 'Config refused by the connector',
    remedy: 'Correct config as the connector’s documentation describes.',
  },
  source_program_failed: {
    status: 503,
    title: 'The connector’s program failed',
    remedy: 'Try again; if it keeps happening, the operator runs the program by hand with the same config.',
  },
  source_unavailable: {
    status: 503,
    title: 'Source unavailable',
    remedy: 'Try again later.',
  },
  source_login_refused: {
    status: 422,
    title: 'Login refused by the source',
    remedy: 'Check user and password, and that the server lets this user in from here.',
  },
  source_lost: {
    status: 503,
    title: 'Source lost',
    remedy: 'Try again; look into the log of the source server and of proxies before it.',
  },
  source_memory_exceeded: {
    status: 422,
    title: 'Source sent too much at once',
    remedy:
      'Let the connection offer fewer tables, columns or larger values at once, or let the operator raise limits.source_memory_mb.',
  },
  source_moment_lost: {
    status: 409,
    title: 'No common moment at the source',
    remedy: 'Sync again.',
  },
  source_no_files: {
    status: 422,
    title: 'No files',
    remedy: 'Correct the glob of the table, or put a file there.',
  },
  source_not_populated: {
    status: 422,
    title: 'View not populated',
    remedy: 'Let its owner run REFRESH MATERIALIZED VIEW.',
  },
  source_permission_denied: {
    status: 422,
    title: 'Right missing at the source',
    remedy: 'Let an owner grant USAGE on the schema and SELECT on the table.',
  },
  source_reader_failed: {
    status: 503,
    title: 'Process that reads the source ended',
    remedy: 'Try again; if it keeps happening, let the operator look into the log of the runtime.',
  },
  source_reader_late: {
    status: 503,
    title: 'Process that reads the source not ready',
    remedy: 'Try again; if it keeps happening, the machine has too much to do: let the operator look at its load.',
  },
  source_readers_busy: {
    status: 503,
    title: 'All readers of sources are busy',
    remedy: 'Try again in a moment.',
  },
  source_column_gone: {
    status: 422,
    title: 'Column gone from the source',
    remedy: 'Deploy a version that does without the column, or bring it back at the source and sync again.',
  },
  source_request_invalid: {
    status: 422,
    title: 'Not at the source as it was asked for',
    remedy: 'Discover the tables of the connection again.',
  },
  source_schema_changed: {
    status: 422,
    title: 'Schema changed at the source',
    remedy: 'Deploy the version again, which takes the table as it is, or one with another schema_contract.',
  },
  source_schema_not_offered: {
    status: 422,
    title: 'Schema not offered',
    remedy: 'Add the schema to the setting "schemas", or read another table.',
  },
  source_schema_unknown: {
    status: 422,
    title: 'Columns not known',
    remedy: 'List the columns of the table in the connection.',
  },
  source_state_unknown: {
    status: 422,
    title: 'State of another version',
    remedy: 'Update the connector, or read the table once in full.',
  },
  source_table_empty: { status: 422, title: 'Table without columns', remedy: 'Read a table that has columns.' },
  source_schema_missing: {
    status: 422,
    title: 'Schema missing in the registry',
    remedy: 'Name the subject of the topic in the connection, or register a schema of Avro that is a record.',
  },
  source_table_missing: {
    status: 422,
    title: 'Table missing at the source',
    remedy: 'Check schema and table, upper and lower case included.',
  },
  source_table_not_found: {
    status: 422,
    title: 'Table not found at the source',
    remedy: 'Check the name in inputs.yaml, and grant SELECT on it.',
  },
  source_timeout: {
    status: 503,
    title: 'Source time-out',
    remedy: 'Try again when the source is less busy, or raise its time-outs.',
  },
  source_too_large: {
    status: 422,
    title: 'More at the source than can be read',
    remedy: 'Name less of it in the connection, as the detail says.',
  },
  source_topic_replaced: {
    status: 422,
    title: 'Topic is not the one that was read',
    remedy:
      'Name the topic in another connection to keep the rows of before, or read the table in full to replace them.',
  },
  source_too_many_files: {
    status: 409,
    title: 'Too many files',
    remedy: 'Let the glob match fewer files, or move old ones away.',
  },
  source_unreachable: {
    status: 503,
    title: 'Source unreachable',
    remedy: 'Check host and port, that the server listens there, and the firewalls between.',
  },
  source_unsupported: {
    status: 422,
    title: 'Not supported by the source',
    remedy: 'Read it through a view, or in full mode.',
  },
  source_value_invalid: {
    status: 422,
    title: 'Value not readable at the source',
    remedy: 'Leave the column out, or mend the view.',
  },

  // Serving stores
  aborted: { status: 503, title: 'Call ended', remedy: 'Try again.' },
  bus_unavailable: {
    status: 503,
    title: 'Event bus unavailable',
    remedy: 'Check its servers, and the addresses, login and rights under events.',
  },
  bus_unguarded: {
    status: 503,
    title: 'Event bus without access rules',
    remedy: 'Let its servers ask for logins and keep rights, and name a login under events.',
  },
  bus_without_changes: {
    status: 503,
    title: 'Event bus without change topics',
    remedy: 'Leave change_topics out of its settings, or name another bus under events.',
  },
  change_too_large: {
    status: 422,
    title: 'Row too large for the event bus',
    remedy: 'Raise the largest message that the bus takes, or leave the column out.',
  },
  copy_remains: { status: 503, title: 'Copy not removed from a store', remedy: 'Try again.' },
  date_out_of_range: {
    status: 422,
    title: 'Date out of range',
    remedy: 'Correct the transform in compute.yaml: leave out such rows, or give null instead.',
  },
  duplicate_key: {
    status: 422,
    title: 'Key stands twice',
    remedy: 'Choose identity columns that are unique, or deduplicate the rows.',
  },
  epoch_gap: { status: 409, title: 'Epoch missing', remedy: 'Materialize the product again.' },
  epoch_moved: { status: 503, title: 'Newer epoch meanwhile', remedy: 'Ask again.' },
  file_not_registered: {
    status: 409,
    title: 'Not materialized to this endpoint',
    remedy: 'Materialize the product to this endpoint.',
  },
  invalid_cursor: { status: 400, title: 'Invalid position', remedy: 'Begin again from the first page.' },
  invalid_filter: { status: 400, title: 'Invalid filter', remedy: 'Give one value, or use the operator in.' },
  invalid_key_template: { status: 422, title: 'Invalid key template', remedy: 'Correct key_template in serving.yaml.' },
  invalid_ttl: { status: 422, title: 'Invalid ttl', remedy: 'Write a number and h or d, for example 24h.' },
  limit_exceeded: {
    status: 422,
    title: 'Limit of the store exceeded',
    remedy: 'Leave out what is larger than the store can hold.',
  },
  limit_out_of_range: {
    status: 400,
    title: 'Limit out of range',
    remedy: 'Ask for as many rows as the store declares.',
  },
  login_refused: {
    status: 503,
    title: 'Store login refused',
    remedy: 'Check user, password and database in the settings of the store.',
  },
  missing_key: {
    status: 422,
    title: 'Row without a key',
    remedy: 'Leave out rows without a key, or choose columns that are never null.',
  },
  missing_time: {
    status: 422,
    title: 'Row without a time',
    remedy: 'Leave out rows without a time, or name another time_column.',
  },
  name_taken: { status: 409, title: 'Name taken in the store', remedy: 'Give the store a database of its own.' },
  not_provisioned: { status: 409, title: 'Endpoint not provisioned', remedy: 'Deploy the product again.' },
  older_epoch: {
    status: 409,
    title: 'Older epoch',
    remedy: 'Materialize anew: older content comes back as a new epoch.',
  },
  plan_stale: { status: 409, title: 'Plan outdated', remedy: 'Make a new plan, look at it, and apply that one.' },
  policy_missing: { status: 503, title: 'Policy not installed', remedy: 'Deploy the product again.' },
  registration_contended: { status: 503, title: 'Store busy', remedy: 'Try again.' },
  row_count_mismatch: { status: 409, title: 'Rows missing in a change set', remedy: 'Materialize the product again.' },
  row_outside_bounds: { status: 422, title: 'Row outside of bounds', remedy: 'Correct or leave out such rows.' },
  row_too_large: { status: 422, title: 'Row too large', remedy: 'Leave its large columns out with include_columns.' },
  schema_conflict: { status: 409, title: 'Columns do not match', remedy: 'Deploy the product again.' },
  stale_fence: { status: 409, title: 'Overtaken by a newer writer', remedy: 'Nothing to do: the newer one goes on.' },
  stale_plan: { status: 409, title: 'Plan outdated', remedy: 'Plan again.' },
  store_closed: { status: 503, title: 'Store closed', remedy: 'Try again.' },
  store_closing: { status: 503, title: 'Store closing', remedy: 'Try again.' },
  store_contention: { status: 503, title: 'Store busy', remedy: 'Repeat the call a little later.' },
  store_copy_lost: { status: 503, title: 'Copy in a store lost', remedy: 'Wait: it is built anew from the lake.' },
  store_exhausted: { status: 503, title: 'Store exhausted', remedy: 'Free resources of the store.' },
  unusable_name: {
    status: 422,
    title: 'Name cannot be used in a store',
    remedy: 'Choose names that the store can hold: its capabilities say of which form.',
  },
  store_failed: {
    status: 503,
    title: 'Store failed',
    remedy: 'Look for a full disk in the log; the call is repeated.',
  },
  store_lost: {
    status: 503,
    title: 'Store lost',
    remedy: 'Nothing has to be done: the file is made anew, and filled from the lake. Keep others from it.',
  },
  store_in_use: {
    status: 503,
    title: 'Store in use',
    remedy: 'Stop the other process, or give this one a folder of its own.',
  },
  store_not_opened: {
    status: 503,
    title: 'Store not opened',
    remedy: 'Check that its folder is writable, on a local disk with space left.',
  },
  store_overloaded: { status: 503, title: 'Store overloaded', remedy: 'Repeat the read a little later.' },
  store_permission: {
    status: 503,
    title: 'Right missing in the store',
    remedy: 'Check the grants of its owner, writer and reader logins.',
  },
  copy_outdated: {
    status: 503,
    title: 'Copy is of an earlier epoch',
    remedy: 'Repeat the read a little later: the copy is built anew.',
  },
  store_rebuilding: { status: 503, title: 'Copy is being built anew', remedy: 'Repeat the read a little later.' },
  time_out_of_range: { status: 422, title: 'Time out of range', remedy: 'Leave out or correct such rows.' },
  too_many_chunks: {
    status: 422,
    title: 'Too many chunks',
    remedy: 'Choose a longer chunk_interval and rebuild the endpoint.',
  },
  truncated_change_set: { status: 503, title: 'Change set cut', remedy: 'Send it again.' },
  unknown_interval: {
    status: 400,
    title: 'Unknown interval',
    remedy: 'Name an interval of continuous_aggregates, as serving.yaml has it.',
  },
} as const
