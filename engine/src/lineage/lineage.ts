/**
 * Which columns of the base tables an output column is made of. Where the tree does not say it for certain, the answer
 * is too large and never too small. One walk over a statement, clause by clause: what names mean is in
 * `names-in-sight.ts`, what a relation is in `relation.ts`.
 */
import { foldName, type TreeNode } from '../guard/tree.ts'
import { copiedAs, copiedBy, copiedColumn, meantBy, mergedNames, type Place, within } from './names-in-sight.ts'
import {
  bothRows,
  type ComparableColumn,
  columnKey,
  everyRow,
  type Field,
  fieldsByName,
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
} from './relation.ts'
import {
  asksForPlace,
  columnRefsIn,
  isAggregate,
  isNamed,
  makesColumns,
  marksRows,
  namedOnly,
  nodesIn,
  outputName,
  relationNames,
} from './tree-parts.ts'

export type { ComparableColumn, LineageTable, SourceColumn } from './relation.ts'

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

/** Nested recursive queries are worked out again and again; past this the answer is everything. */
const MAX_VISITS = 10_000

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
      return { fields: fieldsByName(left, right), all, rows }
    }
    const fields = left.fields.map((field, index) => {
      const other = isUnion ? right.fields?.[index] : field
      const copied = field.copied === other?.copied ? field.copied : undefined
      return { name: field.name, sources: union(field.sources, other?.sources), copied }
    })
    return { fields, all, rows }
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
      const copied = copiedColumn(key.column_names as readonly string[], place)
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
      const order = this.#compared(copiedBy(node.left, place), copiedBy(node.right, place))
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
    const order = this.#compared(copiedBy(node.child, place), field.copied)
    return order === null ? null : { sure: union(rows.sure, rows.grouped), grouped: NONE, order }
  }

  #compared(left: string | undefined, right: string | undefined): Sources | null {
    if (left === undefined || right === undefined) return null
    const as = this.#comparable.get(left)
    return as !== undefined && as === this.#comparable.get(right) ? new Set([left, right]) : null
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
      known &&= expanded !== null || !makesColumns(item)
      const sources = () => this.#sourcesOf(item, wide)
      const made = expanded ?? [{ name: outputName(item), sources: sources(), copied: copiedBy(item, wide) }]
      fields.push(...made)
      if (nodesIn(item, isAggregate).length === 0) plain.push(...made)
    }
    const all = union(...fields.map((field) => field.sources))
    return { fields: known ? fields : null, all, plain: known ? plain : null }
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
      return order === null ? surely(meantBy([name], inSight)) : { ...NO_ROWS, order }
    })
    const natural = node.ref_type === 'NATURAL' ? sides.map(({ relation }) => relation.all) : []
    const condition = node.condition === null ? NO_ROWS : this.#condition(node.condition as TreeNode, inSight)
    const all = bothRows(left.rows, right.rows, condition, ...keys, surely(...natural))
    const rows = node.ref_type === 'ASOF' ? placed(all) : all
    // USING and NATURAL give one column for two, in an order of their own: which, is not worked out here.
    const merges = (node.using_columns as unknown[]).length > 0 || node.ref_type === 'NATURAL'
    const onlyLeft = node.join_type === 'SEMI' || node.join_type === 'ANTI'
    if (onlyLeft) return { named: left.named, rows }
    return { named: merges ? mergedNames(left.named, right.named, node, inSight) : sides, rows }
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
    if (kind === 'COLUMN_REF') return meantBy((node as TreeNode).column_names as readonly string[], place)
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
    return this.#comparable.has(copiedBy((children as readonly TreeNode[])[0], place) ?? '')
  }

  /** Its parameters are of the list that stands beside it. `a -> 'b'` may also be an operator upon a column. */
  #lambda(node: TreeNode, place: Place): Sources {
    const fields = columnRefsIn(node.lhs).map((parts) => ({ name: parts.at(-1) ?? '', sources: NONE }))
    const parameters: Named = { names: [], relation: { fields, all: NONE, rows: NO_ROWS } }
    const inner = within(place, [parameters])
    return union(...Object.values(node).map((field) => this.#sourcesOf(field, inner)))
  }

  #everything(): Relation {
    const all = union(...this.#tables.map(({ relation }) => relation.all))
    return { fields: null, all, rows: surely(all) }
  }
}

interface From {
  readonly named: readonly Named[]
  readonly rows: RowSources
}

/** Rows of which some are chosen by their place. */
function placed(rows: RowSources): RowSources {
  return { ...rows, sure: union(rows.sure, rows.order) }
}
