/** Puts rows under their keys, as versions of one write. */
import { type KeyTemplate, type Row, renderKey, SluiceError, type TableSchema, type Value } from '@sluice/sdk'
import { type Layout, rowJson } from './cells.ts'
import { capabilities } from './config.ts'
import type { Environment } from './environment.ts'
import { contentIdentity, identityText, isKeyedByIdentity, physicalKey } from './keys.ts'
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
  readonly #isKeyedByIdentity: boolean
  readonly #columns: ReadonlyMap<string, number>
  /** Rows that a null in the template leaves without a key. */
  withoutKey = 0

  constructor(parts: RowWriterParts) {
    this.#parts = parts
    this.#isKeyedByIdentity = isKeyedByIdentity(parts.template, parts.schema)
    this.#columns = new Map(parts.schema.columns.map(({ name }, index) => [name, index]))
  }

  /** The put's promise, to be awaited with others. */
  upsert(row: Row): Promise<unknown> {
    const { template, schema, layout, prefix } = this.#parts
    const cell = (name: string): Value => row[this.#columns.get(name) ?? -1] ?? null
    const json = rowJson(
      layout,
      layout.map(({ name }) => cell(name)),
    )
    checkSize(json)
    const rendered = renderKey(template, schema, cell)
    if (rendered === null) this.withoutKey += 1
    const key = rendered === null ? null : physicalKey(prefix, rendered)
    if (this.#isKeyedByIdentity) return key === null ? Promise.resolve() : this.#put(key, json)
    const { primaryKey } = schema
    const identity = primaryKey.length > 0 ? identityText(schema, primaryKey.map(cell)) : contentIdentity(json)
    return this.#move(identity, key, json)
  }

  delete(identityCells: Row): Promise<unknown> {
    const { template, schema, prefix } = this.#parts
    if (!this.#isKeyedByIdentity) return this.#move(identityText(schema, identityCells), null, null)
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
    const record = environment.entries.getBinary(key)
    if (value === null && record === undefined) return Promise.resolve()
    return environment.entries.put(key, withVersion(record, { write, layout: layoutIndex, value }, visibility))
  }
}

function checkSize(json: string): void {
  const { maxRowBytes } = capabilities.limits
  // No character takes more than three bytes for each of its UTF-16 units, so short texts need no counting.
  if (json.length * 3 <= maxRowBytes || Buffer.byteLength(json) <= maxRowBytes) return
  throw new SluiceError('INVALID_DATA', 'a row is larger than the realtime store keeps', {
    code: 'row_too_large',
    details: { maxRowBytes },
    remedy: 'Leave its large columns out with include_columns.',
  })
}
