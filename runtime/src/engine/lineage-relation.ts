import { foldName } from './guard-tree.ts'

export interface LineageTable {
  readonly name: readonly string[]
  readonly columns: readonly { readonly name: string }[]
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
}

/** What a query or a source of rows gives. `fields` is null where its columns cannot be told. */
export interface Relation {
  readonly fields: readonly Field[] | null
  /** All that its values may come from. */
  readonly all: Sources
  /** What decides about its rows. */
  readonly rows: Sources
}

export interface Named {
  readonly names: readonly string[]
  readonly relation: Relation
}

export const NONE: Sources = new Set()

export function tableRelation(table: LineageTable): Relation {
  const fields = table.columns.map(({ name }) => ({ name, sources: new Set([columnKey(table.name, name)]) }))
  return told({ fields, all: union(...fields.map((field) => field.sources)), rows: NONE })
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

export function union(...sets: readonly (Sources | undefined)[]): Sources {
  const filled = sets.filter((set): set is Sources => set !== undefined && set.size > 0)
  if (filled.length <= 1) return filled[0] ?? NONE
  const all = new Set<string>()
  for (const set of filled) for (const source of set) all.add(source)
  return all
}

function columnKey(table: readonly string[], column: string): string {
  return JSON.stringify([table, column])
}

export function toColumns(sources: Sources): SourceColumn[] {
  return [...sources].sort().map((key) => {
    const [table, column] = JSON.parse(key) as [string[], string]
    return { table, column }
  })
}
