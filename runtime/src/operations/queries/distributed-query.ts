/** A query in an engine outside, whose rows an engine job writes as it writes those of its own. */

import { type ColumnLineage, type EngineLimits, type EngineRun, quoteName } from '@sluice/engine'
import { type ComputeRelation, openTenantScope } from '@sluice/sdk'
import type { QueryEngine } from '../../compute/query-engine.ts'
import { arrivingColumns, arrivingName, csvOf } from '../../compute/rows-csv.ts'
import { type AskedQuery, parametersOf, type StatementCall, type Visible } from './asked-query.ts'
import type { QueriesDeps } from './deps.ts'

const ARRIVING = 'arriving'

/** The statement ends at its time, and the job with it; what that was may be known a little later. */
const REASON_MS = 20_000

/** Throws as `Compute.query` and `Engine.run` do, and before anything is asked QUOTA `cpu_time_spent`. */
export async function distributedRun(
  platform: QueriesDeps,
  call: StatementCall,
  asked: AskedQuery,
  outside: QueryEngine,
): Promise<EngineRun> {
  const { request, visible, kind, limits } = asked
  platform.cpu.refuseSpent(call.tenant)
  const endsAtMs = performance.now() + limits.timeoutMs
  const ended = new AbortController()
  const [rows, lineage] = await Promise.all([
    outside.query({
      scope: openTenantScope(call.tenant),
      sql: request.sql,
      parameters: parametersOf(request),
      relations: visible.map(relationOf),
      maxRows: limits.maxRows ?? Number.MAX_SAFE_INTEGER - 1,
      timeoutMs: limits.timeoutMs,
      signal: AbortSignal.any([call.signal, ended.signal]),
    }),
    lineageOf(platform, call, asked),
  ])
  const end = () => {
    ended.abort()
    return rows.close()
  }
  try {
    const columns = rows.columns.map(({ name }, at) => `${arrivingName(at)} AS ${quoteName(name)}`)
    const run = await platform.engine.run(
      {
        trust: 'own',
        tenant: call.tenant,
        csvInput: { name: ARRIVING, columns: arrivingColumns(rows.columns), source: csvOf(rows.pages) },
        output: { kind, sql: `SELECT ${columns.join(', ')} FROM ${ARRIVING}` },
        limits: { ...limits, timeoutMs: Math.max(0, Math.round(endsAtMs - performance.now())) + REASON_MS },
      },
      call.signal,
    )
    // A job that ends before its input would leave the statement running.
    run.finished.then(end, end)
    return { ...run, lineage: lineage.length === run.columns.length ? lineage : [] }
  } catch (error) {
    await end()
    throw error
  }
}

function relationOf({ table, ref: { namespace, table: name }, snapshotId }: Visible): ComputeRelation {
  return {
    name: table.name,
    columns: table.columns,
    table: snapshotId === '' ? null : { namespace, table: name, snapshotId },
  }
}

const INSPECTION: EngineLimits = { memoryBytes: 256 * 1024 * 1024, timeoutMs: 20_000, threads: 1 }

/**
 * Which columns the answer’s are made of, for those that are masked. An engine outside does not tell; ours does
 * where it understands the text. Empty where it does not, or where nothing is masked.
 */
async function lineageOf(
  { engine }: QueriesDeps,
  call: StatementCall,
  { request, visible }: AskedQuery,
): Promise<readonly ColumnLineage[]> {
  if (visible.every(({ maskedColumns }) => maskedColumns.length === 0)) return []
  const tables = visible.map(({ table: { name, columns } }) => ({ name, columns, files: [] }))
  const output = { kind: 'inspect', sql: request.sql, parameters: parametersOf(request) } as const
  const job = { trust: 'tenant', tenant: call.tenant, tables, output, limits: INSPECTION } as const
  return engine.run(job, call.signal).then(
    ({ lineage }) => lineage,
    () => [],
  )
}
