/** A row out of a raw table: out of its rows of now, and with them everything that the table ever was. */
import type { Engine, EngineLimits } from '@sluice/engine'
import { engineTable, type Lake, type Scan, type StagedCommit, type TableRef } from '@sluice/iceberg'
import { inTransaction } from '../../database/pools.ts'
import { registryCatalog } from '../../lake/registry-catalog.ts'
import { type ErasedKey, type ErasedValue, keyCondition } from '../../materializer/erased-key.ts'
import { rawTable } from '../../materializer/inputs.ts'
import { checkSource } from '../../registry/connections.ts'
import { eraseQuarantined } from '../../registry/quarantine-replay.ts'
import { checkRun } from '../../registry/run-claims.ts'
import type { IngestionDeps, IngestionRun } from '../ingestion-run.ts'
import { mayBeValue } from './known-value.ts'

/** How many rows left the quarantine. Repeatable. Throws CONFLICT `lake_commit_conflict` where somebody else wrote meanwhile. */
export async function eraseRaw(run: IngestionRun, table: string, key: ErasedKey, deps: IngestionDeps): Promise<number> {
  const { connection, lease, signal } = run
  const { tenant, id: connectionId } = connection
  const ref = rawTable(tenant, connection.name, table)
  const staged = await stageWithout(ref, key, run, deps)
  await deps.faultPoint('erasure.raw-written')
  const quarantined = await inTransaction(
    deps.pool,
    async (tx) => {
      await checkRun(tx, lease)
      await checkSource(tx, connection)
      await deps.lake.publish(registryCatalog(tx), staged === null ? [] : [staged])
      return eraseQuarantined(tx, deps.masters, { tenant, connectionId, table }, Object.keys(key), (name, known) =>
        mayBeValue(known, key[name] as ErasedValue),
      )
    },
    { signal },
  )
  if ((await deps.lake.load(ref, { signal })) === null) return quarantined
  const publish = (commit: StagedCommit) =>
    inTransaction(deps.pool, async (tx) => {
      await checkRun(tx, lease)
      await deps.lake.publish(registryCatalog(tx), [commit])
    })
  await deps.lake.forgetHistory(ref, publish, signal)
  await deps.faultPoint('erasure.raw-erased')
  return quarantined
}

/** Null where neither a file nor a manifest has anything of it. */
async function stageWithout(
  ref: TableRef,
  key: ErasedKey,
  { connection, lease, signal }: IngestionRun,
  deps: IngestionDeps,
): Promise<StagedCommit | null> {
  const base = await deps.lake.load(ref, { signal })
  if (base?.snapshotId == null) return null
  const scan = await deps.lake.scan(base, {}, signal)
  const where = keyCondition(key, base.schema.fields)
  const limits = { ...deps.limits, room: await deps.checkStorage(connection.tenant) }
  const found = await deps.lake.deleteWhere({ base, scan, where, buried: true, job: { limits } }, signal)
  if (found === null && (await deps.lake.traces(ref, signal)).goneEntries === 0) return null
  const own = Object.entries(scan.summary).filter(([name]) => name.startsWith('sluice.'))
  const data =
    found === null
      ? { files: [] }
      : { plan: found.written.plan, files: found.written.files, writeId: found.written.writeId }
  return deps.lake.stage(
    ref,
    {
      base,
      operation: 'overwrite',
      ...data,
      removed: found?.removed ?? [],
      removedFrom: found?.removedFrom ?? [],
      leavesNoTrace: true,
      // What the snapshot before says of the source is true of this one: nothing was read of it.
      summary: { ...Object.fromEntries(own), 'sluice.run': lease.runId },
    },
    signal,
  )
}

/**
 * How many rows of the key the files of a table have, those that are listed as gone among them where `buried`. 0 where there is
 * no such table.
 */
export async function rowsOfKey(
  ref: TableRef,
  key: ErasedKey,
  buried: boolean,
  { lake, engine, limits }: { readonly lake: Lake; readonly engine: Engine; readonly limits: EngineLimits },
  signal: AbortSignal,
): Promise<number> {
  const state = await lake.load(ref, { signal })
  if (state?.snapshotId == null) return 0
  const whole: Scan = await lake.scan(state, {}, signal)
  if (whole.files.length === 0) return 0
  const scan = buried ? { ...whole, deletes: [] } : whole
  const sql = `SELECT count(*) FROM rows WHERE ${keyCondition(key, scan.schema.fields)}`
  const steps = [{ sql, rows: 'collect' }] as const
  const { results } = await engine.run({ trust: 'own', tables: [engineTable(scan, ['rows'])], steps, limits }, signal)
  return Number(results[0]?.rows[0]?.[0])
}
