/**
 * Plans are made from the tenant's own line in the register and nothing else: that another tenant has a table of the
 * same name, of this shape or another, changes no plan, no statement in it and no error.
 */
import {
  checkPlanHash,
  type Host,
  type LogicalType,
  type Plan,
  type PlanStep,
  parseDecimal,
  planOfSteps,
  SluiceError,
  typeName,
} from '@sluice/sdk'
import { columnType } from './column-types.ts'
import {
  type Dataset,
  type DatasetKey,
  datasetsOf,
  ensureRegister,
  insertDataset,
  type LoadedDataset,
  loadDataset,
  lockDefinitions,
  moveDataset,
  PARTITION_SCHEMA,
  registerExists,
  requirePlace,
  retireDataset,
  retirePartition,
} from './datasets.ts'
import { qualified, quoteIdentifier, quoteLiteral } from './identifiers.ts'
import {
  attachPartition,
  beginDefinitions,
  createPartition,
  ensureParent,
  finishPartition,
  partitionName,
  removeEmptyParent,
  sweepRetired,
} from './partitions.ts'
import { wallStatements } from './row-security.ts'
import type { Client, Sessions } from './sessions.ts'
import { columnDefinitions, indexStatements, shapeHash, type TableColumn, type TableShape } from './table-shape.ts'
import { watchOlderPartition } from './truncations.ts'

/** A dataset's table as it is wanted. */
export interface WantedTable {
  readonly key: DatasetKey
  /** The domain's schema and the product's table by their plain names. */
  readonly schema: string
  readonly table: string
  readonly shape: TableShape
}

/** Fills the partition of the new shape from the old one; both are tables of the tenant alone. */
export type CopyPartition = (client: Client, from: string, to: string, wanted: WantedTable) => Promise<void>

/** The line of the dataset; null where nothing was ever provisioned in the database. */
async function currentDataset(client: Client, key: DatasetKey): Promise<LoadedDataset | null> {
  return (await registerExists(client)) ? await loadDataset(client, key) : null
}

export async function planTable(sessions: Sessions, wanted: WantedTable): Promise<Plan> {
  return await sessions.transaction('owner', wanted.key.tenant, 'planning', async (client) => {
    return planOfSteps(stepsFor(await currentDataset(client, wanted.key), wanted))
  })
}

/** Throws CONFLICT `stale_plan` where `expectedHash` is not the hash of what would now be done. */
export async function applyTable(
  sessions: Sessions,
  host: Host,
  wanted: WantedTable,
  expectedHash?: string,
  partitionBy = '',
  copy: CopyPartition = copyRows,
): Promise<Plan> {
  const { key, shape } = wanted
  let retired = false
  const plan = await sessions.use('owner', 'provisioning', async (client) => {
    await beginDefinitions(client, key.tenant)
    await ensureRegister(client, sessions.roles)
    await lockDefinitions(client, JSON.stringify(key))
    const dataset = await loadDataset(client, key, true)
    const made = planOfSteps(stepsFor(dataset, wanted))
    checkPlanHash(made, expectedHash)
    await host.faultPoint(`${key.endpoint}.provision-planned`)
    if (dataset === null) {
      const relation = await ensureParent(client, sessions.roles, wanted.schema, wanted.table, shape)
      await insertDataset(client, key, relation, shape, shapeHash(shape))
    } else if (made.steps.length > 0) {
      await reshape(client, sessions, host, wanted, dataset, partitionBy, copy)
      retired = dataset.partition !== null
    } else if (dataset.partition !== null) await watchOlderPartition(client, dataset.partition, key.tenant)
    await host.faultPoint(`${key.endpoint}.provision-before-commit`)
    await client.query('commit')
    return made
  })
  if (retired) await sweepRetired(sessions, key.tenant)
  return plan
}

