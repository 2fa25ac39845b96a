/** Which columns of a source table products look at: a value in another one need not cost its row. */
import { qualified } from './context.ts'
import type { Input, ManifestSet } from './manifest-set.ts'

type Names = ReadonlySet<string>

/** Null: any, for nothing says which. */
function usedColumns({ compute, output, quality }: ManifestSet, input: Input): Names | null {
  const { checks } = quality
  // Queries may look at the whole raw table, by whatever SQL they find for it.
  if (checks.some(({ rule }) => rule.kind === 'sql')) return null
  if (input.where !== null) return null
  const read = input.columns ?? (compute.transform === null ? output.columns.map(({ name }) => name) : null)
  if (read === null) return null
  const referred = checks.flatMap(({ rule }) => (rule.kind === 'references' ? rule.inputColumns : []))
  const { cursorColumn, primaryKey } = input
  return new Set([...read, ...referred, ...primaryKey, ...(cursorColumn === null ? [] : [cursorColumn])].map(folded))
}

/** Those of the columns that no product which reads the table looks at. */
export function unusedColumns(
  connection: string,
  table: string,
  columns: readonly string[],
  products: readonly { readonly manifests: ManifestSet }[],
): readonly string[] {
  const uses = products.flatMap(({ manifests }) =>
    manifests.inputs
      .filter((input) => input.connection === connection && qualified(input.table) === table)
      .map((input) => usedColumns(manifests, input)),
  )
  return columns.filter((name) => uses.every((used) => used !== null && !used.has(folded(name))))
}

/** Those of the columns that the input's product looks at. */
export function usedOf(columns: readonly string[], manifests: ManifestSet, input: Input): readonly string[] {
  const used = usedColumns(manifests, input)
  return columns.filter((name) => used === null || used.has(folded(name)))
}

/** SQL tells no capitals from small letters, where a name is not quoted. */
function folded(name: string): string {
  return name.toLowerCase()
}
