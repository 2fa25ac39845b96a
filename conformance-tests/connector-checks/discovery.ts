/** What a source offers, and what its tables are. */
import { type DiscoveredTable, isSluiceError, type LogicalType, typeName } from '@sluice/sdk'
import { callDeadline } from '../call-deadline.ts'
import { expect, expectRefusal } from '../check.ts'
import { cellsText, indexOf, sameValue } from '../compare.ts'
import { type ConnectorContext, expectRows } from '../connector-context.ts'
import { rowsOf, SIMPLE } from '../shapes.ts'
import type { ConnectorCheck } from './check.ts'

export const discoveryChecks: readonly ConnectorCheck[] = [
  {
    id: 'C6',
    name: 'discover-deterministic-and-paged',
    level: 'core',
    async run(context) {
      const { table } = await context.filled()
      const made = [table]
      for (let count = 0; count < 6; count += 1) made.push(await context.table())
      const whole = await discovered(context, 500)
      const names = whole.map(({ schema, name }) => `${schema}.${name}`)
      expect(
        new Set(names).size === names.length && made.every(({ name }) => whole.some((one) => one.name === name)),
        () => wrongList('the list lacks a table, or has one twice', names),
      )
      for (const limit of [1, 2, 3, 500]) {
        const paged = (await discovered(context, limit)).map(({ schema, name }) => `${schema}.${name}`)
        expect(paged.join() === names.join(), () => wrongList(`in pages of ${limit} the list is another`, paged))
      }
    },
  },
  {
    id: 'C7',
    name: 'discover-only-permitted-objects',
    level: 'core',
    async run(context) {
      const { table } = await context.filled()
      const hidden = await context.table({ hidden: true })
      await context.put(hidden, rowsOf(SIMPLE, 1, 3, context.random))
      const names = (await discovered(context, 500)).map(({ name }) => name)
      expect(names.includes(table.name) && !names.includes(hidden.name), () =>
        wrongList('a table that the login may not read is listed, or one that it may is not', names),
      )
      const { connector } = await context.open()
      const outcome = await context.read(connector, hidden).catch((error: unknown) => error)
      expect(isSluiceError(outcome), () => wrongList('a table that the login may not read was read', []))
    },
  },
  {
    id: 'C8',
    name: 'schema-types-cover-records',
    level: 'core',
    async run(context) {
      const columns = [
        ...SIMPLE.columns,
        ...typesOf(context, EXTRA).map((type) => ({ name: `c_${type.replaceAll(/\W+/g, '_')}`, type, nullable: true })),
      ]
      const { table, rows } = await context.filled(30, { columns })
      const { connector } = await context.open()
      const { schema, rows: given } = await context.read(connector, table)
      const listed = (await discovered(context, 500)).find(({ name }) => name === table.name)
      for (const [index, column] of schema.columns.entries()) {
        const wanted = columns.find(({ name }) => name === column.name)
        const isSame =
          wanted?.type === column.type &&
          listed?.columns.some(({ name, type }) => name === column.name && type === column.type)
        expect(isSame === true, () => wrongSchema(`${column.name} is ${column.type} instead of ${wanted?.type}`))
        const cells = given.map((row) => row[index] ?? null)
        const isCovered =
          cells.every((cell) => cell === null || sameValue(column.type, cell, cell)) &&
          (column.nullable || !cells.includes(null))
        expect(isCovered, () =>
          wrongSchema(`${column.name} has values that ${column.type} does not hold, or a null that it must not have`),
        )
        expect(
          cells.some((cell) => cell !== null),
          () => wrongSchema(`${column.name} has no value at all`),
        )
      }
      expectRows(table, rows, given, 'every value comes as its logical type has it')
    },
  },
  {
    id: 'C9',
    name: 'primary-key-really-unique',
    level: 'core',
    async run(context) {
      const { table, rows } = await context.filled(25)
      const listed = (await discovered(context, 500)).find(({ name }) => name === table.name)
      const { connector } = await context.open()
      const given = await context.read(connector, table, {
        primaryKey: table.cursorColumn === undefined ? [] : table.primaryKey,
      })
      const key = given.schema.primaryKey
      const texts = given.rows.map((row) => cellsText(key.map((name) => row[indexOf(given.schema, name)] ?? null)))
      const isUnique = new Set(texts).size === rows.length && given.rows.length === rows.length
      const isKnown = key.join() === table.primaryKey.join() && listed?.primaryKey.join() === table.primaryKey.join()
      expect(isUnique && isKnown, () => ({
        what: isKnown
          ? `${rows.length} rows have ${new Set(texts).size} keys`
          : `the key is ${key.join() || 'none'}, discovered as ${listed?.primaryKey.join()}`,
        where: 'connector.discover and the schema of a read',
        why: 'rows are merged by it: one that is not unique loses rows',
        remedy: 'Name the primary key of the source, and nothing else.',
      }))
    },
  },
  {
    id: 'C12',
    name: 'bad-catalog-refused',
    level: 'core',
    async run(context) {
      const { table, rows } = await context.filled()
      const { connector } = await context.open()
      const wrong = {
        'a table that is not there': { ...context.request(table), table: 'no_such_table' },
        'a schema that is not there': { ...context.request(table), schema: 'no_such_schema' },
        'a column that is not there': context.request(table, { columns: ['id', 'no_such_column'] }),
        'a key that is not read': context.request(table, { columns: ['name'], primaryKey: ['id'] }),
        'a table with a quote and a semicolon': {
          ...context.request(table),
          table: `${table.name}"; drop table x; --`,
        },
      }
      for (const [tried, request] of Object.entries(wrong)) {
        const kinds = ['INVALID_DATA', 'CONFIG', 'PERMISSION'] as const
        const outcome = await Array.fromAsync(connector.read(request)).catch((error: unknown) => error)
        expect(
          kinds.some((kind) => isSluiceError(outcome, kind)),
          () => ({
            what: `reading ${tried} ended with ${isSluiceError(outcome) ? outcome.kind : Array.isArray(outcome) ? 'rows' : String(outcome)}`,
            where: 'connector.read',
            why: 'a catalog that does not fit must be told from a source that is down, and never read in part',
            remedy: 'Throw INVALID_DATA that names what is missing, before the first event.',
          }),
        )
      }
      await expectRefusal(
        {
          kind: 'INVALID_DATA',
          tried: 'a position in the list that the connector has not given',
          where: 'connector.discover',
          why: 'it would skip tables',
        },
        () => connector.discover({ after: '\0nonsense', limit: 5 }, callDeadline()),
      )
      expectRows(
        table,
        rows,
        (await context.read(connector, table)).rows,
        'a true catalog is read afterwards as before',
      )
    },
  },
  {
    id: 'C82',
    name: 'discover-pages-while-tables-come-and-go',
    level: 'core',
    async run(context) {
      for (const limit of [1, 2, 3]) await expectListedOnce(context, limit)
    },
  },
]

