import { AGGREGATE_FUNCTIONS, ORDERED_AGGREGATES } from '../guard/functions.ts'
import { foldName, type TreeNode } from '../guard/tree.ts'
import {
  bothRows,
  type ComparableColumn,
  columnKey,
  everyRow,
  type Field,
  type LineageTable,
  type Named,
  NO_ROWS,
  NONE,
  type Relation,
  type RowSources,
  renamed,
  type SourceColumn,
  type Sources,
  surely,
  tableRelation,
  toColumn,
  toColumns,
  told,
  union,
  unknownColumns,
  withoutKeys,
} from './relation.ts'

export type { ComparableColumn, LineageTable, SourceColumn } from './relation.ts'

/**
 * Which columns of the base tables an output column is made of. Where the tree does not say it for certain, the answer
 * is too large and never too small: a name that could mean several columns means them all.
 */

export interface ColumnLineage {
  readonly name: string
  /** Columns whose values the output's values are computed from. */
  readonly direct: readonly SourceColumn[]
  /** Columns that decide which rows there are, in which order and in which group: filters, joins, keys, limits. */
  readonly influence: readonly SourceColumn[]
  /** Comparable columns by which the rows are grouped: to who is shown which of those are equal they tell no more. */
  readonly grouped: readonly SourceColumn[]
  /** The column whose values the output's are, unchanged; null where they are not all of one. */
  readonly copied: SourceColumn | null
}

interface Place {
  readonly ctes: ReadonlyMap<string, Relation>
  /** Relations in sight: of this query and of those around it. */
  readonly inSight: readonly Named[]
  /** How many of them, the first ones, are of this query; none is told from the others where it is not said. */
  readonly own?: number
}

/** Nested recursive queries are worked out again and again; past this the answer is everything. */
const MAX_VISITS = 10_000

/** Written like a column, and one where there is none of that name. */
const CONSTANT_NAMES: ReadonlySet<string> = new Set([
  ...['current_date', 'current_time', 'current_timestamp', 'localtime', 'localtimestamp'],
  ...['current_user', 'current_role', 'session_user', 'user', 'current_schema', 'current_catalog'],
])

/**
 * The lineage of each output column of a guarded SELECT, in order; `columns` are the output's as the engine names
 * them. Of comparable columns, three uses are left out of it: whether a value is none, joins by `=` with another one
 * of the same `as`, and (in `grouped`) GROUP BY.
 */
export function columnLineage(
  tree: TreeNode,
  tables: readonly LineageTable[],
  columns: readonly { readonly name: string }[],
  comparable: readonly ComparableColumn[] = [],
): readonly ColumnLineage[] {
  const statement = (tree.statements as readonly TreeNode[])[0] as TreeNode
  const walk = new LineageWalk(tables, comparable)
  const { fields, all, rows } = walk.query(statement.node as TreeNode, { ctes: new Map(), inSight: [] })
  const matched =
    fields?.length === columns.length &&
    fields.every(({ name }, index) => name === '' || foldName(name) === foldName(columns[index]?.name ?? ''))
  return columns.map(({ name }, index) => {
    const field = matched ? fields?.[index] : undefined
    return {
      name,
      direct: toColumns(field?.sources ?? all),
      influence: toColumns(rows.sure),
      grouped: toColumns(rows.grouped),
      copied: field?.copied === undefined ? null : toColumn(field.copied),
    }
  })
}

class LineageWalk {
  readonly #tables: readonly (LineageTable & { readonly relation: Relation })[]
  /** By the key of a column, to what its values may be held. */
  readonly #comparable: ReadonlyMap<string, string>
  #visits = 0

  constructor(tables: readonly LineageTable[], comparable: readonly ComparableColumn[]) {
    this.#tables = tables.map((table) => ({ ...table, relation: tableRelation(table) }))
    this.#comparable = new Map(comparable.map(({ table, column, as }) => [columnKey(table, column), as]))
  }

