/** Which rows of a lookup one request to its store can bring. */
import type { Filter } from '@sluice/sdk'

/** A row's key: one equality for each of its columns, always in the same order. */
export interface RowKey {
  /** The same text for the same values, and for no others. */
  readonly id: string
  readonly filters: readonly Filter[]
  /** Of each column, as in `id`. */
  readonly parts: readonly string[]
}

/** Keys that are asked for together, and the filters that let exactly their rows pass. */
export interface KeyGroup {
  readonly keys: readonly RowKey[]
  readonly filters: readonly Filter[]
}

/**
 * Keys that differ in one column alone go together: the others equal, that one among values. All keys of one column are
 * one group. Of several columns, the one that makes the fewest groups is chosen.
 *
 * @param free by the column's place in the key: whether a store may be asked for several of its values at once
 * @param most keys of a group
 */
export function keyGroups(keys: readonly RowKey[], free: readonly boolean[], most: number): readonly KeyGroup[] {
  let best: readonly KeyGroup[] = keys.map((key) => ({ keys: [key], filters: key.filters }))
  for (const [place, isFree] of free.entries()) {
    if (!isFree) continue
    const alike = Map.groupBy(keys, ({ parts }) => JSON.stringify(parts.toSpliced(place, 1)))
    const groups = [...alike.values()].flatMap((group) => chunksOf(group, most).map((chunk) => together(chunk, place)))
    if (groups.length < best.length) best = groups
  }
  return best
}

function together(keys: readonly RowKey[], place: number): KeyGroup {
  const [first] = keys
  if (first === undefined || keys.length === 1) return { keys, filters: first?.filters ?? [] }
  const values = keys.flatMap(({ filters }) => filters[place]?.values ?? [])
  return {
    keys,
    filters: first.filters.map((filter, at) => (at === place ? { ...filter, operator: 'in', values } : filter)),
  }
}

function chunksOf<T>(items: readonly T[], most: number): readonly (readonly T[])[] {
  return Array.from({ length: Math.ceil(items.length / most) }, (_, at) => items.slice(at * most, (at + 1) * most))
}
