/** Rows of raw tables that the contract of a product's input keeps out of it, beside those that could not be carried at all. */
import { newId } from './ids.ts'
import type { MasterKeys } from './master-keys.ts'
import { digestOf, quarantineKey } from './quarantine.ts'
import { seal } from './sealing.ts'
import { change, type Transaction } from './sql.ts'

export interface ContractRow {
  readonly connectionId: string
  /** `schema.table` */
  readonly table: string
  readonly column: string
  /** Without a value. */
  readonly reason: string
  readonly key: Readonly<Record<string, string | null>> | null
  readonly raw: string | null
}

/** In place of those of the product's epoch before. `product`: `namespace.name`. */
export async function replaceContractRows(
  tx: Transaction,
  masters: MasterKeys,
  of: { readonly tenant: string; readonly productId: string; readonly product: string; readonly runId: string },
  rows: readonly ContractRow[],
): Promise<void> {
  const { tenant, productId, product, runId } = of
  await change(tx, 'emptying a quarantine', 'delete from quarantined_rows where product_id = $1', [productId])
  if (rows.length === 0) return
  const key = await quarantineKey(tx, masters, tenant)
  const ids = rows.map(() => newId('qrn'))
  const sealed = rows.map(({ connectionId, table, key: texts, raw }, index) =>
    seal(key, Buffer.from(JSON.stringify({ key: texts, raw })), [
      'quarantine',
      connectionId,
      table,
      ids[index] as string,
    ]),
  )
  await change(
    tx,
    'keeping rows that a contract puts aside',
    `insert into quarantined_rows (id, tenant, connection_id, table_name, run_id, column_name, reason, sealed, key_digest,
       carried, replayable, lost, place, product_id)
     select r.id, $1, r.connection_id, r.table_name, $2, r.column_name, r.reason, r.sealed, r.key_digest, false, false, $3, r.place, $4
     from unnest($5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bytea[], $11::bytea[], $12::integer[])
       as r(id, connection_id, table_name, column_name, reason, sealed, key_digest, place)`,
    [
      tenant,
      runId,
      `the contract of ${product} puts it aside: the raw table has the row, and each epoch judges it again. Correct it at the source, or deploy a version that takes the table as it is`,
      productId,
      ids,
      rows.map(({ connectionId }) => connectionId),
      rows.map(({ table }) => table),
      rows.map(({ column }) => column),
      rows.map(({ reason }) => reason),
      sealed,
      rows.map(({ connectionId, table, key: texts }) => texts && digestOf(key, connectionId, table, texts)),
      rows.map((_, place) => place),
    ],
  )
}