/** Rows are copied into a partition of the new shape, which takes the old one's place with the commit. */
async function reshape(
  client: Client,
  sessions: Sessions,
  host: Host,
  wanted: WantedTable,
  dataset: Dataset,
  partitionBy: string,
  copy: CopyPartition,
): Promise<void> {
  const { key, schema, table, shape } = wanted
  const tenant = key.tenant
  const partition = dataset.partition === null ? null : partitionName(host.randomBytes(12))
  if (partition !== null && dataset.partition !== null) {
    await createPartition(client, partition, tenant, shape, partitionBy)
    await copy(client, dataset.partition, partition, wanted)
    await finishPartition(client, partition, shape)
    await retirePartition(client, tenant, { schema, relation: dataset.relation, partition: dataset.partition })
  }
  const relation = await ensureParent(client, sessions.roles, schema, table, shape)
  if (partition !== null) await attachPartition(client, schema, relation, partition, tenant)
  await moveDataset(client, key, { relation, partition, shape, hash: shapeHash(shape) })
}

async function copyRows(client: Client, from: string, to: string, wanted: WantedTable): Promise<void> {
  const kept = await sharedColumns(client, from, wanted.shape)
  const list = kept.map(quoteIdentifier).join(', ')
  await client.query(
    `insert into ${qualified(PARTITION_SCHEMA, to)} (${list}) select ${list} from ${qualified(PARTITION_SCHEMA, from)}`,
  )
}

/** The columns that the old partition has of those the new shape wants. */
export async function sharedColumns(client: Client, from: string, shape: TableShape): Promise<readonly string[]> {
  const result = await client.query<{ name: string }>(
    `select attname as name from pg_attribute where attrelid = to_regclass($1) and attnum > 0 and not attisdropped`,
    [qualified(PARTITION_SCHEMA, from)],
  )
  const there = new Set(result.rows.map((row) => row.name))
  return shape.columns.map((column) => column.name).filter((name) => there.has(name))
}

/** What leads from what the tenant has to what is wanted. Throws CONFLICT `schema_conflict` where rows would be lost. */
export function stepsFor(dataset: LoadedDataset | null, wanted: WantedTable): readonly PlanStep[] {
  if (dataset === null) return creation(wanted)
  requirePlace(dataset, wanted.key)
  if (dataset.shapeHash === shapeHash(wanted.shape)) return []
  return alteration(dataset.shape, wanted)
}

function creation({ key, schema, table, shape }: WantedTable): readonly PlanStep[] {
  const name = qualified(schema, table)
  const where = `${key.domain}.${key.product}`
  return [
    {
      action: 'create',
      description: `table of ${where} (${key.variant}) for the ${key.endpoint} endpoint`,
      statement: `create table ${name} (${columnDefinitions(shape)}) partition by list (tenant_id)`,
    },
    ...indexStatements(shape, name).map(
      (statement): PlanStep => ({ action: 'create', description: `index of ${where}`, statement }),
    ),
    ...wallStatements(name).map(
      (statement): PlanStep => ({ action: 'policy', description: `row security of ${where}`, statement }),
    ),
  ]
}

function alteration(current: TableShape, wanted: WantedTable): readonly PlanStep[] {
  const { shape, key } = wanted
  const where = `${key.domain}.${key.product}`
  const was = new Map(current.columns.map((column) => [column.name, column]))
  const conflict = schemaConflictOf(current, shape)
  if (conflict !== null) throw schemaConflict(where, conflict)
  const columns = shape.columns.flatMap((column) => alterColumn(was.get(column.name), column, wanted))
  const before = indexStatements(current, '')
  const added = indexStatements(shape, '').filter((statement) => !before.includes(statement))
  const gone = before.filter((statement) => !indexStatements(shape, '').includes(statement))
  return [
    ...columns,
    ...added.map((): PlanStep => ({ action: 'create', description: `index of ${where}` })),
    ...gone.map((): PlanStep => ({ action: 'drop', description: `index of ${where}` })),
  ]
}

/** Why rows of the one shape cannot be kept in the other, in words; null where they can. */
export function schemaConflictOf(current: TableShape, wanted: TableShape): string | null {
  const is = new Map(wanted.columns.map((column) => [column.name, column]))
  const lost = current.columns.filter((column) => !is.has(column.name)).map((column) => column.name)
  if (lost.length > 0) return `columns are gone: ${lost.join(', ')}`
  if (JSON.stringify(current.key) !== JSON.stringify(wanted.key)) return 'the key is another one'
  if (JSON.stringify(current.traits) !== JSON.stringify(wanted.traits)) {
    return 'the endpoint keeps its rows in another way'
  }
  for (const { name, type } of current.columns) {
    const to = is.get(name)?.type ?? type
    if (to !== type && !widens(type, to)) return `column ${name} cannot go from ${type} to ${to}`
  }
  return null
}

