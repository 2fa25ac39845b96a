/** Codes of rows that are pushed. Part of the one table in `codes.ts`. */

export const PUSH_CODES = {
  push_not_taken: {
    status: 409,
    title: 'Connection takes no rows',
    remedy: 'Push to a connection of the type push; others read their source.',
  },
  push_table_not_found: {
    status: 404,
    title: 'No such table',
    remedy: 'Name a table that the settings of the connection describe.',
  },
  push_rows_refused: {
    status: 422,
    title: 'Rows refused',
    remedy: 'Correct the rows that errors[] names by their index, and send all of them again.',
  },
  webhook_refused: {
    status: 401,
    title: 'Webhook not signed',
    remedy:
      'Sign it with the connection’s webhook_secret within five minutes, and send it to the id of the connection.',
  },
  push_full: {
    status: 429,
    title: 'Too many rows wait',
    remedy: 'Send it again after the time in Retry-After.',
  },
  push_busy: { status: 429, title: 'Too many rows at once', remedy: 'Send it again after the time in Retry-After.' },
  push_table_changed: {
    status: 409,
    title: 'Table described otherwise than its rows are',
    remedy: 'Leave its columns and its key as they were, and add columns at the end.',
  },
  push_has_no_mode: { status: 422, title: 'Pushed rows have no mode', remedy: 'Leave mode out in inputs.yaml.' },
  connection_changed: { status: 409, title: 'Connection changed meanwhile', remedy: 'Send the request again.' },
} as const
