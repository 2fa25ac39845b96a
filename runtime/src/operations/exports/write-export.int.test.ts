/** Writing exports: what is tried again, what bounds it, and that no end loses a file or leaves one behind. */
import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, beforeEach, describe, it } from 'node:test'
import type { EngineJob, EngineRun } from '@sluice/engine'
import { FolderStore } from '@sluice/iceberg'
import { SluiceError } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import type { TenantCall } from '../../flow.ts'
import type { Job } from '../../jobs/claims.ts'
import { ExportFiles, PART_BYTES } from '../../lake/export-files.ts'
import { LAKE_MIGRATIONS } from '../../lake/migrations.ts'
import { bucketName } from '../../lake/tenant-layout.ts'
import { type Export, endExport, findExport } from '../../registry/exports.ts'
import { MasterKeys } from '../../registry/master-keys.ts'
import { createTenantKeys } from '../../registry/tenant-keys.ts'
import { ANN, startTestRegistry } from '../../registry/testing.ts'
import { TIER_LIMITS } from '../../registry/tiers.ts'
import { checkStorage, tenantDetail } from '../tenants/tenants.ts'
import type { ExportsDeps } from './deps.ts'
import { type ExportDestination, ExportDestinations } from './export-destinations.ts'
import { lanesFor, sweepExports } from './export-job.ts'
import { requestExport } from './exports.ts'
import { writeExport } from './write-export.ts'

const MEGABYTE = 1024 * 1024
const signal = new AbortController().signal
const masters = new MasterKeys('k1', { k1: Buffer.alloc(32, 1).toString('base64') })
const registry = await startTestRegistry([LAKE_MIGRATIONS])
const { pool } = registry
const ROWS = Buffer.from('"one"\n1\n')