function alterColumn(was: TableColumn | undefined, is: TableColumn, wanted: WantedTable): readonly PlanStep[] {
  const name = qualified(wanted.schema, wanted.table)
  const column = quoteIdentifier(is.name)
  const type = columnType(is.type)
  if (was === undefined) {
    const statement = `alter table ${name} add column ${column} ${type}`
    return [{ action: 'alter', description: `column ${is.name} is new`, statement }]
  }
  if (was.type === is.type) return []
  const statement = `alter table ${name} alter column ${column} type ${type}`
  return [{ action: 'alter', description: `column ${is.name} goes from ${was.type} to ${is.type}`, statement }]
}

/** Whether every value of the one type is the same value of the other. */
export function widens(from: LogicalType, to: LogicalType): boolean {
  const pair = `${typeName(from)} ${typeName(to)}`
  if (pair === 'integer long' || pair === 'float double') return true
  if (pair !== 'decimal decimal') return false
  const [narrow, wide] = [parseDecimal(from), parseDecimal(to)]
  return narrow !== null && wide !== null && narrow.scale === wide.scale && narrow.precision <= wide.precision
}

function schemaConflict(where: string, what: string): SluiceError {
  return new SluiceError('CONFLICT', `${where} cannot keep its rows: ${what}`, {
    code: 'schema_conflict',
    remedy: 'Drop the endpoint’s table and build it anew from the lake.',
  })
}

/** Plan or apply of a removal; of what is not there, the plan is empty. */
export async function dropTable(
  sessions: Sessions,
  host: Host,
  wanted: WantedTable,
  mode: 'plan' | 'apply',
): Promise<Plan> {
  const { key, schema } = wanted
  const doing = 'dropping a table'
  const dataset = await sessions.transaction('owner', key.tenant, doing, async (client) => {
    const found = await currentDataset(client, key)
    if (found !== null && mode === 'apply') await retireDataset(client, key, schema, found)
    return found
  })
  if (mode === 'apply') await host.faultPoint(`${key.endpoint}.drop-after-commit`)
  if (mode === 'apply')
    await removeLeftovers(sessions, key.tenant, dataset ? [{ schema, relation: dataset.relation }] : [])
  if (dataset === null) return planOfSteps([])
  const statement = `delete from ${qualified(schema, wanted.table)} where tenant_id = ${quoteLiteral(key.tenant)}`
  const description = `rows of ${key.domain}.${key.product} (${key.variant}) at the ${key.endpoint} endpoint`
  return planOfSteps([{ action: 'drop', description, statement }])
}

/** Removes every dataset of the tenant at endpoints of one type. `schemaOf` names the schema of a domain. */
export async function dropTenantTables(
  sessions: Sessions,
  tenant: string,
  endpoint: string,
  schemaOf: (key: DatasetKey) => string,
): Promise<void> {
  const parents = await sessions.transaction('owner', tenant, 'dropping a tenant', async (client) => {
    if (!(await registerExists(client))) return []
    const found = await datasetsOf(client, tenant, endpoint)
    for (const { key, dataset } of found) await retireDataset(client, key, schemaOf(key), dataset)
    return found.map(({ key, dataset }) => ({ schema: schemaOf(key), relation: dataset.relation }))
  })
  await removeLeftovers(sessions, tenant, parents)
}

async function removeLeftovers(
  sessions: Sessions,
  tenant: string,
  parents: readonly { schema: string; relation: string }[],
): Promise<void> {
  const there = await sessions.use('owner', 'looking for the register', registerExists)
  if (!there) return
  await sweepRetired(sessions, tenant)
  await sessions.use('owner', 'removing empty tables', async (client) => {
    for (const parent of parents) await removeEmptyParent(client, parent.schema, parent.relation)
  })
}
