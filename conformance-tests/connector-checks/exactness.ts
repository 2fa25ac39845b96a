/** What is said of rows, of values of any length and of tables: exactly that, and of exactly what was asked. */
import { type DiscoveredTable, isSluiceError, type ReadEvent, type ReadRequest, type Row, typeName } from '@sluice/sdk'
import { callDeadline } from '../call-deadline.ts'
import { expect, type FailureParts, vacuous } from '../check.ts'
import { Capture, markedIn } from '../connector-capture.ts'
import { type ConnectorContext, expectRows } from '../connector-context.ts'
import type { SourceTable } from '../connector-fixture.ts'
import { gather } from '../connector-reading.ts'
import { changed, rowsOf, SIMPLE } from '../shapes.ts'
import { textOfBytes } from '../values.ts'
import type { ConnectorCheck } from './check.ts'
import { typesOf } from './discovery.ts'

type Reject = Pick<Extract<ReadEvent, { kind: 'reject' }>, 'reason' | 'column' | 'key' | 'raw'>

/** Lengths around these are where fields end that count in one, two or three bytes, and buffers of drivers. */
const LENGTHS = { core: [8, 12, 13, 16], full: [8, 10, 12, 13, 14, 15, 16, 17], hard: [8, 12, 13, 15, 16, 17, 19, 20] }
/** Of one row: a connector may reject larger ones. */
const MAX_BYTES = 1 << 20

