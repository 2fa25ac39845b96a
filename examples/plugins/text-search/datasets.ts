/** The register: which dataset there is, in what state, and in which tables. */
import {
  type AppliedEpoch,
  notMaterialized,
  type RowPolicy,
  type TableSchema,
  type Target,
  tenantOf,
} from '@sluice/sdk'
import type { Config } from './config.ts'
import type { Database, Found } from './database.ts'

export interface Dataset {
  readonly id: bigint
  readonly schema: TableSchema
  readonly config: Config
  readonly policy: RowPolicy | null
  readonly fence: bigint | null
  readonly applied: AppliedEpoch | null
}

type Address = readonly [tenant: string, domain: string, product: string, variant: string]

export function addressOf({ scope, domain, product, variant }: Target<Config>): Address {
  return [tenantOf(scope), domain, product, variant]
}

const BY_ADDRESS = 'tenant = ? AND domain = ? AND product = ? AND variant = ?'

export function findDataset(database: Database, target: Target<Config>): Dataset | null {
  const [found] = database.all(`SELECT * FROM datasets WHERE ${BY_ADDRESS}`, ...addressOf(target))
  return found === undefined ? null : datasetFrom(found)
}

/** Throws TRANSIENT `not_materialized` where there is none. */
export function datasetOf(database: Database, target: Target<Config>): Dataset {
  const dataset = findDataset(database, target)
  if (dataset === null) throw notMaterialized()
  return dataset
}

export function datasetsOfTenant(database: Database, tenant: string): readonly Dataset[] {
  return database.all('SELECT * FROM datasets WHERE tenant = ?', tenant).map(datasetFrom)
}

function datasetFrom(found: Found): Dataset {
  const { epoch = null, policy = null, fence = null } = found
  const applied = () => ({
    epoch: Number(epoch),
    fence: BigInt(String(found['epoch_fence'])),
    committedAt: String(found['committed_at']),
  })
  return {
    id: found['id'] as bigint,
    schema: JSON.parse(String(found['schema'])) as TableSchema,
    config: JSON.parse(String(found['config'])) as Config,
    policy: policy === null ? null : (JSON.parse(String(policy)) as RowPolicy),
    fence: fence === null ? null : BigInt(String(fence)),
    applied: epoch === null ? null : applied(),
  }
}

/** Numbers alone stand in names of tables and columns. */
export function rowsTable({ id }: Pick<Dataset, 'id'>): string {
  return `rows_${id}`
}

/** The index of one column. Each has its own, so that no score hangs on text that was not searched. */
export function wordsTable({ id, schema }: Pick<Dataset, 'id' | 'schema'>, column: string): string {
  return `words_${id}_${columnOf(schema, column)}`
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

/** Removes what writes have left that never came to their end: those of this epoch and of those before. */
export function dropStages(database: Database, { id }: Pick<Dataset, 'id'>, epoch: number | null): void {
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
