import type { BucketOwner, BucketRecords, Catalog, CatalogEntry, TableRef } from '@sluice/iceberg'
import { SluiceError } from '@sluice/sdk'
import type { ClientBase, Pool } from 'pg'
import { catalogName, TENANT_LAYOUT } from './tenant-layout.ts'

/** Anything that runs SQL: a pool, or the client of a transaction that the caller ends. */
export type Queryable = Pick<ClientBase, 'query'> | Pick<Pool, 'query'>

/**
 * The catalog in the registry: the rows of Iceberg's SQL catalog, and what we keep beside them. In a transaction, what it
 * changes is there with the COMMIT.
 */
export function registryCatalog(db: Queryable): Catalog {
  return {
    layout: TENANT_LAYOUT,
    owners: bucketRecords(db),
    pointer: (ref) => metadataLocation(db, ref),
    async movePointer(ref, from, to) {
      await ensureNamespace(db, ref.warehouse, ref.namespace)
      return moveTable(db, ref, from, to)
    },
    dropPointer: (ref) => deleteTable(db, ref),
    tables: (tenant, domain) => listTables(db, tenant, domain),
    dropWarehouse: (tenant) => deleteCatalog(db, tenant),
    leaseWrite: (ref, writeId, leaseMs) => leaseWrite(db, ref, writeId, leaseMs),
    endWrite: (_ref, writeId) => endWrite(db, writeId),
    hasOpenWrites: (ref) => hasOpenWrites(db, ref),
    addBytes: (ref, bytes) => addStorage(db, ref, bytes),
    setBytes: (ref, location, bytes) => setStorage(db, ref, location, bytes),
  }
}

const key = (ref: TableRef): readonly string[] => [catalogName(ref.warehouse), ref.namespace, ref.table]

async function metadataLocation(db: Queryable, ref: TableRef): Promise<string | null> {
  const { rows } = await run<{ metadata_location: string | null }>(
    db,
    `select metadata_location from iceberg_tables
     where catalog_name = $1 and table_namespace = $2 and table_name = $3`,
    key(ref),
  )
  return rows[0]?.metadata_location ?? null
}

async function listTables(db: Queryable, tenant: string, domain?: string): Promise<readonly CatalogEntry[]> {
  const { rows } = await run<{ table_namespace: string; table_name: string; metadata_location: string }>(
    db,
    `select table_namespace, table_name, metadata_location from iceberg_tables
     where catalog_name = $1 and ($2::text is null or table_namespace = $2) and metadata_location is not null
     order by table_namespace, table_name limit 10000`,
    [catalogName(tenant), domain ?? null],
  )
  return rows.map((row) => ({
    ref: { warehouse: tenant, namespace: row.table_namespace, table: row.table_name },
    metadataLocation: row.metadata_location,
  }))
}

/** Addresses of object stores that pointers lead to: what stands before a tenant's bucket. */
export async function storeAddresses(db: Queryable): Promise<readonly string[]> {
  const { rows } = await run<{ address: string }>(
    db,
    `select distinct split_part(metadata_location, '/sluice-' || substr(catalog_name, length('lakehouse_') + 1) || '/', 1) as address
     from iceberg_tables where metadata_location is not null limit 100`,
    [],
  )
  return rows.map(({ address }) => address)
}

async function moveTable(db: Queryable, ref: TableRef, from: string | null, to: string): Promise<boolean> {
  const { rowCount } =
    from === null
      ? await run(
          db,
          `insert into iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type)
           values ($1, $2, $3, $4, 'TABLE') on conflict do nothing`,
          [...key(ref), to],
        )
      : await run(
          db,
          `update iceberg_tables set metadata_location = $5, previous_metadata_location = $4
           where catalog_name = $1 and table_namespace = $2 and table_name = $3 and metadata_location = $4`,
          [...key(ref), from, to],
        )
  return rowCount === 1
}

/** Idempotent. A namespace exists while it has a property. */
async function ensureNamespace(db: Queryable, tenant: string, domain: string): Promise<void> {
  await run(
    db,
    `insert into iceberg_namespace_properties (catalog_name, namespace, property_key, property_value)
     values ($1, $2, 'exists', 'true') on conflict do nothing`,
    [catalogName(tenant), domain],
  )
}

/** Idempotent. The table's files stay. */
async function deleteTable(db: Queryable, ref: TableRef): Promise<void> {
  for (const table of ['iceberg_tables', 'lake_storage']) {
    await run(db, `delete from ${table} where catalog_name = $1 and table_namespace = $2 and table_name = $3`, key(ref))
  }
}

