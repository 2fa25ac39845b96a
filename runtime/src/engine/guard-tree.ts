import { notAllowed, type Source, tableNotFound } from './guard.ts'
import {
  ALLOWED_FUNCTIONS,
  ALLOWED_TABLE_FUNCTIONS,
  ALLOWED_TYPE_IDS,
  ALLOWED_TYPE_NAMES,
  ALLOWED_WINDOW_FUNCTIONS,
} from './guard-functions.ts'

/** A node of the tree that `json_serialize_sql` gives. */
export type TreeNode = Readonly<Record<string, unknown>>

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

/** CTE names that can be seen from where the walk stands. */
type Scope = ReadonlySet<string>

const TOP: Scope = new Set()

/**
 * Walks one statement's tree and throws `sql_not_allowed` or `table_not_found` at the first thing that is not on an
 * allow-list. `tables` are the names that the statement may read.
 */
export function checkTree(root: unknown, tables: readonly (readonly string[])[], source: Source): void {
  const statements = (root as TreeNode).statements
  if (!Array.isArray(statements) || statements.length !== 1) throw notAllowed('more than one statement', source, null)
  new TreeCheck(new Set(tables.map(tableKey)), source).statement(statements[0], TOP)
}

type Rule = (check: TreeCheck, value: unknown, scope: Scope, node: TreeNode) => void

/** Names, places, marks of the parser: fields that may hold anything but more of the statement. */
const any: Rule = (check, value, _scope, node) => {
  if (typeof value === 'object' && value !== null && holdsCode(value)) throw check.refused('this kind of clause', node)
}
/** A field that the walk has judged by other means. */
const judged: Rule = () => {}
const expression: Rule = (check, value, scope) => check.expression(value, scope)
const optional: Rule = (check, value, scope) => value !== null && check.expression(value, scope)
const expressions: Rule = (check, value, scope) => check.each(value, (item) => check.expression(item, scope))
const subquery: Rule = (check, value, scope) => check.statement(value, scope)
const orders: Rule = (check, value, scope) => check.orders(value, scope)
const order: Rule = (check, value, scope) => value !== null && check.modifier(value, scope)
const type: Rule = (check, value) => check.type(value)
const constant: Rule = (check, value) => check.constant(value)
const relation: Rule = (check, value, scope) => check.relation(value, scope)
const query: Rule = (check, value, scope) => check.query(value, scope)
const never: Rule = (check, value, _scope, node) => {
  if (value === null || value === '' || value === false || (Array.isArray(value) && value.length === 0)) return
  throw check.refused('this kind of clause', node)
}

type Fields = Readonly<Record<string, Rule>>

const BASE = { class: any, type: any, alias: any, query_location: any } as const

const EXPRESSIONS: Readonly<Record<string, Fields>> = {
  BETWEEN: { ...BASE, input: expression, lower: expression, upper: expression },
  CASE: { ...BASE, case_checks: (check, value, scope) => check.cases(value, scope), else_expr: expression },
  CAST: { ...BASE, child: expression, cast_type: type, try_cast: any },
  COLLATE: { ...BASE, child: expression, collation: (check, value, _scope, node) => check.collation(value, node) },
  COLUMN_REF: { ...BASE, column_names: any },
  COMPARISON: { ...BASE, left: expression, right: expression },
  CONJUNCTION: { ...BASE, children: expressions },
  CONSTANT: { ...BASE, value: constant },
  FUNCTION: {
    ...BASE,
    function_name: any,
    schema: any,
    catalog: never,
    children: expressions,
    filter: optional,
    order_bys: order,
    distinct: any,
    is_operator: any,
    export_state: never,
  },
  LAMBDA: { ...BASE, lhs: expression, expr: expression },
  OPERATOR: { ...BASE, children: expressions },
  PARAMETER: { ...BASE, identifier: any },
  POSITIONAL_REFERENCE: { ...BASE, index: any },
  STAR: {
    ...BASE,
    relation_name: any,
    exclude_list: any,
    qualified_exclude_list: any,
    rename_list: any,
    replace_list: (check, value, scope) => check.each(value, (item) => check.expression(item.value, scope)),
    columns: any,
    expr: optional,
  },
  SUBQUERY: { ...BASE, subquery_type: any, subquery, child: optional, comparison_type: any },
  WINDOW: {
    ...BASE,
    function_name: any,
    schema: any,
    catalog: never,
    children: expressions,
    partitions: expressions,
    orders,
    start: any,
    end: any,
    start_expr: optional,
    end_expr: optional,
    offset_expr: optional,
    default_expr: optional,
    ignore_nulls: any,
    filter_expr: optional,
    exclude_clause: any,
    distinct: any,
    arg_orders: orders,
  },
}