export const exactnessChecks: readonly ConnectorCheck[] = [
  {
    id: 'C67',
    name: 'rejects-are-counted-apart-and-tell-no-value',
    level: 'core',
    notFor: (_, { putUnfit, putWithout }) =>
      putUnfit || putWithout ? null : 'the source can hold nothing that no type carries',
    async run(context) {
      const { table, rows } = await context.filled(9)
      const [odd = []] = rows
      await context.fixture.putUnfit?.(table, 4)
      await context.fixture.putWithout?.(table, odd)
      const marked = table.columns.map(({ name }) => name).filter((name) => !table.primaryKey.includes(name))
      let rejects = 0
      for (const mode of modesOf(context)) {
        for (const parts of [{}, { columns: [...table.primaryKey, 'name'] }, { marked }]) {
          rejects += await expectCounted(context, table, { mode, ...parts })
        }
      }
      expect(rejects > 0, () => vacuous('no row was rejected', 'Look first at C27.'))
    },
  },
  {
    id: 'C84',
    name: 'rejects-tell-nothing-else-of-their-rows',
    level: 'core',
    notFor: (_, { putWithout }) =>
      putWithout ? null : 'the source can hold no row of which one value cannot be carried',
    async run(context) {
      const { table, rows } = await context.filled(5)
      const told = rows.map((row, index) => changed(SIMPLE, row, { name: `${SECRET} ${index}` }))
      const [odd = []] = told
      if (!context.fixture.appendsOnly) await context.put(table, told.slice(1))
      await context.fixture.putWithout?.(table, odd)
      let rejects = 0
      for (const mode of modesOf(context)) {
        for (const parts of [{}, { columns: [...table.primaryKey, 'amount'] }, markedIn(table)]) {
          const { connector } = await context.open()
          for await (const event of context.events(connector, table, { mode, ...parts })) {
            if (event.kind !== 'reject') continue
            rejects += 1
            expect(!event.reason.includes(SECRET), () => tellsRow('the reason of a reject', `mode ${mode}`))
          }
          await connector.close()
        }
      }
      expect(rejects > 0, () => vacuous('no row was rejected', 'Look first at C27.'))
      expect(!context.logger.text().includes(SECRET), () => tellsRow('a line of the log', 'of reads with rejects'))
    },
  },
  {
    id: 'C68',
    name: 'values-of-every-length',
    level: 'core',
    async run(context) {
      const table = await context.table({ columns: longColumns(context) })
      const rows = longRows(context, table)
      for (const row of rows) await context.put(table, [row])
      for (const mode of modesOf(context)) {
        const { connector } = await context.open()
        const given = await context.read(connector, table, { mode })
        expectLengths(table, rows, given.rows, `connector.read, mode ${mode}`)
        expectRows(table, rows, given.rows, 'values come whole, however long they are')
      }
    },
  },
  {
    id: 'C69',
    name: 'discovered-tables-are-those-that-are-read',
    level: 'core',
    async run(context) {
      const shapes = Array.from({ length: 4 }, (_, index) => shapeOf(context, index))
      for (const shape of shapes) {
        const { table } = await context.filled(3, shape)
        const { connector } = await context.open()
        const found = (await discoveredTable(context, table.name))?.columns ?? []
        const all = (await context.read(connector, table)).schema.columns
        // A source may have columns that come only where they are named.
        const shown = found.filter(({ name }) => all.some((column) => column.name === name))
        const named = (await context.read(connector, table, { columns: found.map(({ name }) => name) })).schema.columns
        for (const [told, given] of [
          [shown, all],
          [found, named],
        ] as const) {
          expect(columnsText(told) === columnsText(given), () => ({
            what: 'a table is discovered otherwise than it is read',
            expected: columnsText(given),
            came: told.length === 0 ? 'no such table' : columnsText(told),
            where: 'connector.discover, and the schema of connector.read',
            why: 'a product is written by what was discovered, and made of what is read',
            remedy: 'Take names, order, types and nullability of both from one place.',
          }))
        }
      }
    },
  },
  {
    id: 'C70',
    name: 'only-exact-names-are-read',
    level: 'core',
    async run(context) {
      const { table, rows } = await context.filled()
      const right = context.request(table)
      const { connector } = await context.open()
      for (const [tried, wrong] of nearNames(context, right)) {
        const outcome = await gather(connector.read(wrong)).catch((error: unknown) => error)
        const isRefused = (['INVALID_DATA', 'CONFIG', 'PERMISSION'] as const).some((kind) =>
          isSluiceError(outcome, kind),
        )
        expect(isRefused, () => ({
          what: `a read of ${tried} was not refused`,
          expected: 'INVALID_DATA, CONFIG or PERMISSION',
          came: outcome instanceof Error ? String(outcome) : 'rows',
          where: 'connector.read',
          why: 'grants and classes are given by name: what answers to a second name answers without them',
          remedy: 'Compare names as they are, with their case, and look them up in what discover lists.',
        }))
      }
      expectRows(table, rows, (await context.read(connector, table)).rows, 'the table itself is read as before')
    },
  },
  {
    id: 'C71',
    name: 'log-rejects-tell-no-value',
    level: 'core',
    requires: 'cdc',
    notFor: ({ capabilities: { modes } }, { putUnfit }) =>
      !modes.includes('cdc') || putUnfit ? null : 'the source can hold nothing that no type carries',
    async run(context) {
      const { capture, table } = await Capture.filled(context, 2)
      await context.fixture.putUnfit?.(table, 2)
      const { told } = await capture.follow()
      const rejects = told.filter((one) => one.kind === 'reject')
      expect(rejects.length > 0, () => vacuous('the log rejected no row', 'Look first at C48.'))
      for (const reject of rejects) expectReject(reject, table, 'connector.changes.changes')
    },
  },
  {
    id: 'C72',
    name: 'log-carries-values-of-every-length',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const table = await context.table({ columns: longColumns(context) })
      const capture = await Capture.of(context, table)
      const rows = longRows(context, table)
      for (const row of rows) await capture.owner.write({ kind: 'insert', table, rows: [row] })
      await capture.follow()
      expectLengths(table, rows, capture.mirror.rows(0), 'connector.changes.changes')
      capture.expectTrue('the log carries values of every length')
    },
  },
]

function modesOf({ plugin }: ConnectorContext): readonly ('full' | 'incremental')[] {
  return plugin.capabilities.modes.filter((mode) => mode !== 'cdc')
}

