import assert from 'node:assert/strict'
import { statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { Registry } from 'prom-client'
import { diskMetrics, roomOn } from './disk.ts'

async function valuesFor(folder: string): Promise<readonly number[]> {
  const registry = new Registry()
  diskMetrics(registry, folder)
  return [...(await registry.metrics()).matchAll(/^sluice_data_disk(?:_free)?_bytes (\S+)$/gm)].map(([, value]) =>
    Number(value),
  )
}

test('room on the disk is told in bytes, and is 0 where the system tells nothing', async () => {
  const { blocks, bsize } = statfsSync(tmpdir())
  const [size = 0, free = 0] = await valuesFor(tmpdir())
  assert.equal(size, blocks * bsize)
  assert.ok(free > 0 && free <= size)
  assert.deepEqual(await valuesFor(join(tmpdir(), 'there is no such folder')), [0, 0])
})

test('readiness says that a disk is full, and of one that tells nothing, nothing', async () => {
  const { bsize, ...disk } = statfsSync(tmpdir())
  const free = (bytes: number) => async () => ({ ...disk, bsize, bavail: Math.floor(bytes / bsize) })
  const stateOf = async (ask: unknown) => (await roomOn(tmpdir(), ask as never))['state']
  assert.deepEqual(await roomOn(tmpdir(), free(1024 ** 3) as never), { state: 'ok' })
  assert.match(String((await roomOn(tmpdir(), free(0) as never))['message']), /disk of the data folder is full/)
  assert.deepEqual(await Promise.all([0, 1024 ** 2, 64 * 1024 ** 2].map((bytes) => stateOf(free(bytes)))), [
    'degraded',
    'degraded',
    'ok',
  ])
  assert.equal(await stateOf(() => Promise.reject(new Error('not told'))), 'ok')
})
