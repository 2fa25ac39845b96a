import assert from 'node:assert/strict'
import { link, mkdir, mkdtemp, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { FolderStore } from './folder-store.ts'

let dir: string
let store: FolderStore

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'sluice-store-'))
  store = new FolderStore(join(dir, 'root'))
})
after(() => rm(dir, { recursive: true, force: true }))

const bytes = (text: string) => Buffer.from(text)
const text = async (path: string) => Buffer.from(await store.get(path)).toString()

test('what was put is there, and a second put replaces it', async () => {
  assert.equal((await store.put('b/x/one', bytes('1'))).sizeBytes, 1)
  await store.put('b/x/one', bytes('22'))
  assert.equal(await text('b/x/one'), '22')
})

test('ifAbsent keeps what is there', async () => {
  await store.put('b/taken', bytes('first'), { ifAbsent: true })
  await assert.rejects(store.put('b/taken', bytes('second'), { ifAbsent: true }), {
    kind: 'CONFLICT',
    code: 'object_exists',
  })
  assert.equal(await text('b/taken'), 'first')
})

test('of many puts with ifAbsent one wins', async () => {
  const puts = Array.from({ length: 8 }, (_, at) => store.put('b/race', bytes(`${at}`), { ifAbsent: true }))
  const outcomes = await Promise.allSettled(puts)
  assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1)
})

test('a stream that fails leaves no file and no draft', async () => {
  async function* broken(): AsyncGenerator<Uint8Array> {
    yield bytes('half')
    throw new Error('cut')
  }
  await assert.rejects(store.put('b/broken', broken()))
  assert.equal(await store.stat('b/broken'), null)
  assert.deepEqual(await readdir(join(dir, 'root', '.work')), [])
})

test('a body of another length than announced is refused', async () => {
  await assert.rejects(store.put('b/short', bytes('abc'), { sizeBytes: 4 }), { code: 'object_truncated' })
  assert.equal(await store.stat('b/short'), null)
})

test('a file that was cut on the disk is refused', async () => {
  await store.put('b/cut', bytes('abcdef'))
  await writeFile(store.localPath('b/cut'), 'abc')
  await assert.rejects(store.get('b/cut', { sizeBytes: 6 }), { code: 'object_truncated' })
})

test('paths that could leave the root or hide are refused', async () => {
  const bad = [
    '',
    '/etc/passwd',
    '../x',
    'b/../../x',
    'b//x',
    'b/./x',
    'b/x\0y',
    'b\\x',
    'b/.hidden',
    'b/',
    `b/${'x'.repeat(1000)}`,
  ]
  for (const path of bad) {
    await assert.rejects(store.put(path, bytes('x')), { code: 'object_path_invalid' }, JSON.stringify(path))
    await assert.rejects(store.get(path), { code: 'object_path_invalid' }, JSON.stringify(path))
  }
})

test('addresses lead back to their path, and foreign ones nowhere', () => {
  const path = 'b/a b%20c/ü#?.parquet'
  assert.equal(store.pathOf(store.uri(path)), path)
  const foreign = [
    's3://b/x',
    'file:///etc/passwd',
    `file://${dir}/root/../secret`,
    `file://${dir}/root/b/%2e%2e/%2e%2e/secret`,
    'nonsense',
  ]
  for (const uri of foreign) assert.equal(store.pathOf(uri), null, uri)
  assert.equal(store.pathOf(`file://${dir}/root-neighbour/x`), null)
})

test('adopt takes the file over, and never over another', async () => {
  const workspace = await store.workspace()
  const local = join(workspace.dir, 'data.parquet')
  await writeFile(local, 'rows')
  await assert.rejects(store.adopt(local, 'b/adopted', { sizeBytes: 5 }), { code: 'object_truncated' })
  await store.adopt(local, 'b/adopted', { sizeBytes: 4 })
  assert.equal(await text('b/adopted'), 'rows')
  await assert.rejects(stat(local))
  await writeFile(local, 'other')
  await assert.rejects(store.adopt(local, 'b/adopted'), { code: 'object_exists' })
  await workspace.dispose()
  assert.equal(await text('b/adopted'), 'rows')
})

test('adopt refuses links of either kind', async () => {
  const workspace = await store.workspace()
  await writeFile(join(dir, 'secret'), 'secret')
  await symlink(join(dir, 'secret'), join(workspace.dir, 'soft'))
  await link(join(dir, 'secret'), join(workspace.dir, 'hard'))
  for (const name of ['soft', 'hard']) {
    await assert.rejects(store.adopt(join(workspace.dir, name), `b/${name}`), { code: 'object_suspect' })
    assert.equal(await store.stat(`b/${name}`), null)
  }
  await workspace.dispose()
})

test('list gives every file below a folder and nothing else', async () => {
  for (const path of ['l/a/1', 'l/a/b/2', 'l/ab/3', 'm/4']) await store.put(path, bytes('x'))
  await mkdir(join(dir, 'outside'))
  await writeFile(join(dir, 'outside', 'secret'), 'x')
  await symlink(join(dir, 'outside'), store.localPath('l/a/link'))
  const listed = async (prefix: string) => (await Array.fromAsync(store.list(prefix))).map(({ path }) => path).sort()
  assert.deepEqual(await listed('l/a'), ['l/a/1', 'l/a/b/2'])
  assert.deepEqual(await listed('l/none'), [])
})

test('removing is repeatable, and a dropped bucket is gone', async () => {
  await store.ensureBucket('gone')
  await store.ensureBucket('gone')
  await store.put('gone/x', bytes('x'))
  await store.remove('gone/x')
  await store.remove('gone/x')
  await store.put('gone/y/z', bytes('x'))
  await store.dropBucket('gone')
  await store.dropBucket('gone')
  assert.deepEqual(await Array.fromAsync(store.list('gone')), [])
  await assert.rejects(store.get('gone/y/z'), { kind: 'INTERNAL', code: 'object_missing' })
})

test('an error names no path', async () => {
  const error = await store.get('b/secret-customer').then(null, (reason: Error) => reason)
  assert.ok(error instanceof Error)
  assert.doesNotMatch(error.message, /secret-customer|root/)
})
