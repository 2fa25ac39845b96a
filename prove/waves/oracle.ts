/** What products are to hold, as PostgreSQL says: the same statements as views over views, down to the source's own tables. */
import type { Random } from '../../conformance-tests/random.ts'
import type { SourceServer } from '../../plugins/connectors/postgresql/source-server.ts'
import { type Made, SMALL_ROWS } from './products.ts'

/** What rows hold, in one line: the same words for every database that is asked. */
export const FINGERPRINT =
  'count(*) AS c, coalesce(sum(id), 0) AS i, coalesce(sum(n), 0) AS n, coalesce(sum(id * (n % 1009)), 0) AS m'

export const line = (row: object | undefined): string =>
  Object.values(row ?? {})
    .map(String)
    .join(' ')

/** Fingerprints by product. */
export type Moment = ReadonlyMap<string, string>

export interface Change {
  readonly table: string
  readonly sql: string
}

/** A row becomes another one. */
export function changeOfRow(random: Random, table: string): Change {
  return { table, sql: `UPDATE ${table} SET n = n + 1 WHERE id = ${1 + random.integer(0, SMALL_ROWS / 2)}` }
}

export function anyChange(random: Random, table: string): Change {
  const id = 1 + random.integer(0, SMALL_ROWS - 1)
  const statements = [
    `UPDATE ${table} SET n = (n + ${1 + random.integer(0, 89)}) % 101 WHERE id = ${id}`,
    `DELETE FROM ${table} WHERE id = ${id}`,
    `INSERT INTO ${table} VALUES (${id}, ${random.integer(0, 100)}) ON CONFLICT (id) DO UPDATE SET n = (${table}.n + 1) % 101`,
    `UPDATE ${table} SET n = (n + 1) % 101 WHERE id % 20 = 3`,
  ]
  return { table, sql: random.pick(statements) }
}

export async function createViews(source: SourceServer, made: readonly Made[]): Promise<void> {
  for (const { name, of, sql } of made) {
    const inputs = of.map((one, index) => `${index === 0 ? 'a' : 'b'} AS (SELECT * FROM ${one})`)
    await source.sql(`CREATE VIEW ${name} AS WITH ${inputs.join(', ')} ${sql}`)
  }
}

/**
 * What the products would hold when some of the changes had been made, for each choice of them: nothing first, all of them
 * last. The changes are taken back.
 */
export async function momentsOf(
  source: SourceServer,
  names: readonly string[],
  changes: readonly Change[],
): Promise<readonly Moment[]> {
  const session = await source.session()
  try {
    const moments: Moment[] = []
    for (let choice = 0; choice < 2 ** changes.length; choice += 1) {
      await session.query('BEGIN')
      for (const [at, { sql }] of changes.entries()) if ((choice >> at) % 2 === 1) await session.query(sql)
      const found = new Map<string, string>()
      for (const name of names) {
        found.set(name, line((await session.query(`SELECT ${FINGERPRINT} FROM ${name}`)).rows[0]))
      }
      moments.push(found)
      await session.query('ROLLBACK')
    }
    return moments
  } finally {
    await session.end()
  }
}

/** In two columns, as text; null is null. */
export interface HeldRows {
  readonly ids: readonly (string | null)[]
  readonly ns: readonly (string | null)[]
}

/**
 * Rows by product, held in one place, against the views: a line for each product that differs, in rows that it has too many
 * of or too few.
 */
export async function differences(
  source: SourceServer,
  place: string,
  held: ReadonlyMap<string, HeldRows>,
): Promise<readonly string[]> {
  const session = await source.session()
  try {
    await session.query('CREATE TEMP TABLE held (id bigint, n bigint)')
    const wrong: string[] = []
    for (const [name, { ids, ns }] of held) {
      await session.query('TRUNCATE held')
      await session.query('INSERT INTO held SELECT * FROM unnest($1::bigint[], $2::bigint[])', [ids, ns])
      const wanted = `SELECT id::bigint, n::bigint FROM ${name}`
      const { rows } = await session.query(
        `SELECT (SELECT count(*) FROM (SELECT * FROM held EXCEPT ALL ${wanted}) x)::int AS more,
           (SELECT count(*) FROM (${wanted} EXCEPT ALL SELECT * FROM held) y)::int AS less`,
      )
      const { more, less } = rows[0] as { readonly more: number; readonly less: number }
      if (more + less > 0) wrong.push(`${name} has in ${place} ${more} rows that are wrong, and lacks ${less}`)
    }
    return wrong
  } finally {
    await session.end()
  }
}
