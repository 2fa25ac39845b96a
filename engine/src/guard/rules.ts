/**
 * The constructs that a tenant's statement may hold, by class and by field. A class or a field that is not here is
 * refused.
 */

/** A node of the tree that `json_serialize_sql` gives. */
export type TreeNode = Readonly<Record<string, unknown>>

/** CTE names that can be seen from where the walk stands. */
export type Scope = ReadonlySet<string>

/** What the rules ask of the walk. */
export interface Judge {
  refused(construct: string, node: TreeNode | null): Error
  each(value: unknown, visit: (item: TreeNode) => void): void
  statement(value: unknown, scope: Scope): void
  query(value: unknown, scope: Scope): void
  expression(value: unknown, scope: Scope): void
  relation(value: unknown, scope: Scope): void
  modifier(value: unknown, scope: Scope): void
  orders(value: unknown, scope: Scope): void
  cases(value: unknown, scope: Scope): void
  pivot(value: TreeNode, scope: Scope): void
  sample(value: unknown): void
  constant(value: unknown): void
  collation(value: unknown, node: TreeNode): void
  type(value: unknown): void
}

export type Rule = (check: Judge, value: unknown, scope: Scope, node: TreeNode) => void

/** Names, places, marks of the parser: fields that may hold anything but more of the statement. */
export const any: Rule = (check, value, _scope, node) => {
  if (typeof value === 'object' && value !== null && holdsCode(value)) throw check.refused('this kind of clause', node)
}
/** A field that the walk has judged by other means. */
export const judged: Rule = () => {}
export const expression: Rule = (check, value, scope) => check.expression(value, scope)
export const optional: Rule = (check, value, scope) => value !== null && check.expression(value, scope)
export const expressions: Rule = (check, value, scope) => check.each(value, (item) => check.expression(item, scope))
const subquery: Rule = (check, value, scope) => check.statement(value, scope)
const orders: Rule = (check, value, scope) => check.orders(value, scope)
const order: Rule = (check, value, scope) => value !== null && check.modifier(value, scope)
const type: Rule = (check, value) => check.type(value)
export const constant: Rule = (check, value) => check.constant(value)
const relation: Rule = (check, value, scope) => check.relation(value, scope)
export const query: Rule = (check, value, scope) => check.query(value, scope)
export const never: Rule = (check, value, _scope, node) => {
  if (value === null || value === '' || value === false || (Array.isArray(value) && value.length === 0)) return
  throw check.refused('this kind of clause', node)
}

export type Fields = Readonly<Record<string, Rule>>

const BASE = { class: any, type: any, alias: any, query_location: any } as const

export const EXPRESSIONS: Readonly<Record<string, Fields>> = {
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

export const OPERATOR_TYPES: ReadonlySet<string> = new Set([
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

/** Without POSITIONAL, of which DuckDB dies where its sides are queries, and whose rows meet by chance. */
const JOIN_TYPES: ReadonlySet<string> = new Set(['REGULAR', 'NATURAL', 'CROSS', 'ASOF'])

export const RELATIONS: Readonly<Record<string, Fields>> = {
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
    ref_type: (check, value, _scope, node) => {
      if (!JOIN_TYPES.has(String(value))) throw check.refused(`a ${String(value)} JOIN`, node)
    },
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

export const QUERIES: Readonly<Record<string, Fields>> = {
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

export const RECURSIVE: Fields = {
  ...NODE,
  cte_name: any,
  union_all: any,
  left: query,
  right: query,
  aliases: any,
  key_targets: expressions,
  payload_aggregates: never,
}

export const MODIFIERS: Readonly<Record<string, Fields>> = {
  ORDER_MODIFIER: { type: any, orders },
  LIMIT_MODIFIER: { type: any, limit: optional, offset: optional },
  LIMIT_PERCENT_MODIFIER: { type: any, limit: optional, offset: optional },
  DISTINCT_MODIFIER: { type: any, distinct_on_targets: expressions },
}

export function holdsCode(value: object): boolean {
  if ('class' in value || 'node' in value || 'function_name' in value || 'table_name' in value) return true
  return Object.values(value).some((field) => typeof field === 'object' && field !== null && holdsCode(field))
}
