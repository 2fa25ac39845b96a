import { foldName, type TreeNode } from './guard-tree.ts'
import {
  type Field,
  type LineageTable,
  type Named,
  NONE,
  type Relation,
  renamed,
  type SourceColumn,
  type Sources,
  tableRelation,
  toColumns,
  told,
  union,
  unknownColumns,
  withoutKeys,
} from './lineage-relation.ts'

export type { LineageTable, SourceColumn } from './lineage-relation.ts'

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
}

interface Place {
  readonly ctes: ReadonlyMap<string, Relation>
  /** Relations in sight: of this query and of those around it. */
  readonly inSight: readonly Named[]
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
 * them.
 */
export function columnLineage(
  tree: TreeNode,
  tables: readonly LineageTable[],
  columns: readonly { readonly name: string }[],
): readonly ColumnLineage[] {
  const statement = (tree.statements as readonly TreeNode[])[0] as TreeNode
  const walk = new LineageWalk(tables)
  const { fields, all, rows } = walk.query(statement.node as TreeNode, { ctes: new Map(), inSight: [] })
  const matched =
    fields?.length === columns.length &&
    fields.every(({ name }, index) => name === '' || foldName(name) === foldName(columns[index]?.name ?? ''))
  return columns.map(({ name }, index) => {
    const direct = (matched ? fields?.[index]?.sources : undefined) ?? all
    return { name, direct: toColumns(direct), influence: toColumns(rows) }
  })
}

class LineageWalk {
  readonly #tables: readonly (LineageTable & { readonly relation: Relation })[]
  #visits = 0

  constructor(tables: readonly LineageTable[]) {
    this.#tables = tables.map((table) => ({ ...table, relation: tableRelation(table) }))
  }

