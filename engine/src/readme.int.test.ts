import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import { examplesOf } from '../../test/readme-examples.ts'

const PACKAGE = join(import.meta.dirname, '..')
const examples = examplesOf(await readFile(join(PACKAGE, 'README.md'), 'utf8'))

let folder: string

before(async () => {
  // Inside of the repository, where the package is found by its name.
  const kept = join(PACKAGE, '../.sluice')
  await mkdir(kept, { recursive: true })
  folder = await mkdtemp(join(kept, 'engine-readme-'))
  await writeFile(join(folder, 'package.json'), '{"type":"module"}')
})

after(() => rm(folder, { recursive: true, force: true }))

describe('the README', () => {
  for (const { file, code, prints } of examples) {
    it(`says what ${file} prints`, async () => {
      await writeFile(join(folder, file), code)
      const { stdout } = await promisify(execFile)(process.execPath, [join(folder, file)])
      assert.equal(stdout, prints)
    })
  }
})
