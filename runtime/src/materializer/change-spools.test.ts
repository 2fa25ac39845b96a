import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Engine } from '@sluice/engine'
import { ChangeSpools, type SpooledStep } from './change-spools.ts'

const column = { id: 1, name: 'id', type: 'integer', nullable: false } as const
const state = (snapshotId: string) => ({
  ...{ snapshotId, files: [`/lake/${snapshotId}.parquet`], columns: [column] },
  ...{ primaryKey: ['id'], rowCount: 1 },
})
const step: SpooledStep = { tenant: 'acme', table: 't', before: state('1'), after: state('2') }

test('changed rows that are being written when those of their tenant are forgotten are forgotten, too', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-spools-'))
  const begun = Promise.withResolvers<void>()
  const computed = Promise.withResolvers<void>()
  const engine = {
    async open() {
      begun.resolve()
      await computed.promise
      return { results: [], ended: Promise.resolve(), close: async () => undefined }
    },
  } as unknown as Engine
  const spools = new ChangeSpools({ engine, limits: {} as never, directory, maxBytes: 1_000 })
  try {
    const read = spools.read(step, 0)
    await begun.promise
    let isForgotten = false
    const forgotten = spools.forgetOf('acme').then(() => {
      isForgotten = true
    })
    await spools.forgetOf('other')
    await sleep(20)
    assert.equal(isForgotten, false)
    computed.resolve()
    assert.deepEqual(await read, [])
    await forgotten
    assert.deepEqual(await readdir(directory), [])
    assert.equal(spools.load().bytes, 0)
  } finally {
    await spools.close()
    await rm(directory, { recursive: true, force: true })
  }
})