/** After the first page that shows some of the check's tables one of these is dropped, and another is made. */
async function expectListedOnce(context: ConnectorContext, limit: number): Promise<void> {
  const tables = []
  for (let count = 0; count < 7; count += 1) tables.push(await context.table())
  const { connector } = await context.open()
  const seen: string[] = []
  let gone: string | null = null
  let after: string | null = null
  for (let pages = 0; pages < 1000; pages += 1) {
    const page: { readonly tables: readonly DiscoveredTable[]; readonly next: string | null } =
      await connector.discover({ after, limit }, callDeadline())
    seen.push(...page.tables.map(({ name }) => name))
    after = page.next
    if (after === null) break
    const shown = tables.find(({ name }) => seen.includes(name))
    if (gone !== null || shown === undefined) continue
    gone = shown.name
    await context.fixture.drop(shown)
    await context.table()
  }
  await connector.close()
  for (const table of tables.filter(({ name }) => name === gone)) await context.fixture.create(table)
  const staying = tables.filter(({ name }) => name !== gone)
  const wrong = staying.filter(({ name }) => seen.filter((one) => one === name).length !== 1)
  expect(wrong.length === 0 && gone !== null, () =>
    wrongList(
      gone === null
        ? 'no page showed a table of the check'
        : `in pages of ${limit} a table came not once, when another was dropped between two pages`,
      wrong.map(({ name }) => name),
    ),
  )
}

/** Those of the types that the source can hold. */
export function typesOf({ fixture }: ConnectorContext, types: readonly LogicalType[]): readonly LogicalType[] {
  return types.filter((type) => fixture.types?.includes(typeName(type)) ?? true)
}

const EXTRA: readonly LogicalType[] = ['long', 'double', 'date', 'timestamp', 'uuid', 'binary', 'json', 'decimal(38,9)']

async function discovered(context: ConnectorContext, limit: number): Promise<readonly DiscoveredTable[]> {
  const { connector } = await context.open()
  const tables: DiscoveredTable[] = []
  let after: string | null = null
  for (let pages = 0; pages < 1000; pages += 1) {
    const page: { readonly tables: readonly DiscoveredTable[]; readonly next: string | null } =
      await connector.discover({ after, limit }, callDeadline())
    expect(page.tables.length <= limit, () => wrongList(`a page of ${limit} has ${page.tables.length}`, []))
    tables.push(...page.tables)
    after = page.next
    if (after === null) break
  }
  await connector.close()
  return tables
}

function wrongList(what: string, names: readonly string[]) {
  return {
    what: `${what}${names.length > 0 ? `: ${names.slice(0, 8).join(', ')}` : ''}`,
    where: 'connector.discover',
    why: 'tenants choose from it what is read: what it lacks is never found, what it has too much fails later',
    remedy: 'List what the login may read, ordered by name, going on after the last of the former page.',
  }
}

function wrongSchema(what: string) {
  return {
    what,
    where: 'connector.discover and the schema of a read',
    why: 'the lake’s table is made by it',
    remedy: 'Map each type of the source to the logical type that holds all of its values.',
  }
}
