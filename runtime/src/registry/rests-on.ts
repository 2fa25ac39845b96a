/** What rows rest on, down to the sources: by the name of a table or a product, which rows of it. */
import type { Materialization } from './materializations.ts'
import { PRODUCTS } from './product-sources.ts'

/** By `<connection>:<table>`, and `#products:<namespace>.<product>`: the rows' own product is among them. */
export type Rests = ReadonlyMap<string, string>

/** What an epoch keeps of each input. */
interface KeptInput {
  readonly rests_on?: Readonly<Record<string, string>>
}

export const ownName = (namespace: string, product: string): string => `${PRODUCTS}:${namespace}.${product}`

/** Null: of several rows of one table at once, or nobody has kept of which. */
export function restsOf(name: string, { epoch, inputs }: Pick<Materialization, 'epoch' | 'inputs'>): Rests | null {
  const kept = Object.values(inputs).map((input) => (input as KeptInput | null)?.rests_on)
  if (kept.includes(undefined)) return null
  const own = new Map([[name, String(epoch)]])
  return restOnTheSame([own, ...kept.map((one = {}) => new Map(Object.entries(one)))])
}

/** All of them together; null where two rest on different rows of one table, or of one nobody knows. */
export function restOnTheSame(all: readonly (Rests | null)[]): Rests | null {
  const found = new Map<string, string>()
  for (const rests of all) {
    if (rests === null) return null
    for (const [table, rows] of rests) {
      if ((found.get(table) ?? rows) !== rows) return null
      found.set(table, rows)
    }
  }
  return found
}
