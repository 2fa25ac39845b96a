/** How repositories run their statements: bound parameters, driver's errors translated, 64-bit counters as numbers. */
import pg from 'pg'
import { toDatabaseError } from '../database/errors.ts'
import type { Queryable } from '../database/pools.ts'

export type { Queryable } from '../database/pools.ts'

/** A client inside a transaction: for what must be committed with the caller's other changes, or not at all. */
export type Transaction = pg.PoolClient

const INT8 = 20

/**
 * The registry's 64-bit integers are counters far below 2^53, and floats would hide a mistake: beyond that it throws.
 */
const types = {
  getTypeParser(id: number, format?: 'text' | 'binary'): (value: string) => unknown {
    if (id === INT8 && format !== 'binary') return safeInteger
    return pg.types.getTypeParser(id, format as 'text') as (value: string) => unknown
  },
}

function safeInteger(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new RangeError('a counter of the registry is beyond 2^53')
  return value
}

export async function many<Row>(
  db: Queryable,
  doing: string,
  text: string,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  return (await execute(db, doing, text, values)).rows as Row[]
}

/** The first row, or null. */
export async function maybeOne<Row>(
  db: Queryable,
  doing: string,
  text: string,
  values: readonly unknown[] = [],
): Promise<Row | null> {
  return (await many<Row>(db, doing, text, values))[0] ?? null
}

/** The row that a statement such as `insert … returning` always gives. */
export async function one<Row>(
  db: Queryable,
  doing: string,
  text: string,
  values: readonly unknown[] = [],
): Promise<Row> {
  const row = await maybeOne<Row>(db, doing, text, values)
  if (row === null) throw toDatabaseError(new Error('the statement gave no row'), doing)
  return row
}

/** How many rows were changed. */
export async function change(
  db: Queryable,
  doing: string,
  text: string,
  values: readonly unknown[] = [],
): Promise<number> {
  return (await execute(db, doing, text, values)).rowCount ?? 0
}

async function execute(
  db: Queryable,
  doing: string,
  text: string,
  values: readonly unknown[],
): Promise<pg.QueryResult> {
  try {
    return await (db as pg.Pool).query({ text, values: [...values], types: types as pg.CustomTypesConfig })
  } catch (error) {
    throw toDatabaseError(error, doing)
  }
}

/** A JavaScript value for a jsonb parameter; the driver would turn an array into a PostgreSQL array. */
export function json(value: unknown): string | null {
  return value === null || value === undefined ? null : JSON.stringify(value)
}
