/** Codes of sources that are read by their log. Part of the one table in `codes.ts`. */

export const LOG_CODES = {
  changes_standby: {
    status: 422,
    title: 'Source is a standby',
    remedy: 'Connect to the primary, or use mode incremental.',
  },
  changes_wal_level: {
    status: 422,
    title: 'Source keeps no log',
    remedy: 'Set wal_level = logical at the source and restart it.',
  },
  changes_not_replication: {
    status: 422,
    title: 'Login may not read the log',
    remedy: 'Give the login the attribute REPLICATION.',
  },
  changes_not_creator: {
    status: 422,
    title: 'Login may make no publication',
    remedy: 'Grant the login CREATE on the database.',
  },
  changes_no_slot: {
    status: 422,
    title: 'No free slot',
    remedy: 'Raise max_replication_slots at the source, or drop slots that nobody uses.',
  },
  changes_not_owner: {
    status: 422,
    title: 'Login does not own the table',
    remedy: 'Make a role that both belong to the owner of the table.',
  },
  changes_no_identity: {
    status: 422,
    title: 'Table without identity',
    remedy: 'Give the table a primary key, or use mode full.',
  },
  changes_not_logged: { status: 422, title: 'Table is in no log', remedy: 'Use mode incremental or full.' },
  changes_row_security: { status: 422, title: 'Table with row security', remedy: 'Use mode incremental or full.' },
  changes_generated_columns: {
    status: 422,
    title: 'Table with generated columns',
    remedy: 'Use mode incremental or full.',
  },
  changes_server_too_old: {
    status: 422,
    title: 'Source too old for its log',
    remedy: 'Upgrade the source, or use mode incremental.',
  },
  changes_inherited: { status: 422, title: 'Table with heirs', remedy: 'Name the tables that hold the rows.' },
  changes_key_type: { status: 422, title: 'Key of lists or records', remedy: 'Use mode incremental or full.' },
  changes_not_published: {
    status: 422,
    title: 'Table not in the publication',
    remedy: 'Let the owner of the publication add the table.',
  },
  changes_publication_unfit: {
    status: 422,
    title: 'Publication leaves out changes',
    remedy: 'Let the owner of the publication set publish and publish_via_partition_root as the message says.',
  },
  changes_writers_open: {
    status: 503,
    title: 'Old transactions at the source',
    remedy: 'End transactions at the source that have been open for long, then try again.',
  },
  capture_busy: {
    status: 503,
    title: 'Log is being read',
    remedy: 'Try again: another reader of this connection is at work.',
  },
  capture_name_invalid: { status: 500, title: 'Invalid name of a capture', remedy: 'Report it with the request id.' },
  changes_refused: {
    status: 422,
    title: 'The log cannot tell a table',
    remedy: 'Do at the source what the message says, or use mode incremental or full in inputs.yaml.',
  },
  changes_not_supported: {
    status: 422,
    title: 'No log of changes',
    remedy: 'Use mode incremental or full in inputs.yaml.',
  },
  log_spooled: {
    status: 503,
    title: 'Log kept until the lake can be written',
    remedy: 'Bring the lake back, or what writes it; what is kept of the log is applied then.',
  },
  log_spool_full: {
    status: 503,
    title: 'No room for more of a log',
    remedy: 'Bring the lake back, or what writes it. Until then the source keeps its log.',
  },
  position_lost: {
    status: 409,
    title: 'Position in the log lost',
    remedy: 'Sync the connection: its tables are read whole, and the log is begun anew.',
  },
} as const
