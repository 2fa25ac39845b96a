import assert from 'node:assert/strict'
import { statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { Registry } from 'prom-client'
import { diskMetrics } from './disk.ts'

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
