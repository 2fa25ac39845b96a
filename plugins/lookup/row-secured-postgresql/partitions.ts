/**
 * Parents shared by tenants, and partitions of one tenant each. A parent is told by the hash of its shape, which
 * stands in its comment; where a domain's table has another shape, a sibling with a hashed name serves instead.
 * Whether there was a parent before shows nowhere but in the catalogs.
 */
import { physicalName, SluiceError } from '@sluice/sdk'
import {
  forgetRetired,
  lockDefinitions,
  PARTITION_SCHEMA,
  type RetiredPartition,
  retiredPartitions,
} from './datasets.ts'
import { sqlState } from './driver-errors.ts'
import { qualified, quoteIdentifier, quoteLiteral } from './identifiers.ts'
import { grantSchema, grantTable, isGranted, runAll, tenantCheck, wallStatements } from './row-security.ts'
import { begin, type Client, type Roles, type Sessions } from './sessions.ts'
import { columnDefinitions, indexStatements, shapeHash, type TableShape } from './table-shape.ts'
import { watchTruncations } from './truncations.ts'

/** Locks that only keep out other definitions are waited for; nobody's reads queue behind them. */
const DEFINITION_LOCK_TIMEOUT = '30s'

/** Locks that keep out readers are tried briefly: while they wait, other tenants' reads wait behind them. */
const EXCLUSIVE_LOCK_TIMEOUT = '100ms'

/** Under one name, since a partition must have its parent's constraints by name. */
const TENANT_NAMED = `constraint tenant_named check (tenant_id <> '')`

/** While a detachment waits for those who read the parent, other tenants' partitions cannot be attached. */
const DETACH_LOCK_TIMEOUT = '1s'

const MAX_DETACH_ATTEMPTS = 5

function mark(hash: string): string {
  return `sluice:${hash}`
}

async function markOf(client: Client, schema: string, table: string): Promise<string | null | undefined> {
  const result = await client.query<{ mark: string | null }>(
    `select obj_description(c.oid, 'pg_class') as mark from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = $1 and c.relname = $2`,
    [schema, table],
  )
  return result.rows.length === 0 ? undefined : (result.rows[0]?.mark ?? null)
}

export async function beginDefinitions(client: Client, tenant: string): Promise<void> {
  await begin(client, tenant, '', `set local lock_timeout = '${DEFINITION_LOCK_TIMEOUT}';`)
}

/** The parent for tables of that shape, made where it is missing; its name within the schema. */
export async function ensureParent(
  client: Client,
  roles: Roles,
  schema: string,
  table: string,
  shape: TableShape,
): Promise<string> {
  const hash = shapeHash(shape)
  await lockDefinitions(client, schema)
  for (const name of [table, physicalName(`${table}__${hash.slice(0, 12)}`)]) {
    const found = await markOf(client, schema, name)
    if (found === mark(hash)) {
      if (!(await isGranted(client, schema, name, roles))) await grantParent(client, roles, schema, name)
      return name
    }
    if (found !== undefined) continue
    await createParent(client, roles, schema, name, shape)
    return name
  }
  throw new SluiceError('CONFLICT', `the schema "${schema}" holds tables that this store has not made`, {
    code: 'name_taken',
    remedy: 'Give the store a database of its own.',
  })
}

async function createParent(
  client: Client,
  roles: Roles,
  schema: string,
  name: string,
  shape: TableShape,
): Promise<void> {
  const table = qualified(schema, name)
  await runAll(client, [
    `create schema if not exists ${quoteIdentifier(schema)}`,
    `create table ${table} (${columnDefinitions(shape)}, ${TENANT_NAMED}) partition by list (tenant_id)`,
    ...indexStatements(shape, table),
    ...wallStatements(table),
    `comment on table ${table} is ${quoteLiteral(mark(shapeHash(shape)))}`,
  ])
  await grantParent(client, roles, schema, name)
}

async function grantParent(client: Client, roles: Roles, schema: string, name: string): Promise<void> {
  await runAll(client, [grantSchema(schema, roles), ...grantTable(qualified(schema, name), roles)])
}

/** A table of its own that nobody sees yet, without indexes and policy, so that COPY may fill it. */
export async function createPartition(
  client: Client,
  partition: string,
  tenant: string,
  shape: TableShape,
  partitionBy = '',
): Promise<void> {
  const table = qualified(PARTITION_SCHEMA, partition)
  const columns = columnDefinitions(shape, quoteLiteral(tenant))
  await client.query(`create table ${table} (${columns}, ${TENANT_NAMED}, ${tenantCheck(tenant)}) ${partitionBy}`)
  await watchTruncations(client, [partition], tenant)
}

/** Indexes and the wall: what a filled partition needs before it is attached. */
export async function finishPartition(client: Client, partition: string, shape: TableShape): Promise<void> {
  const table = qualified(PARTITION_SCHEMA, partition)
  await runAll(client, [...indexStatements(shape, table), ...wallStatements(table)])
}

export async function attachPartition(
  client: Client,
  schema: string,
  relation: string,
  partition: string,
  tenant: string,
): Promise<void> {
  const values = `for values in (${quoteLiteral(tenant)})`
  await client.query(
    `alter table ${qualified(schema, relation)} attach partition ${qualified(PARTITION_SCHEMA, partition)} ${values}`,
  )
}

/** As `attachPartition`, for a piece of a tenant's own partition; `bounds` as in `for values from (…) to (…)`. */
export async function attachChunk(client: Client, partition: string, chunk: string, bounds: string): Promise<void> {
  const [parent, table] = [qualified(PARTITION_SCHEMA, partition), qualified(PARTITION_SCHEMA, chunk)]
  await client.query(`alter table ${parent} attach partition ${table} ${bounds}`)
}

