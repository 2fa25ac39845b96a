/** The tables that a statement names: what has to be looked up for it, and nothing else is. */
import { foldName, INFORMATION_SCHEMA, type QualifiedName, qualifiedNames } from '@sluice/engine'
import { QUARANTINE } from '../../materializer/variants.ts'
import { PREVIEW } from '../../registry/previews.ts'

/** Schemas and tables are compared as the engine compares them: without regard to the case of ASCII letters. */
export class NamedTables {
  readonly #bySchema: ReadonlyMap<string, readonly QualifiedName[]>

  constructor(sql: string) {
    this.#bySchema = Map.groupBy(qualifiedNames(sql), ({ schema }) => foldName(schema))
  }

  /** Folded. */
  get schemas(): readonly string[] {
    return [...this.#bySchema.keys()]
  }

  /** As they are written. */
  of(schema: string): readonly string[] {
    return (this.#bySchema.get(foldName(schema)) ?? []).map(({ table }) => table)
  }

  has(schema: string, table: string): boolean {
    return this.of(schema).some((name) => foldName(name) === foldName(table))
  }

  /** `namespace.product` of what may be a product, a past of one, or rows that its checks put aside. */
  get products(): ReadonlySet<string> {
    return new Set(this.schemas.flatMap((schema) => this.of(schema).flatMap((table) => productsOf(schema, table))))
  }

  get describes(): boolean {
    return this.of(INFORMATION_SCHEMA).length > 0
  }
}

function productsOf(schema: string, table: string): readonly string[] {
  const folded = foldName(table)
  const isOfPreview = [PREVIEW, `${PREVIEW}${QUARANTINE}`].some((end) => folded.endsWith(end))
  const [name = ''] = isOfPreview ? [folded] : folded.split('@')
  const own = name.endsWith(QUARANTINE) ? [name, name.slice(0, -QUARANTINE.length)] : [name]
  return own.map((one) => `${schema}.${one}`)
}
