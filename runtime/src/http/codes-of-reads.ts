/** Codes of reads, and of queries by SQL. Part of the one table in `codes.ts`. */

export const READ_CODES = {
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
} as const

export const QUERY_CODES = {
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
} as const