describe('writing exports', () => {
  let folder: string
  let store: FolderStore
  let platform: ExportsDeps
  let tenant: string
  /** What the engine was asked for. */
  let jobs: EngineJob[]
  let answer: (job: EngineJob, signal: AbortSignal) => Promise<AsyncIterable<Uint8Array>>
  let spent: SluiceError | null
  /** Before a file is written to its destination. */
  let atDestination: (() => unknown) | null

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-writing-'))
    store = new FolderStore(folder)
  })
  after(async () => {
    await rm(folder, { recursive: true, force: true })
    await registry[Symbol.asyncDispose]()
  })
  beforeEach(async () => {
    tenant = await registry.tenant('free')
    await inTransaction(pool, (tx) => createTenantKeys(tx, masters, tenant))
    jobs = []
    spent = null
    atDestination = null
    answer = async () => only(ROWS)
    const engine = {
      async run(job: EngineJob, ends: AbortSignal): Promise<EngineRun> {
        jobs.push(job)
        const output = await answer(job, ends)
        const finished = Promise.resolve({ rows: 1, bytes: ROWS.length, truncated: false })
        return { results: [], columns: [], output, finished, files: [], lineage: [] }
      },
    }
    platform = {
      pool,
      masters,
      engine,
      exportFiles: new ExportFiles({ store, pool, masters }),
      exportDestinations: new ExportDestinations({
        warehouse: destinationOf([tenant, 'other']),
        theirs: destinationOf(['other']),
      }),
      served: { named: async () => [] },
      distributedQueries: null,
      cpu: {
        refuseSpent() {
          if (spent !== null) throw spent
        },
      },
      logger: { warn() {} },
      config: {
        exports: { keep_hours: 24, most: 4, megabytes: 64, timeout_minutes: 60 },
        limits: {
          engine_processes: 3,
          query_memory_mb: 64,
          query_timeout_ms: 30_000,
          transform_timeout_ms: 900_000,
        },
      },
    } as unknown as ExportsDeps
  })

  const destinationOf = (tenants: readonly string[]): ExportDestination => ({
    tenants,
    folder: 'warehouse/from/sluice',
    open: async () => ({
      async put(path, body, options) {
        await atDestination?.()
        return store.put(path, body, options)
      },
      uri: (path) => `s3://${path}`,
      close: async () => {},
    }),
  })

  const askedTo = (to: string) =>
    requestExport(platform, callOf('ann'), { sql: 'SELECT 1 AS one', format: 'csv', to }, async () => {})

  const atWarehouse = (): Promise<string[]> => readdir(join(folder, 'warehouse/from/sluice', tenant)).catch(() => [])

  async function* only(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
    yield bytes
  }

  function callOf(subject: string): TenantCall {
    const principal = { ...ANN, subject, tenant, groups: [], isAdmin: false, isDeveloper: true, isViewer: false }
    return { tenant, principal, requestId: 'r', signal } as unknown as TenantCall
  }

  const asked = (subject = 'ann') =>
    requestExport(platform, callOf(subject), { sql: 'SELECT 1 AS one', format: 'csv' }, async () => {})

  const jobOf = ({ id }: Export, token: number, attempts = 0): Job => ({
    kind: 'export-0',
    key: id,
    tenant,
    token,
    attempts,
    isTakenOver: false,
  })

  const told = async ({ id }: Export): Promise<Export> => (await findExport(pool, id)) as Export

  /** Parts that lie there, by attempt. */
  const parts = ({ id }: Export): Promise<string[]> =>
    readdir(join(folder, bucketName(tenant), 'exports', id), { recursive: true }).then(
      (names) => names.filter((name) => name.includes('/')).sort(),
      () => [],
    )

  async function contentOf(found: Export): Promise<Buffer> {
    const chunks: Uint8Array[] = []
    for await (const chunk of platform.exportFiles.read(found, found, async () => {}, signal)) chunks.push(chunk)
    return Buffer.concat(chunks)
  }

  it('tries once what would fail again, and five times what passes', async () => {
    for (const code of ['query_timeout', 'query_result_too_large', 'query_memory_exceeded']) {
      answer = async () => {
        throw new SluiceError('QUOTA', 'it is too much', { code })
      }
      jobs = []
      const made = await asked()
      assert.equal(await writeExport(platform, jobOf(made, 1), signal), null)
      const { state, error } = await told(made)
      assert.deepEqual([state, error?.code, jobs.length], ['failed', code, 1])
      await endExport(pool, made.id)
    }
    answer = async () => {
      throw new SluiceError('TRANSIENT', 'the engine is busy', { code: 'engine_busy' })
    }
    jobs = []
    const made = await asked()
    for (const attempts of [0, 1, 2, 3]) {
      await assert.rejects(writeExport(platform, jobOf(made, attempts + 1, attempts), signal), { code: 'engine_busy' })
    }
    assert.equal(await writeExport(platform, jobOf(made, 5, 4), signal), null)
    assert.deepEqual([(await told(made)).state, jobs.length], ['failed', 5])
  })

  it('gives up what has died five times, without another attempt', async () => {
    const made = await asked()
    assert.equal(await writeExport(platform, jobOf(made, 6, 5), signal), null)
    assert.deepEqual([(await told(made)).state, jobs.length], ['failed', 0])
  })

  it('waits while the CPU time of its tenant is spent, which counts as no attempt', async () => {
    const made = await asked()
    spent = new SluiceError('QUOTA', 'spent', { code: 'cpu_time_spent', retryAfterMs: 2_000 })
    assert.deepEqual(await writeExport(platform, jobOf(made, 1), signal), { from: 'end', ms: 2_000 })
    assert.deepEqual([(await told(made)).state, jobs.length], ['queued', 0])
    spent = null
    await writeExport(platform, jobOf(made, 2), signal)
    assert.equal((await told(made)).state, 'succeeded')
  })

  it('is bounded by the room that its tenant has, in which its files count', async () => {
    const limit = TIER_LIMITS.free.storageBytes
    const kept = await asked()
    await writeExport(platform, jobOf(kept, 1), signal)
    assert.equal((await tenantDetail(platform, tenant)).usage.storageBytes, ROWS.length)
    const fill = (bytes: number) => pool.query('update exports set bytes = $2 where id = $1', [kept.id, bytes])
    const [waiting, later] = [await asked(), await asked('ben')]
    await fill(limit - MEGABYTE)
    answer = async () => {
      throw new SluiceError('QUOTA', 'it is too large', { code: 'query_result_too_large' })
    }
    await writeExport(platform, jobOf(waiting, 1), signal)
    assert.equal(jobs.at(-1)?.limits.maxOutputBytes, MEGABYTE)
    assert.equal((await told(waiting)).error?.code, 'tier_limit_exceeded')
    await fill(limit)
    await assert.rejects(asked('ben'), { code: 'tier_limit_exceeded' })
    await assert.rejects(checkStorage(platform, tenant), { code: 'tier_limit_exceeded' })
    jobs = []
    await writeExport(platform, jobOf(later, 1), signal)
    assert.deepEqual([(await told(later)).error?.code, jobs.length], ['tier_limit_exceeded', 0])
  })

  it('keeps the file whose end was committed and not heard of', async () => {
    const deaf = Object.create(pool) as typeof pool
    deaf.query = (async (...asked: [string | { readonly text: string }]) => {
      const rows = await pool.query(...asked)
      const [statement] = asked
      if (typeof statement === 'string' || !statement.text.includes("set state = 'succeeded'")) return rows
      throw Object.assign(new Error('the connection is gone'), { code: '08006' })
    }) as never
    const unheard = { ...platform, pool: deaf }
    const first = await asked()
    await assert.rejects(writeExport(unheard, jobOf(first, 1), signal), { kind: 'TRANSIENT' })
    assert.equal(await writeExport(platform, jobOf(first, 2, 1), signal), null)
    const last = await asked('ben')
    assert.equal(await writeExport(unheard, jobOf(last, 5, 4), signal), null)
    for (const one of [first, last]) {
      const found = await told(one)
      assert.equal(found.state, 'succeeded')
      assert.deepEqual(await contentOf(found), ROWS)
    }
  })

  it('leaves nothing of attempts that failed, and gives what it wrote in small pieces', async () => {
    const long = Buffer.alloc(PART_BYTES + 5, 7)
    answer = async () =>
      (async function* () {
        yield long
        throw new SluiceError('TRANSIENT', 'the engine process ended', { code: 'engine_crashed' })
      })()
    const made = await asked()
    await assert.rejects(writeExport(platform, jobOf(made, 3), signal), { code: 'engine_crashed' })
    assert.deepEqual(await parts(made), ['3/0'])
    answer = async () => only(long)
    await writeExport(platform, jobOf(made, 40, 1), signal)
    assert.deepEqual(await parts(made), ['40/0', '40/1'])
    const found = await told(made)
    let longest = 0
    for await (const chunk of platform.exportFiles.read(found, found, async () => {}, signal)) {
      longest = Math.max(longest, chunk.length)
    }
    assert.ok(longest <= 256 * 1024, `${longest}`)
    assert.ok((await contentOf(found)).equals(long))
  })

  it('gives the part of a file that is asked for, over the ends of the pieces that it is kept in', async () => {
    const long = Buffer.alloc(2 * PART_BYTES + 1_000)
    for (let at = 0; at < long.length; at += 4) long.writeUInt32LE(at, at)
    answer = async () => only(long)
    const made = await asked()
    await writeExport(platform, jobOf(made, 1), signal)
    const found = await told(made)
    const partOf = async (from: number, to: number) => {
      const chunks = platform.exportFiles.read(found, found, async () => {}, signal, { from, to })
      return Buffer.concat(await Array.fromAsync(chunks))
    }
    const last = long.length - 1
    const spans = [
      [0, 0],
      [PART_BYTES - 1, PART_BYTES],
      [PART_BYTES, PART_BYTES],
      [1, 2 * PART_BYTES],
      [2 * PART_BYTES - 1, last],
      [last, last],
    ] as const
    for (const [from, to] of spans) {
      assert.ok((await partOf(from, to)).equals(long.subarray(from, to + 1)), `${from}-${to}`)
    }
  })

  it('ends when it is removed while it is written', async () => {
    const made = await asked()
    let ended: AbortSignal | null = null
    answer = async (_, ends) => {
      ended = ends
      await endExport(pool, made.id)
      return (async function* (): AsyncGenerator<Uint8Array> {
        await new Promise((resolve) => ends.addEventListener('abort', resolve, { once: true }))
        throw new SluiceError('TRANSIENT', 'the statement was cancelled', { code: 'query_cancelled' })
      })()
    }
    assert.equal(await writeExport(platform, jobOf(made, 1), signal), null)
    assert.equal((ended as AbortSignal | null)?.aborted, true)
    assert.equal((await told(made)).state, 'gone')
  })

  it('gives each person half of the tenant’s exports at most', async () => {
    for (const subject of ['ann', 'ann']) await asked(subject)
    await assert.rejects(asked('ann'), { code: 'too_many_exports' })
    for (const subject of ['ben', 'ben']) await asked(subject)
    await assert.rejects(asked('cyd'), { code: 'too_many_exports' })
  })

  it('is kept for its time from its end on, however long it has waited', async () => {
    const made = await asked()
    const waitsMs = made.expiresAt.getTime() - made.createdAt.getTime()
    assert.ok(waitsMs > 6 * 86_400_000, `${waitsMs}`)
    await writeExport(platform, jobOf(made, 1), signal)
    const { finishedAt, expiresAt } = await told(made)
    assert.equal(Math.round((expiresAt.getTime() - (finishedAt as Date).getTime()) / 3_600_000), 24)
  })

  it('sweeps all that can be removed, whatever cannot', async () => {
    const all = [await asked(), await asked(), await asked('ben')]
    for (const [at, one] of all.entries()) await writeExport(platform, jobOf(one, at + 1), signal)
    const [stuck, ...others] = all as [Export, ...Export[]]
    for (const { id } of all) await endExport(pool, id)
    const { exportFiles } = platform
    const partly = {
      pool,
      exportFiles: Object.assign(Object.create(exportFiles), {
        async remove(one: Export) {
          if (one.id === stuck.id)
            throw new SluiceError('TRANSIENT', 'the store is away', { code: 'store_unavailable' })
          await exportFiles.remove(one)
        },
      }) as ExportFiles,
    }
    await assert.rejects(sweepExports(partly, signal), { code: 'store_unavailable' })
    for (const one of others) assert.deepEqual([await findExport(pool, one.id), await parts(one)], [null, []])
    assert.deepEqual([(await told(stuck)).state, await parts(stuck)], ['gone', ['1/0']])
    await sweepExports(platform, signal)
    assert.equal(await findExport(pool, stuck.id), null)
  })

  it('writes the whole file to a destination of its tenant, under its own name, and on record before', async () => {
    for (const to of ['theirs', 'none']) await assert.rejects(askedTo(to), { code: 'export_destination_unknown' })
    const long = Buffer.alloc(PART_BYTES + 5, 7)
    answer = async () => only(long)
    const made = await askedTo('warehouse')
    let onRecord: unknown = null
    atDestination = async () => {
      onRecord = await pool.query("select details from audit_log where object_id = $1 and action = 'export.deliver'", [
        made.id,
      ])
    }
    await writeExport(platform, jobOf(made, 1), signal)
    const found = await told(made)
    const path = `warehouse/from/sluice/${tenant}/${made.id}.csv`
    assert.deepEqual(found.place, { destination: 'warehouse', address: `s3://${path}` })
    assert.ok((await readFile(join(folder, path))).equals(long))
    assert.ok((await contentOf(found)).equals(long))
    const { rows } = (await onRecord) as { readonly rows: readonly unknown[] }
    assert.deepEqual(rows, [{ details: { to: 'warehouse', bytes: long.length } }])
  })

  it('is made again where a destination does not answer, and fails where it takes nothing', async () => {
    const fail = (kind: 'TRANSIENT' | 'CONFIG') => () => {
      throw new SluiceError(kind, 'the store says: key k-1', { code: 'store_unavailable' })
    }
    const again = await askedTo('warehouse')
    atDestination = fail('TRANSIENT')
    await assert.rejects(writeExport(platform, jobOf(again, 1), signal), { code: 'export_destination_unavailable' })
    answer = async () => only(Buffer.from('other'))
    atDestination = null
    await writeExport(platform, jobOf(again, 2, 1), signal)
    assert.equal((await told(again)).state, 'succeeded')
    const file = join(folder, 'warehouse/from/sluice', tenant, `${again.id}.csv`)
    assert.equal(await readFile(file, 'utf8'), 'other')

    const refused = await askedTo('warehouse')
    atDestination = fail('CONFIG')
    await writeExport(platform, jobOf(refused, 3), signal)
    const { state, error, place } = await told(refused)
    assert.deepEqual([state, error?.code, place], ['failed', 'export_destination_refused', null])
    assert.ok(!JSON.stringify(error).includes('k-1'), 'what a store says is not for tenants')
    assert.deepEqual(await parts(refused), [])
  })

  it('gives a destination nothing that its author may not see any more', async () => {
    answer = async () => only(Buffer.alloc(2 * PART_BYTES, 7))
    const made = await askedTo('warehouse')
    const { exportFiles } = platform
    let given = 0
    async function* read(...how: Parameters<ExportFiles['read']>): AsyncGenerator<Uint8Array> {
      for await (const chunk of exportFiles.read(...how)) {
        given += chunk.length
        yield chunk
        if (given === chunk.length)
          await pool.query("update tenants set status = 'deprovisioning' where slug = $1", [tenant])
      }
    }
    const suspending = {
      read,
      write: (...how: Parameters<ExportFiles['write']>) => exportFiles.write(...how),
      removeUntil: (...how: Parameters<ExportFiles['removeUntil']>) => exportFiles.removeUntil(...how),
      removeAttempt: (...how: Parameters<ExportFiles['removeAttempt']>) => exportFiles.removeAttempt(...how),
    } as ExportFiles
    await writeExport({ ...platform, exportFiles: suspending }, jobOf(made, 1), signal)
    assert.deepEqual([(await told(made)).error?.code, await atWarehouse()], ['export_not_permitted', []])
    assert.ok(given <= PART_BYTES, `${given}`)
  })

  it('leaves engine processes to others', () => {
    assert.deepEqual([1, 2, 3, 4, 5, 6, 64].map(lanesFor), [1, 1, 1, 2, 3, 4, 4])
  })
})
