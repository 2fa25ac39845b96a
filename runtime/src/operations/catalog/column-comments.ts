/** What the catalog tells a reader of each column of a product: which class it has, and how it is masked for him. */
import type { ReadAccess, ServedProduct } from '../served/served-product.ts'

/**
 * By column; as of now, like the variant that the reader is given, of an earlier snapshot, too.
 * @param maskedColumns of the copy: some were masked when it was made, and would not be by today's classes
 */
export function commentsOf(
  { columns }: Pick<ServedProduct, 'columns'>,
  { masks }: Pick<ReadAccess, 'masks'>,
  maskedColumns: readonly string[],
): ReadonlyMap<string, string> {
  const byName = Map.groupBy(columns, ({ name }) => name)
  return new Map(
    [...byName].map(([name, own]) => {
      const classes = new Set(own.map(({ classification }) => classification))
      const ways = new Set(masks.filter(({ column }) => column === name).map(({ strategy }) => strategy))
      const isMasked = ways.size > 0 || maskedColumns.includes(name)
      const told = `class ${[...classes].sort().join(', ')}`
      const how = ways.size === 0 ? '' : `: ${[...ways].sort().join(', ')}`
      return [name, isMasked ? `${told}; masked for you${how}` : told]
    }),
  )
}
