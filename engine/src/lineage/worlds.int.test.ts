/** Whatever is not said to depend on what is hidden is the same in worlds that differ in nothing else. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { Seeded } from '../../../test/crash/seeded.ts'
import { prepare } from '../child/duckdb.ts'
import { guardStatement } from '../child/guarded-sql.ts'
import { type ColumnLineage, columnLineage, type SourceColumn } from './lineage.ts'
import { BASES, RandomQuery } from './random-query.fixture.ts'
import { columnKey } from './relation.ts'
import { isPseudonym, isSecret, openWorlds, PSEUDONYMS, type World } from './worlds.fixture.ts'

/** More where somebody asks for them: `SLUICE_TEST_QUERIES=100000`. */
const QUERIES = Number(process.env['SLUICE_TEST_QUERIES'] ?? 400)
const SEED = Number(process.env['SLUICE_TEST_SEED'] ?? 1)
const QUERIES_PER_PAIR = 200

const TABLES = Object.entries(BASES).map(([name, columns]) => ({
  name: [name],
  columns: Object.keys(columns).map((column) => ({ name: column })),
}))

const keyOf = ({ table, column }: SourceColumn) => columnKey(table, column)

it(`shows no difference of worlds in ${QUERIES} queries (seed ${SEED})`, async () => {
  const random = new Seeded(SEED)
  const queries = new RandomQuery(random)
  let judged = 0
  let open = 0
  while (judged < QUERIES) {
    const worlds = await openWorlds(random)
    for (let at = 0; at < QUERIES_PER_PAIR; at++) {
      const sql = queries.statement()
      const found = await compare(worlds, sql)
      if (found === null) continue
      judged += 1
      open += found.shown.length > 0 ? 1 : 0
      assert.deepEqual(found.second, found.first, `columns ${found.shown.join(', ')} of ${sql}`)
    }
    for (const { connection } of worlds) connection.closeSync()
  }
  // A lineage that hides everything would hold, too.
  assert.ok(open > QUERIES / 6, `only ${open} of ${judged} queries show anything`)
})

interface Compared {
  readonly shown: readonly string[]
  readonly first: readonly string[]
  readonly second: readonly string[]
}

/** The rows of the columns that are not said to be hidden, in both worlds; null where the query cannot run. */
async function compare([first, second]: readonly [World, World], sql: string): Promise<Compared | null> {
  const before = await rowsOf(first, sql)
  const after = await rowsOf(second, sql)
  if (before === null || after === null) return null
  const { tree } = await guardStatement(
    first.connection,
    sql,
    TABLES.map(({ name }) => name),
  )
  const columns = before.names.map((name) => ({ name }))
  const lineage = columnLineage(tree, TABLES, columns, PSEUDONYMS)
  const carried = new Set(lineage.flatMap(({ copied }) => (copied === null ? [] : [keyOf(copied)])))
  const shown = lineage.flatMap((column, index) => (isShown(column, carried) ? [index] : []))
  const project = (world: World, rows: readonly (readonly unknown[])[]) =>
    rows.map((row) => JSON.stringify(shown.map((index) => shownAs(world, lineage[index], row[index])))).sort()
  return {
    shown: shown.map((index) => before.names[index] ?? ''),
    first: shown.length === 0 ? [] : project(first, before.rows),
    second: shown.length === 0 ? [] : project(second, after.rows),
  }
}

/** In clear, or as a pseudonym of its own. */
function isShown({ direct, influence, grouped, copied }: ColumnLineage, carried: ReadonlySet<string>): boolean {
  const isHidden = (source: SourceColumn) => isSecret(keyOf(source)) || isPseudonym(keyOf(source))
  const ofPseudonyms = copied !== null && isPseudonym(keyOf(copied)) && direct.every((one) => isPseudonym(keyOf(one)))
  const isOpen = ofPseudonyms || !direct.some(isHidden)
  return isOpen && !influence.some(isHidden) && grouped.every((source) => carried.has(keyOf(source)))
}

function shownAs(world: World, lineage: ColumnLineage | undefined, value: unknown): unknown {
  return lineage?.copied && isPseudonym(keyOf(lineage.copied)) ? world.person(value) : value
}

async function rowsOf({ connection }: World, sql: string) {
  try {
    const result = await (await prepare(connection, sql, [])).run()
    return { names: result.columnNames(), rows: (await result.getRowsJson()) as readonly (readonly unknown[])[] }
  } catch {
    return null
  }
}
