import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  chmod,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  truncate,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { codeFolder } from './code-folder.ts'
import { bundleProgram, keptProgram } from './program-bundle.ts'

const folder = await mkdtemp(join(tmpdir(), 'sluice-bundle-'))
after(() => rm(folder, { recursive: true, force: true }))

test('a program that was cut off or overwritten on the disk is made anew', async () => {
  const entry = pathToFileURL(join(folder, 'main.js'))
  await writeFile(entry, 'console.log("works")')
  const make = () => bundleProgram(entry, { dir: join(folder, 'code'), name: 'program', requiring: entry.pathname })
  const file = await make()
  const whole = await readFile(file, 'utf8')
  assert.match(whole, /works/)
  for (const spoil of [() => truncate(file), () => writeFile(file, 'exit(1)'), () => rm(file)]) {
    await spoil()
    assert.equal(await make(), file)
    assert.equal(await readFile(file, 'utf8'), whole)
  }
})

test('a program is made anew when one of its sources says something else, however long it is', async () => {
  const entry = pathToFileURL(join(folder, 'changing.js'))
  const options = { dir: join(folder, 'code'), name: 'changing', requiring: entry.pathname }
  await writeFile(entry, 'console.log("old")')
  const first = await bundleProgram(entry, options)
  assert.equal(await keptProgram(entry, options), first)
  await writeFile(entry, 'console.log("new")')
  assert.equal(await keptProgram(entry, options), null)
  assert.match(await readFile(await bundleProgram(entry, options), 'utf8'), /new/)
})

test('sources that look as they did are not read again, and those that do not are', async () => {
  // Of files that nobody writes now.
  const entry = new URL('./libc.ts', import.meta.url)
  const options = { dir: join(folder, 'code'), name: 'looks', requiring: entry.pathname }
  const file = await bundleProgram(entry, options)
  assert.equal(await keptProgram(entry, options), file)
  const record = join(options.dir, 'looks.json')
  const made = JSON.parse(await readFile(record, 'utf8'))
  await writeFile(record, JSON.stringify({ ...made, digest: 'of others' }))
  assert.equal(await keptProgram(entry, options), file)
  await writeFile(record, JSON.stringify({ ...made, looks: 'other' }))
  assert.equal(await keptProgram(entry, options), file)
  assert.deepEqual(JSON.parse(await readFile(record, 'utf8')), made)
  await writeFile(record, JSON.stringify({ ...made, looks: 'other', digest: 'of others' }))
  assert.equal(await keptProgram(entry, options), null)
})

test('modules of a program find what lies beside them, and installed packages lie where they do', async () => {
  const source = join(folder, 'places')
  const installed = join(source, 'node_modules/driver')
  await mkdir(join(source, 'deeper'), { recursive: true })
  await mkdir(installed, { recursive: true })
  await writeFile(join(installed, 'package.json'), '{"name":"driver","type":"module","exports":"./index.js"}')
  await writeFile(join(installed, 'index.js'), 'export const place = import.meta.url')
  const place = '[import.meta.url, import.meta.dirname, import.meta.filename, "import.meta.url"]'
  await writeFile(
    join(source, 'deeper/inner.ts'),
    `import { place } from 'driver'\nexport const told: unknown = [...${place}, import.meta.resolve('driver'), place]`,
  )
  await writeFile(join(source, 'main.ts'), `export const told = async () => (await import('./deeper/inner.ts')).told`)
  const entry = pathToFileURL(join(source, 'main.ts'))
  const dir = join(folder, 'code')
  const file = await bundleProgram(entry, { dir, name: 'places', requiring: entry.pathname, installed: ['driver'] })
  const { told } = (await import(pathToFileURL(file).href)) as { told(): Promise<unknown> }
  const inner = join(source, 'deeper/inner.ts')
  const driver = pathToFileURL(join(installed, 'index.js')).href
  const own = [pathToFileURL(inner).href, join(source, 'deeper'), inner, 'import.meta.url']
  assert.deepEqual(await told(), [...own, driver, driver])
})

test('a source that is written while the program is made is in it as it is then', async () => {
  const source = join(folder, 'meanwhile')
  await mkdir(source)
  const [entry, inner, last] = ['main.js', 'inner.js', 'last.js'].map((name) => join(source, name)) as [
    string,
    string,
    string,
  ]
  await writeFile(entry, 'import "./inner.js"')
  const write = (version: string) => writeFile(inner, `import "./last.js"\nconsole.log("${version}")`)
  await write('old')
  // Who reads it has read what imports it, and waits.
  execFileSync('mkfifo', [last])
  const url = pathToFileURL(entry)
  const options = { dir: join(folder, 'code'), name: 'meanwhile', requiring: entry }
  const making = bundleProgram(url, options)
  const waiting = await open(last, 'w')
  await write('new')
  await writeFile(join(source, 'whole.js'), 'console.log("last")')
  await rename(join(source, 'whole.js'), last)
  await waiting.writeFile('console.log("last")')
  await waiting.close()
  const made = await making
  assert.match(await readFile(made, 'utf8'), /"new"/)
  assert.equal(await keptProgram(url, options), made)
})

test('what moves from the end of a source to the beginning of the next makes another program', async () => {
  const source = join(folder, 'moving')
  await mkdir(source)
  const entry = pathToFileURL(join(source, 'main.js'))
  await writeFile(entry, 'import "./a.js"\nimport "./b.js"')
  const write = async (a: string, b: string) => {
    await writeFile(join(source, 'a.js'), a)
    await writeFile(join(source, 'b.js'), b)
  }
  const options = { dir: join(folder, 'code'), name: 'moving', requiring: entry.pathname }
  await write('console.log(1)\nconst x = 2\n', 'console.log(x)')
  await bundleProgram(entry, options)
  await write('console.log(1)\n', 'const x = 2\nconsole.log(x)')
  assert.equal(await keptProgram(entry, options), null)
})

