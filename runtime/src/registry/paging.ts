/** Lists: newest first, by the pair of creation time and id, so that rows made meanwhile shift nothing. */

export interface PagePosition {
  readonly createdAt: Date
  readonly id: string
}

export interface PageRequest {
  /** 1 to 1000. */
  readonly limit: number
  /** The last row of the page before; null for the first page. */
  readonly after: PagePosition | null
}

export interface Page<T> {
  readonly items: readonly T[]
  /** Where the next page goes on; null where this is the last. */
  readonly next: PagePosition | null
}

export const MAX_PAGE = 1000

/** Times are kept to the millisecond, as JavaScript has them, so the comparison is exact. */
export function pageParameters(page: PageRequest): readonly [limit: number, at: Date | null, id: string | null] {
  const limit = Math.min(Math.max(Math.trunc(page.limit), 1), MAX_PAGE)
  return [limit + 1, page.after?.createdAt ?? null, page.after?.id ?? null]
}

/** From up to limit + 1 rows: the extra one only proves that there is a next page. */
export function toPage<T>(
  rows: readonly T[],
  parameters: readonly [number, ...unknown[]],
  position: (row: T) => PagePosition,
): Page<T> {
  const limit = parameters[0] - 1
  const items = rows.slice(0, limit)
  const last = items.at(-1)
  return { items, next: rows.length > limit && last !== undefined ? position(last) : null }
}
