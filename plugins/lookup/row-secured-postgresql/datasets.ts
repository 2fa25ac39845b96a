/**
 * The store's own register, in schema `sluice_store`: which table serves a dataset, and which epoch is in it. It is
 * row-secured like every table of rows, so a tenant's sessions see that tenant's lines alone.
 */
import { type Commit, type DatasetName, physicalName, SluiceError } from '@sluice/sdk'
import { quoteIdentifier } from './identifiers.ts'
import { grantSchema, isGranted, runAll, wallStatements } from './row-security.ts'
import type { Client, Roles } from './sessions.ts'
import type { TableShape } from './table-shape.ts'

export const STORE_SCHEMA = 'sluice_store'
export const PARTITION_SCHEMA = 'sluice_partitions'

/** In a line, before the name of a partition that somebody has emptied: see `truncations.ts`. No table's name begins so. */
export const EMPTIED = 'emptied:'

/** A dataset at an endpoint. */
export interface DatasetKey extends DatasetName {
  readonly endpoint: string
}

export interface Dataset {
  /** The parent table, in the domain's schema. */
  readonly relation: string
  /** The tenant's own partition of it; null before the first write. */
  readonly partition: string | null
  readonly shape: TableShape
  readonly shapeHash: string
  readonly policyVersion: string | null
  readonly epoch: number | null
  readonly fence: bigint | null
  readonly committedAt: string | null
}

/** A dataset's line, and whether its table is where it says. */
export interface LoadedDataset extends Dataset {
  /** False where rows were written and the store no longer has the place: see `STANDS`. */
  readonly stands: boolean
}

const TABLES = [
  `create schema if not exists ${STORE_SCHEMA}`,
  `create schema if not exists ${PARTITION_SCHEMA}`,
  `create table ${STORE_SCHEMA}.datasets (
     tenant_id text collate "C" not null check (tenant_id <> ''),
     domain text collate "C" not null,
     product text collate "C" not null,
     variant text collate "C" not null,
     endpoint text collate "C" not null,
     relation text collate "C" not null,
     partition text collate "C",
     shape json not null,
     shape_hash text collate "C" not null,
     policy_version text,
     epoch bigint,
     fence bigint,
     committed_at timestamptz,
     history_at timestamptz,
     primary key (tenant_id, domain, product, variant, endpoint))`,
  `create table ${STORE_SCHEMA}.retired_partitions (
     tenant_id text collate "C" not null check (tenant_id <> ''),
     domain_schema text collate "C" not null,
     relation text collate "C" not null,
     partition text collate "C" not null,
     primary key (tenant_id, partition))`,
]

function grants(roles: Roles): readonly string[] {
  const [reader, writer] = [roles.reader, roles.writer].map(quoteIdentifier)
  return [
    grantSchema(STORE_SCHEMA, roles),
    `grant select on ${STORE_SCHEMA}.datasets to ${reader}, ${writer}`,
    `grant update (epoch, fence, committed_at, history_at) on ${STORE_SCHEMA}.datasets to ${writer}`,
  ]
}

/** Serialises statements that make or remove tables; held until the transaction ends, so take it late. */
export async function lockDefinitions(client: Client, what: string): Promise<void> {
  await client.query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [`sluice:${what}`])
}

/** Asks the catalogs' rows: `to_regclass` answers from a cache that no lock but a table's brings up to date. */
export async function registerExists(client: Client): Promise<boolean> {
  const result = await client.query(
    `select from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 and c.relname = $2`,
    [STORE_SCHEMA, 'retired_partitions'],
  )
  return result.rowCount === 1
}

/** Makes the register where it is missing, and lets these logins use it. */
export async function ensureRegister(client: Client, roles: Roles): Promise<void> {
  if (await isGranted(client, STORE_SCHEMA, 'datasets', roles)) return
  await lockDefinitions(client, STORE_SCHEMA)
  if (!(await registerExists(client))) {
    await runAll(client, TABLES)
    for (const table of ['datasets', 'retired_partitions']) {
      await runAll(client, wallStatements(`${STORE_SCHEMA}.${table}`))
    }
  }
  await runAll(client, grants(roles))
}

/**
 * Over a line `d`, and the schema of its parent as $6: that the partition it names is there, walled, and hangs under the
 * parent through which it is read. Through a parent that lacks it a read would find no rows, and no error. Only the store
 * walls tables: one that somebody made anew under the same name counts as none, and so does one that somebody emptied, which is
 * noted in its name (`truncations.ts`). Where both names are one, the table has no parent.
 */
