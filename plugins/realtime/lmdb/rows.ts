/** Puts rows under their keys, as versions of one write. */
import {
  type ChangeSet,
  type KeyedRows,
  type KeyTemplate,
  type Row,
  renderKey,
  type TableSchema,
  type Value,
} from '@sluice/sdk'
import { checkRowSize, type Layout, rowEncoder } from '../keyed-values/cells.ts'
import { contentIdentity, identityText, isKeyedByIdentity } from '../keyed-values/identity.ts'
import { keyedUpserts } from '../keyed-values/shape.ts'
import { capabilities } from './config.ts'
import type { Environment } from './environment.ts'
import { physicalKey } from './keys.ts'
import { type Visibility, visibleVersion, withVersion } from './versions.ts'

export interface RowWriterParts {
  readonly environment: Environment
  readonly prefix: string
  readonly template: KeyTemplate
  readonly schema: TableSchema
  readonly layout: Layout
  readonly layoutIndex: number
  readonly write: number
  readonly visibility: Visibility
}

/**
 * Two ways of lying: where the template names exactly the primary key's columns, a value lies under its key. Otherwise
 * several rows may share a key and a delete does not tell it, so a value lies under key and identity, and under the
 * identity lies the key.
 */
export class RowWriter {
  readonly #parts: RowWriterParts
  readonly isKeyedByIdentity: boolean
  readonly #columns: ReadonlyMap<string, number>
  readonly #encode: (row: Row) => string
  /** Of the values put so far. */
  putBytes = 0
  /** Rows that a null in the template leaves without a key. */
  withoutKey = 0

  constructor(parts: RowWriterParts) {
    this.#parts = parts
    this.isKeyedByIdentity = isKeyedByIdentity(parts.template, parts.schema)
    this.#columns = new Map(parts.schema.columns.map(({ name }, index) => [name, index]))
    this.#encode = rowEncoder(
      parts.layout,
      parts.layout.map(({ name }) => this.#columns.get(name) ?? -1),
    )
  }

  /** The rows to upsert, at most so many together, where keys tell who they are. */
  keyedUpserts(changes: ChangeSet, maxRows: number): AsyncGenerator<KeyedRows> {
    return keyedUpserts(changes, this.#parts, maxRows)
  }

  /** Where keys tell who their rows are. The put's promise, to be awaited with others. */
  upsertKeyed(rows: KeyedRows, row: number): Promise<unknown> {
    checkRowSize(rows.jsonEnd(row) - rows.jsonStart(row), capabilities)
    if (rows.hasKey(row)) return this.#put(physicalKey(this.#parts.prefix, rows.key(row)), rows.json(row))
    this.withoutKey += 1
    return Promise.resolve()
  }

  /** The same where they do not. */
  upsert(row: Row): Promise<unknown> {
    const { template, schema, prefix } = this.#parts
    const cell = (name: string): Value => row[this.#columns.get(name) ?? -1] ?? null
    const json = this.#encode(row)
    checkRowSize(Buffer.byteLength(json), capabilities)
    const rendered = renderKey(template, schema, cell)
    if (rendered === null) this.withoutKey += 1
    const key = rendered === null ? null : physicalKey(prefix, rendered)
    const { primaryKey } = schema
    const identity = primaryKey.length > 0 ? identityText(schema, primaryKey.map(cell)) : contentIdentity(json)
    return this.#move(identity, key, json)
  }

  delete(identityCells: Row): Promise<unknown> {
    const { template, schema, prefix } = this.#parts
    if (!this.isKeyedByIdentity) return this.#move(identityText(schema, identityCells), null, null)
    const rendered = renderKey(template, schema, (name) => identityCells[schema.primaryKey.indexOf(name)] ?? null)
    return rendered === null ? Promise.resolve() : this.#put(physicalKey(prefix, rendered), null)
  }

  async #move(identity: string, key: string | null, json: string | null): Promise<void> {
    const { environment, prefix, visibility, write } = this.#parts
    const place = [prefix, identity]
    const record = environment.places.getBinary(place)
    const former = record ? visibleVersion(record, visibility)?.value : undefined
    const puts: Promise<unknown>[] = []
    if (former != null && former !== key) puts.push(this.#put([former, identity], null))
    if (key !== null) puts.push(this.#put([key, identity], json))
    if (key !== null || record) {
      puts.push(environment.places.put(place, withVersion(record, { write, layout: 0, value: key }, visibility)))
    }
    await Promise.all(puts)
  }

  #put(key: string | string[], value: string | null): Promise<unknown> {
    const { environment, visibility, write, layoutIndex } = this.#parts
    const record = environment.entries.getBinaryFast(key)
    if (value === null && record === undefined) return Promise.resolve()
    const next = withVersion(record, { write, layout: layoutIndex, value }, visibility)
    this.putBytes += next.length
    return environment.entries.put(key, next)
  }
}
