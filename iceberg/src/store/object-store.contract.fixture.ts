/** What every object store of the lake must do. Each implementation's tests call this with a store of their own. */
import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import type { ObjectStore } from './object-store.ts'

export interface ContractStore {
  readonly store: ObjectStore
  /** A bucket that is there, for this test file alone. */
  readonly bucket: string
  /** More bytes than one request of the store carries; a little more is enough. */
  readonly largeBytes: number
}

const bytes = (text: string) => Buffer.from(text)

export function testObjectStore(open: () => ContractStore): void {
  const path = (name: string = randomUUID()) => `${open().bucket}/contract/${name}`
  const text = async (at: string) => Buffer.from(await open().store.get(at)).toString()

  test('what was put is there, and a second put replaces it', async () => {
    const at = path()
    assert.equal((await open().store.put(at, bytes('1'))).sizeBytes, 1)
    await open().store.put(at, bytes('22'))
    assert.equal(await text(at), '22')
    const found = await open().store.stat(at)
    assert.equal(found?.sizeBytes, 2)
    assert.ok(Math.abs((found?.modifiedAt.getTime() ?? 0) - Date.now()) < 3_600_000)
  })

  test('an empty file is a file', async () => {
    const at = path()
    await open().store.put(at, Buffer.alloc(0))
    assert.equal((await open().store.get(at)).length, 0)
  })

  test('ifAbsent keeps what is there', async () => {
    const at = path()
    await open().store.put(at, bytes('first'), { ifAbsent: true })
    const again = open().store.put(at, bytes('second'), { ifAbsent: true })
    await assert.rejects(again, { kind: 'CONFLICT', code: 'object_exists' })
    assert.equal(await text(at), 'first')
  })

  test('of many puts with ifAbsent one wins, and its bytes are what is there', async () => {
    const at = path()
    const puts = Array.from({ length: 8 }, (_, each) => open().store.put(at, bytes(`${each}`), { ifAbsent: true }))
    const outcomes = await Promise.allSettled(puts)
    const winners = outcomes.flatMap(({ status }, each) => (status === 'fulfilled' ? [each] : []))
    assert.equal(winners.length, 1)
    assert.equal(await text(at), `${winners[0]}`)
  })

  test('a large stream arrives whole', async () => {
    const at = path()
    const body = randomBytes(open().largeBytes)
    async function* pieces(): AsyncGenerator<Uint8Array> {
      for (let start = 0; start < body.length; start += 1_000_003) yield body.subarray(start, start + 1_000_003)
    }
    assert.equal((await open().store.put(at, pieces(), { ifAbsent: true })).sizeBytes, body.length)
    assert.ok(body.equals(Buffer.from(await open().store.get(at))))
    await assert.rejects(open().store.put(at, pieces(), { ifAbsent: true }), { code: 'object_exists' })
  })

  test('a body of another length than announced is refused, and nothing is there', async () => {
    for (const body of [bytes('abc'), randomBytes(open().largeBytes)]) {
      const at = path()
      await assert.rejects(open().store.put(at, body, { sizeBytes: body.length + 1 }), { code: 'object_truncated' })
      assert.equal(await open().store.stat(at), null)
    }
  })

  test('a stream that fails leaves no file', async () => {
    const at = path()
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield randomBytes(open().largeBytes)
      throw new Error('cut')
    }
    await assert.rejects(open().store.put(at, broken()))
    assert.equal(await open().store.stat(at), null)
  })

  test('reading refuses what is missing, of another length, or too large', async () => {
    const at = path()
    await assert.rejects(open().store.get(at), { kind: 'INTERNAL', code: 'object_missing' })
    assert.equal(await open().store.stat(at), null)
    await open().store.put(at, bytes('abcdef'))
    await assert.rejects(open().store.get(at, { sizeBytes: 5 }), { code: 'object_truncated' })
    await assert.rejects(open().store.get(at, { maxBytes: 5 }), { code: 'object_too_large' })
  })

  test('paths that could leave the root or hide are refused', async () => {
    const bad = ['', '/etc/passwd', '../x', 'b/../../x', 'b//x', 'b/./x', 'b/x\0y', 'b\\x', 'b/.hidden', 'b/']
    for (const at of bad) {
      await assert.rejects(open().store.put(at, bytes('x')), { code: 'object_path_invalid' }, JSON.stringify(at))
      await assert.rejects(open().store.get(at), { code: 'object_path_invalid' }, JSON.stringify(at))
    }
  })

  test('addresses lead back to their path, and foreign ones nowhere', () => {
    const at = `${open().bucket}/a b%20c/ü.parquet`
    assert.equal(open().store.pathOf(open().store.uri(at)), at)
    for (const uri of ['file:///etc/passwd', 'nonsense', 'gs://b/x', '']) assert.equal(open().store.pathOf(uri), null)
  })

  test('adopt takes the file over, and never over another', async () => {
    const at = path()
    const workspace = await open().store.workspace(open().bucket)
    const local = join(workspace.dir, 'data.parquet')
    const body = randomBytes(open().largeBytes)
    await writeFile(local, body)
    await assert.rejects(open().store.adopt(local, at, { sizeBytes: 5 }), { code: 'object_truncated' })
    await open().store.adopt(local, at, { sizeBytes: body.length })
    await assert.rejects(stat(local))
    await writeFile(local, 'other')
    await assert.rejects(open().store.adopt(local, at), { code: 'object_exists' })
    await workspace.dispose()
    assert.ok(body.equals(Buffer.from(await open().store.get(at))))
  })

  test('list gives every file below a folder and nothing else', async () => {
    const root = `${open().bucket}/list-${randomUUID()}`
    for (const name of ['a/1', 'a/b/2', 'ab/3']) await open().store.put(`${root}/${name}`, bytes('x'))
    const listed = async (folder: string) =>
      (await Array.fromAsync(open().store.list(folder))).map((found) => found.path.slice(root.length + 1)).sort()
    assert.deepEqual(await listed(`${root}/a`), ['a/1', 'a/b/2'])
    assert.deepEqual(await listed(root), ['a/1', 'a/b/2', 'ab/3'])
    assert.deepEqual(await listed(`${root}/none`), [])
  })

  test('removing is repeatable, and a dropped bucket is gone', async () => {
    const { store } = open()
    const bucket = `sluice-gone-${randomUUID().slice(0, 8)}`
    await store.ensureBucket(bucket)
    await store.ensureBucket(bucket)
    await store.put(`${bucket}/x`, bytes('x'))
    await store.remove(`${bucket}/x`)
    await store.remove(`${bucket}/x`)
    for (const name of ['y/z', 'y/zz', 'v']) await store.put(`${bucket}/${name}`, bytes('x'))
    await store.removeAll(`${bucket}/y`)
    assert.deepEqual(
      (await Array.fromAsync(store.list(bucket))).map((found) => found.path),
      [`${bucket}/v`],
    )
    await store.dropBucket(bucket)
    await store.dropBucket(bucket)
    assert.deepEqual(await Array.fromAsync(store.list(bucket)), [])
  })

  test('an error names no path', async () => {
    const error = await open()
      .store.get(path('secret-customer'))
      .then(null, (reason: Error) => reason)
    assert.ok(error instanceof Error)
    assert.doesNotMatch(error.message, /secret-customer|contract/)
  })

  test('a signal ends it', async () => {
    await assert.rejects(open().store.get(path(), { signal: AbortSignal.abort() }), { name: 'AbortError' })
  })
}
