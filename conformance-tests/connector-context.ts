/** What a check of connectors works with: a source, tables of its own, connectors that it closes again. */
import type { Connector, ConnectorPlugin, ConnectorState, ReadEvent, ReadRequest, Row } from '@sluice/sdk'
import { callDeadline } from './call-deadline.ts'
import { CheckFailure, type Level } from './check.ts'
import { describeDifference, differenceOf, keyText } from './compare.ts'
import type { SourceFixture, SourceTable } from './connector-fixture.ts'
import { type ConnectorHostParts, TestConnectorHost } from './connector-host.ts'
import { type Gathered, gather } from './connector-reading.ts'
import { guarded } from './guarded.ts'
import { RecordingLogger } from './host.ts'
import { Listener, NothingToTry, secretsOf } from './overheard.ts'
import { Random } from './random.ts'
import { rowsOf, SIMPLE } from './shapes.ts'

export interface ConnectorContextParts {
  readonly plugin: ConnectorPlugin
  readonly fixture: SourceFixture
  readonly level: Level
  readonly seed: number
  readonly label: string
}

export class ConnectorContext {
  readonly plugin: ConnectorPlugin
  readonly fixture: SourceFixture
  readonly level: Level
  readonly random: Random
  readonly logger = new RecordingLogger()
  readonly listener: Listener
  readonly #label: string
  readonly #tables: SourceTable[] = []
  readonly #opened: Connector[] = []
  readonly #atEnd: (() => Promise<void>)[] = []
  /** Of each table the keys that were put. */
  readonly #keys = new Map<string, Set<string>>()

  constructor({ plugin, fixture, level, seed, label }: ConnectorContextParts) {
    this.plugin = plugin
    this.fixture = fixture
    this.level = level
    this.random = new Random(seed).fork(label)
    const given = [fixture.settings, ...Object.values(fixture.broken)]
    this.listener = new Listener(given.flatMap((settings) => secretsOf(plugin.settingsSchema, settings)))
    this.#label = label.replaceAll(/[^a-z0-9]+/g, '_').slice(0, 20)
  }

  /** The check's end closes it. */
  async open(
    settings: unknown = this.fixture.settings,
    parts: Partial<ConnectorHostParts> = {},
  ): Promise<{ readonly connector: Connector; readonly host: TestConnectorHost }> {
    const host = new TestConnectorHost({ logger: this.logger, names: this.fixture.names ?? [], ...parts })
    // Of the settings that work nothing is asked before a hook of the connector is.
    if (settings !== this.fixture.settings) this.listener.ask()
    const opened = await this.plugin.open(settings, host).catch((error: unknown) => {
      this.listener.hear('plugin.open, an error', error)
      throw error
    })
    const connector = guarded(this.listener.to(opened, 'connector'), 'connector')
    this.#opened.push(connector)
    return { connector, host }
  }

  /** A table of the check's own, empty. */
  async table(parts: Partial<SourceTable> = {}): Promise<SourceTable> {
    const name = `${this.#label}_${this.#tables.length}`
    const table = { name, columns: SIMPLE.columns, primaryKey: SIMPLE.primaryKey, ...parts }
    await this.fixture.create(table)
    this.#tables.push(table)
    return table
  }

  /** A table with rows, which a full read has given exactly: without that nothing is proven of the connector. */
  async filled(
    count = 12,
    parts: Partial<SourceTable> = {},
  ): Promise<{ readonly table: SourceTable; readonly rows: readonly Row[] }> {
    const table = await this.table(parts)
    const rows = rowsOf({ columns: table.columns, primaryKey: table.primaryKey }, 1, count, this.random)
    await this.put(table, rows)
    await this.listener.settingUp(async () => {
      const { connector } = await this.open()
      expectRows(
        table,
        rows,
        (await this.read(connector, table)).rows,
        'the rows of the source have to be read before anything else can be said',
      )
      await connector.close()
    })
    return { table, rows }
  }

  /** Adds rows, or replaces them by key. Throws NothingToTry where the source only ever adds, and one of them is there. */
  async put(table: SourceTable, rows: readonly Row[]): Promise<void> {
    const keys = this.#keys.get(table.name) ?? new Set()
    this.#keys.set(table.name, keys)
    for (const key of this.fixture.appendsOnly ? rows.map((row) => keyText(table, row)) : []) {
      if (keys.has(key)) throw new NothingToTry('rows of the source are only ever added (appendsOnly of the fixture)')
      keys.add(key)
    }
    await this.fixture.put(table, rows)
  }

  /** Throws NothingToTry where no row of the source ever goes. */
  async remove(table: SourceTable, rows: readonly Row[]): Promise<void> {
    if (this.fixture.remove === undefined)
      throw new NothingToTry('no row of the source ever goes (remove of the fixture)')
    await this.fixture.remove(table, rows)
  }

  /** Throws NothingToTry, at once, where the columns of a table stay as they are: a check may go on while it lasts. */
  alter(table: SourceTable, next: SourceTable): Promise<void> {
    if (this.fixture.alter === undefined)
      throw new NothingToTry('tables of the source keep their columns (alter of the fixture)')
    return this.fixture.alter(table, next)
  }

  request(table: SourceTable, parts: Partial<ReadRequest> = {}): ReadRequest {
    return {
      schema: this.fixture.schema,
      table: table.name,
      mode: 'full',
      columns: [],
      primaryKey: table.primaryKey,
      cursorColumn: table.cursorColumn ?? null,
      state: null,
      signal: callDeadline(),
      ...parts,
    }
  }

  events(connector: Connector, table: SourceTable, parts: Partial<ReadRequest> = {}): AsyncIterable<ReadEvent> {
    return connector.read(this.request(table, parts))
  }

  read(connector: Connector, table: SourceTable, parts: Partial<ReadRequest> = {}): Promise<Gathered> {
    return gather(this.events(connector, table, parts))
  }

  /** From the state on, on a connector of its own, as the next run does. */
  async resume(table: SourceTable, state: ConnectorState | null, parts: Partial<ReadRequest> = {}): Promise<Gathered> {
    const { connector } = await this.open()
    const given = await this.read(connector, table, { mode: 'incremental', state, ...parts })
    await connector.close()
    return given
  }

  /** Done before the check's connectors are closed and its tables dropped, whatever came of the check. */
  atEnd(run: () => Promise<void>): void {
    this.#atEnd.push(run)
  }

  /** Closes what was opened, drops what was made; reports the first thing that went wrong. */
  async dispose(): Promise<void> {
    const ended = await Promise.allSettled(this.#atEnd.map((run) => run()))
    const outcomes = [...ended, ...(await Promise.allSettled(this.#opened.map((connector) => connector.close())))]
    for (const table of this.#tables) await this.fixture.drop(table)
    const failed = outcomes.find((outcome) => outcome.status === 'rejected')
    if (failed) throw failed.reason
  }
}

/** Fails unless the rows given are exactly those, in any order. */
export function expectRows(table: SourceTable, expected: readonly Row[], given: readonly Row[], why: string): void {
  const schema = { columns: table.columns, primaryKey: table.primaryKey }
  const difference = differenceOf(schema, expected, given)
  if (difference === null) return
  throw new CheckFailure({
    what: `the connector gives other rows than the source has: ${describeDifference(difference)}`,
    expected: `${expected.length} rows`,
    came: `${given.length} rows`,
    where: `connector.read of ${table.name}`,
    why,
    remedy: 'Compare what the source holds with what read gives for the keys named.',
  })
}
