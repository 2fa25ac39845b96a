import assert from 'node:assert/strict'
import { chmod, link, mkdir, mkdtemp, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { FolderStore } from './folder-store.ts'
import { testObjectStore } from './object-store.contract.fixture.ts'

let dir: string
let store: FolderStore

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'sluice-store-'))
  store = new FolderStore(join(dir, 'root'))
})
after(() => rm(dir, { recursive: true, force: true }))

const bytes = (text: string) => Buffer.from(text)

testObjectStore(() => ({ store, bucket: 'sluice-contract', largeBytes: 3_000_000 }))

test('a stream that fails leaves no file and no draft', async () => {
  async function* broken(): AsyncGenerator<Uint8Array> {
    yield bytes('half')
    throw new Error('cut')
  }
  await assert.rejects(store.put('b/broken', broken()))
  assert.equal(await store.stat('b/broken'), null)
  const drafts = (await readdir(join(dir, 'root', '.work'))).filter((name) => name.endsWith('.draft'))
  assert.deepEqual(drafts, [])
})

test('other accounts of the machine come into no folder of it, also of one that was open to them', async () => {
  await store.put('private/a/b/c.txt', bytes('x'))
  const folders = ['', 'private', 'private/a', 'private/a/b'].map((path) => join(dir, 'root', path))
  for (const folder of folders) assert.equal((await stat(folder)).mode & 0o077, 0, folder)
  await chmod(folders[0] as string, 0o755)
  await store.recover()
  assert.equal((await stat(folders[0] as string)).mode & 0o777, 0o700)
})

test('a file that was cut on the disk is refused', async () => {
  await store.put('b/cut', bytes('abcdef'))
  await writeFile(store.localPath('b/cut'), 'abc')
  await assert.rejects(store.get('b/cut', { sizeBytes: 6 }), { code: 'object_truncated' })
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

test('a note of former places that was cut off is none, and is written anew', async () => {
  const root = join(dir, 'moved')
  const moved = new FolderStore(root)
  await moved.recover()
  for (const text of ['', '["/for', '{}', 'null']) {
    await writeFile(join(root, '.places.json'), text)
    assert.equal(await moved.findPlaces([pathToFileURL(root).href]), false)
    assert.equal(await moved.findPlaces(['file:///former']), true)
    await moved.keepPlace()
    assert.equal(await moved.findPlaces([]), false)
  }
})

test('adopt refuses links of either kind', async () => {
  const workspace = await store.workspace('b')
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
