/**
 * The guard: what a tenant's statement must be before the engine sees it. It judges the tree that DuckDB's own parser
 * makes, by allow-lists; what is not named is refused.
 */
import { SluiceError, type SqlSource, sqlNotAllowed, sqlTableNotFound } from '@sluice/sdk'
import {
  any,
  constant,
  EXPRESSIONS,
  expression,
  expressions,
  type Fields,
  holdsCode,
  type Judge,
  judged,
  MODIFIERS,
  never,
  OPERATOR_TYPES,
  optional,
  QUERIES,
  query,
  RECURSIVE,
  RELATIONS,
  type Rule,
  type Scope,
  type TreeNode,
} from './rules.ts'

export type { TreeNode } from './rules.ts'

import {
  ALLOWED_FUNCTIONS,
  ALLOWED_TABLE_FUNCTIONS,
  ALLOWED_TYPE_IDS,
  ALLOWED_TYPE_NAMES,
  ALLOWED_WINDOW_FUNCTIONS,
} from './functions.ts'

/** DuckDB folds names by ASCII alone: to it `K` (Kelvin) is not `k`. */
export function foldName(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => letter.toLowerCase())
}

export function tableKey(parts: readonly string[]): string {
  return JSON.stringify(parts.map(foldName))
}

const MAX_DEPTH = 1000
const MAX_NODES = 50_000

