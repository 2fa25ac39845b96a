/** Codes of erasures of rows. Part of the one table in `codes.ts`. */

export const ERASURE_CODES = {
  erasure_not_found: { status: 404, title: 'No such erasure', remedy: 'Check the id; the list of erasures has it.' },
  erasure_key_mismatch: {
    status: 422,
    title: 'Not the key of the table',
    remedy: 'Give a value for each column of the key, and for no other.',
  },
  erasure_expires_history: {
    status: 409,
    title: 'History goes with the row',
    remedy: 'Ask again with expire_history true (--expire-history) where that may go.',
  },
  erasure_unsupported: {
    status: 422,
    title: 'Rows to erase cannot be told',
    remedy:
      'Deploy a version with write_mode replace, or one that has the columns of the key as they are, and ask again.',
  },
  erasure_ended: { status: 409, title: 'Erasure has ended', remedy: 'Ask for the erasure again, with the key.' },
  erasure_unfinished: {
    status: 503,
    title: 'Erasure not finished',
    remedy: 'Correct what keeps that place from being written, and ask for the erasure again.',
  },
} as const
