import { foldName } from '../guard/tree.ts'

export interface LineageTable {
  readonly name: readonly string[]
  readonly columns: readonly { readonly name: string }[]
}

/** A column whose readers know which of its values are equal, and which are none: to those of the same `as`. */
export interface ComparableColumn extends SourceColumn {
  readonly as: string
}

export interface SourceColumn {
  readonly table: readonly string[]
  readonly column: string
}

/** Keys of source columns. */
export type Sources = ReadonlySet<string>

export interface Field {
  readonly name: string
  readonly sources: Sources
  /** The key of the one column whose values these are, unchanged. */
  readonly copied?: string | undefined
}

/** What decides which rows there are, and how often. */
export interface RowSources {
  readonly sure: Sources
  /** Comparable columns by which rows are grouped. */
  readonly grouped: Sources
  /** Comparable columns that decide in which order rows come, and nothing else: what asks for a place asks for them. */
  readonly order: Sources
}

/** What a query or a source of rows gives. `fields` is null where its columns cannot be told. */
export interface Relation {
  readonly fields: readonly Field[] | null
  /** All that its values may come from. */
  readonly all: Sources
  readonly rows: RowSources
}

export interface Named {
  readonly names: readonly string[]
  readonly relation: Relation
}

export const NONE: Sources = new Set()

export const NO_ROWS: RowSources = { sure: NONE, grouped: NONE, order: NONE }

export function surely(...sets: readonly Sources[]): RowSources {
  return { ...NO_ROWS, sure: union(...sets) }
}

export function bothRows(...all: readonly RowSources[]): RowSources {
  return {
    sure: union(...all.map(({ sure }) => sure)),
    grouped: union(...all.map(({ grouped }) => grouped)),
    order: union(...all.map(({ order }) => order)),
  }
}

/** All that decides about rows, for a value that is made of them. */
export function everyRow({ sure, grouped, order }: RowSources): Sources {
  return union(sure, grouped, order)
}

export function tableRelation(table: LineageTable): Relation {
  const fields = table.columns.map(({ name }) => {
    const key = columnKey(table.name, name)
    return { name, sources: new Set([key]), copied: key }
  })
  return told({ fields, all: union(...fields.map((field) => field.sources)), rows: NO_ROWS })
}

/**
 * The relation as others can call its columns. The engine gives columns of one name numbers (`note_1`), and those without
 * a name one of its own making, which may set others' numbers off: then no column is known by its name.
 */
export function told(relation: Relation): Relation {
  const names = relation.fields?.map(({ name }) => foldName(name)) ?? []
  const isSure = !names.includes('') && new Set(names).size === names.length
  return isSure ? relation : { ...relation, fields: null }
}

export function withoutKeys(relation: Relation, keys: ReadonlySet<string>): Relation {
  if (!relation.fields) return relation
  return { ...relation, fields: relation.fields.filter((field) => !keys.has(foldName(field.name))) }
}

export function unknownColumns(named: readonly Named[]): readonly Named[] {
  const all = union(...named.map(({ relation }) => relation.all))
  return named.map(({ names, relation }) => ({ names, relation: { ...relation, fields: null, all } }))
}

export function renamed(relation: Relation, aliases: readonly string[]): Relation {
  if (!relation.fields || aliases.length === 0) return relation
  return {
    ...relation,
    fields: relation.fields.map((field, index) => ({ ...field, name: aliases[index] ?? field.name })),
  }
}

/** As UNION BY NAME has them; null where those of either side cannot be told. */
export function fieldsByName(left: Relation, right: Relation): readonly Field[] | null {
  if (!left.fields || !right.fields) return null
  const merged = new Map<string, Field>()
  for (const field of [...left.fields, ...right.fields]) {
    const key = foldName(field.name)
    const known = merged.get(key)
    merged.set(key, known ? { name: known.name, sources: union(known.sources, field.sources) } : field)
  }
  return [...merged.values()]
}

export function union(...sets: readonly (Sources | undefined)[]): Sources {
  const filled = sets.filter((set): set is Sources => set !== undefined && set.size > 0)
  if (filled.length <= 1) return filled[0] ?? NONE
  const all = new Set<string>()
  for (const set of filled) for (const source of set) all.add(source)
  return all
}

export function columnKey(table: readonly string[], column: string): string {
  return JSON.stringify([table, column])
}

export function toColumns(sources: Sources): SourceColumn[] {
  return [...sources].sort().map(toColumn)
}

export function toColumn(key: string): SourceColumn {
  const [table, column] = JSON.parse(key) as [string[], string]
  return { table, column }
}