/** A CTE that could be mistaken for a file or for one of DuckDB's own tables is refused, however it is scoped. */
const PLAIN_CTE_NAME = /^(?!duckdb_|pg_|sqlite_|pragma_|information_schema)[^./\\:*?[\]{}()'"\p{Cc}]+$/iu

const TOP: Scope = new Set()

/**
 * Walks one statement's tree and throws `sql_not_allowed` or `table_not_found` at the first thing that is not on an
 * allow-list. `tables` are the names that the statement may read, `also` functions that stand on no list.
 */
export function checkTree(
  root: unknown,
  tables: readonly (readonly string[])[],
  source: SqlSource,
  also: ReadonlySet<string> = new Set(),
): void {
  const statements = (root as TreeNode).statements
  if (!Array.isArray(statements) || statements.length === 0) throw noStatement()
  if (statements.length !== 1) throw sqlNotAllowed('more than one statement', source, null)
  new TreeCheck(new Set(tables.map(tableKey)), source, also).statement(statements[0], TOP)
}

/** Blanks, comments and semicolons alone. */
function noStatement(): SluiceError {
  return new SluiceError('INVALID_DATA', 'there is no statement in the text', {
    code: 'sql_not_allowed',
    remedy: 'Send one SELECT.',
  })
}

class TreeCheck implements Judge {
  readonly #tables: ReadonlySet<string>
  readonly #source: SqlSource
  readonly #also: ReadonlySet<string>
  #depth = 0
  #nodes = 0

  constructor(tables: ReadonlySet<string>, source: SqlSource, also: ReadonlySet<string>) {
    this.#tables = tables
    this.#source = source
    this.#also = also
  }

  refused(construct: string, node: TreeNode | null): Error {
    const location = node?.query_location
    return sqlNotAllowed(construct, this.#source, typeof location === 'number' ? location : null)
  }

  each(value: unknown, visit: (item: TreeNode) => void): void {
    if (!Array.isArray(value)) throw this.refused('an unknown construct', null)
    for (const item of value) visit(item as TreeNode)
  }

  statement(value: unknown, scope: Scope): void {
    const statement = this.#object(value)
    this.#fields(statement, { node: query, named_param_map: any }, scope, 'statement')
  }

  query(value: unknown, scope: Scope): void {
    const node = this.#object(value)
    const fields = QUERIES[String(node.type)]
    if (!fields) throw this.refused(`a query of kind ${describe(node.type)}`, node)
    this.#fields(node, fields, this.#withCtes(node, scope), 'query')
  }

  /** Each CTE sees those before it, a recursive one also itself; the query sees them all. */
  #withCtes(node: TreeNode, scope: Scope): Scope {
    let visible = scope
    const map = this.#object(node.cte_map)
    this.each(map.map, (entry) => {
      const name = String(entry.key)
      if (!PLAIN_CTE_NAME.test(name)) throw this.refused('a WITH query of that name', null)
      const cte = this.#object(entry.value)
      const inner = this.#object(this.#object(cte.query).node)
      const widened: Scope = new Set([...visible, foldName(name)])
      if (inner.type === 'RECURSIVE_CTE_NODE') this.#recursive(inner, visible, widened)
      else this.statement(cte.query, visible)
      const rest: Fields = { aliases: any, query: judged, materialized: any, key_targets: expressions }
      this.#fields(cte, rest, widened, 'WITH query')
      visible = widened
    })
    return visible
  }

  #recursive(node: TreeNode, outside: Scope, inside: Scope): void {
    const { left, right, ...rest } = RECURSIVE
    const outer = this.#withCtes(node, outside)
    const inner = this.#withCtes(node, inside)
    this.#fields(node, { ...rest, left: query, right: judged }, outer, 'recursive query')
    if (left && right) this.query(node.right, inner)
  }

  expression(value: unknown, scope: Scope): void {
    const node = this.#object(value)
    const name = String(node.class)
    const fields = EXPRESSIONS[name]
    if (!fields) throw this.refused(`an expression of kind ${describe(name)}`, node)
    if (name === 'FUNCTION') this.#functionName(node, ALLOWED_FUNCTIONS)
    if (name === 'WINDOW') this.#functionName(node, ALLOWED_WINDOW_FUNCTIONS)
    if (name === 'OPERATOR' && !OPERATOR_TYPES.has(String(node.type))) {
      throw this.refused(`the operator ${describe(node.type)}`, node)
    }
    this.#fields(node, fields, scope, 'expression')
  }

  relation(value: unknown, scope: Scope): void {
    const node = this.#object(value)
    const name = String(node.type)
    const fields = RELATIONS[name]
    if (!fields) throw this.refused(`a source of rows of kind ${describe(name)}`, node)
    if (name === 'TABLE_FUNCTION') {
      this.#tableFunction(node, scope)
      return
    }
    this.#fields(node, fields, scope, 'source of rows')
    if (name === 'BASE_TABLE') this.#table(node, scope)
  }

  modifier(value: unknown, scope: Scope): void {
    const node = this.#object(value)
    const fields = MODIFIERS[String(node.type)]
    if (!fields) throw this.refused(`a clause of kind ${describe(node.type)}`, null)
    this.#fields(node, fields, scope, 'clause')
  }

  orders(value: unknown, scope: Scope): void {
    this.each(value, (item) => this.#fields(item, { type: any, null_order: any, expression }, scope, 'order'))
  }

  cases(value: unknown, scope: Scope): void {
    this.each(value, (item) => this.#fields(item, { when_expr: expression, then_expr: expression }, scope, 'CASE'))
  }

  pivot(value: TreeNode, scope: Scope): void {
    const values: Rule = (check, items) => check.each(items, (item) => check.constant(item))
    const entry: Fields = { values, star_expr: optional, alias: any }
    const entries: Rule = (check, items) => check.each(items, (item) => this.#fields(item, entry, scope, 'PIVOT'))
    const fields = { pivot_expressions: expressions, unpivot_names: any, entries, pivot_enum: never, subquery: never }
    this.#fields(value, fields, scope, 'PIVOT')
  }

  sample(value: unknown): void {
    if (value === null) return
    this.#fields(
      value,
      { sample_size: constant, is_percentage: any, method: any, seed: any, repeatable: any },
      TOP,
      'sample',
    )
  }

  constant(value: unknown): void {
    const { type: valueType, is_null, value: plain, ...rest } = this.#object(value)
    const isCode = typeof plain === 'object' && plain !== null && holdsCode(plain)
    if (typeof is_null !== 'boolean' || isCode || Object.keys(rest).length > 0)
      throw this.refused('a constant of that kind', null)
    this.type(valueType)
  }

  collation(value: unknown, node: TreeNode): void {
    if (!/^[a-z_]+(\.[a-z_]+)*$/i.test(String(value))) throw this.refused('a collation of that name', node)
  }

  type(value: unknown): void {
    const { id, type_info: info, ...rest } = this.#object(value)
    if (Object.keys(rest).length > 0 || (info && holdsCode(info))) throw this.refused('this kind of type', null)
    if (id === 'UNBOUND') {
      this.#unboundType(this.#object(info))
      return
    }
    if (!ALLOWED_TYPE_IDS.has(String(id))) throw this.refused(`the type ${describe(id)}`, null)
    if (info === null) return
    const { alias, extension_info } = this.#object(info)
    // An alias makes another type of it: GEOMETRY is a BLOB with a name.
    if (alias !== '' || extension_info !== null) throw this.refused(`the type ${describe(alias)}`, null)
    this.#typeInfo(this.#object(info))
  }

  #typeInfo(info: TreeNode): void {
    if ('child_type' in info) this.type(info.child_type)
    if ('child_types' in info) this.each(info.child_types, (child) => this.type(child.second))
  }

  #unboundType(info: TreeNode): void {
    const plain = info.catalog === '' && info.schema === '' && info.extension_info === null
    if (!plain || !ALLOWED_TYPE_NAMES.has(foldName(String(info.name)))) {
      throw this.refused(`the type ${describe(info.name)}`, null)
    }
    this.each(info.user_type_modifiers, (modifier) => this.constant(modifier))
  }

  #functionName(node: TreeNode, allowed: ReadonlySet<string>): void {
    const name = String(node.function_name)
    const own = node.schema === '' || node.schema === 'main'
    if (own && (allowed.has(foldName(name)) || this.#isOurs(node, name))) return
    throw this.refused(`the function ${describe(name)}`, node)
  }

  /** What a rewriting of ours has put there, which no statement of a tenant's may have called. */
  #isOurs(node: TreeNode, name: string): boolean {
    return node.class === 'FUNCTION' && this.#also.has(name)
  }

  #tableFunction(node: TreeNode, scope: Scope): void {
    const call = this.#object(node.function)
    const name = String(call.function_name)
    const plain = call.class === 'FUNCTION' && (call.schema === '' || call.schema === 'main')
    if (!plain || !ALLOWED_TABLE_FUNCTIONS.has(foldName(name))) {
      throw this.refused(`the table function ${describe(name)}`, node)
    }
    this.#fields(node, RELATIONS.TABLE_FUNCTION ?? {}, scope, 'table function')
  }

  #table(node: TreeNode, scope: Scope): void {
    const schema = String(node.schema_name)
    const table = String(node.table_name)
    if (schema === '' && scope.has(foldName(table))) return
    const name = schema === '' ? [table] : [schema, table]
    if (this.#tables.has(tableKey(name))) return
    const location = node.query_location
    throw sqlTableNotFound(name.join('.').slice(0, 200), this.#source, typeof location === 'number' ? location : null)
  }

  #object(value: unknown): TreeNode {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw this.refused('an unknown construct', null)
    }
    return value as TreeNode
  }

  /** Applies a rule to every field; a field without a rule is a construct that nobody has judged yet. */
  #fields(value: unknown, fields: Fields, scope: Scope, what: string): void {
    const node = this.#object(value)
    if (++this.#nodes > MAX_NODES || this.#depth >= MAX_DEPTH) throw this.refused('so many nested parts', node)
    this.#depth++
    for (const [name, field] of Object.entries(node)) {
      const rule = Object.hasOwn(fields, name) ? fields[name] : undefined
      if (!rule) throw this.refused(`this kind of ${what}`, node)
      rule(this, field, scope, node)
    }
    this.#depth--
  }
}

/** A name from the statement, fit to be repeated in a message. */
function describe(name: unknown): string {
  return String(name).slice(0, 80)
}
