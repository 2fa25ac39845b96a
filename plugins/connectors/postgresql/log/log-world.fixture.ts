/** A PostgreSQL whose log is read, for tests: the server, the login's rights, and tables kept as the runtime keeps them. */
import assert from 'node:assert/strict'
import type { ChangeEvent, ChangePosition, ChangeSource, ChangeStream, Connector } from '@sluice/sdk'
import { createConnector } from '../connector.ts'
import { parseSettings } from '../settings.ts'
import { gather, parseCsv, sourceHost } from '../source-host.ts'
import { type SourceCluster, startCluster } from '../source-server.ts'

export const NEVER = new AbortController().signal

export interface LogWorld {
  readonly source: SourceCluster
  readonly connector: Connector
  readonly log: ChangeSource
  sql(text: string): Promise<readonly Readonly<Record<string, unknown>>[]>
  /** Tables, which the login owns where they are named. */
  make(ddl: string, ...tables: readonly string[]): Promise<void>
  take(capture: string, after: ChangePosition, streams: readonly ChangeStream[]): Promise<Taken>
  stop(): Promise<void>
}

export interface Taken {
  readonly events: readonly ChangeEvent[]
  readonly end: ChangePosition
}

export const stream = (table: string, ...primaryKey: string[]): ChangeStream => ({
  schema: 'public',
  table,
  primaryKey,
})

export async function startLogWorld(flags: Readonly<Record<string, string>> = {}): Promise<LogWorld> {
  const source = await startCluster({
    wal_level: 'logical',
    max_replication_slots: '4',
    max_wal_senders: '8',
    ...flags,
  })
  const { user, database } = source.settings
  await source.sql(`ALTER ROLE ${user} REPLICATION; GRANT CREATE ON DATABASE ${database} TO ${user}`)
  const connector = createConnector(parseSettings(source.settings), sourceHost())
  const log = connector.changes
  if (!log) throw new Error('the connector has no changes')
  return {
    source,
    connector,
    log,
    sql: (text) => source.sql(text),
    async make(ddl, ...tables) {
      await source.sql(ddl)
      for (const table of tables) await source.sql(`ALTER TABLE ${table} OWNER TO ${user}`)
    },
    take: (capture, after, streams) => take(log, capture, after, streams),
    stop: async () => {
      await connector.close()
      await source.stop()
    },
  }
}

export async function take(
  log: ChangeSource,
  capture: string,
  after: ChangePosition,
  streams: readonly ChangeStream[],
): Promise<Taken> {
  const events: ChangeEvent[] = []
  for await (const event of log.changes({ capture, after, streams, signal: NEVER })) events.push(event)
  const last = events.at(-1)
  assert.ok(last?.kind === 'checkpoint')
  return { events, end: last.position }
}

/** Undefined: what neither the log nor the table has said. */
type Entry = Record<string, string | null | undefined>

/** Tables by key, as the runtime keeps them; values as texts. A table that is to be read again is marked, and then read. */
export class Tables {
  readonly #connector: Connector
  readonly #streams: readonly ChangeStream[]
  readonly #columns: (readonly string[])[] = []
  readonly #former = new Map<string, Entry>()
  readonly mustReread = new Set<number>()
  readonly rows: Map<string, Entry>[]

  constructor(connector: Connector, streams: readonly ChangeStream[]) {
    this.#connector = connector
    this.#streams = streams
    this.rows = streams.map(() => new Map())
  }

  async readWhole(which: Iterable<number> = this.#streams.keys()): Promise<void> {
    for (const index of [...which]) {
      const { schema, table, primaryKey } = this.#streams[index] as ChangeStream
      const request = { schema, table, primaryKey, mode: 'full', columns: [], cursorColumn: null, state: null } as const
      const read = await gather(this.#connector.read({ ...request, signal: NEVER }))
      this.rows[index] = new Map(
        read.rows.map((row) => {
          const entry = Object.fromEntries(read.schema.columns.map(({ name }, at) => [name, row[at] as string | null]))
          return [this.#key(index, entry), entry]
        }),
      )
      this.mustReread.delete(index)
    }
  }

  apply(events: readonly ChangeEvent[]): void {
    this.#former.clear()
    for (const event of events) {
      if (event.kind === 'schema') this.#shape(event)
      if (event.kind === 'truncate') this.rows[event.stream]?.clear()
      if (event.kind === 'reject' && event.key) this.rows[event.stream]?.delete(this.#key(event.stream, event.key))
      if (event.kind !== 'rows') continue
      const rows = parseCsv(Buffer.from(event.chunk).toString('utf8'))
      assert.equal(rows.length, event.rows)
      for (const row of rows) this.#one(event.stream, row)
    }
  }

  /** Without the columns that are gone, and null in new ones. */
  #shape({ stream, schema, mustReread }: Extract<ChangeEvent, { kind: 'schema' }>): void {
    const names = schema.columns.map(({ name }) => name)
    this.#columns[stream] = names
    if (mustReread === true) this.mustReread.add(stream)
    for (const [key, entry] of this.rows[stream] ?? []) {
      this.rows[stream]?.set(key, Object.fromEntries(names.map((name) => [name, name in entry ? entry[name] : null])))
    }
  }

  #one(stream: number, [op, , unchanged, from, ...cells]: readonly (string | null)[]): void {
    const rows = this.rows[stream]
    const names = this.#columns[stream]
    assert.ok(rows && names && names.length === cells.length)
    const entry: Entry = Object.fromEntries(names.map((name, at) => [name, cells[at] ?? null]))
    const key = this.#key(stream, entry)
    if (op === 'd') {
      const gone = rows.get(key)
      if (gone) this.#former.set(`${stream} ${key}`, gone)
      rows.delete(key)
      return
    }
    const former = from == null ? undefined : this.#former.get(`${stream} ${JSON.stringify(JSON.parse(from))}`)
    const there = rows.get(key)
    // A log that is told of a table that is newer may lack the former row: it is where it went to already. Where another row
    // has taken the key that it gave up, nothing says which of the two has the value, as in the runtime.
    for (const name of unchanged ? (JSON.parse(unchanged) as string[]) : []) {
      if (former !== undefined && there !== undefined && former[name] !== there[name]) this.mustReread.add(stream)
      entry[name] = former?.[name] === undefined ? there?.[name] : former[name]
    }
    rows.set(key, entry)
  }

  #key(stream: number, entry: Readonly<Entry>): string {
    return JSON.stringify(this.#streams[stream]?.primaryKey.map((name) => entry[name]))
  }

  sorted(): unknown {
    return this.rows.map((rows) => [...rows].sort(([one], [other]) => (one < other ? -1 : 1)))
  }
}
