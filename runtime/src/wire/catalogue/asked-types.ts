/**
 * Which types a PostgreSQL finds that a statement asks of its parameters. The one that has the catalogue is given the words to
 * parse, over tables with these columns; nothing is planned or run there, and only types come back.
 */
import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { TenantCall } from '../../flow.ts'
import type { Visible } from '../../operations/queries/asked-query.ts'
import { WireError } from '../protocol/wire-error.ts'
import { commandOf } from '../sql/commands.ts'
import { textOf, wordsOf } from '../sql/words.ts'
import { isTaken } from '../values/parameters.ts'
import { type CatalogueDescription, describeByCatalogue } from './catalogue-link.ts'
import type { CatalogueServer } from './catalogue-server.ts'

/** Of all that is remembered: keys and numbers. */
const MOST_BYTES = 4 * 1024 * 1024
const ENTRY_BYTES = 200
const PARSED: ReadonlySet<string> = new Set(['select', 'with', 'values'])

export interface AskedOf {
  readonly tables: readonly Visible[]
  readonly sql: string
  /** By the client and by casts; 0: not yet. */
  readonly known: readonly number[]
}

export class AskedTypes {
  readonly #catalogue: CatalogueServer
  /** By tenant, columns and words; what changes a column is another key. */
  readonly #kept = new LRUCache<string, readonly number[]>({
    maxSize: MOST_BYTES,
    sizeCalculation: (oids) => ENTRY_BYTES + 8 * oids.length,
  })

  constructor(catalogue: CatalogueServer) {
    this.#catalogue = catalogue
  }

  /** Those that are known, and of the others what a PostgreSQL says; 0 where it says nothing, or is not there. */
  async oidsOf(call: TenantCall, { tables, sql: given, known }: AskedOf): Promise<readonly number[]> {
    const words = wordsOf(given)
    if (!known.includes(0) || !PARSED.has(commandOf({ words }))) return known
    const sql = textOf(words)
    const key = this.#keyOf(call, tables, sql, known)
    const kept = this.#kept.get(key)
    if (kept !== undefined) return kept
    const oids = await this.#asked(call, sql, known)
    if (oids === null) return known
    this.#kept.set(key, oids)
    return oids
  }

  /** Of the columns of the statement what a PostgreSQL finds them to be; empty where it says nothing, or is not there. */
  async columnOids(call: TenantCall, { tables, sql: given, known }: AskedOf): Promise<readonly number[]> {
    const sql = textOf(wordsOf(given))
    const key = `columns ${this.#keyOf(call, tables, sql, known)}`
    const kept = this.#kept.get(key)
    if (kept !== undefined) return kept
    const oids = await this.#told(call, sql, known, ({ columns }) => columns.map(({ oid }) => oid))
    if (oids === null) return []
    this.#kept.set(key, oids)
    return oids
  }

  #keyOf(call: TenantCall, tables: AskedOf['tables'], sql: string, known: readonly number[]): string {
    const shapes = tables.map(({ table }) => [table.name, table.columns.map(({ name, type }) => [name, type])])
    return createHash('sha256')
      .update(JSON.stringify([call.tenant, shapes, sql, known]))
      .digest('base64')
  }

  async #asked(call: TenantCall, sql: string, known: readonly number[]): Promise<readonly number[] | null> {
    const found = await this.#told(call, sql, known, ({ parameterOids }) => parameterOids)
    return found && known.map((own, at) => own || takenOf(found[at] ?? 0))
  }

  /** Nothing of what it does not understand; null where it could not be asked. */
  async #told(
    call: TenantCall,
    sql: string,
    known: readonly number[],
    of: (described: CatalogueDescription) => readonly number[],
  ): Promise<readonly number[] | null> {
    const statement = { sql, parameterOids: known, searchPath: null }
    try {
      return of(
        await this.#catalogue.within({ needsTables: true }, call, (link) =>
          describeByCatalogue(link, statement, call.signal),
        ),
      )
    } catch (error) {
      call.signal.throwIfAborted()
      // What it does not understand it never will; what keeps it from answering may pass.
      return error instanceof WireError && !/^(?:53|57|58|XX)/.test(error.sqlState) ? [] : null
    }
  }
}

/** A type whose values are not taken is told as text, which any value can be written as. */
const takenOf = (oid: number): number => (isTaken(oid) ? oid : 0)
