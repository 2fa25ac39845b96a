/**
 * Other people's engines read what Sluice wrote: every table of a random lake, at every snapshot, and by filters that
 * their statistics and partitions answer. All are held against a model that shares no code with the lake.
 * `SLUICE_TEST_SEED` repeats a run.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, test } from 'node:test'
import { readScans } from '@sluice/iceberg/testing'
import { LOCAL_FILES, restCatalog, sqlCatalog, withCatalog } from '../trino/catalogs.ts'
import { trinoRows } from '../trino/rows.ts'
import { type Cell, cellOf, numberOf } from './cells.ts'
import { type Question, undecided } from './filters.ts'
import { type GeneratedTable, generateLake } from './generated-lake.ts'
import { KEY, type TableState } from './history.ts'
import { type ServedLake, startServedLake } from './served-lake.ts'
import { condition, duckdb, quoted, trinoCell, trinoQuestions } from './sql.ts'

const TENANT = 'readers'
const seed = Number(process.env['SLUICE_TEST_SEED'] ?? Date.now() % 1_000_000)

let lake: ServedLake
let tables: readonly GeneratedTable[]

before(async () => {
  console.log(`seed ${seed}`)
  lake = await startServedLake(TENANT)
  tables = await generateLake(lake, TENANT, seed)
})
after(() => lake?.[Symbol.asyncDispose]())

test('Sluice reads its own tables as the model has them', async () => {
  for (const table of tables) {
    const scans = await Promise.all(table.snapshots.map(({ id }) => lake.lake.scan(table.ref, { snapshotId: id })))
    const found = await readScans(lake, scans)
    for (const [at, { id, state }] of table.snapshots.entries()) {
      const types = state.columns.map(({ type }) => type)
      const rows = (found[at] ?? []).map((row) => row.map((value, column) => cellOf(value, types[column] ?? 'string')))
      assertRows(rows, state, `${table.title}, snapshot ${id}`)
    }
  }
})

type Reader = 'static' | 'sql' | 'rest' | 'duckdb' | 'duckdb-rest'

const READERS: Readonly<Record<Reader, string>> = {
  static: 'PyIceberg',
  sql: 'PyIceberg’s SQL catalog',
  rest: 'PyIceberg, over REST',
  duckdb: 'DuckDB’s iceberg extension',
  'duckdb-rest': 'DuckDB’s iceberg extension, over REST',
}

for (const [reader, name] of Object.entries(READERS) as [Reader, string][]) {
  test(`${name} reads every snapshot`, async () => {
    const jobs = tables.flatMap((table) =>
      table.snapshots.map(({ id, state }) => ({ ...jobOf(reader, table), snapshot: id, columns: state.columns })),
    )
    const answers = await python(jobs)
    const expected = tables.flatMap((table) => table.snapshots.map(({ id, state }) => ({ table, id, state })))
    for (const [at, { table, id, state }] of expected.entries()) {
      const where = `${table.title}, snapshot ${id}`
      assertRows(rowsOf(answers[at], where), state, where)
    }
  })

  // Which files a filter needs is each engine's own affair, whatever catalog has led it to the table.
  if (reader !== 'static' && reader !== 'duckdb') continue
  test(`${name} finds by filters what is there`, async () => {
    const answersRightly = reader === 'duckdb' ? isAnsweredByDuckDb : isAnsweredByPyIceberg
    const asked = tables.map((table) => ({
      ...table,
      questions: table.questions.filter((question) => answersRightly(table, question)),
    }))
    const answers = await python(
      asked.map((table) => ({
        ...jobOf(reader, table),
        questions: table.questions.map((question) => ({ ...question, sql: condition(question, duckdb) })),
      })),
    )
    for (const [at, table] of asked.entries()) assertAnswers(answers[at]?.answers, table, answers[at]?.error)
  })
}

const trino = { url: process.env['SLUICE_TEST_TRINO_URL'] as string }

test('Trino, over the SQL catalog, reads every snapshot, and finds by filters what is there', async () => {
  const { host, port, database, user, password } = lake.registry
  const properties = sqlCatalog({
    ...{ user, password, name: `lakehouse_${TENANT}`, warehouse: lake.store.uri(`sluice-${TENANT}`) },
    url: `jdbc:postgresql://${host}:${port}/${database}`,
  })
  await withCatalog(trino, 'over_sql', properties, async () => {
    await assertTrinoReads('over_sql')
    for (const table of tables) {
      const questions = table.questions.filter((question) => isAnsweredByTrino(table, question))
      const rows = (await trinoRows(trino, trinoQuestions(questions, trinoName('over_sql', table)))) as [
        number,
        number,
      ][]
      const answers = questions.map((_, at) =>
        rows.flatMap(([question, key]) => (question === at ? [key] : [])).sort((left, right) => left - right),
      )
      assertAnswers(answers, { ...table, questions })
    }
  })
})

test('Trino, over REST, reads every snapshot', async () => {
  await withCatalog(trino, 'over_rest', { ...LOCAL_FILES, ...restCatalog(lake.url, TENANT, lake.token) }, () =>
    assertTrinoReads('over_rest'),
  )
})

async function assertTrinoReads(catalog: string): Promise<void> {
  for (const table of tables) {
    for (const { id, state } of table.snapshots) {
      const cells = state.columns.map(trinoCell).join(', ')
      const where = `${table.title}, snapshot ${id}`
      const sql = `SELECT ${cells} FROM ${trinoName(catalog, table)} FOR VERSION AS OF ${id}`
      const rows = await trinoRows(trino, sql).catch((error) => assert.fail(`${where}: ${error}`))
      assertRows(rows as readonly (readonly Cell[])[], state, where)
    }
  }
}

const trinoName = (catalog: string, { ref }: GeneratedTable): string =>
  `${catalog}.${ref.namespace}.${quoted(ref.table)}`

/**
 * DuckDB 1.5.5 takes other bytes for the value that it truncates where a partition is of a decimal, which often ends in
 * an internal error, and looks into the wrong bucket of a uuid; PyIceberg and Trino find those rows.
 */
