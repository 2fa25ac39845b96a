import {
  batchFromRows,
  checkReadPlan,
  type LakeEngine,
  type LakeQuery,
  type LakeTable,
  type ReadBatch,
  type ReadPlan,
  type Row,
  SluiceError,
  type Target,
  unsupported,
} from '@sluice/sdk'
import { capabilities } from './capabilities.ts'
import { objectJson, rowOf } from './cells.ts'
import type { RegisteredEpoch, Registration } from './registrations.ts'
import { compileScan, type SelectedColumn } from './scan-sql.ts'

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
  const current = registration?.current
  if (!registration || !current) throw notMaterialized()
  const { epoch } = current.applied
  if (registration.policy === null) return { ...pageOf([], [], plan), epoch }
  if (engine === undefined) throw unsupported('reads without an engine over the lake')
  const source = {
    name: [target.domain, target.product] as const,
    schema: registration.schema,
    present: new Set(current.schema.columns.map((column) => column.name)),
  }
  const { sql, parameters, selected } = compileScan(source, plan)
  const query: LakeQuery = {
    sql,
    parameters,
    tables: [tableOf(source.name, current)],
    limits: { maxRows: plan.limit + 1, timeoutMs: plan.timeoutMs, memoryBytes: SCAN_MEMORY_BYTES },
    signal: plan.signal,
  }
  const rows = await rowsOf(engine, query, selected)
  return { ...pageOf(rows, selected, plan), epoch }
}

function tableOf(name: readonly string[], { schema, snapshot }: RegisteredEpoch): LakeTable {
  const columns = schema.columns.flatMap(({ name: column, type }) => {
    const fieldId = snapshot.fieldIds[column]
    return fieldId === undefined ? [] : [{ name: column, type, fieldId }]
  })
  return { name, files: snapshot.files, columns }
}

async function rowsOf(engine: LakeEngine, query: LakeQuery, selected: readonly SelectedColumn[]): Promise<Row[]> {
  const result = await engine.query(query)
  const rows: Row[] = []
  for await (const { json } of result.batches) {
    for (const cells of JSON.parse(json) as unknown[][]) rows.push(rowOf(cells, selected))
  }
  return rows
}

/** `rows` has one more than the limit where there is a next page. */
function pageOf(rows: readonly Row[], selected: readonly SelectedColumn[], plan: ReadPlan) {
  const width = plan.columns.length
  const page = rows.slice(0, plan.limit)
  const answered = selected.slice(0, width)
  const batch =
    plan.encoding === 'json'
      ? { rowCount: page.length, json: `[${page.map((row) => objectJson(row, answered)).join(',')}]` }
      : batchFromRows(
          page.map((row) => row.slice(0, width)),
          width,
        )
  const last = page.at(-1)
  return rows.length > plan.limit && last ? { ...batch, next: last.slice(width) } : batch
}

export function notMaterialized(): SluiceError {
  return new SluiceError('TRANSIENT', 'nothing was materialized here yet', {
    code: 'not_materialized',
    remedy: 'Wait for the first materialization.',
  })
}
