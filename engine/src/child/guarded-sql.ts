import type { DuckDBConnection } from '@duckdb/node-api'
import { checkSqlText, SluiceError, type SqlSource, sqlNotAllowed, sqlSyntaxError, type Value } from '@sluice/sdk'
import { MACRO_NAMES, makeMacros } from '../dialect/macros.ts'
import { columnNames } from '../dialect/names.ts'
import { fromPostgresql } from '../dialect/postgresql.ts'
import { columnTypes, type KnownParts } from '../dialect/rewriting.ts'
import { fromDriver } from '../driver-error.ts'
import { innerName, leadInside } from '../guard/information-schema.ts'
import { checkTree, type TreeNode } from '../guard/tree.ts'
import { parseTree, writeTree } from '../guard/tree-text.ts'
import type { EngineTable, Within } from '../job.ts'
import { prepare } from './duckdb.ts'

export interface GuardedSql {
  /** What runs: the checked tree as text again, never the tenant's own text. */
  readonly sql: string
  readonly tree: TreeNode
  /** In PostgreSQL's dialect: what its columns are called there; null where a star stands. */
  readonly names?: readonly (string | null)[]
}

type Tables = readonly (readonly string[])[]

/** One read-only statement over the tables. */
export async function guardStatement(connection: DuckDBConnection, text: string, tables: Tables): Promise<GuardedSql> {
  return await guard(connection, text, { text, leadBytes: 0 }, tables)
}

/** The same of one in PostgreSQL's dialect; formats of functions may be among the values of its parameters. */
export async function guardPostgresql(
  connection: DuckDBConnection,
  text: string,
  tables: readonly Pick<EngineTable, 'name' | 'columns'>[],
  parameters: readonly Value[],
): Promise<GuardedSql> {
  const names = tables.map(({ name }) => name)
  return await guard(connection, text, { text, leadBytes: 0 }, names, { parameters, types: columnTypes(tables) })
}

/** A text between two of ours. It is judged alone first, so that nothing in it ends what is put around it. */
export async function guardWithin(
  connection: DuckDBConnection,
  text: string,
  { before, after, as }: Within,
  tables: Tables,
): Promise<GuardedSql> {
  const { sql } = await (as === 'query' ? guardStatement(connection, text, tables) : guardExpression(connection, text))
  return await guardStatement(connection, `${before}${sql}${after}`, tables)
}

const PREFIX = 'SELECT '

/** One expression without tables of its own, as in a WHERE clause. Gives the expression's text, in brackets. */
export async function guardExpression(connection: DuckDBConnection, text: string): Promise<GuardedSql> {
  const source = { text, leadBytes: PREFIX.length }
  const guarded = await guard(connection, `${PREFIX}${text}`, source, [])
  if (!isLoneExpression(guarded.tree) || !guarded.sql.startsWith(PREFIX)) {
    throw sqlNotAllowed('anything but one expression here', source, null)
  }
  return { sql: `(${guarded.sql.slice(PREFIX.length)})`, tree: guarded.tree }
}

const NO_FUNCTIONS: ReadonlySet<string> = new Set()

async function guard(
  connection: DuckDBConnection,
  sql: string,
  source: SqlSource,
  tables: Tables,
  postgresql: KnownParts | null = null,
): Promise<GuardedSql> {
  checkSqlText(source)
  const written = await parse(connection, sql, source)
  const read = (parsed: TreeNode) => (postgresql === null ? parsed : fromPostgresql(parsed, source, postgresql))
  const tree = read(written)
  const also = postgresql === null ? NO_FUNCTIONS : MACRO_NAMES
  checkTree(tree, tables, source, also)
  const hasInner = tables.some((name) => innerName(name) !== name)
  const running = hasInner ? read(await parse(connection, sql, source)) : tree
  if (hasInner) leadInside(running)
  if (postgresql !== null) await makeMacros(connection, tree)
  const text = await textOf(connection, running)
  // The text that will run is judged too, in case writing the tree down again changed what it says.
  checkTree(await parse(connection, text, source), hasInner ? tables.map(innerName) : tables, source, also)
  return { sql: text, tree, ...(postgresql === null ? {} : { names: columnNames(written) }) }
}

/** The tree as a statement again. */
export async function textOf(connection: DuckDBConnection, tree: TreeNode): Promise<string> {
  return await scalar(connection, 'SELECT json_deserialize_sql($1::JSON)', writeTree(tree))
}

/** True where the statement is nothing but `SELECT <one expression>`: no clause has been smuggled in behind it. */
function isLoneExpression(tree: TreeNode): boolean {
  const statement = (tree.statements as readonly TreeNode[])[0] as TreeNode
  const node = statement.node as TreeNode
  if (node.type !== 'SELECT_NODE') return false
  const list = node.select_list as readonly TreeNode[]
  const lone = list.length === 1 && list[0]?.class !== 'STAR' && list[0]?.alias === ''
  const bare = (node.from_table as TreeNode).type === 'EMPTY'
  const empty = ['modifiers', 'group_expressions', 'group_sets'].every((name) => (node[name] as unknown[]).length === 0)
  const absent = ['where_clause', 'having', 'sample', 'qualify'].every((name) => node[name] === null)
  const ctes = ((node.cte_map as TreeNode).map as unknown[]).length === 0
  return lone && bare && empty && absent && ctes
}

/** The parser's own words. Nothing of the statement is wrong but how much stands within, or behind, each other. */
const TOO_DEEP = /^Max expression depth limit of \d+ exceeded/

async function parse(connection: DuckDBConnection, sql: string, source: SqlSource): Promise<TreeNode> {
  const tree = parseTree(await scalar(connection, 'SELECT json_serialize_sql($1::VARCHAR)::VARCHAR', sql))
  if (tree.error === false) return tree
  if (tree.error_type !== 'parser') throw sqlNotAllowed('anything but SELECT', source, null)
  const message = String(tree.error_message)
  if (TOO_DEEP.test(message)) throw tooDeep()
  const near = /^syntax error at or near "(.*)"$/s.exec(message)?.[1] ?? null
  const location = Number(tree.position)
  throw sqlSyntaxError(source, Number.isSafeInteger(location) ? location : null, near)
}

async function scalar(connection: DuckDBConnection, query: string, sql: string): Promise<string> {
  try {
    const statement = await prepare(connection, query, [sql])
    const rows = await (await statement.run()).getRows()
    return String(rows[0]?.[0])
  } catch (error) {
    throw fromDriver(error, sql)
  }
}

/** A list of operators, joins or tables nests too: `1 + 1 + 1` is `(1 + 1) + 1`. */
function tooDeep(): SluiceError {
  return new SluiceError('INVALID_DATA', 'the statement has more than 1,000 parts within each other', {
    code: 'sql_syntax_error',
    remedy: 'Write long lists as IN (…) or VALUES, and name parts of it in WITH.',
  })
}
