import assert from 'node:assert/strict'
import { chmod, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { ownProgram } from './own-program.ts'

const folder = await mkdtemp(join(tmpdir(), 'sluice-own-'))
after(() => rm(folder, { recursive: true, force: true }))
const source = join(folder, 'main.js')
const entry = pathToFileURL(source)
await writeFile(source, 'export const main = () => "first"')

test('the program is one file where a server has made it, and its sources else', async () => {
  const dir = join(folder, 'mine')
  assert.equal(await ownProgram(entry, dir, false), entry.href)
  const made = await ownProgram(entry, dir, true)
  assert.ok(made.startsWith(`${pathToFileURL(dir).href}/`), made)
  assert.equal((await import(made)).main(), 'first')
  assert.equal(await ownProgram(entry, dir, false), made)
  await writeFile(source, 'export const main = () => "later"')
  assert.equal(await ownProgram(entry, dir, false), entry.href)
  assert.equal((await import(await ownProgram(entry, dir, true))).main(), 'later')
})

test('nothing runs from a folder that others may write to, that cannot be, or where there is none', async () => {
  const dir = join(folder, 'shared')
  await ownProgram(entry, dir, true)
  for (const mode of [0o770, 0o702]) {
    await chmod(dir, mode)
    assert.equal(await ownProgram(entry, dir, true), entry.href)
  }
  const fresh = join(folder, 'fresh')
  await mkdir(fresh, { mode: 0o755 })
  await chmod(fresh, 0o777)
  assert.equal(await ownProgram(entry, fresh, true), entry.href)
  assert.deepEqual(await readdir(fresh), [])
  assert.equal(await ownProgram(entry, join(source, 'no-folder'), true), entry.href)
  assert.equal(await ownProgram(entry, undefined, true), entry.href)
})

test('who looks into the program sees its sources', async () => {
  const dir = join(folder, 'looked')
  process.env['NODE_V8_COVERAGE'] = join(folder, 'coverage')
  try {
    assert.equal(await ownProgram(entry, dir, true), entry.href)
  } finally {
    delete process.env['NODE_V8_COVERAGE']
  }
  process.execArgv.push('--cpu-prof')
  try {
    assert.equal(await ownProgram(entry, dir, true), entry.href)
  } finally {
    process.execArgv.pop()
  }
})

test('sources that cannot be put together run as they are', async () => {
  const broken = join(folder, 'broken.js')
  await writeFile(broken, 'import "./missing.js"')
  const href = pathToFileURL(broken).href
  assert.equal(await ownProgram(new URL(href), join(folder, 'mine'), true), href)
})
