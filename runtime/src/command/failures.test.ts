import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtemp, open, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { hasLeft, inWords, makeFolder, refusedIn } from './failures.ts'

test('what the system refuses is said in words, with the file or the folder', async () => {
  const full = await open('/dev/full', 'w')
  const error = await full.write('x').catch((cause: unknown) => cause)
  await full.close()
  assert.equal(inWords(error), 'a file: the disk is full')
  assert.equal(inWords(refusedIn('/data', error)), '/data: the disk is full')
  const absent = await open('/absent/x').catch((cause: unknown) => cause)
  assert.equal(inWords(refusedIn('/data', absent)), '/absent/x: it does not exist, and cannot be made')
  const strange = Object.assign(new Error('EWHAT: x'), { code: 'EWHAT', syscall: 'open', path: '/x' })
  assert.equal(inWords(strange), '/x: the system refuses it')
  const own = new Error('the data folder is in use')
  assert.equal(inWords(refusedIn('/data', own)), 'the data folder is in use')
  assert.ok(hasLeft(new Error('not whole', { cause: Object.assign(new Error('x'), { code: 'EPIPE' }) })))
  assert.ok(!hasLeft(own))
})

test('a folder is made with those above it, and what stands in the way is named', async (t) => {
  const root = await mkdtemp(join(tmpdir(), 'sluice-folders-'))
  t.after(() => rm(root, { recursive: true, force: true }))
  await makeFolder(join(root, 'a/b/c'))
  await makeFolder(join(root, 'a/b/c'))
  assert.equal((await stat(join(root, 'a/b/c'))).mode & 0o777, 0o700)
  await writeFile(join(root, 'file'), '')
  await assert.rejects(makeFolder(join(root, 'file/x')), { code: 'ENOTDIR' })
})

const READ_ONLY = 'mount -t tmpfs -o ro none "$0" && exec "$@"'
const OWN = ['-rm', 'sh', '-c', READ_ONLY]
const canMount = spawnSync('unshare', [...OWN, tmpdir(), 'true']).status === 0

test('of a file system that takes nothing it is said that it takes nothing', { skip: !canMount }, async (t) => {
  const root = await mkdtemp(join(tmpdir(), 'sluice-folders-'))
  t.after(() => rm(root, { recursive: true, force: true }))
  const module = join(import.meta.dirname, 'failures.ts')
  const script = `const { makeFolder, inWords } = await import(${JSON.stringify(module)})
    await makeFolder(${JSON.stringify(join(root, 'a/b'))}).catch((error) => console.log(inWords(error)))`
  const args = [...OWN, root, process.execPath, '--input-type=module', '-e', script]
  const { stdout, stderr } = spawnSync('unshare', args, { encoding: 'utf8' })
  assert.equal(stdout, `${join(root, 'a')}: nothing can be written there\n`, stderr)
})