/** A name that no other partition has: epochs are rebuilt, so neither they nor the dataset make one. */
export function partitionName(randomBytes: Uint8Array): string {
  return `rows_${Buffer.from(randomBytes).toString('hex')}`
}

/**
 * Removes the partitions that the tenant's datasets have left behind. Detaching waits for those who read the parent
 * but holds nobody up, and may be called again after a failure at any point.
 */
export async function sweepRetired(sessions: Sessions, tenant: string): Promise<void> {
  await sessions.use('owner', 'removing retired partitions', async (client) => {
    // One sweep of a tenant at a time: several would lock each other out. Whoever fails loses the session with the lock.
    const lock = [`sluice:sweep:${tenant}`]
    await client.query(`set lock_timeout = '${DEFINITION_LOCK_TIMEOUT}'`)
    await client.query('select pg_advisory_lock(hashtextextended($1, 0))', lock)
    await beginDefinitions(client, tenant)
    const retired = await retiredPartitions(client, tenant)
    await client.query('commit')
    for (const one of retired) await removePartition(client, tenant, one)
    await client.query('select pg_advisory_unlock(hashtextextended($1, 0))', lock)
    await client.query('reset lock_timeout')
  })
}

async function removePartition(client: Client, tenant: string, retired: RetiredPartition): Promise<void> {
  const { schema, relation, partition } = retired
  const table = qualified(PARTITION_SCHEMA, partition)
  await emptyPartition(client, retired)
  await detach(client, retired)
  await beginDefinitions(client, tenant)
  await client.query(`drop table if exists ${table} cascade`)
  await forgetRetired(client, tenant, partition)
  await client.query('commit')
  await removeEmptyParent(client, schema, relation)
}

/** The rows go first: nobody but their tenant ever locked them, so this need not wait for other tenants. */
async function emptyPartition(client: Client, { partition }: RetiredPartition): Promise<void> {
  try {
    await client.query(`set lock_timeout = '${DETACH_LOCK_TIMEOUT}'`)
    const found = await client.query(`select to_regclass($1) is not null as there`, [
      qualified(PARTITION_SCHEMA, partition),
    ])
    if (found.rows[0]?.there === true) await client.query(`truncate ${qualified(PARTITION_SCHEMA, partition)}`)
  } catch (error) {
    if (!['55P03', '40P01'].includes(sqlState(error) ?? '')) throw error
  }
}

/** One detachment may be pending on a parent at a time: another tenant's is brought to its end first. */
async function detach(client: Client, retired: RetiredPartition): Promise<void> {
  const { schema, relation, partition } = retired
  const parent = qualified(schema, relation)
  await client.query(`set lock_timeout = '${DETACH_LOCK_TIMEOUT}'`)
  try {
    for (let attempt = 0; attempt < MAX_DETACH_ATTEMPTS; attempt += 1) {
      const attached = await attachedTo(client, schema, relation)
      const pending = attached.find((one) => one.pending)
      if (!attached.some((one) => one.name === partition)) return
      const victim = qualified(PARTITION_SCHEMA, pending?.name ?? partition)
      const manner = pending ? 'finalize' : 'concurrently'
      try {
        await client.query(`alter table ${parent} detach partition ${victim} ${manner}`)
      } catch (error) {
        if (!isDetachRace(error)) throw error
      }
    }
  } finally {
    await client.query('reset lock_timeout')
  }
  throw new SluiceError('TRANSIENT', 'the rows are gone; their empty partition is still held by a long read', {
    code: 'store_contention',
    remedy: 'Repeat the call a little later.',
    retryAfterMs: 5000,
  })
}

function isDetachRace(error: unknown): boolean {
  return ['55000', '42P01', '40P01', '55P03', '42809'].includes(sqlState(error) ?? '')
}

async function attachedTo(
  client: Client,
  schema: string,
  relation: string,
): Promise<readonly { name: string; pending: boolean }[]> {
  const result = await client.query<{ name: string; pending: boolean }>(
    `select p.relname as name, i.inhdetachpending as pending
       from pg_inherits i join pg_class p on p.oid = i.inhrelid
      where i.inhparent = to_regclass($1)`,
    [qualified(schema, relation)],
  )
  return result.rows
}

/** Best effort: an empty parent costs nothing and tells nothing, and the next removal tries again. */
export async function removeEmptyParent(client: Client, schema: string, relation: string): Promise<void> {
  try {
    await client.query('begin')
    await client.query(`set local lock_timeout = '${EXCLUSIVE_LOCK_TIMEOUT}'`)
    await lockDefinitions(client, schema)
    if ((await attachedTo(client, schema, relation)).length === 0) {
      await client.query(`drop table if exists ${qualified(schema, relation)}`)
      if (await isEmptySchema(client, schema)) await client.query(`drop schema ${quoteIdentifier(schema)}`)
    }
    await client.query('commit')
  } catch (error) {
    await client.query('rollback')
    // In use, filled or gone in the meantime.
    if (!['2BP01', '55P03', '40P01', '42P01', '3F000'].includes(sqlState(error) ?? '')) throw error
  }
}

async function isEmptySchema(client: Client, schema: string): Promise<boolean> {
  const result = await client.query<{ empty: boolean }>(
    `select not exists (select from pg_class c where c.relnamespace = n.oid) as empty
       from pg_namespace n where n.nspname = $1 and pg_get_userbyid(n.nspowner) = current_user`,
    [schema],
  )
  return result.rows[0]?.empty === true
}
