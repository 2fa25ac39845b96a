/** By which columns of its tables a statement can be made in parts, each as it is in the whole. */
import { AGGREGATE_FUNCTIONS } from './functions.ts'
import { isNone, isOfARow, onlyStatement } from './row-wise.ts'
import { isStable } from './stability.ts'
import { foldName, type TreeNode } from './tree.ts'

export interface PartTable {
  readonly name: readonly string[]
  readonly columns: readonly { readonly name: string; readonly type: string }[]
}

/** A column of a table, by the names that the job has given them. */
export interface PartColumn {
  readonly table: string
  readonly column: string
}

/** Rows of the two tables meet only where these columns are equal. */
export interface PartLink {
  readonly left: PartColumn
  readonly right: PartColumn
}

/**
 * What the statement gives of the parts of one of `drivers`, put together, is what it gives of the whole table: of any parts
 * where it groups nothing, and otherwise of parts that tear no group apart, by the `groups`, all of that table.
 */
export interface KeyedParts {
  readonly tables: readonly string[]
  readonly drivers: readonly string[]
  /** Of each table but the first, to one before it. */
  readonly links: readonly PartLink[]
  /** Null: nothing is grouped. */
  readonly groups: readonly PartColumn[] | null
}

/** What is only true of the statement where these expressions have such types. */
export interface AssumedParts {
  readonly parts: KeyedParts
  readonly values: readonly TypedValue[]
}

export interface TypedValue {
  readonly expression: TreeNode
  isAdmitted(type: string): boolean
}

const COUNTED = /^(boolean|integer|long|decimal\(.*\))$/
/** Types of which two values are equal only where they are the same: -0 is equal to 0, and a month to 30 days. */
const EXACT = /^(string|boolean|integer|long|decimal\(.*\)|date|timestamp|timestamptz|uuid|binary)$/
const ANY = /^/
/** Of groups: a collation makes one of values that are not the same, and a star may be any columns. */
const UNCLEAR: ReadonlySet<unknown> = new Set(['COLLATE', 'STAR'])

/** Aggregates that come to the same in whatever order their rows come, by the types of their values of which they do. */
const ORDERLESS: ReadonlyMap<string, RegExp> = new Map([
  ...['count', 'count_star', 'count_if', 'countif', 'bool_and', 'bool_or'].map((name) => [name, ANY] as const),
  ...['bit_and', 'bit_or', 'bit_xor', 'sum', 'avg', 'mean', 'median'].map((name) => [name, COUNTED] as const),
  ...['min', 'max'].map((name) => [name, EXACT] as const),
])

/** Of a tree that the guard has let through, over tables of one name each. Null: it is not known to come in parts. */
export function keyedParts(tree: TreeNode, tables: readonly PartTable[]): AssumedParts | null {
  const node = onlyStatement(tree)
  if (node === null || !isStable(tree)) return null
  const joined = joinedTables(node.from_table as TreeNode | null, tables)
  if (joined === null || !isOfARow(node.where_clause)) return null
  const { sources, links, lefts } = joined
  const names = sources.map(({ table }) => tableName(table))
  // A row of a table that a LEFT JOIN brings may be missing in a part and there in another: it drives none.
  const drivers = names.filter((_, at) => lefts.every((left) => left > at))
  const base = { tables: names, links }
  const isGrouped = node.aggregate_handling === 'FORCE_AGGREGATES' || !isNone(node.group_expressions)
  if (!isGrouped) {
    const isPlain = node.aggregate_handling === 'STANDARD_HANDLING' && isNone(node.group_sets) && node.having === null
    return isPlain && isOfARow(node.select_list) ? { parts: { ...base, drivers, groups: null }, values: [] } : null
  }
  const groups = groupColumns(node, sources)
  const values = groups && typedValues([node.select_list, node.having])
  if (!groups || values === null) return null
  const owner = groups[0]?.source
  if (owner === undefined || groups.some(({ source }) => source !== owner)) return null
  if (!groups.every(({ type }) => EXACT.test(type))) return null
  const table = tableName(owner.table)
  const columns = [...new Set(groups.map(({ column }) => column))].map((column) => ({ table, column }))
  return { parts: { ...base, drivers: drivers.filter((name) => name === table), groups: columns }, values }
}

interface Source {
  /** As the statement calls it. */
  readonly alias: string
  readonly table: PartTable
}

