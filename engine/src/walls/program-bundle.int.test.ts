import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { pathToFileURL } from 'node:url'
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
