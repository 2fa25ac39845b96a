/** The register: which dataset there is, in what state, and in which tables. Of any config: more than one store has it. */
import { isDeepStrictEqual } from 'node:util'
import {
  type AppliedEpoch,
  notMaterialized,
  type RowPolicy,
  type TableSchema,
  type Target,
  tenantOf,
} from '@sluice/sdk'
import type { Database, Found } from './database.ts'

export interface Dataset<C> {
  readonly id: bigint
  readonly schema: TableSchema
  readonly config: C
  readonly policy: RowPolicy | null
  readonly fence: bigint | null
  readonly applied: AppliedEpoch | null
}

/** All that names of tables are made of. */
type Named = Pick<Dataset<unknown>, 'id'>

type Address = readonly [tenant: string, domain: string, product: string, variant: string]

export function addressOf({ scope, domain, product, variant }: Target<unknown>): Address {
  return [tenantOf(scope), domain, product, variant]
}

const BY_ADDRESS = 'tenant = ? AND domain = ? AND product = ? AND variant = ?'

export function findDataset<C>(database: Database, target: Target<C>): Dataset<C> | null {
  const [found] = database.all(`SELECT * FROM datasets WHERE ${BY_ADDRESS}`, ...addressOf(target))
  return found === undefined ? null : datasetFrom(found)
}

/** Throws TRANSIENT `not_materialized` where there is none. */
export function datasetOf<C>(database: Database, target: Target<C>): Dataset<C> {
  const dataset = findDataset(database, target)
  if (dataset === null) throw notMaterialized()
  return dataset
}

export function datasetsOfTenant<C>(database: Database, tenant: string): readonly Dataset<C>[] {
  return database.all('SELECT * FROM datasets WHERE tenant = ?', tenant).map((found) => datasetFrom<C>(found))
}

function datasetFrom<C>(found: Found): Dataset<C> {
  const { epoch = null, policy = null, fence = null } = found
  const applied = () => ({
    epoch: Number(epoch),
    fence: BigInt(String(found['epoch_fence'])),
    committedAt: String(found['committed_at']),
  })
  return {
    id: found['id'] as bigint,
    schema: JSON.parse(String(found['schema'])) as TableSchema,
    config: JSON.parse(String(found['config'])) as C,
    policy: policy === null ? null : (JSON.parse(String(policy)) as RowPolicy),
    fence: fence === null ? null : BigInt(String(fence)),
    applied: epoch === null ? null : applied(),
  }
}

/** Numbers alone stand in names of tables and columns. */
export function rowsTable({ id }: Named): string {
  return `rows_${id}`
}

export function columnOf(schema: TableSchema, name: string): string {
  return `c${schema.columns.findIndex((column) => column.name === name)}`
}

export function allColumns({ columns }: TableSchema): readonly string[] {
  return columns.map((_, index) => `c${index}`)
}

export function keyColumns(schema: TableSchema): readonly string[] {
  return schema.primaryKey.map((name) => columnOf(schema, name))
}

export function stageTable(stage: bigint, part: 'upserts' | 'deletes'): string {
  return `stage_${stage}_${part}`
}

/** Rows stay as they are: new columns come last and may be null. */
export function growsInto(former: TableSchema, next: TableSchema): boolean {
  const kept = next.columns.slice(0, former.columns.length)
  const added = next.columns.slice(former.columns.length)
  return (
    isDeepStrictEqual([former.columns, former.primaryKey], [kept, next.primaryKey]) &&
    added.every(({ nullable }) => nullable)
  )
}

/** Removes what writes have left that never came to their end: those of this epoch and of those before. */
export function dropStages(database: Database, { id }: Named, epoch: number | null): void {
  const before = epoch === null ? '' : ` AND epoch <= ${epoch}`
  for (const { id: stage } of database.all(`SELECT id FROM stages WHERE dataset = ?${before}`, id)) {
    dropStage(database, stage as bigint)
  }
}

export function dropStage(database: Database, stage: bigint): void {
  database.run(`DROP TABLE IF EXISTS ${stageTable(stage, 'upserts')}`)
  database.run(`DROP TABLE IF EXISTS ${stageTable(stage, 'deletes')}`)
  database.change('DELETE FROM stages WHERE id = ?', stage)
}

/** The rows, what waits to become some, and the entry. */
export function forgetDataset(database: Database, dataset: Named): void {
  dropStages(database, dataset, null)
  database.run(`DROP TABLE IF EXISTS ${rowsTable(dataset)}`)
  database.change('DELETE FROM datasets WHERE id = ?', dataset.id)
}
