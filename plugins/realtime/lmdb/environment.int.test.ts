/** What is found on disk when a store is opened: files that were spoiled, and locks of owners that are gone. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, open, readFile, rm, stat, truncate, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, beforeEach, test } from 'node:test'
import { isSluiceError } from '@sluice/sdk'
import { openEnvironment } from './environment.ts'

const ENTRIES = 3000
const PAGE_BYTES = 4096
const MODULE = new URL('./environment.ts', import.meta.url).href

const parent = await mkdtemp(join(tmpdir(), 'sluice-lmdb-file-'))
after(() => rm(parent, { recursive: true, force: true }))
let folder: string
let file: string

beforeEach(async () => {
  folder = await mkdtemp(join(parent, 'store-'))
  file = join(folder, 'data/data.mdb')
  const environment = await openEnvironment(folder)
  for (let key = 0; key < ENTRIES; key += 1) {
    void environment.entries.put(`acme:sales:orders:${key}`, Buffer.from(`${key}`.repeat(20)))
  }
  await environment.entries.flushed
  await environment.close()
})

/** What the next owner finds, and whether it was told that the file was broken. */
async function found(): Promise<{ readonly entries: number; readonly isTold: boolean }> {
  let isTold = false
  const environment = await openEnvironment(folder, () => {
    isTold = true
  })
  const entries = [...environment.entries.getRange()].length
  await environment.entries.put('again', Buffer.from('1'))
  await environment.close()
  return { entries, isTold }
}

async function overwrite(fromPage: number, pages: number, byte: number): Promise<void> {
  const handle = await open(file, 'r+')
  await handle.write(Buffer.alloc(pages * PAGE_BYTES, byte), 0, pages * PAGE_BYTES, fromPage * PAGE_BYTES)
  await handle.close()
}

/** Ends as one does that is killed. */
async function killedOwner(): Promise<void> {
  const script = `const { openEnvironment } = await import(${JSON.stringify(MODULE)})
    await openEnvironment(${JSON.stringify(folder)}); process.kill(process.pid, 'SIGKILL')`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: 'inherit' })
  await once(child, 'exit')
}

const SPOILED: Readonly<Record<string, () => Promise<unknown>>> = {
  'its head is empty': () => overwrite(0, 2, 0),
  'it was cut in half': async () => truncate(file, Math.floor((await stat(file)).size / 2)),
  'it is something else': async () => writeFile(file, Buffer.alloc(60 * PAGE_BYTES, 7)),
  'its pages were overwritten': () => overwrite(2, 40, 0xff),
}

for (const [what, spoil] of Object.entries(SPOILED)) {
  test(`a file is made anew, and told of, where ${what}`, async () => {
    await spoil()
    assert.deepEqual(await found(), { entries: 0, isTold: true })
    assert.deepEqual(await found(), { entries: 1, isTold: false })
  })
}

test('a file that was copied, or whose owner was killed, is kept as long as it is whole', async () => {
  await utimes(file, new Date(0), new Date(0))
  assert.deepEqual(await found(), { entries: ENTRIES, isTold: false })
  await killedOwner()
  assert.deepEqual(await found(), { entries: ENTRIES + 1, isTold: false })
  const { mtime } = await stat(file)
  await killedOwner()
  await overwrite(2, 40, 0xff)
  // As a disk does that loses what it has: nothing says that the file was changed.
  await utimes(file, mtime, mtime)
  assert.deepEqual(await found(), { entries: 0, isTold: true })
})

test('what lies in place of the file and is none is refused, and left as it is', async () => {
  await rm(file)
  await mkdir(file)
  await assert.rejects(found(), (error) => isSluiceError(error, 'CONFIG') && error.code === 'store_not_opened')
  assert.ok((await stat(file)).isDirectory())
})

test('the lock of one that was killed is taken over while nobody has waited for it', {
  skip: process.platform !== 'linux',
}, async () => {
  const script = `const { openEnvironment } = await import(${JSON.stringify(MODULE)})
    await openEnvironment(${JSON.stringify(folder)}); process.kill(process.pid, 'SIGKILL')`
  const program = [process.execPath, '--input-type=module', '-e', script]
  const shell = spawn('/bin/sh', ['-c', '"$@" & echo $!; exec sleep 3600', 'sh', ...program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  try {
    const [said] = await once(shell.stdout, 'data')
    const state = async () => (await readFile(`/proc/${Number(String(said))}/stat`, 'utf8')).split(') ')[1]?.[0]
    while ((await state()) !== 'Z') await new Promise((resolve) => setTimeout(resolve, 20))
    assert.equal((await found()).entries, ENTRIES)
  } finally {
    shell.kill('SIGKILL')
  }
})
