/**
 * Iceberg's ids are 63 bits wide. An Int64 is a number where that is exact and a bigint where it is not, and nothing
 * else, so two of them are equal exactly when `===` says so.
 */
export type Int64 = number | bigint

export function int64(value: Int64): Int64 {
  if (typeof value === 'number') {
    if (!Number.isSafeInteger(value)) throw new RangeError('an integer beyond 53 bits came as a number')
    return value
  }
  const small = Number(value)
  return Number.isSafeInteger(small) ? small : BigInt.asIntN(64, value)
}

/** Throws RangeError for text that is no integer of 64 bits. */
export function parseInt64(text: string): Int64 {
  if (!/^-?\d{1,19}$/.test(text)) throw new RangeError('not a 64-bit integer')
  const value = BigInt(text)
  if (BigInt.asIntN(64, value) !== value) throw new RangeError('not a 64-bit integer')
  return int64(value)
}

const INTEGER = /^-?\d+$/

/** `JSON.parse` that keeps every integer exact: those beyond 53 bits become bigint. */
export function parseJsonExactly(text: string): unknown {
  return JSON.parse(text, reviveInteger as (key: string, value: unknown) => unknown)
}

function reviveInteger(_key: string, value: unknown, context: { source?: string }): unknown {
  if (typeof value !== 'number' || Number.isSafeInteger(value)) return value
  return context.source !== undefined && INTEGER.test(context.source) ? int64(BigInt(context.source)) : value
}

/** `JSON.stringify` that writes a bigint as the integer it is. */
export function stringifyJsonExactly(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === 'bigint'
      ? (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(inner.toString())
      : inner,
  )
}