interface Joined {
  readonly sources: readonly Source[]
  readonly links: readonly PartLink[]
  /** Places in `sources` of the tables that a LEFT JOIN brings. */
  readonly lefts: readonly number[]
  /** Folded names of columns that USING has made one of. */
  readonly merged: ReadonlySet<string>
}

const tableName = ({ name }: PartTable): string => name[0] ?? ''

/** Tables one after the other, each joined to those before it by a column that equals one of theirs. */
function joinedTables(from: TreeNode | null, tables: readonly PartTable[]): Joined | null {
  if (from === null || (from.sample ?? null) !== null) return null
  if (from.type === 'BASE_TABLE') {
    const source = sourceOf(from, tables)
    return source && { sources: [source], links: [], lefts: [], merged: new Set() }
  }
  if (from.type !== 'JOIN' || from.ref_type !== 'REGULAR' || String(from.alias ?? '') !== '') return null
  const left = joinedTables(from.left as TreeNode, tables)
  const right = from.right as TreeNode
  const source = right.type === 'BASE_TABLE' && (right.sample ?? null) === null ? sourceOf(right, tables) : null
  const isLeft = from.join_type === 'LEFT'
  if (left === null || source === null || !(isLeft || from.join_type === 'INNER')) return null
  const isAgain = (one: Source) => one.table === source.table || foldName(one.alias) === foldName(source.alias)
  if (left.sources.some(isAgain) || !isOfARow(from.condition)) return null
  const using = from.using_columns as readonly string[]
  const link =
    using.length > 0 ? usedLink(using, left, source) : equalLink(from.condition as TreeNode | null, left, source)
  if (link === null) return null
  return {
    sources: [...left.sources, source],
    links: [...left.links, link],
    lefts: isLeft ? [...left.lefts, left.sources.length] : left.lefts,
    merged: new Set([...left.merged, ...using.map(foldName)]),
  }
}

function sourceOf(node: TreeNode, tables: readonly PartTable[]): Source | null {
  const name = String(node.table_name)
  const isPlain = String(node.schema_name ?? '') === '' && isNone(node.column_name_alias)
  const found = tables.filter((one) => one.name.length === 1 && foldName(tableName(one)) === foldName(name))
  const alias = String(node.alias ?? '') || name
  return isPlain && found.length === 1 ? { alias, table: found[0] as PartTable } : null
}

function usedLink(using: readonly string[], { sources, merged }: Joined, right: Source): PartLink | null {
  for (const name of using) {
    // Of a column that is one of two already: which of the two it is, is not worked out here.
    if (merged.has(foldName(name))) continue
    const link = linkOf(resolve([name], sources), resolve([name], [right]))
    if (link !== null) return link
  }
  return null
}

/** The first of the conditions, all of which must hold, that says two columns are equal. */
function equalLink(condition: TreeNode | null, { sources, merged }: Joined, right: Source): PartLink | null {
  if (condition === null) return null
  if (condition.class === 'CONJUNCTION' && condition.type === 'CONJUNCTION_AND') {
    for (const one of condition.children as readonly TreeNode[]) {
      const link = equalLink(one, { sources, merged, links: [], lefts: [] }, right)
      if (link !== null) return link
    }
    return null
  }
  if (condition.class !== 'COMPARISON' || condition.type !== 'COMPARE_EQUAL') return null
  const all = [...sources, right]
  const sides = [condition.left, condition.right].map((side) => columnOf(side as TreeNode, all, merged))
  const [one, other] = sides
  if (!one || !other) return null
  const [before, after] = one.source === right ? [other, one] : [one, other]
  return before.source !== right && after.source === right ? linkOf(before, after) : null
}

interface Found {
  readonly source: Source
  readonly column: string
  readonly type: string
}

/** Values of two types are made one to be compared, which may fail for values that the statement never compares. */
function linkOf(left: Found | null, right: Found | null): PartLink | null {
  if (left === null || right === null || left.type !== right.type) return null
  const told = ({ source, column }: Found) => ({ table: tableName(source.table), column })
  return { left: told(left), right: told(right) }
}

function columnOf(node: TreeNode, sources: readonly Source[], merged: ReadonlySet<string>): Found | null {
  if (node.class !== 'COLUMN_REF') return null
  const names = node.column_names as readonly string[]
  if (names.length === 1 && merged.has(foldName(names[0] as string))) return null
  return resolve(names, sources)
}