/** Idempotent. Everything that the catalog knows of a tenant. */
async function deleteCatalog(db: Queryable, tenant: string): Promise<void> {
  for (const table of [
    'iceberg_tables',
    'iceberg_namespace_properties',
    'lake_storage',
    'lake_writes',
    'lake_upkeep',
  ]) {
    await run(db, `delete from ${table} where catalog_name = $1`, [catalogName(tenant)])
  }
}

function bucketRecords(db: Queryable): BucketRecords {
  return {
    find: (tenant) => ownerOf(db, tenant),
    async keep(tenant, { mark = null, state }) {
      await run(
        db,
        `insert into lake_owners (catalog_name, mark, state) values ($1, $2, $3)
         on conflict (catalog_name) do update set mark = coalesce(lake_owners.mark, excluded.mark), state = excluded.state`,
        [catalogName(tenant), mark, state],
      )
    },
    async drop(tenant) {
      await run(db, 'delete from lake_owners where catalog_name = $1', [catalogName(tenant)])
    },
  }
}

async function ownerOf(db: Queryable, tenant: string): Promise<BucketOwner | null> {
  const { rows } = await run<BucketOwner>(db, 'select mark, state from lake_owners where catalog_name = $1', [
    catalogName(tenant),
  ])
  return rows[0] ?? null
}

/** Of the tenant's bucket, as the last look at it has found it; null where all is well. */
export async function strangeBucket(db: Queryable, tenant: string): Promise<'emptied' | 'foreign' | null> {
  const state = (await ownerOf(db, tenant))?.state
  return state === 'emptied' || state === 'foreign' ? state : null
}

/** How many tenants' buckets were not theirs when they were looked at last. */
export async function strangeBuckets(db: Queryable): Promise<{ readonly emptied: number; readonly foreign: number }> {
  const { rows } = await run<{ emptied: number; foreign: number }>(
    db,
    `select count(*) filter (where state = 'emptied')::int as emptied,
       count(*) filter (where state = 'foreign')::int as "foreign" from lake_owners`,
    [],
  )
  return rows[0] ?? { emptied: 0, foreign: 0 }
}

/** Adds to (or takes from) what a table is counted with. */
async function addStorage(db: Queryable, ref: TableRef, bytes: number): Promise<void> {
  await run(
    db,
    `insert into lake_storage (catalog_name, table_namespace, table_name, stored_bytes)
     values ($1, $2, $3, greatest($4::bigint, 0))
     on conflict (catalog_name, table_namespace, table_name)
     do update set stored_bytes = greatest(lake_storage.stored_bytes + $4::bigint, 0)`,
    [...key(ref), bytes],
  )
}

async function setStorage(db: Queryable, ref: TableRef, location: string, bytes: number): Promise<boolean> {
  const { rowCount } = await run(
    db,
    `update lake_storage s set stored_bytes = $4
     from iceberg_tables t
     where s.catalog_name = $1 and s.table_namespace = $2 and s.table_name = $3 and t.metadata_location = $5
       and (t.catalog_name, t.table_namespace, t.table_name) = (s.catalog_name, s.table_namespace, s.table_name)`,
    [...key(ref), bytes, location],
  )
  return (rowCount ?? 0) > 0
}

/** By the database's clock. */
async function leaseWrite(db: Queryable, ref: TableRef, writeId: string, leaseMs: number): Promise<void> {
  await run(
    db,
    `insert into lake_writes (catalog_name, table_namespace, table_name, write_id, lease_until)
     values ($1, $2, $3, $4, now() + $5 * interval '1 millisecond')
     on conflict (write_id) do update set lease_until = greatest(lake_writes.lease_until, excluded.lease_until)`,
    [...key(ref), writeId, leaseMs],
  )
}

async function endWrite(db: Queryable, writeId: string): Promise<void> {
  await run(db, 'delete from lake_writes where write_id = $1', [writeId])
}

async function hasOpenWrites(db: Queryable, ref: TableRef): Promise<boolean> {
  const { rows } = await run(
    db,
    `select 1 from lake_writes
     where catalog_name = $1 and table_namespace = $2 and table_name = $3 and lease_until > now() limit 1`,
    key(ref),
  )
  return rows.length > 0
}

interface Result<Row> {
  readonly rows: Row[]
  readonly rowCount: number | null
}

async function run<Row>(db: Queryable, sql: string, values: readonly unknown[]): Promise<Result<Row>> {
  try {
    return (await (db as Pick<ClientBase, 'query'>).query(sql, [...values])) as unknown as Result<Row>
  } catch (error) {
    // A serialization failure or a deadlock must reach the caller's transaction as it is: it decides on a retry.
    if (error instanceof Error && 'code' in error && ['40001', '40P01'].includes(String(error.code))) throw error
    throw new SluiceError('TRANSIENT', 'the lake catalog could not be read or written', {
      code: 'lake_catalog_unavailable',
      remedy: 'Check that the registry database is up and reachable.',
      cause: error,
    })
  }
}
