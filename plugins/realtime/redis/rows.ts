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
import { type Connections, runScript } from './connections.ts'
import { Filler } from './filling.ts'
import { placeKey } from './keys.ts'
import { type Visibility, visibleVersion } from './records.ts'
import { PUT } from './scripts.ts'

export interface RowWriterParts {
  readonly connections: Connections
  readonly prefix: string
  readonly template: KeyTemplate
  readonly schema: TableSchema
  readonly layout: Layout
  readonly layoutIndex: number
  readonly write: number
  readonly visibility: Visibility
  /** Nothing was ever committed: most keys are free. */
  readonly isFirst: boolean
  /** From now on; a little more than the values count. */
  readonly liveForMs: () => number
}

interface Put {
  readonly key: string
  /** '' where the key names the row. */
  readonly identity: string
  /** Null for a deletion. */
  readonly value: string | null
}

/** A row on its way: where it is to lie, null for nowhere, and who it is. */
interface Move {
  readonly identity: string
  readonly key: string | null
  readonly value: string | null
}

/**
 * Two ways of lying: where the template names exactly the primary key's columns, the key tells the row. Otherwise several
 * rows may share a key and a delete does not tell it, so the versions under a key name their rows, and in a place of each
 * row's own stands its key.
 */
export class RowWriter {
  readonly #parts: RowWriterParts
  readonly isKeyedByIdentity: boolean
  #areKeysFree: boolean
  #filler: Promise<Filler> | null = null
  readonly #columns: ReadonlyMap<string, number>
  readonly #encode: (row: Row) => string
  /** Rows that a null in the template leaves without a key. */
  withoutKey = 0

  constructor(parts: RowWriterParts) {
    this.#parts = parts
    this.isKeyedByIdentity = isKeyedByIdentity(parts.template, parts.schema)
    this.#areKeysFree = parts.isFirst
    this.#columns = new Map(parts.schema.columns.map(({ name }, index) => [name, index]))
    this.#encode = rowEncoder(
      parts.layout,
      parts.layout.map(({ name }) => this.#columns.get(name) ?? -1),
    )
  }

  upserted(row: Row): Move {
    const { template, schema, prefix } = this.#parts
    const cell = (name: string): Value => row[this.#columns.get(name) ?? -1] ?? null
    const value = this.#encode(row)
    checkRowSize(Buffer.byteLength(value), capabilities)
    const rendered = renderKey(template, schema, cell)
    if (rendered === null) this.withoutKey += 1
    const key = rendered === null ? null : prefix + rendered
    const { primaryKey } = schema
    return {
      identity: primaryKey.length > 0 ? identityText(schema, primaryKey.map(cell)) : contentIdentity(value),
      key,
      value,
    }
  }

  deleted(identityCells: Row): Move {
    const { template, schema, prefix } = this.#parts
    if (!this.isKeyedByIdentity) return { identity: identityText(schema, identityCells), key: null, value: null }
    const rendered = renderKey(template, schema, (name) => identityCells[schema.primaryKey.indexOf(name)] ?? null)
    return { identity: '', key: rendered === null ? null : prefix + rendered, value: null }
  }

  /** Resolves when all of them lie there. May be repeated. */
  async move(moves: readonly Move[]): Promise<void> {
    if (!this.isKeyedByIdentity) return this.#moveWithPlaces(moves)
    await this.#put(moves.flatMap(({ key, identity, value }) => (key === null ? [] : [{ key, identity, value }])))
  }

  /** The rows to upsert, at most so many together, where keys tell who they are. */
  keyedUpserts(changes: ChangeSet, maxRows: number): AsyncGenerator<KeyedRows> {
    return keyedUpserts(changes, this.#parts, maxRows)
  }

  /** As `move`, for rows whose keys tell who they are. */
  async put(rows: KeyedRows): Promise<void> {
    for (let row = 0; row < rows.rowCount; row += 1) {
      checkRowSize(rows.jsonEnd(row) - rows.jsonStart(row), capabilities)
      if (!rows.hasKey(row)) this.withoutKey += 1
    }
    if (!(await this.#fill(rows))) await this.#put(this.#putsOf(rows))
  }

  #putsOf(rows: KeyedRows): readonly Put[] {
    const puts: Put[] = []
    for (let row = 0; row < rows.rowCount; row += 1) {
      if (rows.hasKey(row)) puts.push({ key: this.#parts.prefix + rows.key(row), identity: '', value: rows.json(row) })
    }
    return puts
  }

  /** False where something lies there: of an earlier write that came to nothing, or of a newer one. */
  async #fill(rows: KeyedRows): Promise<boolean> {
    const { connections, liveForMs } = this.#parts
    const { openBulk } = connections
    if (!this.#areKeysFree || openBulk === null) return false
    this.#filler ??= openBulk().then((connection) => new Filler(connection))
    const isFilled = await (await this.#filler).fill(rows, { ...this.#parts, liveForMs: liveForMs() })
    this.#areKeysFree &&= isFilled
    return isFilled
  }

  /** How many replicas of each server have all that was put, waiting for so many of them. */
  async replicated(replicas: number, timeoutMs: number): Promise<number> {
    // A server answers for what came by the connection that asks.
    const filler = await this.#filler
    const askedOf = [...this.#parts.connections.servers(), ...(filler === null ? [] : [filler])]
    return Math.min(...(await Promise.all(askedOf.map((asked) => asked.wait(replicas, timeoutMs)))))
  }

  /** Frees its connection. What is under way fails. */
  async close(): Promise<void> {
    const filler = await this.#filler?.catch(() => null)
    filler?.close()
  }

  async #moveWithPlaces(moves: readonly Move[]): Promise<void> {
    const { prefix } = this.#parts
    const places = moves.map(({ identity }) => placeKey(prefix, identity))
    const former = await this.#formerKeys(places)
    const puts = moves.flatMap(({ identity, key, value }, index): Put[] => {
      const left = former[index]
      const leaves = left != null && left !== key ? [{ key: left, identity, value: null }] : []
      const comes = key === null ? [] : [{ key, identity, value }]
      const place = { key: places[index] ?? '', identity: '', value: key }
      return [...leaves, ...comes, place]
    })
    await this.#put(puts)
  }

  async #formerKeys(places: readonly string[]): Promise<readonly (string | null | undefined)[]> {
    const { connections, visibility } = this.#parts
    const { writes, isCluster } = connections
    const records = isCluster
      ? await Promise.all(places.map((place) => writes.getBuffer(place)))
      : await writes.mgetBuffer([...places])
    return records.map((record) => record && visibleVersion(record, visibility)?.value)
  }

  async #put(puts: readonly Put[]): Promise<void> {
    const { connections, write, visibility, layoutIndex, liveForMs } = this.#parts
    if (puts.length === 0) return
    const { committed, floor, aborted } = visibility
    const head = [write, committed, floor, aborted.join(','), Math.ceil(liveForMs()), layoutIndex]
    const send = (part: readonly Put[]) =>
      runScript(
        connections.writes,
        PUT,
        part.map(({ key }) => key),
        [...head, ...part.flatMap(({ identity, value }) => [identity, value === null ? '-' : `+${value}`])],
      )
    await Promise.all(connections.isCluster ? puts.map((put) => send([put])) : [send(puts)])
  }
}
