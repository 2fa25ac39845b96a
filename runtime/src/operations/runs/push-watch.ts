/** Begins a run soon after rows were pushed, where products in service read the tables that they are of. */
import { inTransaction } from '../../database/pools.ts'
import { PUSH_JOB } from '../../ingestion/push/intake.ts'
import { tablesOf } from '../../ingestion/source-tables.ts'
import { forgetJob, type NextDue } from '../../jobs/claims.ts'
import type { JobKind } from '../../jobs/worker.ts'
import { databaseNow } from '../../registry/clock.ts'
import { findConnection } from '../../registry/connections.ts'
import { pushedTables } from '../../registry/push-spool.ts'
import { enqueueRun, listRuns, queuedRunOf } from '../../registry/runs.ts'
import { readersOf } from '../products/input-reads.ts'
import type { RunsDeps } from './deps.ts'

/** While a run is under way, which may have begun before the newest rows came. */
const WAIT_MS = 1_000
/** After a run that failed, or that somebody ended: what it failed by may be over. */
const FAILED_MS = 60_000

export function pushWatch(platform: RunsDeps): JobKind {
  return {
    kind: PUSH_JOB,
    failed: 'the run for rows that were pushed could not be queued; it is tried again',
    backOff: { firstMs: 1_000, lastMs: 60_000 },
    work: (job) => beginRun(platform, job.tenant ?? '', job.key),
  }
}

/** Repeatable: a run that waits for its turn is not queued again. */
async function beginRun({ pool }: RunsDeps, tenant: string, connectionId: string): Promise<NextDue> {
  const connection = await findConnection(pool, tenant, connectionId)
  if (connection === null) {
    await forgetJob(pool, { kind: PUSH_JOB, key: connectionId })
    return null
  }
  const of = { kind: 'ingestion', connectionId } as const
  const [newest] = (await listRuns(pool, tenant, { limit: 1, after: null }, of)).items
  if (newest?.state === 'running' || newest?.state === 'queued') return { from: 'end', ms: WAIT_MS }
  const waiting = new Set(await pushedTables(pool, connectionId))
  const inputs = (await readersOf(pool, connection)).flatMap(({ manifests }) => manifests.inputs)
  const read = tablesOf(inputs.filter((input) => input.connection === connection.name))
  // What nobody reads waits in the registry until a product does.
  if (!read.some(({ name }) => waiting.has(name))) return null
  const againAt =
    newest?.state === 'failed' || newest?.state === 'cancelled' ? (newest.finishedAt?.getTime() ?? 0) + FAILED_MS : 0
  if (againAt > (await databaseNow(pool)).getTime()) return { at: new Date(againAt) }
  return inTransaction(pool, async (tx) => {
    const queued = await queuedRunOf(tx, { connectionId })
    const run = { ...of, tenant, trigger: 'schedule', createdBy: connection.createdBy } as const
    if (queued === null) await enqueueRun(tx, run)
    // It sees what there is when it begins; whether all of that was taken is looked at then.
    return { from: 'end', ms: WAIT_MS }
  })
}