export const STANDS = `(d.partition is null or exists (
  select from pg_class p join pg_namespace n on n.oid = p.relnamespace
    where p.relname = d.partition::name and n.nspname = '${PARTITION_SCHEMA}' and p.relforcerowsecurity
      and (d.partition = d.relation or exists (
        select from pg_inherits i join pg_class c on c.oid = i.inhparent join pg_namespace s on s.oid = c.relnamespace
          where i.inhrelid = p.oid and not i.inhdetachpending and c.relforcerowsecurity
            and c.relname = d.relation::name and s.nspname = $6))))`

const BY_KEY = 'tenant_id = $1 and domain = $2 and product = $3 and variant = $4 and endpoint = $5'

export function keyValues(key: DatasetKey): readonly string[] {
  return [key.tenant, key.domain, key.product, key.variant, key.endpoint]
}

interface DatasetLine {
  readonly relation: string
  readonly partition: string | null
  readonly shape: TableShape
  readonly shape_hash: string
  readonly policy_version: string | null
  readonly epoch: string | null
  readonly fence: string | null
  readonly committed_at: string | null
}

const COLUMNS = `relation, partition, shape, shape_hash, policy_version, epoch::text, fence::text,
  to_char(committed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as committed_at`

/** The dataset's line; null where it is not provisioned. The session's tenant must be set. */
export async function loadDataset(client: Client, key: DatasetKey, lock = false): Promise<LoadedDataset | null> {
  const text = `select ${COLUMNS}, ${STANDS} as stands from ${STORE_SCHEMA}.datasets d where ${BY_KEY}${lock ? ' for update' : ''}`
  const values = [...keyValues(key), physicalName(key.domain)]
  const result = await client.query<DatasetLine & { readonly stands: boolean }>(text, values)
  const line = result.rows[0]
  return line ? { ...fromLine(line), stands: line.stands } : null
}

function fromLine(line: DatasetLine): Dataset {
  return {
    relation: line.relation,
    partition: line.partition,
    shape: line.shape,
    shapeHash: line.shape_hash,
    policyVersion: line.policy_version,
    epoch: line.epoch === null ? null : Number(line.epoch),
    fence: line.fence === null ? null : BigInt(line.fence),
    committedAt: line.committed_at,
  }
}

export async function insertDataset(
  client: Client,
  key: DatasetKey,
  relation: string,
  shape: TableShape,
  hash: string,
): Promise<void> {
  await client.query(
    `insert into ${STORE_SCHEMA}.datasets (tenant_id, domain, product, variant, endpoint, relation, shape, shape_hash)
     values ($1, $2, $3, $4, $5, $6, $7, $8)`,
    [...keyValues(key), relation, JSON.stringify(shape), hash],
  )
}

export async function moveDataset(
  client: Client,
  key: DatasetKey,
  to: { relation: string; partition: string | null; shape: TableShape; hash: string },
): Promise<void> {
  await client.query(
    `update ${STORE_SCHEMA}.datasets set relation = $6, partition = $7, shape = $8, shape_hash = $9 where ${BY_KEY}`,
    [...keyValues(key), to.relation, to.partition, JSON.stringify(to.shape), to.hash],
  )
}

export async function setPartition(client: Client, key: DatasetKey, partition: string): Promise<void> {
  await client.query(`update ${STORE_SCHEMA}.datasets set partition = $6 where ${BY_KEY}`, [
    ...keyValues(key),
    partition,
  ])
}

export async function setPolicyVersion(client: Client, key: DatasetKey, version: string): Promise<boolean> {
  const result = await client.query(`update ${STORE_SCHEMA}.datasets set policy_version = $6 where ${BY_KEY}`, [
    ...keyValues(key),
    version,
  ])
  return result.rowCount === 1
}

/**
 * The instant of the epoch in histories: when the lake committed it, but always after the epoch before, so that no
 * interval is empty where two clocks disagree. The same epochs give the same instants; a full set starts anew.
 */
export async function historyInstant(client: Client, key: DatasetKey, commit: Commit, full: boolean): Promise<string> {
  const result = await client.query<{ instant: string }>(
    `select to_char(greatest($6::timestamptz, case when $7 then null else history_at + interval '1 microsecond' end)
        at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as instant from ${STORE_SCHEMA}.datasets where ${BY_KEY}`,
    [...keyValues(key), commit.committedAt, full],
  )
  const instant = result.rows[0]?.instant
  if (instant === undefined) throw notProvisioned(key)
  return instant
}

export async function setEpoch(
  client: Client,
  key: DatasetKey,
  commit: Pick<Commit, 'epoch' | 'committedAt'>,
  instant: string,
): Promise<void> {
  await client.query(
    `update ${STORE_SCHEMA}.datasets set epoch = $6, committed_at = $7::timestamptz, history_at = $8::timestamptz
      where ${BY_KEY}`,
    [...keyValues(key), commit.epoch, commit.committedAt, instant],
  )
}

