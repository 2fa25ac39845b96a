import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, open, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises'
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
  await assert.rejects(makeFolder(join(root, 'file')), { code: 'EEXIST' })
  await symlink('nowhere', join(root, 'dangling'))
  for (const way of ['dangling', 'dangling/x']) {
    await assert.rejects(makeFolder(join(root, way)), { code: 'EEXIST', path: join(root, 'dangling') })
  }
  const unheard = await makeFolder(join(root, 'a\0b')).catch((cause: unknown) => cause)
  assert.equal(inWords(unheard), 'a file: no file can be called so')
})

/** A process of its own: what never ends would keep the test's from ending, too. */
function ends(args: readonly string[]): { readonly status: number | null; readonly stderr: string } {
  return spawnSync(process.execPath, [COMMAND, ...args], { encoding: 'utf8', timeout: 60_000 })
}

const COMMAND = join(import.meta.dirname, '../../bin/sluice.js')

test('where a file system takes no folders at all, every command that would make one says so and ends', (t) => {
  if (!existsSync('/proc/self')) return t.skip('there is no /proc')
  const folder = '/proc/sluice'
  for (const args of [
    ['product', 'init', folder],
    ['plugin', 'new', folder],
    ['start', '--data-dir', folder],
  ]) {
    const { status, stderr } = ends(args)
    assert.deepEqual(
      [status, stderr],
      [1, 'sluice: /proc/sluice: it does not exist, and cannot be made\n'],
      args.join(' '),
    )
  }
})

test('manifests are written all together, or none', { skip: !existsSync('/dev/full') }, async (t) => {
  const root = await mkdtemp(join(tmpdir(), 'sluice-init-'))
  t.after(() => rm(root, { recursive: true, force: true }))
  // The fourth of them meets a disk that is full.
  const script = `
    import fs from 'node:fs/promises'
    import { syncBuiltinESMExports } from 'node:module'
    const { open } = fs
    fs.open = (path, flags) => path.endsWith('quality.yaml') ? (open(path, flags).then((file) => file.close()), open('/dev/full', 'w')) : open(path, flags)
    syncBuiltinESMExports()
    const { initProduct } = await import(${JSON.stringify(join(import.meta.dirname, 'product-files.ts'))})
    const { inWords } = await import(${JSON.stringify(join(import.meta.dirname, 'failures.ts'))})
    await initProduct(${JSON.stringify(root)}).catch((error) => console.log(inWords(error)))`
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' })
  assert.equal(stdout, `${root}: the disk is full\n`, stderr)
  assert.deepEqual(await readdir(root), [])
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
