/** The rows that products are made of: known here, and written to PostgreSQL as they are. */
import type { Random } from '../../conformance-tests/random.ts'

export interface SourceRow {
  readonly id: number
  readonly code: string
  readonly grp: string
  readonly city: string
  readonly email: string | null
  readonly phone: string
  readonly note: string | null
  readonly score: number | null
  /** In hundredths. */
  readonly price: number
  /** `2026-01-01T05:00:00` */
  readonly seen: string
}

export interface Source {
  readonly rows: readonly SourceRow[]
  /** Region by group; some group has none. */
  readonly places: ReadonlyMap<string, string>
}

export const GROUPS = ['g0', 'g1', 'g2', 'g3'] as const

function rowOf(random: Random, id: number): SourceRow {
  return {
    id,
    code: `c-${id}`,
    grp: random.pick(GROUPS),
    city: `Town ${random.integer(1, 5)}`,
    email: random.chance(0.1) ? null : `e${id}.${random.integer(1, 3)}@hidden.test`,
    phone: `+41 44 ${String(1_000_000 + id * 7).slice(1)}`,
    note: random.chance(0.2) ? null : `note ${id} of ${random.integer(1, 9)}`,
    score: random.chance(0.1) ? null : random.integer(0, 100),
    price: random.integer(0, 99_999),
    seen: new Date(Date.UTC(2026, 0, 1, random.integer(0, 2_000))).toISOString().slice(0, 19),
  }
}

export function newSource(random: Random): Source {
  const rows = Array.from({ length: random.integer(5, 40) }, (_, at) => rowOf(random, at + 1))
  const places = GROUPS.slice(0, 3).map((grp, at) => [grp, `Region ${at % 2}`] as const)
  return { rows, places: new Map(places) }
}

/** Some rows go, some change, some come. */
export function changed(random: Random, { rows, places }: Source): Source {
  const kept = rows.filter(() => !random.chance(0.1))
  const last = Math.max(0, ...rows.map(({ id }) => id))
  const changedRows = kept.map((row) => (random.chance(0.2) ? { ...rowOf(random, row.id), id: row.id } : row))
  const come = Array.from({ length: random.integer(1, 4) }, (_, at) => rowOf(random, last + at + 1))
  return { rows: [...changedRows, ...come], places }
}

export const tableSql = (table: string, places: string): string => `
  CREATE TABLE ${table} (id integer PRIMARY KEY, code text NOT NULL, grp text NOT NULL, city text NOT NULL, email text,
    phone text NOT NULL, note text, score integer, price numeric(9,2) NOT NULL, seen timestamp NOT NULL);
  CREATE TABLE ${places} (grp text PRIMARY KEY, region text NOT NULL)`

const text = (value: string | number | null): string =>
  value === null ? 'NULL' : typeof value === 'number' ? String(value) : `'${value}'`

/** All rows anew, in one statement of the source. */
export function rowsSql(table: string, places: string, source: Source): string {
  const rows = source.rows.map(
    ({ id, code, grp, city, email, phone, note, score, price, seen }) =>
      `(${[id, code, grp, city, email, phone, note, score].map(text).join(', ')}, ${price}::numeric / 100, '${seen}')`,
  )
  const regions = [...source.places].map(([grp, region]) => `('${grp}', '${region}')`)
  return `BEGIN; DELETE FROM ${table}; DELETE FROM ${places};
    INSERT INTO ${table} VALUES ${rows.join(', ')}; INSERT INTO ${places} VALUES ${regions.join(', ')}; COMMIT`
}