  query(node: TreeNode, outer: Place): Relation {
    if (++this.#visits > MAX_VISITS) return this.#everything()
    const place = this.#withCtes(node, outer)
    if (node.type === 'SELECT_NODE') return this.#select(node, place)
    if (node.type !== 'SET_OPERATION_NODE') return this.#everything()
    const result = this.#setOperation(node, place)
    return { ...result, rows: bothRows(result.rows, this.#modifiers(node, result, place)) }
  }

  #withCtes(node: TreeNode, outer: Place): Place {
    const ctes = new Map(outer.ctes)
    for (const { key, value } of (node.cte_map as { map: readonly { key: string; value: TreeNode }[] }).map) {
      const inner = (value.query as TreeNode).node as TreeNode
      const place = { ctes: new Map(ctes), inSight: outer.inSight }
      const isRecursive = inner.type === 'RECURSIVE_CTE_NODE'
      const relation = isRecursive ? this.#recursive(key, inner, place) : this.query(inner, place)
      const aliases = (value.aliases as readonly string[]).length > 0 ? value.aliases : inner.aliases
      ctes.set(foldName(key), told(renamed(relation, (aliases ?? []) as readonly string[])))
    }
    return { ctes, inSight: outer.inSight }
  }

  /** Every turn may carry a value from any column into any other, so the whole is one pot. */
  #recursive(name: string, node: TreeNode, place: Place): Relation {
    const start = this.query(node.left as TreeNode, place)
    const aliases = (node.aliases ?? []) as readonly string[]
    const names = start.fields?.map((field, index) => aliases[index] ?? field.name) ?? null
    let pot = union(start.all, everyRow(start.rows))
    for (;;) {
      const fields = names?.map((each) => ({ name: each, sources: pot })) ?? null
      const seen = { fields, all: pot, rows: surely(pot) }
      const ctes = new Map(place.ctes).set(foldName(name), told(seen))
      const step = this.query(node.right as TreeNode, { ...place, ctes })
      const grown = union(pot, step.all, everyRow(step.rows))
      if (grown.size === pot.size) return seen
      pot = grown
    }
  }

  #setOperation(node: TreeNode, place: Place): Relation {
    const left = this.query(node.left as TreeNode, place)
    const right = this.query(node.right as TreeNode, place)
    const isUnion = String(node.setop_type).startsWith('UNION')
    const all = union(left.all, right.all)
    // Only UNION ALL leaves every row as it is; the others compare whole rows.
    const rows = bothRows(left.rows, right.rows, surely(isUnion && node.setop_all === true ? NONE : all))
    if (node.setop_type === 'UNION_BY_NAME' || !left.fields || left.fields.length !== right.fields?.length) {
      return { fields: this.#byName(left, right), all, rows }
    }
    const fields = left.fields.map((field, index) => {
      const other = isUnion ? right.fields?.[index] : field
      const copied = field.copied === other?.copied ? field.copied : undefined
      return { name: field.name, sources: union(field.sources, other?.sources), copied }
    })
    return { fields, all, rows }
  }

  #byName(left: Relation, right: Relation): readonly Field[] | null {
    if (!left.fields || !right.fields) return null
    const merged = new Map<string, Field>()
    for (const field of [...left.fields, ...right.fields]) {
      const key = foldName(field.name)
      const known = merged.get(key)
      merged.set(key, known ? { name: known.name, sources: union(known.sources, field.sources) } : field)
    }
    return [...merged.values()]
  }

