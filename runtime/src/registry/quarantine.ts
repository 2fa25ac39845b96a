/**
 * Rows of sources that could not be carried: for each table the newest, up to a number and a size, until they are too old,
 * are read again, or come from a source that is the connection's no more. What they say of values is sealed.
 */
import { createHmac, hkdfSync } from 'node:crypto'
import { newId } from './ids.ts'
import type { MasterKeys } from './master-keys.ts'
import { type Page, type PageRequest, pageParameters, toPage } from './paging.ts'
import { KEY_BYTES, seal, unseal } from './sealing.ts'
import { change, many, type Queryable, type Transaction } from './sql.ts'
import { tenantKey } from './tenant-keys.ts'

export interface RefusedRow {
  /** The column that is at fault, where it is one. */
  readonly column: string | null
  readonly reason: string
  /** Texts by key column; null where the source gave none. */
  readonly key: Readonly<Record<string, string | null>> | null
  /** The same as reads tell them, where they are to be shown in other texts than those by which rows replace each other. */
  readonly toldKey?: RefusedRow['key']
  /** What could not be carried, in the source's words; null where it gave none. */
  readonly raw: string | null
  /** The row came all the same, without the value. */
  readonly carried: boolean
  /** With it the row can be tried again; a text: why it cannot. */
  readonly whole: WholeRow | string
}

/** A row as its source has it, before it was told whether the columns hold it. */
export interface WholeRow {
  /** By column, as `valueReader` is given it; null where there is none. */
  readonly texts: Readonly<Record<string, string | null>>
  /** The columns that were JSON: a text of these is written otherwise than one of any other type. */
  readonly json: readonly string[]
  /** The columns that did not hold their text then, in the order of the table: a row that came says so by its marks. */
  readonly lacks: readonly string[]
}

export interface QuarantinedRow extends Omit<RefusedRow, 'whole'> {
  readonly id: string
  /** Null where it can be tried again. */
  readonly lost: string | null
  readonly table: string
  readonly runId: string
  readonly createdAt: Date
}

export interface QuarantinedTable {
  readonly tenant: string
  readonly connectionId: string
  /** `schema.table` */
  readonly table: string
}

/** Of one table. */
export const MAX_QUARANTINED = { rows: 1_000, bytes: 1024 * 1024 }

const OF_BEFORE = 'it was put aside by a release that kept no whole rows: sync or read the table whole again'

/**
 * Adds what a read has left out. `whole`: the read brought every row, so that those of former reads go; else those of the
 * same keys do.
 */
export async function saveQuarantine(
  tx: Transaction,
  masters: MasterKeys,
  { tenant, connectionId, table }: QuarantinedTable,
  read: { readonly runId: string; readonly whole: boolean; readonly rows: readonly RefusedRow[] },
): Promise<void> {
  const { runId, whole } = read
  const rows = read.rows.slice(-MAX_QUARANTINED.rows)
  const place = [connectionId, table] as const
  if (whole) {
    const statement = 'delete from quarantined_rows where connection_id = $1 and table_name = $2 and product_id is null'
    await change(tx, 'emptying a quarantine', statement, place)
  }
  if (rows.length === 0) return
  const key = await quarantineKey(tx, masters, tenant)
  const digests = rows.map((row) => row.key && digestOf(key, connectionId, table, row.key))
  await change(
    tx,
    'emptying a quarantine',
    `delete from quarantined_rows
     where connection_id = $1 and table_name = $2 and product_id is null and key_digest = any ($3::bytea[])`,
    [...place, digests.filter((digest) => digest !== null)],
  )
  const ids = rows.map(() => newId('qrn'))
  await change(
    tx,
    'keeping rows that cannot be carried',
    `insert into quarantined_rows (id, tenant, connection_id, table_name, run_id, column_name, reason, sealed, key_digest,
       carried, replayable, lost, place)
     select r.id, $1, $2, $3, $4, r.column_name, r.reason, r.sealed, r.key_digest, r.carried, r.lost is null, r.lost, r.place
     from unnest($5::text[], $6::text[], $7::text[], $8::bytea[], $9::bytea[], $10::boolean[], $11::text[], $12::integer[])
       as r(id, column_name, reason, sealed, key_digest, carried, lost, place)`,
    [
      tenant,
      connectionId,
      table,
      runId,
      ids,
      rows.map(({ column }) => column),
      rows.map(({ reason }) => reason),
      rows.map((row, index) => sealedValues(key, connectionId, table, ids[index] as string, row)),
      digests,
      rows.map(({ carried }) => carried),
      rows.map(({ whole: kept }) => (typeof kept === 'string' ? kept : null)),
      rows.map((_, place) => place),
    ],
  )
  await change(
    tx,
    'bounding a quarantine',
    `delete from quarantined_rows where id in (
       select id from (
         select id, row_number() over newest as place, sum(coalesce(octet_length(sealed), 0)) over newest as bytes
         from quarantined_rows where connection_id = $1 and table_name = $2 and product_id is null
         window newest as (order by created_at desc, id desc)) q
       where place > $3 or bytes > $4)`,
    [...place, MAX_QUARANTINED.rows, MAX_QUARANTINED.bytes],
  )
}