function isAnsweredByDuckDb({ title }: GeneratedTable, { type, column }: Question): boolean {
  const isPartitionedBy = (transform: string) => new RegExp(`${transform}\\[\\d+\\]\\(${column}\\)`).test(title)
  if (type === 'uuid') return !isPartitionedBy('bucket')
  return !(type.startsWith('decimal') && isPartitionedBy('truncate'))
}

/**
 * Trino takes the statistics of a file that has floats where the table has doubles by now for corrupted:
 * https://github.com/trinodb/trino/issues/30544
 */
function isAnsweredByTrino(table: GeneratedTable, { column }: Question): boolean {
  return !formerTypes(table, column).includes('float')
}

/** The types that a column of the newest snapshot has had before it was widened. */
function formerTypes({ snapshots }: GeneratedTable, column: string): readonly string[] {
  const columns = snapshots.at(-1)?.state.columns ?? []
  const now = columns.find(({ name }) => name === column)
  const types = snapshots.flatMap(({ state }) =>
    state.columns.filter(({ id }) => id === now?.id).map(({ type }) => type),
  )
  return types.filter((type) => type !== now?.type)
}

/**
 * PyIceberg 0.12 takes a value beyond the type that a file has the column in, because the column was widened since, for
 * the type's last value, or the comparison for one that holds always, also for nulls. Only `=` comes out right. It looks
 * for the months and years before the first moment that Python has, and ends in "date value out of range". A list of
 * decimals is of the precision of whichever comes first, and others do not fit: "precision inferred from first array element".
 */
function isAnsweredByPyIceberg(table: GeneratedTable, { column, type, operator, values }: Question): boolean {
  if (operator === 'eq') return true
  const precisions = new Set(values.map((value) => String(value).replace(/\D/g, '').replace(/^0+/, '').length))
  if (operator === 'in' && type.startsWith('decimal') && precisions.size > 1) return false
  const isFirst = (value: unknown): boolean => /^0001-01-01(T00:00:00(\.0+)?Z?)?$/.test(String(value))
  const hasMonthsOrYears = table.title.includes(`month(${column})`) || table.title.includes(`year(${column})`)
  if (operator === 'lt' && hasMonthsOrYears && values.some(isFirst)) return false
  const types = formerTypes(table, column)
  return values.every((value) => {
    if (types.includes('integer')) return Math.abs(Number(value)) < 2 ** 31
    return !types.includes('float') || Math.abs(numberOf(value)) <= LARGEST_FLOAT
  })
}

const LARGEST_FLOAT = 3.4028234663852886e38

interface Answer {
  readonly rows?: readonly (readonly Cell[])[]
  readonly answers?: readonly (readonly number[])[]
  readonly error?: string
}

function jobOf(reader: string, { ref, metadataUri }: GeneratedTable) {
  return { reader, table: [ref.namespace, ref.table], metadata: metadataUri, key: KEY }
}

function rowsOf(answer: Answer | undefined, where: string): readonly (readonly Cell[])[] {
  assert.equal(answer?.error, undefined, where)
  return answer?.rows ?? []
}

function assertRows(rows: readonly (readonly Cell[])[], { columns, rows: model }: TableState, where: string): void {
  const expected = model.map((row) => columns.map(({ id }) => row.get(id) ?? null))
  assert.deepEqual(byKey(rows, columns), byKey(expected, columns), where)
}

/** By key, and with the names, so that a difference can be read. */
function byKey(rows: readonly (readonly Cell[])[], columns: TableState['columns']): readonly Record<string, Cell>[] {
  const named = rows.map((row) => Object.fromEntries(columns.map(({ name }, at) => [name, row[at] as Cell])))
  return named.sort((left, right) => Number(left[KEY]) - Number(right[KEY]))
}

function assertAnswers(
  answers: readonly (readonly number[])[] | undefined,
  { questions, snapshots, title }: GeneratedTable,
  error?: string,
): void {
  assert.equal(error, undefined, title)
  assert.equal(answers?.length, questions.length)
  const state = snapshots.at(-1)?.state as TableState
  for (const [at, question] of questions.entries()) {
    const ignored = undecided(state, question)
    const { operator, column, type, values, expected } = question
    const decided = (keys: readonly number[] = []) => keys.filter((key) => !ignored.has(key))
    assert.deepEqual(
      decided(answers?.[at]),
      decided(expected),
      `${title}: ${column} (${type}) ${operator} ${values.join(', ')}`,
    )
  }
}

/** The answers of one Python process, in the order of the jobs. */
async function python(jobs: readonly object[]): Promise<readonly Answer[]> {
  const { host, port, user, password, database } = lake.registry
  const uri = `postgresql+psycopg2://${user}:${password}@${host}:${port}/${database}`
  const catalogs = {
    sql: { name: `lakehouse_${TENANT}`, type: 'sql', uri, init_catalog_tables: 'false' },
    rest: { name: 'rest', type: 'rest', uri: `${lake.url}/iceberg`, warehouse: TENANT, token: lake.token },
  }
  const child = spawn(process.env['SLUICE_TEST_ICEBERG_PYTHON'] as string, [join(import.meta.dirname, 'read.py')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve))
  child.stdin.end(JSON.stringify({ catalogs, jobs }))
  const answers: Answer[] = []
  for await (const line of createInterface({ input: child.stdout })) answers.push(JSON.parse(line) as Answer)
  assert.equal(await ended, 0, 'Python ended well')
  return answers
}
