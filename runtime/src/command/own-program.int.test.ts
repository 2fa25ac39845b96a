import assert from 'node:assert/strict'
import { chmod, mkdir, mkdtemp, readdir, realpath, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { keepingFolder, ownProgram } from './own-program.ts'

const folder = await realpath(await mkdtemp(join(tmpdir(), 'sluice-own-')))
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

test('who waits is told before the program is made, and not where it is there', async () => {
  const [dir, told] = [join(folder, 'told'), [] as string[]]
  for (const mayMake of [false, true, true]) {
    await ownProgram(entry, dir, mayMake, () => told.push(`may make: ${mayMake}`))
  }
  assert.deepEqual(told, ['may make: true'])
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

test('agents that NODE_OPTIONS loads first see the modules they watch', async () => {
  const dir = join(folder, 'watched')
  const before = process.env['NODE_OPTIONS']
  try {
    for (const options of ['--import=/agent.mjs', '--require ./agent.cjs', '-r agent', '--no-warnings --loader x']) {
      process.env['NODE_OPTIONS'] = options
      assert.equal(await ownProgram(entry, dir, true), entry.href, options)
    }
    process.env['NODE_OPTIONS'] = '--no-warnings'
    assert.notEqual(await ownProgram(entry, dir, true), entry.href)
  } finally {
    if (before === undefined) delete process.env['NODE_OPTIONS']
    else process.env['NODE_OPTIONS'] = before
  }
})

test('the folder in which programs are kept is the user’s own, whatever the environment says', async () => {
  const names = ['NODE_COMPILE_CACHE', 'XDG_CACHE_HOME', 'HOME'] as const
  const before = names.map((name) => [name, process.env[name]] as const)
  const mask = process.umask(0o002)
  const among = (values: Partial<Record<(typeof names)[number], string>>) => {
    for (const name of names) delete process.env[name]
    Object.assign(process.env, values)
    return keepingFolder()
  }
  const home = join(folder, 'home')
  const kept = join(home, '.cache/sluice/code')
  await mkdir(home)
  try {
    assert.equal(among({ HOME: home }), kept)
    assert.equal((await stat(kept)).mode & 0o777, 0o700)
    // Of a release that made it under the same mask.
    await writeFile(join(kept, 'planted'), 'by the group')
    await chmod(kept, 0o775)
    assert.equal(among({ HOME: home }), kept)
    assert.deepEqual(await readdir(kept), [])
    assert.equal(among({ HOME: home, XDG_CACHE_HOME: 'relative' }), kept)
    assert.equal(among({ HOME: '' }), undefined)
    assert.equal(among({ HOME: 'relative' }), undefined)
    assert.equal(among({ HOME: source }), undefined)
    assert.equal(among({ HOME: join(folder, 'nobody') }), undefined)
    const named = join(folder, 'named')
    assert.equal(among({ HOME: home, NODE_COMPILE_CACHE: named }), named)
    await symlink(named, join(folder, 'link'))
    assert.equal(among({ HOME: home, NODE_COMPILE_CACHE: join(folder, 'link') }), named)
    // Whoever can rename what holds it puts another in its place.
    const open = join(folder, 'open')
    await mkdir(open)
    await chmod(open, 0o777)
    assert.equal(among({ HOME: home, NODE_COMPILE_CACHE: join(open, 'code') }), undefined)
  } finally {
    process.umask(mask)
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name]
      else process.env[name] = value
    }
  }
})