  query(node: TreeNode, outer: Place): Relation {
    if (++this.#visits > MAX_VISITS) return this.#everything()
    const place = this.#withCtes(node, outer)
    if (node.type === 'SELECT_NODE') return this.#select(node, place)
    if (node.type !== 'SET_OPERATION_NODE') return this.#everything()
    const result = this.#setOperation(node, place)
    return { ...result, rows: union(result.rows, this.#modifiers(node, result, place)) }
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
    let pot = union(start.all, start.rows)
    for (;;) {
      const seen = { fields: names?.map((each) => ({ name: each, sources: pot })) ?? null, all: pot, rows: pot }
      const ctes = new Map(place.ctes).set(foldName(name), told(seen))
      const step = this.query(node.right as TreeNode, { ...place, ctes })
      const grown = union(pot, step.all, step.rows)
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
    const rows = union(left.rows, right.rows, isUnion && node.setop_all === true ? NONE : all)
    if (node.setop_type === 'UNION_BY_NAME' || !left.fields || left.fields.length !== right.fields?.length) {
      return { fields: this.#byName(left, right), all, rows }
    }
    const fields = left.fields.map((field, index) => ({
      name: field.name,
      sources: union(field.sources, isUnion ? right.fields?.[index]?.sources : NONE),
    }))
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
    const inner: Place = { ctes: place.ctes, inSight: [...from.named, ...place.inSight] }
    const list = node.select_list as readonly TreeNode[]
    const { fields, all: listed } = this.#selectList(list, from.named, inner)
    // Names of the list can be used in the other clauses; whoever does so means what the list means.
    const aliases: Named = { names: [], relation: { fields: namedOnly(fields, list), all: listed, rows: NONE } }
    const wide: Place = { ctes: place.ctes, inSight: [aliases, ...inner.inSight] }
    const clauses = [node.where_clause, node.group_expressions, node.having, node.qualify]
    // GROUP BY ALL, and GROUP BY 1, name the list without its names.
    const byNumber = (node.group_expressions as readonly TreeNode[]).some(({ class: kind }) => kind === 'CONSTANT')
    const groupAll = byNumber || node.aggregate_handling === 'FORCE_AGGREGATES' ? listed : NONE
    // Windows leave their mark on the order of rows, too.
    const rows = union(from.rows, this.#sourcesOf([clauses, windowsIn(list)], wide), groupAll)
    const result = { fields, all: listed, rows }
    return { ...result, rows: union(rows, this.#modifiers(node, result, wide)) }
  }

  /** Later items may name earlier ones. */
  #selectList(list: readonly TreeNode[], from: readonly Named[], place: Place): Pick<Relation, 'fields' | 'all'> {
    const fields: Field[] = []
    let known = true
    for (const item of list) {
      const earlier: Named = { names: [], relation: { fields: [...fields], all: NONE, rows: NONE } }
      const wide: Place = { ...place, inSight: [earlier, ...place.inSight] }
      const expanded = item.class === 'STAR' ? this.#star(item, from, wide) : null
      known &&= expanded !== null || !this.#makesColumns(item)
      fields.push(...(expanded ?? [{ name: outputName(item), sources: this.#sourcesOf(item, wide) }]))
    }
    return { fields: known ? fields : null, all: union(...fields.map((field) => field.sources)) }
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

  #from(node: TreeNode, place: Place): { readonly named: readonly Named[]; readonly rows: Sources } {
    if (node.type === 'EMPTY') return { named: [], rows: NONE }
    if (node.type === 'JOIN') return this.#join(node, place)
    const relation = this.#relation(node, place)
    return { named: [{ names: relationNames(node), relation }], rows: relation.rows }
  }

  #join(node: TreeNode, place: Place): { readonly named: readonly Named[]; readonly rows: Sources } {
    const left = this.#from(node.left as TreeNode, place)
    const beside: Place = { ...place, inSight: [...left.named, ...place.inSight] }
    const right = this.#from(node.right as TreeNode, beside)
    const sides = [...left.named, ...right.named]
    const inSight: Place = { ...place, inSight: [...sides, ...place.inSight] }
    const keys = (node.using_columns as readonly string[]).map((name) => this.#named([name], inSight))
    const natural = node.ref_type === 'NATURAL' ? sides.map(({ relation }) => relation.all) : []
    const rows = union(left.rows, right.rows, this.#sourcesOf(node.condition, inSight), ...keys, ...natural)
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
        return { fields: null, all, rows: all }
      }
      default: {
        const source = node.source ? this.#from(node.source as TreeNode, place) : { named: [], rows: NONE }
        const inner: Place = { ...place, inSight: [...source.named, ...place.inSight] }
        const used = this.#sourcesOf([node.aggregates, node.pivots], inner)
        const all = union(used, ...source.named.map(({ relation }) => relation.all))
        return { fields: null, all, rows: union(all, source.rows) }
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
    return { fields, all: union(...fields.map((field) => field.sources)), rows: NONE }
  }

  /** ORDER BY, DISTINCT, LIMIT: they see the output's columns by name and by number, and what the list could see. */
  #modifiers(node: TreeNode, result: Relation, place: Place): Sources {
    const inSight = [{ names: [], relation: result }, ...place.inSight]
    const sources = (node.modifiers as readonly TreeNode[]).map((modifier) => {
      const { type, ...fields } = modifier
      const own = this.#sourcesOf(Object.values(fields), { ...place, inSight })
      return String(type).startsWith('LIMIT') ? own : union(own, result.all)
    })
    return union(...sources)
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
    if (kind !== 'SUBQUERY') return union(...Object.values(node).map((field) => this.#sourcesOf(field, place)))
    const { subquery, ...rest } = node as TreeNode
    const inner = this.query((subquery as TreeNode).node as TreeNode, place)
    return union(inner.all, inner.rows, this.#sourcesOf(Object.values(rest), place))
  }

  /** Its parameters are of the list that stands beside it. `a -> 'b'` may also be an operator upon a column. */
  #lambda(node: TreeNode, place: Place): Sources {
    const fields = columnRefsIn(node.lhs).map((parts) => ({ name: parts.at(-1) ?? '', sources: NONE }))
    const parameters: Named = { names: [], relation: { fields, all: NONE, rows: NONE } }
    const inSight = [parameters, ...place.inSight]
    return union(...Object.values(node).map((field) => this.#sourcesOf(field, { ...place, inSight })))
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
    return { fields: null, all, rows: all }
  }
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
  const widened = left.map((named) => ({ ...named, relation: widenKeys(named.relation, keys, place, walk) }))
  const narrowed = right.map((named) => ({ ...named, relation: withoutKeys(named.relation, keys) }))
  return [...widened, ...narrowed]
}

function widenKeys(relation: Relation, keys: ReadonlySet<string>, place: Place, walk: LineageWalk): Relation {
  if (!relation.fields) return relation
  const fields = relation.fields.map((field) =>
    keys.has(foldName(field.name))
      ? { ...field, sources: union(field.sources, walk.keySources(field.name, place)) }
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

function windowsIn(node: unknown): readonly unknown[] {
  if (typeof node !== 'object' || node === null) return []
  const { class: kind } = node as TreeNode
  if (kind === 'WINDOW') return [node]
  return kind === 'SUBQUERY' ? [] : Object.values(node).flatMap(windowsIn)
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
