/** Somebody else's system. Replace this by a client of yours. */
import type { Row, TableSchema } from '@sluice/sdk'

export interface SourceTable {
  readonly schema: TableSchema
  readonly rows: readonly Row[]
}

export class Source {
  readonly #tables = new Map<string, SourceTable>()

  table(name: string): SourceTable | undefined {
    return this.#tables.get(name)
  }

  put(name: string, table: SourceTable): void {
    this.#tables.set(name, table)
  }

  names(): readonly string[] {
    return [...this.#tables.keys()].sort()
  }
}

const sources = new Map<string, Source>()

export function sourceNamed(name: string): Source {
  const source = sources.get(name) ?? new Source()
  sources.set(name, source)
  return source
}
