/**
 * Measures what one changed row of a log costs the engine on its way into a raw table, until its snapshot is staged:
 * `node bench/log-piece.ts --rows 150000 --rounds 10`. In turns, as a piece whose rows are known to be told whole, and as one of
 * which that is not known. Processor time of the engine's processes, and of this one; the least of all rounds.
 */
import { randomUUID } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createEngine } from '@sluice/engine'
import { testEngineProgram } from '@sluice/engine/testing'
import { FolderStore, Lake } from '@sluice/iceberg'
import { commitStep, LIMITS, startTestLake } from '@sluice/iceberg/testing'
import { SluiceError } from '@sluice/sdk'
import { applyLog } from '../runtime/src/ingestion/apply-log.ts'
import { ChangeSpool, type SpooledTable } from '../runtime/src/ingestion/change-spool.ts'
import { ANY_KINDS } from '../runtime/src/ingestion/told-kinds.ts'
import { SCHEMA } from './measured-table.ts'
import { flag, processorOf } from './setup.ts'

const rows = Number(flag('rows') ?? 150_000)
const rounds = Number(flag('rounds') ?? 10)
const TENANT = 'bench'
const REF = { warehouse: TENANT, namespace: 'raw_source', table: 'measured' }
const CHANGES = {
  updated: '"u","0001",,,"4711","name","moved","country","1.25","3","0.5","t","1970-01-01","2026-01-01 00:00:00+00"\n',
  deleted: '"d","0001",,,"4711",,,,,,,,,\n',
}
const ROOM = { bytes: 1e9, exceeded: () => new SluiceError('QUOTA', 'too much', { code: 'tier_limit_exceeded' }) }

const test = await startTestLake()
const scratchDir = join(test.dir, 'scratch-kept')
const spools = join(scratchDir, 'tenants', TENANT)
await mkdir(spools, { recursive: true })
const { files, workspaces } = FolderStore.foldersOf(join(test.dir, 'store'))
// As a runtime has it: one process of the engine for all jobs over the tenant's files.
const engine = createEngine({
  ...(await testEngineProgram()),
  scratchDir,
  maxChildren: 1,
  warmChildren: 0,
  maxQueued: 10,
  keepMs: 3_600_000,
  tenantFolders: { read: [files], written: [workspaces, join(scratchDir, 'tenants')] },
})
try {
  const lake = new Lake({ store: test.store, catalog: test.catalog, engine })
  const values = `i AS id, 'name ' || i AS name, 'city ' || i % 1000 AS city, 'country' AS country,
    (i * 1.25)::DECIMAL(12,2) AS amount, (i % 100)::INTEGER AS quantity, (i / 7.0)::DOUBLE AS ratio,
    i % 2 = 0 AS active, DATE '1970-01-01' AS born, TIMESTAMPTZ '2026-01-01 00:00:00+00' AS updated_at`
  await commitStep(test, REF, {
    operation: 'replace',
    schema: SCHEMA,
    select: `SELECT ${values} FROM range(1, ${rows + 1}) t(i)`,
  })
  const base = await lake.load(REF)
  const spent = async (change: string, isLooked: boolean) => {
    const dir = join(spools, randomUUID())
    await mkdir(dir)
    const spool = new ChangeSpool(dir, [{ schema: 'public', table: 'measured', primaryKey: ['id'] }], ROOM)
    await spool.take({ kind: 'schema', stream: 0, schema: SCHEMA })
    await spool.take({ kind: 'rows', stream: 0, chunk: Buffer.from(change), rows: 1 })
    await spool.flush()
    const known = spool.table(0)
    const table = isLooked ? known : unlooked(known)
    const before = await processorOf(process.pid)
    const request = { ref: REF, base, table, primaryKey: ['id'], isFresh: false, limits: LIMITS } as const
    const about = { runId: 'run', moment: 'log', readAt: new Date(), source: '', signal: AbortSignal.timeout(600_000) }
    const { commit } = await applyLog({ ...request, ...about }, lake)
    if (commit === null) throw new Error('the row was not changed')
    const after = await processorOf(process.pid)
    await rm(dir, { recursive: true })
    return { engineS: after.startedS - before.startedS, ownS: after.ownS - before.ownS }
  }
  for (const [name, change] of Object.entries(CHANGES)) {
    const all = { looked: [await spent(change, true)], unknown: [await spent(change, false)] }
    for (let round = 1; round < rounds; round += 1) {
      all.unknown.push(await spent(change, false))
      all.looked.push(await spent(change, true))
    }
    for (const [way, one] of Object.entries(all)) {
      const engineS = one.map((each) => each.engineS).toSorted((a, b) => a - b)
      const ownS = one.map((each) => each.ownS).toSorted((a, b) => a - b)
      const tell = (sorted: readonly number[]) =>
        `${sorted[0]?.toFixed(2)} s (median ${sorted[sorted.length >> 1]?.toFixed(2)})`
      console.log(`${name}, ${way}: engine ${tell(engineS)}, this process ${tell(ownS)}`)
    }
  }
} finally {
  await engine.close()
  await test[Symbol.asyncDispose]()
}

/** The same rows, of which nobody has looked at the kinds. */
function unlooked(table: SpooledTable): SpooledTable {
  const { segments, rows: count, bytes, isTruncated, mustReread, rejected, reasons, refused } = table
  const told = { segments, rows: count, bytes, isTruncated, mustReread, rejected, reasons, refused }
  return { ...told, withoutValue: table.withoutValue, rejectedFor: table.rejectedFor, kinds: ANY_KINDS }
}
