/** Of values of a map, too: without a default of their own, typebox leaves theirs out. */
export const closed = { additionalProperties: false, default: {} } as const
