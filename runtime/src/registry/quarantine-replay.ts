/** Rows of a quarantine that are tried again, or given up. */
import type { MasterKeys } from './master-keys.ts'
import { MAX_QUARANTINED, openRow, type QuarantinedTable, quarantineKey, type WholeRow } from './quarantine.ts'
import { change, many, type Queryable, type Transaction } from './sql.ts'

/** Which rows; null: all of them. */
export interface RowChoice {
  readonly ids: readonly string[] | null
  /** Of each table the oldest so many. */
  readonly limit: number | null
}

/** A row that can be tried again. */
export interface ReplayableRow {
  readonly id: string
  /** At fault by the last try. */
  readonly column: string | null
  /** It is in the table, without the value. */
  readonly carried: boolean
  /** Whether it is among those that were chosen; others say which row of a key is the newest. */
  readonly isChosen: boolean
  readonly whole: WholeRow
}

/** All of the table, oldest first, those of one read in its order. Values of rows are in clear. */
export async function replayableRows(
  db: Queryable,
  masters: MasterKeys,
  { tenant, connectionId, table }: QuarantinedTable,
  { ids, limit }: RowChoice,
): Promise<readonly ReplayableRow[]> {
  const rows = await many<Omit<ReplayableRow, 'whole'> & { readonly sealed: Buffer }>(
    db,
    'reading a quarantine',
    `select id, sealed, column_name as "column", carried, wanted and row_number() over (partition by wanted order by created_at, place, id) <= $5
         as "isChosen"
     from (select *, ($4::text[] is null or id = any ($4)) as wanted from quarantined_rows
       where tenant = $1 and connection_id = $2 and table_name = $3 and replayable and sealed is not null) q
     order by created_at, place, id limit $6`,
    [tenant, connectionId, table, ids, limit ?? MAX_QUARANTINED.rows, MAX_QUARANTINED.rows],
  )
  if (rows.length === 0) return []
  const key = await quarantineKey(db, masters, tenant)
  return rows.flatMap(({ sealed, ...row }) => {
    const { whole } = openRow(key, connectionId, table, row.id, sealed)
    return whole === undefined ? [] : [{ ...row, whole }]
  })
}

/** Tables of the connection with rows that can be tried again. */
export async function replayableTables(
  db: Queryable,
  connectionId: string,
  { ids }: RowChoice,
): Promise<readonly string[]> {
  const rows = await many<{ readonly name: string }>(
    db,
    'reading a quarantine',
    `select distinct table_name as name from quarantined_rows
     where connection_id = $1 and replayable and ($2::text[] is null or id = any ($2)) order by name`,
    [connectionId, ids],
  )
  return rows.map(({ name }) => name)
}

/** How many there were: one that somebody has given up, or replaced, meanwhile is none. */
export function removeQuarantined(
  tx: Transaction,
  { tenant, connectionId, table }: QuarantinedTable,
  ids: readonly string[] | null,
): Promise<number> {
  return change(
    tx,
    'removing rows of a quarantine',
    `delete from quarantined_rows
     where tenant = $1 and connection_id = $2 and table_name = $3 and ($4::text[] is null or id = any ($4))`,
    [tenant, connectionId, table, ids],
  )
}

export interface StillRefused {
  readonly id: string
  readonly column: string | null
  /** Without a value. */
  readonly reason: string
}

/** Why they could not be carried this time. How many there are still. */
export function saveReasons(
  tx: Transaction,
  { tenant, connectionId, table }: QuarantinedTable,
  rows: readonly StillRefused[],
): Promise<number> {
  return change(
    tx,
    'noting why rows are not carried',
    `update quarantined_rows q set column_name = r.column_name, reason = r.reason
     from unnest($4::text[], $5::text[], $6::text[]) as r(id, column_name, reason)
     where q.tenant = $1 and q.connection_id = $2 and q.table_name = $3 and q.id = r.id`,
    [
      tenant,
      connectionId,
      table,
      rows.map(({ id }) => id),
      rows.map(({ column }) => column),
      rows.map(({ reason }) => reason),
    ],
  )
}

/** Ids that are of no row of the connection's quarantine, and the tables of the others. */
export async function tablesOfRows(db: Queryable, connectionId: string, ids: readonly string[]) {
  const rows = await many<{ readonly id: string; readonly table: string }>(
    db,
    'reading a quarantine',
    'select id, table_name as "table" from quarantined_rows where connection_id = $1 and id = any ($2)',
    [connectionId, ids],
  )
  const known = new Set(rows.map(({ id }) => id))
  return {
    tables: [...new Set(rows.map(({ table }) => table))].toSorted(),
    unknown: ids.filter((id) => !known.has(id)),
  }
}

/**
 * Removes the rows of that key, and those of which nobody knows the key: one of them may be it. How many there were.
 *
 * @param columns of the key
 * @param mayBe whether that text, as the source wrote it, may be the value of that column of the key
 */
export async function eraseQuarantined(
  tx: Transaction,
  masters: MasterKeys,
  place: QuarantinedTable,
  columns: readonly string[],
  mayBe: (column: string, known: string) => boolean,
): Promise<number> {
  const { tenant, connectionId, table } = place
  const rows = await many<{ readonly id: string; readonly sealed: Buffer | null }>(
    tx,
    'reading a quarantine',
    'select id, sealed from quarantined_rows where tenant = $1 and connection_id = $2 and table_name = $3',
    [tenant, connectionId, table],
  )
  if (rows.length === 0) return 0
  const secret = await quarantineKey(tx, masters, tenant)
  const mayBeRow = (id: string, sealed: Buffer | null): boolean => {
    if (sealed === null) return true
    const { key: own, whole } = openRow(secret, connectionId, table, id, sealed)
    const texts = { ...whole?.texts, ...own }
    return columns.every((name) => {
      const known = texts[name] ?? null
      return known === null || mayBe(name, known)
    })
  }
  const gone = rows.filter(({ id, sealed }) => mayBeRow(id, sealed)).map(({ id }) => id)
  return removeQuarantined(tx, place, gone)
}