test('a program is made anew where a package lies elsewhere or exports another module', async () => {
  const source = join(folder, 'packages')
  const inner = join(source, 'node_modules/one/node_modules/driver')
  await mkdir(inner, { recursive: true })
  await writeFile(join(inner, 'package.json'), '{"name":"driver","type":"module","exports":"./index.js"}')
  await writeFile(join(inner, 'index.js'), 'export const place = import.meta.url')
  const one = join(source, 'node_modules/one')
  const describe = (exported: string) =>
    writeFile(join(one, 'package.json'), JSON.stringify({ name: 'one', type: 'module', exports: exported }))
  await describe('./first.js')
  await writeFile(join(one, 'first.js'), `export { place } from 'driver'; export const which = 'first'`)
  await writeFile(join(one, 'second.js'), `export { place } from 'driver'; export const which = 'second'`)
  const entry = pathToFileURL(join(source, 'main.js'))
  await writeFile(entry, `export * from 'one'`)
  const options = { dir: join(folder, 'code'), name: 'packages', requiring: entry.pathname, installed: ['driver'] }
  const told = async () => (await import(pathToFileURL(await bundleProgram(entry, options)).href)) as object
  assert.deepEqual({ ...(await told()) }, { place: pathToFileURL(join(inner, 'index.js')).href, which: 'first' })
  const outer = join(source, 'node_modules/driver')
  await rename(inner, outer)
  assert.deepEqual({ ...(await told()) }, { place: pathToFileURL(join(outer, 'index.js')).href, which: 'first' })
  await describe('./second.js')
  assert.deepEqual({ ...(await told()) }, { place: pathToFileURL(join(outer, 'index.js')).href, which: 'second' })
})

test('no drafts are left: of writing that failed, or of processes that were ended a week ago', async () => {
  const entry = pathToFileURL(join(folder, 'drafts.js'))
  await writeFile(entry, 'console.log("works")')
  const dir = join(folder, 'drafts')
  const options = { dir, name: 'drafts', requiring: entry.pathname }
  // Nothing can take this name.
  await mkdir(join(dir, 'drafts.json/in the way'), { recursive: true })
  await assert.rejects(bundleProgram(entry, options))
  const left = await readdir(dir)
  assert.deepEqual(
    left.filter((name) => name.startsWith('drafts.json.')),
    [],
  )
  await rm(join(dir, 'drafts.json'), { recursive: true })
  const weekAgo = new Date(Date.now() - 8 * 24 * 60 * 60 * 1000)
  for (const name of ['drafts-0a.mjs.1c-2d', 'drafts.json.1c-2d']) {
    await writeFile(join(dir, name), 'cut')
    await utimes(join(dir, name), weekAgo, weekAgo)
  }
  await writeFile(join(dir, 'drafts-0b.mjs.1c-2d'), 'being written by another')
  await bundleProgram(entry, options)
  const names = await readdir(dir)
  assert.deepEqual(
    names.filter((name) => /\.1c-2d$/.test(name)),
    ['drafts-0b.mjs.1c-2d'],
  )
})

test('programs of children are kept where nobody else writes', async () => {
  const before = process.env['NODE_COMPILE_CACHE']
  const named = join(folder, 'named')
  const otherwise = join(folder, 'otherwise')
  process.env['NODE_COMPILE_CACHE'] = named
  try {
    assert.equal(codeFolder(otherwise), await realpath(named))
    for (const mode of [0o770, 0o702]) {
      await chmod(named, mode)
      assert.equal(codeFolder(otherwise), otherwise)
    }
  } finally {
    if (before === undefined) delete process.env['NODE_COMPILE_CACHE']
    else process.env['NODE_COMPILE_CACHE'] = before
  }
})

test('a program of many more sources than this process may open files at once is made, and found again', {
  skip: process.platform !== 'linux',
}, async () => {
  const modules = Array.from({ length: 300 }, (_, at) => `part${at}`)
  const many = join(folder, 'many')
  await mkdir(many)
  for (const [at, name] of modules.entries()) {
    // Each in a folder of its own: their descriptions are looked for as well.
    await mkdir(join(many, name))
    await writeFile(join(many, name, 'index.js'), `export const value = ${at}`)
  }
  const entry = join(many, 'main.js')
  const imports = modules.map((name, at) => `import { value as v${at} } from './${name}/index.js'`)
  await writeFile(entry, `${imports.join('\n')}\nconsole.log(${modules.map((_, at) => `v${at}`).join(' + ')})`)
  const options = JSON.stringify({ dir: join(folder, 'code'), name: 'many', requiring: entry })
  const made = `import { bundleProgram, keptProgram } from ${JSON.stringify(new URL('./program-bundle.ts', import.meta.url).href)}
    const entry = new URL(${JSON.stringify(pathToFileURL(entry).href)})
    console.log(await bundleProgram(entry, ${options}) === await keptProgram(entry, ${options}))`
  const node = [process.execPath, '--no-warnings', '--input-type=module', '-e', made]
  const said = execFileSync('/bin/sh', ['-c', 'ulimit -n 128; exec "$@"', 'sh', ...node], { encoding: 'utf8' })
  assert.equal(said, 'true\n')
})