const OPERATOR_TYPES: ReadonlySet<string> = new Set([
  'OPERATOR_NOT',
  'OPERATOR_IS_NULL',
  'OPERATOR_IS_NOT_NULL',
  'OPERATOR_COALESCE',
  'OPERATOR_NULLIF',
  'OPERATOR_UNPACK',
  'OPERATOR_TRY',
  'COMPARE_IN',
  'COMPARE_NOT_IN',
  'ARRAY_EXTRACT',
  'ARRAY_SLICE',
  'STRUCT_EXTRACT',
  'ARRAY_CONSTRUCTOR',
  'GROUPING_FUNCTION',
])

const REF = {
  type: any,
  alias: any,
  query_location: any,
  sample: (check, value) => check.sample(value),
} satisfies Fields

const RELATIONS: Readonly<Record<string, Fields>> = {
  BASE_TABLE: {
    ...REF,
    schema_name: any,
    table_name: any,
    catalog_name: never,
    column_name_alias: any,
    at_clause: never,
  },
  EMPTY: REF,
  JOIN: {
    ...REF,
    left: relation,
    right: relation,
    condition: optional,
    join_type: any,
    ref_type: any,
    using_columns: any,
    delim_flipped: never,
    duplicate_eliminated_columns: never,
  },
  SUBQUERY: { ...REF, subquery, column_name_alias: any },
  TABLE_FUNCTION: { ...REF, function: expression, column_name_alias: any, with_ordinality: any },
  EXPRESSION_LIST: {
    ...REF,
    expected_names: any,
    expected_types: (check, value) => check.each(value, (item) => check.type(item)),
    values: (check, value, scope) =>
      check.each(value, (row) => check.each(row, (item) => check.expression(item, scope))),
  },
  PIVOT: {
    ...REF,
    source: relation,
    aggregates: expressions,
    unpivot_names: any,
    pivots: (check, value, scope) => check.each(value, (item) => check.pivot(item, scope)),
    groups: any,
    column_name_alias: any,
    include_nulls: any,
  },
}

const NODE = {
  type: any,
  modifiers: (check, value, scope) => check.each(value, (item) => check.modifier(item, scope)),
  // Read before the rest, because it widens the scope of the rest.
  cte_map: judged,
} satisfies Fields

const QUERIES: Readonly<Record<string, Fields>> = {
  SELECT_NODE: {
    ...NODE,
    select_list: expressions,
    from_table: relation,
    where_clause: optional,
    group_expressions: expressions,
    group_sets: any,
    aggregate_handling: any,
    having: optional,
    sample: (check, value) => check.sample(value),
    qualify: optional,
  },
  SET_OPERATION_NODE: { ...NODE, setop_type: any, setop_all: any, left: query, right: query, children: never },
}

const RECURSIVE: Fields = {
  ...NODE,
  cte_name: any,
  union_all: any,
  left: query,
  right: query,
  aliases: any,
  key_targets: expressions,
  payload_aggregates: never,
}

const MODIFIERS: Readonly<Record<string, Fields>> = {
  ORDER_MODIFIER: { type: any, orders },
  LIMIT_MODIFIER: { type: any, limit: optional, offset: optional },
  LIMIT_PERCENT_MODIFIER: { type: any, limit: optional, offset: optional },
  DISTINCT_MODIFIER: { type: any, distinct_on_targets: expressions },
}

class TreeCheck {
  readonly #tables: ReadonlySet<string>
  readonly #source: Source
  #depth = 0
  #nodes = 0

  constructor(tables: ReadonlySet<string>, source: Source) {
    this.#tables = tables
    this.#source = source
  }

  refused(construct: string, node: TreeNode | null): Error {
    const location = node?.query_location
    return notAllowed(construct, this.#source, typeof location === 'number' ? location : null)
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
    const entries: Rule = (check, items) => check.each(items, (item) => check.#fields(item, entry, scope, 'PIVOT'))
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
    if (!own || !allowed.has(foldName(name))) throw this.refused(`the function ${describe(name)}`, node)
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
    throw tableNotFound(name.join('.').slice(0, 200), this.#source, typeof location === 'number' ? location : null)
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

function holdsCode(value: object): boolean {
  if ('class' in value || 'node' in value || 'function_name' in value || 'table_name' in value) return true
  return Object.values(value).some((field) => typeof field === 'object' && field !== null && holdsCode(field))
}

/** A name from the statement, fit to be repeated in a message. */
function describe(name: unknown): string {
  return String(name).slice(0, 80)
}