/** From the beginning, and on from there. Says how many rows were rejected. */
async function expectCounted(
  context: ConnectorContext,
  table: SourceTable,
  parts: Partial<ReadRequest>,
): Promise<number> {
  const read = async (more: Partial<ReadRequest>) => {
    const events = await Array.fromAsync(context.events((await context.open()).connector, table, { ...parts, ...more }))
    const rejects = events.filter((event) => event.kind === 'reject')
    for (const reject of rejects) expectReject(reject, table, `connector.read, mode ${parts.mode}`)
    return { rejected: rejects.length, states: (await gather(replayed(events))).states }
  }
  const first = await read({})
  const rest = parts.mode === 'incremental' ? [await read({ state: first.states.at(-1)?.state ?? null })] : []
  for (const { states } of [first, ...rest]) {
    const wrong = states.find(({ rows, counted }) => rows !== counted)
    expect(wrong === undefined, () => ({
      what: 'a state counts other rows than came, in a read with rows that nothing can carry',
      expected: `${wrong?.counted}`,
      came: `${wrong?.rows}`,
      where: `the states of connector.read, mode ${parts.mode}`,
      why: 'the runtime refuses a read whose counts are wrong: rows would be lost, or counted twice',
      remedy: 'Count the rows that were given, and those that are carried; a row that is rejected is none of them.',
    }))
  }
  return first.rejected
}

async function* replayed(events: readonly ReadEvent[]): AsyncGenerator<ReadEvent> {
  yield* events
}

function expectReject({ reason, column, key, raw }: Reject, table: SourceTable, where: string): void {
  const names = table.columns.map(({ name }) => name)
  const wrong =
    reason.trim() === ''
      ? 'says no reason'
      : raw !== undefined && raw.length >= MIN_TOLD_CHARACTERS && reason.includes(raw)
        ? 'tells the value in its reason'
        : column !== null && !names.includes(column)
          ? 'names a column that the table does not have'
          : Object.keys(key ?? {}).some((name) => !table.primaryKey.includes(name))
            ? 'has a key of columns that are none of the key'
            : null
  expect(wrong === null, () => ({
    what: `a reject ${wrong}`,
    expected: 'a reason without a value, a column of the table or null, a key of the columns of its key',
    came: `reason ${JSON.stringify(reason.slice(0, 200))}, column ${column}, key of ${Object.keys(key ?? {}).join(', ') || 'nothing'}`,
    where,
    why: 'reasons are counted, logged and shown to whoever sees the run; values only to who may see the row',
    remedy: 'Say in the reason what is wrong with the value, and give the value as raw.',
  }))
}

const SECRET = 'heron-2f6c'

function tellsRow(what: string, where: string) {
  return {
    what: `${what} tells a value of its row, of another column than the one at fault`,
    where: `connector.read, ${where}`,
    why: 'reasons are counted, logged and shown to whoever sees the run; values only to who may see the row',
    remedy: 'Say in the reason what is wrong with the value; the row goes into `row` and `raw` alone.',
  }
}

/** Shorter ones may stand in a sentence by chance. */
const MIN_TOLD_CHARACTERS = 4

function longColumns(context: ConnectorContext): SourceTable['columns'] {
  const types = typesOf(context, ['string', 'binary', 'json'])
  return [...SIMPLE.columns.slice(0, 2), ...types.map((type) => ({ name: `c_${type}`, type, nullable: true }))]
}

/** Rows with one value each that is as long as that, or one byte shorter or longer; of letters of one byte and of four. */
function longRows({ level, random }: ConnectorContext, { columns }: SourceTable): readonly Row[] {
  const lengths = LENGTHS[level].flatMap((power) => [2 ** power - 1, 2 ** power, 2 ** power + 1])
  const wanted = lengths
    .filter((bytes) => bytes <= MAX_BYTES)
    .flatMap((bytes) =>
      columns.slice(2).flatMap(({ name }) => [false, true].map((isWide) => ({ bytes, name, isWide }))),
    )
  return wanted.map(({ bytes, name, isWide }, index) => {
    const [id = null, at = null] = rowsOf(SIMPLE, index + 1, 1, random)[0] ?? []
    const cells = columns.slice(2).map((column) => {
      return column.name === name ? valueOf(typeName(column.type), bytes, isWide) : null
    })
    return [id, at, ...cells]
  })
}