/** Null where the name might be of several, or of none. */
function resolve(names: readonly string[], sources: readonly Source[]): Found | null {
  const [last, owner, ...more] = [...names].reverse().map(foldName)
  if (last === undefined || more.length > 0) return null
  const among = sources.filter(({ alias }) => owner === undefined || foldName(alias) === owner)
  const found = among.flatMap((source) =>
    source.table.columns
      .filter(({ name }) => foldName(name) === last)
      .map(({ name, type }) => ({ source, column: name, type })),
  )
  return found.length === 1 ? (found[0] as Found) : null
}

/** Null where a group goes by anything but columns, or where there are several ways to group. */
function groupColumns(node: TreeNode, sources: readonly Source[]): readonly Found[] | null {
  const items = node.select_list as readonly TreeNode[]
  if (node.aggregate_handling === 'FORCE_AGGREGATES') {
    const keys = items.filter((item) => !hasAggregate(item)).map((item) => columnOf(item, sources, new Set()))
    return isNone(node.group_expressions) && keys.every((key) => key !== null) ? keys : null
  }
  const expressions = node.group_expressions as readonly TreeNode[]
  const sets = node.group_sets as readonly (readonly unknown[])[]
  if (node.aggregate_handling !== 'STANDARD_HANDLING' || sets.length !== 1 || sets[0]?.length !== expressions.length) {
    return null
  }
  const keys = expressions.map((key) => columnOf(key, sources, new Set()) ?? listedColumn(key, items, sources))
  return keys.every((key) => key !== null) ? keys : null
}

/** Of `GROUP BY 1`, or of the name that the list gives a column where no table has one of that name. */
function listedColumn(key: TreeNode, items: readonly TreeNode[], sources: readonly Source[]): Found | null {
  if (key.class === 'CONSTANT') {
    const at = Number((key.value as TreeNode).value)
    const item = Number.isSafeInteger(at) ? items[at - 1] : undefined
    return items.some(({ class: kind }) => kind === 'STAR') || item === undefined
      ? null
      : columnOf(item, sources, new Set())
  }
  const names = key.class === 'COLUMN_REF' ? (key.column_names as readonly string[]) : []
  const [name] = names
  if (name === undefined || names.length > 1 || sources.some((one) => hasColumn(one, name))) return null
  const named = items.filter((item) => foldName(String(item.alias)) === foldName(name))
  return named.length === 1 ? columnOf(named[0] as TreeNode, sources, new Set()) : null
}

const hasColumn = ({ table }: Source, name: string): boolean =>
  table.columns.some((column) => foldName(column.name) === foldName(name))

const isAggregate = (node: TreeNode): boolean =>
  node.class === 'FUNCTION' && AGGREGATE_FUNCTIONS.has(foldName(String(node.function_name)))

function hasAggregate(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  return isAggregate(value as TreeNode) || Object.values(value).some(hasAggregate)
}

/**
 * The values that the aggregates of these expressions are of; null where there is anything in them but what says of a group what
 * it says in any order of its rows.
 */
function typedValues(value: unknown): readonly TypedValue[] | null {
  if (typeof value !== 'object' || value === null) return []
  const node = value as TreeNode
  if (isAggregate(node)) return ofAggregate(node)
  if (UNCLEAR.has(node.class)) return null
  const found: TypedValue[] = []
  for (const inner of Object.values(node)) {
    const values = typedValues(inner)
    if (values === null) return null
    found.push(...values)
  }
  return isOfARow(node, 'without what lies in it') ? found : null
}

function ofAggregate(node: TreeNode): readonly TypedValue[] | null {
  const children = node.children as readonly TreeNode[]
  const types = ORDERLESS.get(foldName(String(node.function_name)))
  const isOrdered = !isNone((node.order_bys as TreeNode | null)?.orders ?? [])
  if (types === undefined || isOrdered || children.length > 1 || String(node.schema ?? '') !== '') return null
  const within = [children, node.filter ?? null]
  if (!isOfARow(within) || holdsAny(within, UNCLEAR)) return null
  return children.map((expression) => ({ expression, isAdmitted: (type) => types.test(type) }))
}

function holdsAny(value: unknown, classes: ReadonlySet<unknown>): boolean {
  if (typeof value !== 'object' || value === null) return false
  return classes.has((value as TreeNode).class) || Object.values(value).some((inner) => holdsAny(inner, classes))
}