  #select(node: TreeNode, place: Place): Relation {
    const from = this.#from(node.from_table as TreeNode, place)
    const inner = within({ ctes: place.ctes, inSight: place.inSight, own: 0 }, from.named)
    const list = node.select_list as readonly TreeNode[]
    const { fields, all: listed, plain } = this.#selectList(list, from.named, inner)
    // Names of the list can be used in the other clauses; whoever does so means what the list means.
    const aliases: Named = { names: [], relation: { fields: namedOnly(fields, list), all: listed, rows: NO_ROWS } }
    const wide = within(inner, [aliases])
    const groupAll = node.aggregate_handling === 'FORCE_AGGREGATES'
    const rows = bothRows(
      from.rows,
      node.where_clause === null ? NO_ROWS : this.#condition(node.where_clause as TreeNode, wide),
      ...(node.group_expressions as readonly TreeNode[]).map((key) => this.#groupKey(key, fields, listed, wide)),
      ...(groupAll ? (plain?.map((field) => this.#group(field.copied, field.sources)) ?? [surely(listed)]) : []),
      // Windows leave their mark on the order of rows, too; what becomes several rows on their number.
      surely(this.#sourcesOf([node.having, node.qualify, nodesIn(list, marksRows)], wide)),
    )
    const clauses = [list, node.having, node.qualify, node.modifiers]
    const asksPlace = node.sample !== null || nodesIn(clauses, asksForPlace).length > 0
    const result = { fields, all: listed, rows: asksPlace ? placed(rows) : rows }
    return { ...result, rows: bothRows(result.rows, this.#modifiers(node, result, wide)) }
  }

  /** A number means a column of the list. */
  #groupKey(key: TreeNode, fields: readonly Field[] | null, listed: Sources, place: Place): RowSources {
    if (key.class === 'COLUMN_REF') {
      const copied = this.#copied(key.column_names as readonly string[], place)
      return this.#group(copied, this.#sourcesOf(key, place))
    }
    if (key.class !== 'CONSTANT') return surely(this.#sourcesOf(key, place))
    const field = fields?.[Number((key.value as TreeNode).value) - 1]
    return field ? this.#group(field.copied, field.sources) : surely(listed)
  }

  #group(copied: string | undefined, sources: Sources): RowSources {
    if (copied === undefined || !this.#comparable.has(copied)) return surely(sources)
    const grouped = new Set([copied])
    return { sure: NONE, grouped, order: grouped }
  }

  /** What decides by a condition of rows: all that it names, but for joins by `=` of columns that may be compared. */
  #condition(node: TreeNode, place: Place): RowSources {
    if (node.type === 'CONJUNCTION_AND') {
      return bothRows(...(node.children as readonly TreeNode[]).map((part) => this.#condition(part, place)))
    }
    if (node.type === 'COMPARE_EQUAL') {
      const order = this.#compared(this.#copiedBy(node.left, place), this.#copiedBy(node.right, place))
      if (order !== null) return { ...NO_ROWS, order }
    }
    if (node.type === 'OPERATOR_NOT') {
      const [child] = node.children as readonly TreeNode[]
      if (child?.class === 'SUBQUERY') return this.#condition(child, place)
    }
    return (node.class === 'SUBQUERY' && this.#joined(node, place)) || surely(this.#sourcesOf(node, place))
  }

  /** `EXISTS (…)`, and `a IN (SELECT b …)` of two that may be compared; null otherwise. */
  #joined(node: TreeNode, place: Place): RowSources | null {
    const isMember = node.subquery_type === 'ANY' && node.comparison_type === 'COMPARE_EQUAL'
    if (node.subquery_type !== 'EXISTS' && !isMember) return null
    const { fields, rows } = this.query((node.subquery as TreeNode).node as TreeNode, place)
    if (!isMember) return { ...rows, sure: union(rows.sure, rows.grouped), grouped: NONE }
    const [field, ...others] = fields ?? []
    if (field === undefined || others.length > 0) return null
    const order = this.#compared(this.#copiedBy(node.child, place), field.copied)
    return order === null ? null : { sure: union(rows.sure, rows.grouped), grouped: NONE, order }
  }

  #compared(left: string | undefined, right: string | undefined): Sources | null {
    if (left === undefined || right === undefined) return null
    const as = this.#comparable.get(left)
    return as !== undefined && as === this.#comparable.get(right) ? new Set([left, right]) : null
  }

  #copiedBy(node: unknown, place: Place): string | undefined {
    const { class: kind, column_names: names } = (node ?? {}) as TreeNode
    return kind === 'COLUMN_REF' ? this.#copied(names as readonly string[], place) : undefined
  }

  /** The one column that a name means for sure, and whose values it therefore stands for. */
  #copied(parts: readonly string[], place: Place): string | undefined {
    const { inSight, own = inSight.length } = place
    const inner = copiesNamed(parts, inSight.slice(0, own))
    const found = inner === null || inner.size > 0 ? inner : copiesNamed(parts, inSight.slice(own))
    return found?.size === 1 ? [...found][0] : undefined
  }

  /** Later items may name earlier ones. `plain` are the columns that no aggregate makes. */
  #selectList(
    list: readonly TreeNode[],
    from: readonly Named[],
    place: Place,
  ): Pick<Relation, 'fields' | 'all'> & { readonly plain: readonly Field[] | null } {
    const fields: Field[] = []
    const plain: Field[] = []
    let known = true
    for (const item of list) {
      const earlier: Named = { names: [], relation: { fields: [...fields], all: NONE, rows: NO_ROWS } }
      const wide = within(place, [earlier])
      const expanded = item.class === 'STAR' ? this.#star(item, from, wide) : null
      known &&= expanded !== null || !this.#makesColumns(item)
      const sources = () => this.#sourcesOf(item, wide)
      const made = expanded ?? [{ name: outputName(item), sources: sources(), copied: this.#copiedBy(item, wide) }]
      fields.push(...made)
      if (nodesIn(item, isAggregate).length === 0) plain.push(...made)
    }
    const all = union(...fields.map((field) => field.sources))
    return { fields: known ? fields : null, all, plain: known ? plain : null }
  }

  /** True for expressions that become several columns: COLUMNS(…) anywhere, unnest of a struct. */
  #makesColumns(node: unknown): boolean {
    if (Array.isArray(node)) return node.some((item) => this.#makesColumns(item))
    if (typeof node !== 'object' || node === null) return false
    const { class: kind, function_name: name } = node as TreeNode
    if (kind === 'STAR' || (kind === 'FUNCTION' && foldName(String(name)) === 'unnest')) return true
    if (kind === 'SUBQUERY') return false
    return Object.values(node).some((field) => this.#makesColumns(field))
  }

  /** The columns of `*` or `t.*`; null where they cannot be told. */
  #star(node: TreeNode, from: readonly Named[], place: Place): readonly Field[] | null {
    const special = [node.qualified_exclude_list, node.rename_list].some((list) => (list as unknown[]).length > 0)
    if (node.columns === true || node.expr !== null || special) return null
    const wanted = foldName(String(node.relation_name))
    const matching = wanted === '' ? from : from.filter(({ names }) => foldName(names.at(-1) ?? '') === wanted)
    if (matching.length === 0 || matching.some(({ relation }) => !relation.fields)) return null
    const excluded = new Set((node.exclude_list as readonly string[]).map(foldName))
    const replaced = new Map(
      (node.replace_list as readonly { key: string; value: TreeNode }[]).map(({ key, value }) => [
        foldName(key),
        value,
      ]),
    )
    return matching
      .flatMap(({ relation }) => relation.fields ?? [])
      .filter((field) => !excluded.has(foldName(field.name)))
      .map((field) => {
        const replacement = replaced.get(foldName(field.name))
        return replacement ? { name: field.name, sources: this.#sourcesOf(replacement, place) } : field
      })
  }

  #from(node: TreeNode, place: Place): From {
    if (node.type === 'EMPTY') return { named: [], rows: NO_ROWS }
    const from = node.type === 'JOIN' ? this.#join(node, place) : this.#source(node, place)
    return node.sample === null ? from : { ...from, rows: placed(from.rows) }
  }

  #source(node: TreeNode, place: Place): From {
    const relation = this.#relation(node, place)
    return { named: [{ names: relationNames(node), relation }], rows: relation.rows }
  }

  #join(node: TreeNode, place: Place): From {
    const left = this.#from(node.left as TreeNode, place)
    const beside = within({ ...place, own: 0 }, left.named)
    const right = this.#from(node.right as TreeNode, beside)
    const sides = [...left.named, ...right.named]
    const inSight = within({ ...place, own: 0 }, sides)
    const isPlain = node.ref_type === 'REGULAR'
    const keys = (node.using_columns as readonly string[]).map((name) => {
      const order = isPlain ? this.#compared(copiedAs(name, left.named), copiedAs(name, right.named)) : null
      return order === null ? surely(this.#named([name], inSight)) : { ...NO_ROWS, order }
    })
    const natural = node.ref_type === 'NATURAL' ? sides.map(({ relation }) => relation.all) : []
    const condition = node.condition === null ? NO_ROWS : this.#condition(node.condition as TreeNode, inSight)
    const all = bothRows(left.rows, right.rows, condition, ...keys, surely(...natural))
    const rows = node.ref_type === 'ASOF' ? placed(all) : all
    // USING and NATURAL give one column for two, in an order of their own: which, is not worked out here.
    const merges = (node.using_columns as unknown[]).length > 0 || node.ref_type === 'NATURAL'
    const onlyLeft = node.join_type === 'SEMI' || node.join_type === 'ANTI'
    if (onlyLeft) return { named: left.named, rows }
    return { named: merges ? mergedNames(left.named, right.named, node, inSight, this) : sides, rows }
  }

  /** For USING: the sources of a key are those of both sides. */
  keySources(name: string, place: Place): Sources {
    return this.#named([name], place)
  }

  #relation(node: TreeNode, place: Place): Relation {
    const aliases = (node.column_name_alias ?? []) as readonly string[]
    switch (node.type) {
      case 'BASE_TABLE':
        return told(renamed(this.#table(node, place), aliases))
      case 'SUBQUERY':
        return told(renamed(this.query((node.subquery as TreeNode).node as TreeNode, place), aliases))
      case 'EXPRESSION_LIST':
        return told(this.#values(node, place))
      case 'TABLE_FUNCTION': {
        const all = this.#sourcesOf((node.function as TreeNode).children, place)
        return { fields: null, all, rows: surely(all) }
      }
      default: {
        const source = node.source ? this.#from(node.source as TreeNode, place) : { named: [], rows: NO_ROWS }
        const inner = within({ ...place, own: 0 }, source.named)
        const used = this.#sourcesOf([node.aggregates, node.pivots], inner)
        const all = union(used, ...source.named.map(({ relation }) => relation.all))
        return { fields: null, all, rows: surely(all, everyRow(source.rows)) }
      }
    }
  }

  #table(node: TreeNode, place: Place): Relation {
    const schema = String(node.schema_name)
    const table = foldName(String(node.table_name))
    const cte = schema === '' ? place.ctes.get(table) : undefined
    if (cte) return cte
    const parts = schema === '' ? [table] : [foldName(schema), table]
    const found = this.#tables.find(
      ({ name }) => name.length === parts.length && name.map(foldName).join('\0') === parts.join('\0'),
    )
    return found?.relation ?? this.#everything()
  }

  #values(node: TreeNode, place: Place): Relation {
    const rows = node.values as readonly (readonly TreeNode[])[]
    const fields = (rows[0] ?? []).map((_cell, index) => ({
      name: (node.expected_names as readonly string[])[index] ?? `col${index}`,
      sources: this.#sourcesOf(
        rows.map((row) => row[index]),
        place,
      ),
    }))
    return { fields, all: union(...fields.map((field) => field.sources)), rows: NO_ROWS }
  }

  /** ORDER BY, DISTINCT, LIMIT: they see the output's columns by name and by number, and what the list could see. */
  #modifiers(node: TreeNode, result: Relation, place: Place): RowSources {
    const inSight = within(place, [{ names: [], relation: result }])
    const sources = (node.modifiers as readonly TreeNode[]).map((modifier) => {
      const { type, ...fields } = modifier
      const own = this.#sourcesOf(Object.values(fields), inSight)
      if (String(type).startsWith('LIMIT')) return union(own, result.rows.order)
      if (type !== 'ORDER_MODIFIER') return union(own, result.all, result.rows.order)
      const isNumbered = (modifier.orders as readonly TreeNode[]).some((each) => !isNamed(each.expression as TreeNode))
      return isNumbered ? union(own, result.all) : own
    })
    return surely(...sources)
  }

  /** Everything that any column named in the expression may come from, subqueries included. */
  #sourcesOf(node: unknown, place: Place): Sources {
    if (typeof node !== 'object' || node === null) return NONE
    if (Array.isArray(node)) return union(...node.map((item) => this.#sourcesOf(item, place)))
    const { class: kind } = node as TreeNode
    if (kind === 'COLUMN_REF') return this.#named((node as TreeNode).column_names as readonly string[], place)
    if (kind === 'STAR' || kind === 'POSITIONAL_REFERENCE') {
      return union(...place.inSight.map(({ relation }) => relation.all), this.#sourcesOf(Object.values(node), place))
    }
    if (kind === 'LAMBDA') return this.#lambda(node as TreeNode, place)
    if (this.#isComparedToNull(node as TreeNode, place)) return NONE
    if (kind !== 'SUBQUERY') return union(...Object.values(node).map((field) => this.#sourcesOf(field, place)))
    const { subquery, ...rest } = node as TreeNode
    const inner = this.query((subquery as TreeNode).node as TreeNode, place)
    return union(inner.all, everyRow(inner.rows), this.#sourcesOf(Object.values(rest), place))
  }

  #isComparedToNull({ type, children }: TreeNode, place: Place): boolean {
    if (type !== 'OPERATOR_IS_NULL' && type !== 'OPERATOR_IS_NOT_NULL') return false
    return this.#comparable.has(this.#copiedBy((children as readonly TreeNode[])[0], place) ?? '')
  }

  /** Its parameters are of the list that stands beside it. `a -> 'b'` may also be an operator upon a column. */
  #lambda(node: TreeNode, place: Place): Sources {
    const fields = columnRefsIn(node.lhs).map((parts) => ({ name: parts.at(-1) ?? '', sources: NONE }))
    const parameters: Named = { names: [], relation: { fields, all: NONE, rows: NO_ROWS } }
    const inner = within(place, [parameters])
    return union(...Object.values(node).map((field) => this.#sourcesOf(field, inner)))
  }

  /**
   * All columns in sight that the parts of a dotted name could mean: `a`, `t.a`, `s.t.a`, or a member of one. All there
   * are, where it could mean none: the engine knows it by a name that is not known here.
   */
  #named(parts: readonly string[], place: Place): Sources {
    const folded = new Set(parts.map(foldName))
    const found = new Set<string>()
    let isKnown = parts.length === 1 && CONSTANT_NAMES.has([...folded][0] ?? '')
    for (const { names, relation } of place.inSight) {
      const fields = relation.fields?.filter((field) => folded.has(foldName(field.name)))
      // A relation whose columns cannot be told, or a whole row by its table's name.
      const isWhole = !fields || isRow(folded, names)
      for (const source of isWhole ? relation.all : NONE) found.add(source)
      for (const field of fields ?? []) for (const source of field.sources) found.add(source)
      isKnown ||= isWhole || fields.length > 0
    }
    return isKnown ? found : union(...place.inSight.map(({ relation }) => relation.all))
  }

  #everything(): Relation {
    const all = union(...this.#tables.map(({ relation }) => relation.all))
    return { fields: null, all, rows: surely(all) }
  }
}

/** With relations of its own more. */
function within(place: Place, named: readonly Named[]): Place {
  const { inSight, own } = place
  return { ...place, inSight: [...named, ...inSight], ...(own === undefined ? {} : { own: own + named.length }) }
}

/** What the columns are copies of that a name could mean; null where it could mean anything. */
function copiesNamed(parts: readonly string[], named: readonly Named[]): ReadonlySet<string | undefined> | null {
  const [first = '', second] = parts.map(foldName)
  if (parts.length > 2 || named.some(({ relation }) => relation.fields === null)) return null
  const found = new Set<string | undefined>()
  for (const { names, relation } of named) {
    for (const field of relation.fields ?? []) {
      const name = foldName(field.name)
      // A member of the column, or the column of a table of that name.
      if (second !== undefined && name === first) return null
      const isMeant = second === undefined ? name === first : name === second && foldName(names.at(-1) ?? '') === first
      if (isMeant) found.add(field.copied)
    }
  }
  return found
}

interface From {
  readonly named: readonly Named[]
  readonly rows: RowSources
}

/** Rows of which some are chosen by their place. */
function placed(rows: RowSources): RowSources {
  return { ...rows, sure: union(rows.sure, rows.order) }
}

/** What the one column of that name is a copy of. */
function copiedAs(name: string, named: readonly Named[]): string | undefined {
  if (named.some(({ relation }) => relation.fields === null)) return undefined
  const found = named.flatMap(({ relation }) =>
    (relation.fields ?? []).filter((field) => foldName(field.name) === foldName(name)),
  )
  return found.length === 1 ? found[0]?.copied : undefined
}

function mergedNames(
  left: readonly Named[],
  right: readonly Named[],
  node: TreeNode,
  place: Place,
  walk: LineageWalk,
): readonly Named[] {
  const keys = new Set((node.using_columns as readonly string[]).map(foldName))
  if (node.ref_type === 'NATURAL') return unknownColumns([...left, ...right])
  // Of other joins the key may be the right side's.
  const isKept = node.join_type === 'INNER' || node.join_type === 'LEFT'
  const widened = left.map((named) => ({ ...named, relation: widenKeys(named.relation, keys, isKept, place, walk) }))
  const narrowed = right.map((named) => ({ ...named, relation: withoutKeys(named.relation, keys) }))
  return [...widened, ...narrowed]
}

const UNLIKE = { copied: undefined } as const

function widenKeys(
  relation: Relation,
  keys: ReadonlySet<string>,
  isKept: boolean,
  place: Place,
  walk: LineageWalk,
): Relation {
  if (!relation.fields) return relation
  const fields = relation.fields.map((field) =>
    keys.has(foldName(field.name))
      ? { ...field, sources: union(field.sources, walk.keySources(field.name, place)), ...(isKept ? {} : UNLIKE) }
      : field,
  )
  return { ...relation, fields, all: union(relation.all, ...fields.map((field) => field.sources)) }
}

function relationNames(node: TreeNode): readonly string[] {
  if (node.alias !== '' && node.alias !== undefined) return [String(node.alias)]
  if (node.type !== 'BASE_TABLE') return []
  return [String(node.schema_name), String(node.table_name)].filter((name) => name !== '')
}

/** By its own name, or by the one that the engine gives to subqueries without an alias: `unnamed_subquery2`. */
function isRow(parts: ReadonlySet<string>, names: readonly string[]): boolean {
  if (names.length === 0) return [...parts].every((part) => /^unnamed_subquery\d*$/.test(part))
  const known = new Set(names.map(foldName))
  return [...parts].every((part) => known.has(part))
}

function columnRefsIn(node: unknown): readonly (readonly string[])[] {
  if (typeof node !== 'object' || node === null) return []
  const { class: kind, column_names: names } = node as TreeNode
  return kind === 'COLUMN_REF' ? [names as readonly string[]] : Object.values(node).flatMap(columnRefsIn)
}

/** The outermost nodes of a kind, those of inner queries left out. */
function nodesIn(node: unknown, isWanted: (node: TreeNode) => boolean): readonly TreeNode[] {
  if (typeof node !== 'object' || node === null) return []
  if (isWanted(node as TreeNode)) return [node as TreeNode]
  return (node as TreeNode).class === 'SUBQUERY' ? [] : Object.values(node).flatMap((one) => nodesIn(one, isWanted))
}

const SEVERAL_ROWS: ReadonlySet<string> = new Set(['unnest', 'generate_subscripts'])

/** What is seen on other columns of its row, or on how many rows there are. */
function marksRows(node: TreeNode): boolean {
  return node.class === 'WINDOW' || (node.class === 'FUNCTION' && SEVERAL_ROWS.has(functionName(node)))
}

/** What depends on the order in which rows come. */
function asksForPlace(node: TreeNode): boolean {
  return node.class === 'WINDOW' || (node.class === 'FUNCTION' && ORDERED_AGGREGATES.has(functionName(node)))
}

function isAggregate(node: TreeNode): boolean {
  return node.class === 'FUNCTION' && AGGREGATE_FUNCTIONS.has(functionName(node))
}

function functionName(node: TreeNode): string {
  return foldName(String(node.function_name))
}

/** Not by its number, nor as one of all. */
function isNamed(expression: TreeNode): boolean {
  return expression.class !== 'CONSTANT' && expression.class !== 'STAR'
}

function outputName(item: TreeNode): string {
  if (item.alias !== '') return String(item.alias)
  return item.class === 'COLUMN_REF' ? String((item.column_names as readonly string[]).at(-1)) : ''
}

/** The items of a select list that other clauses can call by a name. */
function namedOnly(fields: readonly Field[] | null, list: readonly TreeNode[]): readonly Field[] | null {
  if (fields) return fields.filter((field) => field.name !== '')
  return list.every((item) => item.alias === '') ? [] : null
}
