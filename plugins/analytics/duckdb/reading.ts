import {
  checkReadPlan,
  type LakeEngine,
  type LakeQuery,
  type LakeTable,
  notMaterialized,
  type ReadBatch,
  type ReadPlan,
  type Row,
  SluiceError,
  type Target,
  unsupported,
} from '@sluice/sdk'
import { pageOf } from '../scan/page.ts'
import { compileScan, type SelectedColumn } from '../scan/scan-sql.ts'
import { capabilities } from './capabilities.ts'
import { rowOf } from './cells.ts'
import { duckdbDialect } from './dialect.ts'
import type { RegisteredEpoch, Registration } from './registrations.ts'

/** Of the engine's process, beyond what it needs for itself. */
const SCAN_MEMORY_BYTES = 512 * 2 ** 20

/** One page of the registered epoch. */
export async function readPage(
  engine: LakeEngine | undefined,
  registration: Registration | null,
  target: Target,
  plan: ReadPlan,
): Promise<ReadBatch> {
  checkReadPlan(plan, capabilities)
  if (plan.timeoutMs <= 0)
    throw new SluiceError('TRANSIENT', 'the read has no time left', { code: 'deadline_exceeded' })
  const current = registration?.current
  if (!registration || !current) throw notMaterialized()
  const { epoch } = current.applied
  if (registration.policy === null) return { ...pageOf([], [], plan), epoch }
  if (engine === undefined) throw unsupported('reads without an engine over the lake')
  const name = [target.domain, target.product]
  const source = {
    schema: registration.schema,
    present: new Set(current.schema.columns.map((column) => column.name)),
  }
  const { sql, parameters, selected } = compileScan(source, plan, duckdbDialect(name))
  const query: LakeQuery = {
    sql,
    parameters,
    tables: [tableOf(name, current)],
    limits: { maxRows: plan.limit + 1, timeoutMs: plan.timeoutMs, memoryBytes: SCAN_MEMORY_BYTES },
    signal: plan.signal,
    scope: target.scope,
  }
  const rows = await rowsOf(engine, query, selected)
  return { ...pageOf(rows, selected, plan), epoch }
}

function tableOf(name: readonly string[], { schema, snapshot }: RegisteredEpoch): LakeTable {
  const columns = schema.columns.flatMap(({ name: column, type }) => {
    const fieldId = snapshot.fieldIds[column]
    return fieldId === undefined ? [] : [{ name: column, type, fieldId }]
  })
  const { files, deletes, deletedFrom } = snapshot
  const gone = deletes === undefined || deletedFrom === undefined ? {} : { deletes, deletedFrom }
  return { name, files, ...gone, columns }
}

async function rowsOf(engine: LakeEngine, query: LakeQuery, selected: readonly SelectedColumn[]): Promise<Row[]> {
  const result = await engine.query(query)
  const rows: Row[] = []
  for await (const { json } of result.batches) {
    for (const cells of JSON.parse(json) as unknown[][]) rows.push(rowOf(cells, selected))
  }
  return rows
}
