/** A rollback whose runtime is killed before and after its commit ends as an undisturbed one. */
import { strict as assert } from 'node:assert'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { ROLLBACK_FAULT_POINTS } from '../../runtime/src/fault-points.ts'
import type { Api } from './api.ts'
import { onboard, readersOf } from './readers.ts'
import { RuntimeProcess } from './runtime-process.ts'
import { Seeded } from './seeded.ts'
import { CrashSource } from './source.ts'

interface Snapshot {
  readonly epoch: number
  readonly kind: string
  readonly snapshot_id: string
  readonly rows: number
}

const RUN_TIMEOUT_MS = 300_000

describe('a rollback at a runtime that is killed', () => {
  let folder = ''
  let source: CrashSource
  let runtime: RuntimeProcess | null = null
  let connection = ''

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-rollback-'))
    source = await CrashSource.start(join(folder, 'source'))
    const { admin, developer } = await start(null)
    connection = await onboard({ admin, developer } as Awaited<ReturnType<typeof readersOf>>, source)
    for (let step = 0; step < 2; step += 1) {
      const { id } = await developer.post<{ id: string }>(`/api/v1/connections/${connection}/sync`)
      await ended(developer, id)
      await source.change(new Seeded(7 + step))
    }
  })

  after(async () => {
    runtime?.kill()
    await runtime?.ended
    await runtime?.lastSurvivors()
    await source.stop()
    await rm(folder, { recursive: true, force: true })
  })

  async function start(fault: string | null) {
    await runtime?.stop()
    runtime = await RuntimeProcess.spawn(join(folder, 'data'), fault)
    const url = await runtime.address()
    assert.ok(url, runtime.output)
    return readersOf(join(folder, 'data'), url)
  }

  async function ended(api: Api, id: string): Promise<void> {
    for (const deadline = Date.now() + RUN_TIMEOUT_MS; Date.now() < deadline; await sleep(100)) {
      const { state } = await api.get<{ state: string }>(`/api/v1/ingestion/${id}`)
      if (state === 'queued' || state === 'running') continue
      assert.equal(state, 'succeeded')
      return
    }
    assert.fail('the run did not end')
  }

  const snapshotsOf = async (api: Api) =>
    (await api.get<{ data: readonly Snapshot[] }>('/api/v1/products/people/snapshots')).data

  const rowsOf = async (api: Api, as_of?: string) =>
    (
      await api.post<{ rows: readonly unknown[] }>('/api/v1/query', {
        sql: 'SELECT * FROM crm.people ORDER BY person_no',
        ...(as_of === undefined ? {} : { as_of }),
      })
    ).rows

  for (const point of ROLLBACK_FAULT_POINTS) {
    it(`goes on after a kill at ${point}`, async () => {
      const killed = await start(`${point}@1`)
      const before = await snapshotsOf(killed.developer)
      const oldest = before.at(-1) as Snapshot
      const path = '/api/v1/products/people/rollback'
      const asked = await killed.developer.post<{ run_id: string }>(path, { snapshot_id: oldest.snapshot_id })
      assert.equal((await runtime?.ended)?.signal, 'SIGKILL')
      const { developer, cleared, viewer } = await start(null)
      await ended(developer, asked.run_id)
      const [newest, ...rest] = await snapshotsOf(developer)
      assert.deepEqual(rest, before, 'one epoch more, and the others as they were')
      assert.deepEqual([newest?.kind, newest?.rows], ['rollback', oldest.rows])
      for (const reader of [cleared, viewer]) {
        assert.deepEqual(await rowsOf(reader), await rowsOf(reader, oldest.snapshot_id))
      }
      const { data } = await developer.get<{ data: readonly { kind: string; state: string }[] }>(
        '/api/v1/products/people/deployments?limit=1',
      )
      assert.deepEqual(
        data.map(({ kind, state }) => [kind, state]),
        [['rollback', 'succeeded']],
      )
      const lookup = await viewer.get<{ meta: { epoch: number } }>('/api/v1/products/people/latest?filter=person_no:1')
      assert.equal(lookup.meta.epoch, newest?.epoch, 'the stores have it too')
    })
  }
})