function valueOf(type: string, bytes: number, isWide: boolean): NonNullable<Row[number]> {
  const text = textOfBytes(type === 'json' ? bytes - 2 : bytes, isWide)
  if (type === 'binary') return Uint8Array.from(Buffer.from(text))
  return type === 'json' ? JSON.stringify(text) : text
}

/** Lengths first: a failure is to be read by people. */
function expectLengths(table: SourceTable, rows: readonly Row[], given: readonly Row[], where: string): void {
  const lengthOf = (value: Row[number]) => (value === null ? 0 : Buffer.from(value as string).length)
  const byId = new Map(given.map((row) => [String(row[0]), row]))
  for (const row of rows) {
    const other = byId.get(String(row[0]))
    for (const [at, { name, type }] of table.columns.entries()) {
      // The text of a document may be written in several ways.
      if (at < 2 || type === 'json') continue
      const [wanted, came] = [lengthOf(row[at] ?? null), lengthOf(other?.[at] ?? null)]
      expect(wanted === came, () => wrongLength(name, wanted, other === undefined ? 'no such row' : `${came}`, where))
    }
  }
}

function wrongLength(name: string, wanted: number, came: string, where: string): FailureParts {
  return {
    what: `a value of ${wanted} bytes came otherwise, in ${name}`,
    expected: `${wanted} bytes`,
    came,
    where,
    why: 'a value that was cut looks like one that its owner has written',
    remedy: 'Read values whole, or give a reject for the row.',
  }
}

/** A key, the time, and some columns of types of the source, of which some may not be null. */
function shapeOf(context: ConnectorContext, index: number): Pick<SourceTable, 'columns' | 'primaryKey'> {
  const { random } = context
  const types = random.shuffled(
    typesOf(context, ['string', 'long', 'double', 'date', 'decimal(9,2)', 'uuid', 'boolean']),
  )
  const more = types
    .slice(0, 4)
    .map((type, at) => ({ name: `c${at}`, type, nullable: at === 0 ? index % 2 === 0 : random.chance(0.5) }))
  return { columns: [...SIMPLE.columns.slice(0, 2), ...more], primaryKey: SIMPLE.primaryKey }
}

const columnsText = (columns: SourceTable['columns']) =>
  columns.map(({ name, type, nullable }) => `${name} ${type}${nullable ? '' : ' not null'}`).join(', ')

async function discoveredTable(context: ConnectorContext, wanted: string): Promise<DiscoveredTable | undefined> {
  const { connector } = await context.open()
  let after: string | null = null
  do {
    const page: Awaited<ReturnType<typeof connector.discover>> = await connector.discover(
      { after, limit: 500 },
      callDeadline(),
    )
    const found = page.tables.find(({ name }) => name === wanted)
    if (found) return found
    after = page.next
  } while (after !== null)
  return undefined
}

/** The request with one name in it changed a little: of the schema, the table or a column. */
function nearNames({ random }: ConnectorContext, request: ReadRequest): readonly (readonly [string, ReadRequest])[] {
  const near = (name: string): readonly string[] => [
    name.toUpperCase() === name ? name.toLowerCase() : name.toUpperCase(),
    `${name} `,
    ` ${name}`,
    name.slice(0, -1),
    `${name}_`,
    `"${name}"`,
    name.replace(/[a-z]/, (letter) => (letter === 'a' ? 'ａ' : `${letter}\u0301`)),
  ]
  const column = random.pick(SIMPLE.columns.slice(1)).name
  const all = [
    ...near(request.table).map((table) => [`the table "${table}"`, { ...request, table }] as const),
    ...near(request.schema).map((schema) => [`the schema "${schema}"`, { ...request, schema }] as const),
    ...near(column).map((name) => [`the column "${name}"`, { ...request, columns: ['id', name] }] as const),
  ]
  return all
}
