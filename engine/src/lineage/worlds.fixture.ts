import type { DuckDBConnection } from '@duckdb/node-api'
import { execute, openDuckDb } from '../child/duckdb.ts'
import { BASES } from './random-query.fixture.ts'
import { type ComparableColumn, columnKey } from './relation.ts'

/**
 * Tables of some rows in which columns are hidden. Worlds differ in what is hidden and in nothing else: a value that may be
 * compared has another one in its place, everywhere the same; any other hidden value is any.
 */

/** What a reader is shown as pseudonyms, which he can tell apart. */
export const PSEUDONYMS: readonly ComparableColumn[] = [
  ['people', 'email'],
  ['people', 'alt'],
  ['staff', 'email'],
  ['seen', 'alt'],
].map(([table = '', column = '']) => ({ table: [table], column, as: 'pii.identifier' }))

/** What a reader is shown nothing of. */
const SECRETS = [
  ['people', 'pay'],
  ['people', 'code'],
  ['staff', 'pay'],
] as const

export const isPseudonym = (key: string): boolean =>
  PSEUDONYMS.some(({ table, column }) => columnKey(table, column) === key)
export const isSecret = (key: string): boolean => SECRETS.some(([table, column]) => columnKey([table], column) === key)

const TYPES = { int: 'INTEGER', text: 'VARCHAR', bool: 'BOOLEAN', list: 'INTEGER[]' } as const
const ROWS = { people: 8, staff: 6, seen: 7 } as const
const PERSONS = 6

/** Of person n: as one world calls them, and as another does. */
const NAMES = [
  (person: number) => `a${person}@one.test`,
  (person: number) => ['zed1@x', 'b@1', 'm@mm.test', 'a1', '1@1.test', 'yy@two.test'][person] ?? '',
] as const

export interface World {
  readonly connection: DuckDBConnection
  /** The person whom this world calls so. */
  person(name: unknown): unknown
}

/** Numbers that a seed repeats. */
export interface Chance {
  /** At least 0, below `bound`. */
  below(bound: number): number
  pick<T>(list: readonly T[]): T
}

/** Two of a kind. */
export async function openWorlds(random: Chance): Promise<readonly [World, World]> {
  const tables = Object.keys(ROWS) as (keyof typeof ROWS)[]
  const open = new Map(tables.map((table) => [table, openRows(table, random)]))
  const worlds = await Promise.all(NAMES.map((name) => makeWorld(open, name, random)))
  return worlds as unknown as readonly [World, World]
}

type Open = ReadonlyMap<string, readonly Readonly<Record<string, unknown>>[]>

/** Hidden columns hold the number of a person, or stay away. */
function openRows(table: keyof typeof ROWS, random: Chance): readonly Readonly<Record<string, unknown>>[] {
  return Array.from({ length: ROWS[table] }, (_, at) =>
    Object.fromEntries(
      Object.entries(BASES[table] ?? {}).flatMap(([name, kind]): [string, unknown][] => {
        const key = columnKey([table], name)
        if (isSecret(key)) return []
        if (isPseudonym(key)) return [[name, random.below(5) === 0 ? null : random.below(PERSONS)]]
        if (name === 'id') return [[name, at + 1]]
        if (kind === 'int') return [[name, random.below(6) === 0 ? null : random.below(5)]]
        if (kind === 'list') return [[name, Array.from({ length: random.below(3) }, () => random.below(5))]]
        return [[name, random.pick(['oslo', 'rome', 'bonn', null])]]
      }),
    ),
  )
}

async function makeWorld(open: Open, name: (person: number) => string, random: Chance): Promise<World> {
  const connection = await openDuckDb()
  for (const [table, rows] of open) {
    const columns = Object.entries(BASES[table] ?? {})
    await execute(
      connection,
      `CREATE TABLE ${table} (${columns.map(([each, kind]) => `${each} ${TYPES[kind]}`).join(', ')})`,
    )
    for (const row of rows) {
      const cells = columns.map(([each, kind]) => {
        const key = columnKey([table], each)
        if (isSecret(key))
          return kind === 'list' ? secretList(random) : literal(random.below(4) === 0 ? null : random.below(6))
        const value = row[each]
        return literal(isPseudonym(key) && value !== null ? name(value as number) : value)
      })
      await execute(connection, `INSERT INTO ${table} VALUES (${cells.join(', ')})`)
    }
  }
  const persons = new Map(Array.from({ length: PERSONS }, (_, person) => [name(person), `person ${person}`]))
  return { connection, person: (called) => persons.get(String(called)) ?? called }
}

function secretList(random: Chance): string {
  return literal(Array.from({ length: random.below(3) }, () => random.below(5)))
}

function literal(value: unknown): string {
  if (value === null || value === undefined) return 'NULL'
  if (Array.isArray(value)) return `[${value.join(', ')}]`
  return typeof value === 'string' ? `'${value}'` : String(value)
}
