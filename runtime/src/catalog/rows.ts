/** The sandbox's rows in Iceberg's SQL catalog. Every function is one statement but where it says otherwise. */
import type { TableRef } from '@sluice/iceberg'
import type pg from 'pg'
import { catalogName, SANDBOX } from '../lake/tenant-layout.ts'
import { change, many, type Queryable } from '../registry/sql.ts'

/** Says that the namespace exists, as Iceberg's own catalogs do; it is no property to its users. */
const EXISTS = 'exists'

/** Null where the tenant has no sandbox. */
export async function sandboxProperties(
  db: Queryable,
  tenant: string,
): Promise<Readonly<Record<string, string>> | null> {
  const rows = await many<{ key: string; value: string | null }>(
    db,
    'reading the catalog',
    `select property_key as key, property_value as value from iceberg_namespace_properties
     where catalog_name = $1 and namespace = $2 order by property_key limit 1000`,
    [catalogName(tenant), SANDBOX],
  )
  if (rows.length === 0) return null
  return Object.fromEntries(rows.filter(({ key }) => key !== EXISTS).map(({ key, value }) => [key, value ?? '']))
}

/** Sets properties; `null` removes one. Two statements, for a transaction. */
export async function changeProperties(
  tx: pg.PoolClient,
  tenant: string,
  properties: Readonly<Record<string, string | null>>,
): Promise<void> {
  const removed = Object.keys(properties).filter((name) => properties[name] === null)
  const set = Object.entries(properties).filter(([, value]) => value !== null)
  const where = [catalogName(tenant), SANDBOX] as const
  await change(
    tx,
    'changing the catalog',
    `delete from iceberg_namespace_properties
     where catalog_name = $1 and namespace = $2 and property_key = any($3) and property_key <> '${EXISTS}'`,
    [...where, removed],
  )
  await change(
    tx,
    'changing the catalog',
    `insert into iceberg_namespace_properties (catalog_name, namespace, property_key, property_value)
     select $1, $2, key, value from unnest($3::text[], $4::text[]) as given(key, value)
     on conflict (catalog_name, namespace, property_key) do update set property_value = excluded.property_value`,
    [...where, set.map(([name]) => name), set.map(([, value]) => value)],
  )
}

/** False where it was there. */
export async function insertSandbox(tx: pg.PoolClient, tenant: string): Promise<boolean> {
  const { rowCount } = await tx.query(
    `insert into iceberg_namespace_properties (catalog_name, namespace, property_key, property_value)
     values ($1, $2, '${EXISTS}', 'true') on conflict do nothing`,
    [catalogName(tenant), SANDBOX],
  )
  return rowCount === 1
}

export async function deleteSandbox(tx: pg.PoolClient, tenant: string): Promise<void> {
  await change(
    tx,
    'changing the catalog',
    'delete from iceberg_namespace_properties where catalog_name = $1 and namespace = $2',
    [catalogName(tenant), SANDBOX],
  )
}

/** Makes changes of names one after the other in a tenant's sandbox, until the transaction ends. */
export async function lockNames(tx: pg.PoolClient, tenant: string): Promise<void> {
  await tx.query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [`sandbox names of ${tenant}`])
}

export interface SandboxRow {
  readonly table: string
  readonly metadataLocation: string
}

/** At most 10,000. */
export function sandboxTables(db: Queryable, tenant: string): Promise<SandboxRow[]> {
  return many<SandboxRow>(
    db,
    'reading the catalog',
    `select table_name as "table", metadata_location as "metadataLocation" from iceberg_tables
     where catalog_name = $1 and table_namespace = $2 and metadata_location is not null order by table_name limit 10000`,
    [catalogName(tenant), SANDBOX],
  )
}

/** The table with what is counted for it. Two statements, for a transaction. */
export async function renameTable(tx: pg.PoolClient, ref: TableRef, name: string): Promise<void> {
  for (const table of ['iceberg_tables', 'lake_storage', 'lake_writes']) {
    await change(
      tx,
      'changing the catalog',
      `update ${table} set table_name = $4 where catalog_name = $1 and table_namespace = $2 and table_name = $3`,
      [catalogName(ref.warehouse), ref.namespace, ref.table, name],
    )
  }
}
