/** Codes of exports. Part of the one table in `codes.ts`. */

export const EXPORT_CODES = {
  export_not_found: { status: 404, title: 'No such export', remedy: 'Check the id or the link.' },
  export_gone: {
    status: 410,
    title: 'Export expired',
    remedy: 'Ask for the export again for a new link, or make another export.',
  },
  export_not_permitted: {
    status: 403,
    title: 'Export not permitted any more',
    remedy: 'Ask for the right again where it is still needed, then make another export.',
  },
  export_unsupported: {
    status: 422,
    title: 'Rows cannot be exported',
    remedy: 'Export products; rows that checks put aside, and descriptions of tables, are read by queries.',
  },
  export_destination_unknown: {
    status: 422,
    title: 'No such destination',
    remedy: 'Leave "to" out and download the file, or ask an operator for a destination (exports.destinations).',
  },
  export_destination_unavailable: {
    status: 503,
    title: 'The destination of an export does not answer',
    remedy: 'Try again later, or leave "to" out and download the file.',
  },
  export_destination_refused: {
    status: 502,
    title: 'The destination of an export does not take the file',
    remedy: 'Ask an operator to look at its bucket, its region and what its key may do (exports.destinations).',
  },
  export_destination_slow: {
    status: 429,
    title: 'The destination of an export is slow',
    remedy: 'Export less, or ask an operator for a larger exports.timeout_minutes.',
  },
  too_many_exports: {
    status: 429,
    title: 'Too many exports',
    remedy: 'Remove one, or wait until one expires.',
  },
} as const