/** Newest first, of these tables alone. */
export async function listQuarantine(
  db: Queryable,
  masters: MasterKeys,
  { tenant, connectionId, tables }: Omit<QuarantinedTable, 'table'> & { readonly tables: readonly string[] },
  page: PageRequest,
): Promise<Page<QuarantinedRow>> {
  const parameters = pageParameters(page)
  const rows = await many<
    Omit<QuarantinedRow, 'key' | 'raw'> & { readonly sealed: Buffer | null; readonly replayable: boolean }
  >(
    db,
    'listing a quarantine',
    `select id, table_name as "table", run_id as "runId", column_name as "column", reason, carried, sealed, replayable, lost,
       created_at as "createdAt"
     from quarantined_rows
     where tenant = $4 and connection_id = $5 and table_name = any ($6)
       and ($2::timestamptz is null or (created_at, id) < ($2, $3))
     order by created_at desc, id desc limit $1`,
    [...parameters, tenant, connectionId, tables],
  )
  const { items, next } = toPage(rows, parameters, (row) => row)
  const key = items.length === 0 ? null : await quarantineKey(db, masters, tenant)
  return {
    items: items.map(({ sealed, replayable, lost, ...row }) => ({
      ...row,
      lost: replayable ? null : (lost ?? OF_BEFORE),
      ...(sealed === null || key === null
        ? { key: null, raw: null }
        : openedValues(key, connectionId, row.table, row.id, sealed)),
    })),
    next,
  }
}

export async function quarantinedTables(db: Queryable, connectionId: string): Promise<readonly string[]> {
  const statement = 'select distinct table_name as name from quarantined_rows where connection_id = $1 order by name'
  const rows = await many<{ readonly name: string }>(db, 'listing a quarantine', statement, [connectionId])
  return rows.map(({ name }) => name)
}

/** Where the connection leads elsewhere: whoever may read what it brings now need not have read what it brought. */
export async function emptyQuarantine(tx: Transaction, connectionId: string): Promise<void> {
  await change(tx, 'emptying a quarantine', 'delete from quarantined_rows where connection_id = $1', [connectionId])
}

export function pruneQuarantine(db: Queryable, days: number, limit: number): Promise<number> {
  return change(
    db,
    'removing old rows of quarantines',
    `delete from quarantined_rows where id in (
       select id from quarantined_rows where created_at < clock_timestamp() - make_interval(secs => 86400 * $1::float8)
       limit $2 for update skip locked)`,
    [days, limit],
  )
}

/** Of the key that no rotation replaces, and that goes with the tenant. */
export async function quarantineKey(db: Queryable, masters: MasterKeys, tenant: string): Promise<Buffer> {
  const { key } = await tenantKey(db, masters, tenant, 'mask', 1)
  return Buffer.from(hkdfSync('sha256', key, tenant, 'quarantine', KEY_BYTES))
}

export function digestOf(
  key: Buffer,
  connectionId: string,
  table: string,
  row: NonNullable<RefusedRow['key']>,
): Buffer {
  const entries = Object.entries(row).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return createHmac('sha256', key)
    .update(JSON.stringify([connectionId, table, entries]))
    .digest()
}

function sealedValues(key: Buffer, connectionId: string, table: string, id: string, row: RefusedRow): Buffer | null {
  const whole = typeof row.whole === 'string' ? {} : { whole: row.whole }
  if (row.key === null && row.raw === null && typeof row.whole === 'string') return null
  const text = JSON.stringify({ key: row.toldKey ?? row.key, raw: row.raw, ...whole })
  return seal(key, Buffer.from(text), ['quarantine', connectionId, table, id])
}

function openedValues(...sealed: Parameters<typeof openRow>): Pick<RefusedRow, 'key' | 'raw'> {
  const { key, raw } = openRow(...sealed)
  return { key, raw }
}

/** What was sealed of a row. `whole`: of one that can be tried again. */
export function openRow(key: Buffer, connectionId: string, table: string, id: string, sealed: Buffer) {
  const text = unseal(key, sealed, ['quarantine', connectionId, table, id]).toString('utf8')
  return JSON.parse(text) as Pick<RefusedRow, 'key' | 'raw'> & { readonly whole?: WholeRow }
}