/**
 * Remembers the fence before anything is staged, so that an older writer is refused from now on. Throws FENCED
 * `stale_fence` for a token below the one remembered, CONFLICT `not_provisioned` where there is no dataset.
 */
export async function raiseFence(client: Client, key: DatasetKey, fence: bigint): Promise<LoadedDataset> {
  await client.query(
    `update ${STORE_SCHEMA}.datasets set fence = $6 where ${BY_KEY} and (fence is null or fence < $6)`,
    [...keyValues(key), fence.toString()],
  )
  const dataset = await loadDataset(client, key)
  return checkFence(dataset, key, fence)
}

export function checkFence(dataset: LoadedDataset | null, key: DatasetKey, fence: bigint): LoadedDataset {
  if (dataset === null) throw notProvisioned(key)
  if (dataset.fence !== null && dataset.fence > fence) {
    throw new SluiceError('FENCED', `a newer writer has taken over ${key.domain}.${key.product}`, {
      code: 'stale_fence',
      remedy: 'Stop this writer; the newer one goes on.',
    })
  }
  return dataset
}

export function notMaterialized(key: DatasetKey): SluiceError {
  return new SluiceError('TRANSIENT', `${key.domain}.${key.product} has not been materialized yet`, {
    code: 'not_materialized',
    remedy: 'Wait for the first materialization to end.',
    retryAfterMs: 1000,
  })
}

export function notProvisioned(key: DatasetKey): SluiceError {
  return new SluiceError('CONFLICT', `${key.domain}.${key.product} is not provisioned in the PostgreSQL store`, {
    code: 'not_provisioned',
    remedy: 'Provision the endpoint, then repeat the call.',
  })
}

/** Throws CONFLICT `schema_conflict` where the register has rows whose table is not in its place. */
export function requirePlace(dataset: LoadedDataset, key: DatasetKey): void {
  if (!dataset.stands) throw placeLost(key)
}

export function placeLost({ domain, product }: DatasetKey): SluiceError {
  return new SluiceError('CONFLICT', `the table with the rows of ${domain}.${product} is gone from its place`, {
    code: 'schema_conflict',
    remedy: 'Drop what the store has of the dataset, and build it anew from the lake.',
  })
}

/** Removes the dataset's line and notes its partition for removal. */
export async function retireDataset(client: Client, key: DatasetKey, schema: string, dataset: Dataset): Promise<void> {
  await client.query(`delete from ${STORE_SCHEMA}.datasets where ${BY_KEY}`, [...keyValues(key)])
  if (dataset.partition !== null) {
    const named = dataset.partition
    const partition = named.startsWith(EMPTIED) ? named.slice(EMPTIED.length) : named
    await retirePartition(client, key.tenant, { schema, relation: dataset.relation, partition })
  }
}

export interface RetiredPartition {
  readonly schema: string
  readonly relation: string
  readonly partition: string
}

export async function retirePartition(client: Client, tenant: string, retired: RetiredPartition): Promise<void> {
  await client.query(
    `insert into ${STORE_SCHEMA}.retired_partitions (tenant_id, domain_schema, relation, partition)
     values ($1, $2, $3, $4) on conflict do nothing`,
    [tenant, retired.schema, retired.relation, retired.partition],
  )
}

export async function retiredPartitions(client: Client, tenant: string): Promise<readonly RetiredPartition[]> {
  const result = await client.query<RetiredPartition>(
    `select domain_schema as schema, relation, partition from ${STORE_SCHEMA}.retired_partitions
      where tenant_id = $1 order by partition`,
    [tenant],
  )
  return result.rows
}

export async function forgetRetired(client: Client, tenant: string, partition: string): Promise<void> {
  await client.query(`delete from ${STORE_SCHEMA}.retired_partitions where tenant_id = $1 and partition = $2`, [
    tenant,
    partition,
  ])
}

/** Every dataset of the tenant at endpoints of one type, and what is kept beside them (`timeseries/1 week`). */
export async function datasetsOf(
  client: Client,
  tenant: string,
  endpoint: string,
): Promise<readonly { key: DatasetKey; dataset: Dataset }[]> {
  const result = await client.query<DatasetLine & { domain: string; product: string; variant: string; at: string }>(
    `select domain, product, variant, endpoint as at, ${COLUMNS} from ${STORE_SCHEMA}.datasets
      where tenant_id = $1 and (endpoint = $2 or starts_with(endpoint, $2 || '/'))`,
    [tenant, endpoint],
  )
  return result.rows.map((line) => {
    const { domain, product, variant, at: endpoint } = line
    return { key: { tenant, domain, product, variant, endpoint }, dataset: fromLine(line) }
  })
}
