import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { isSluiceError } from '@sluice/sdk'
import { testCatalog } from './catalog.contract.fixture.ts'
import { FolderStore } from './store/folder-store.ts'
import type { ObjectStore } from './store/object-store.ts'
import { StoreCatalog } from './store-catalog.ts'

let dir: string
let store: FolderStore

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'sluice-catalog-'))
  store = new FolderStore(dir)
})
after(() => rm(dir, { recursive: true, force: true }))

/** Each call is another process's. */
testCatalog(() => new StoreCatalog(new FolderStore(dir)), 'contract')

testCatalog(() => new StoreCatalog(ofAnotherCopy(new FolderStore(dir))), 'another-copy')

/** Whose errors are of another copy of the SDK, as those of a plugin are that brings its own. */
function ofAnotherCopy(store: ObjectStore): ObjectStore {
  const rethrow = (error: unknown) => {
    if (!isSluiceError(error)) throw error
    const { name, kind, code, remedy, details } = error
    throw Object.assign(new Error(error.message), { name, kind, code, remedy, details })
  }
  return new Proxy<ObjectStore>(store, {
    get(target, name) {
      const member = Reflect.get(target, name) as unknown
      if (typeof member !== 'function') return member
      return (...args: readonly unknown[]) => {
        const result = Reflect.apply(member, target, args) as unknown
        return result instanceof Promise ? result.catch(rethrow) : result
      }
    },
  })
}

test('a writer who slept while others moved the pointer ever so often does not move it', async () => {
  const ref = { warehouse: 'slow', namespace: 'n', table: 't' }
  const catalog = new StoreCatalog(store)
  await catalog.movePointer(ref, null, 'x:/0')
  let last = 'x:/0'
  // The others' moves lie between what it has seen and what it writes: so many that its number is free again.
  const sleeping = new Proxy<ObjectStore>(store, {
    get(target, name) {
      const member = Reflect.get(target, name) as unknown
      if (typeof member !== 'function') return member
      if (name !== 'put') return member.bind(target)
      return async (...args: Parameters<ObjectStore['put']>) => {
        for (let at = 1; at <= 101; at += 1, last = `x:/${at - 1}`) {
          assert.ok(await catalog.movePointer(ref, last, `x:/${at}`))
        }
        return target.put(...args)
      }
    },
  })
  assert.equal(await new StoreCatalog(sleeping).movePointer(ref, 'x:/0', 'x:/late'), false)
  assert.equal(await catalog.pointer(ref), 'x:/101')
  const kept = await Array.fromAsync(store.list('slow/pointers'))
  assert.ok(kept.length <= 100, `${kept.length} pointers`)
})

test('names that could leave their place are refused', async () => {
  const catalog = new StoreCatalog(store)
  for (const part of ['..', '', 'a/b', '.x']) {
    for (const ref of [
      { warehouse: part, namespace: 'n', table: 't' },
      { warehouse: 'w', namespace: part, table: 't' },
      { warehouse: 'w', namespace: 'n', table: part },
    ]) {
      await assert.rejects(catalog.movePointer(ref, null, 'x:/1'), { code: 'lake_name_invalid' })
    }
    await assert.rejects(catalog.tables(part), { code: 'lake_name_invalid' })
    await assert.rejects(catalog.dropWarehouse(part), { code: 'lake_name_invalid' })
  }
})
