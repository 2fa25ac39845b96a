import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { ObjectCache } from './object-cache.ts'

const { signal } = new AbortController()
let dir: string

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'sluice-cache-'))
})
after(() => rm(dir, { recursive: true, force: true }))

/** @param arrival until which no object comes */
function cacheIn(name: string, arrival: Promise<void> = Promise.resolve()): ObjectCache {
  return new ObjectCache({
    dir: join(dir, name),
    maxBytes: 1_000_000,
    async fetch(_, file) {
      await arrival
      await mkdir(dirname(file), { recursive: true })
      await writeFile(file, 'row')
      return 3
    },
  })
}

test('the copies of one folder are forgotten, and those of no other', async () => {
  const cache = cacheIn('folders')
  const [own, others] = [cache.fileOf('sluice-acme/a'), cache.fileOf('sluice-acme2/a')]
  const release = await cache.hold([own, others], signal)
  await release()
  await cache.forgetIn('sluice-acme')
  assert.deepEqual([existsSync(own), existsSync(others)], [false, true])
})

for (const [name, forget] of Object.entries({
  'an object that is removed': (cache: ObjectCache) => cache.forget('sluice-acme/a'),
  'a folder that is forgotten': (cache: ObjectCache) => cache.forgetIn('sluice-acme'),
})) {
  test(`the copy of ${name} stays for who reads it, and goes with the last of them`, async () => {
    const cache = cacheIn(name)
    const file = cache.fileOf('sluice-acme/a')
    const releases = [await cache.hold([file], signal), await cache.hold([file], signal)]
    await forget(cache)
    for (const release of releases) {
      assert.equal(existsSync(file), true)
      await release()
    }
    assert.equal(existsSync(file), false)
  })
}

test('a copy that is on its way when its folder is forgotten goes, too', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const cache = cacheIn('on its way', promise)
  const file = cache.fileOf('sluice-acme/a')
  const held = cache.hold([file], signal)
  const forgotten = cache.forgetIn('sluice-acme')
  resolve()
  await forgotten
  const release = await held
  await cache.forgetIn('sluice-acme')
  await release()
  assert.equal(existsSync(file), false)
})
