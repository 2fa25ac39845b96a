import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { bundleProgram } from './program-bundle.ts'

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
