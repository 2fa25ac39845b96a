/** Which columns a column reaches through products, in how many steps and in which manner. Pure. */
import { qualified } from '../../manifest/context.ts'
import type { Input, OutputColumn } from '../../manifest/manifest-set.ts'
import type { ProductColumns } from '../../registry/lineage.ts'
import { productColumn } from '../../registry/raw-classes.ts'
import type { ColumnOrigin } from '../deploy/column-classes.ts'
import { valuesOf } from './values.ts'

/**
 * From the closest to the loosest: its values unchanged; values computed from them; it decides which rows there are; nobody
 * knows that it does not.
 */
export const MANNERS = ['copied', 'computed', 'influenced', 'possible'] as const
export type Manner = (typeof MANNERS)[number]

export interface Reached {
  /** By the shortest way. */
  readonly steps: number
  /** By the closest way: as loose as its loosest step. */
  readonly manner: Manner
}

type ReadInput = Pick<Input, 'connection' | 'table' | 'columns' | 'where'>

export interface SpreadProduct
  extends ProductColumns<Pick<OutputColumn, 'name'>, ReadInput, Omit<ColumnOrigin, 'type' | 'likely'>> {
  /** `namespace.name`. */
  readonly full: string
}

interface Use {
  /** The column that is reached, as others name it. */
  readonly column: string
  readonly manner: Manner
}

/** By raw column, the start left out. @param start a raw column */
export function spread(start: string, products: readonly SpreadProduct[]): ReadonlyMap<string, Reached> {
  const uses = usesOf(products)
  const unknown = products.filter(({ origins }) => origins === null)
  const reached = new Map<string, Reached>([[start, { steps: 0, manner: 'copied' }]])
  const changed = [start]
  for (let raw = changed.shift(); raw !== undefined; raw = changed.shift()) {
    const { steps, manner } = reached.get(raw) as Reached
    for (const use of [...(uses.get(raw) ?? []), ...unknown.flatMap((product) => maybeUses(product, raw as string))]) {
      const before = reached.get(use.column)
      const after = better(before, { steps: steps + 1, manner: looser(manner, use.manner) })
      if (after === before) continue
      reached.set(use.column, after)
      changed.push(use.column)
    }
  }
  reached.delete(start)
  return reached
}

function usesOf(products: readonly SpreadProduct[]): ReadonlyMap<string, readonly Use[]> {
  const uses = new Map<string, Use[]>()
  for (const { full, origins } of products) {
    for (const origin of origins ?? []) {
      const column = productColumn(full, origin.column)
      for (const [source, manner] of mannersOf(origin)) {
        const own = uses.get(source) ?? []
        uses.set(source, own)
        own.push({ column, manner })
      }
    }
  }
  return uses
}

/** By source, the closest. */
export function mannersOf(origin: SpreadOrigin): ReadonlyMap<string, Manner> {
  const { sources, influences = [], grouped = [], copied = null, guessed = false } = origin
  if (guessed) return new Map([...sources, ...influences, ...grouped].map((source) => [source, 'possible']))
  return new Map<string, Manner>([
    ...[...influences, ...grouped].map((source) => [source, 'influenced'] as const),
    ...valuesOf({ sources, copied }).map((source) => [source, copied === source ? 'copied' : 'computed'] as const),
  ])
}

type SpreadOrigin = Omit<ColumnOrigin, 'type' | 'likely'>

/** Of a version of which nothing was kept: each column may be made of whatever its inputs read. */
function maybeUses({ full, inputs, columns }: SpreadProduct, raw: string): readonly Use[] {
  const [connection, table, column] = JSON.parse(raw) as readonly [string, string, string]
  const reads = (input: ReadInput) =>
    input.connection === connection &&
    qualified(input.table) === table &&
    (input.where !== null || (input.columns?.some((name) => name.toLowerCase() === column) ?? true))
  if (!inputs.some(reads)) return []
  return columns.map(({ name }) => ({ column: productColumn(full, name), manner: 'possible' }))
}

const looser = (one: Manner, other: Manner): Manner => (MANNERS.indexOf(one) > MANNERS.indexOf(other) ? one : other)

/** The same object where nothing is better by the other. */
function better(before: Reached | undefined, other: Reached): Reached {
  if (before === undefined) return other
  const isCloser = MANNERS.indexOf(other.manner) < MANNERS.indexOf(before.manner)
  if (!isCloser && other.steps >= before.steps) return before
  return { steps: Math.min(before.steps, other.steps), manner: isCloser ? other.manner : before.manner }
}
