import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { runChild } from '../child.ts'
import { readCoverage } from './coverage.ts'
import { movedTo } from './moved.ts'
import type { Mutation } from './mutation.ts'
import { isBeside } from './reach.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-coverage-'))
after(() => rmSync(folder, { recursive: true, force: true }))

test('a place is reached where some process has run it, children of children included', async () => {
  const source = 'export const f = (a: number): string => {\n  if (a > 1) return "more"\n  return "less"\n}\n'
  writeFileSync(join(folder, 'f.ts'), source)
  const call = "const { spawnSync } = await import('node:child_process')\n"
  writeFileSync(join(folder, 'g.ts'), `${call}spawnSync(process.execPath, ['h.ts'])`)
  writeFileSync(join(folder, 'h.ts'), "import { f } from './f.ts'\nf(0)")
  const env = { NODE_V8_COVERAGE: join(folder, 'coverage') }
  const signal = AbortSignal.timeout(600_000)
  assert.equal((await runChild(process.execPath, ['g.ts'], { cwd: folder, env, signal })).code, 0)
  const coverage = await readCoverage(env.NODE_V8_COVERAGE, folder)
  const reached = ['>', '"more"', '"less"'].map((text) => coverage.hasRun('f.ts', source.indexOf(text)))
  assert.deepEqual(reached, [true, false, true])
  assert.deepEqual([coverage.hasLoaded('f.ts'), coverage.hasLoaded('i.ts')], [true, false])
})

test('a line is found by what it says: the nearest in its file, or the only one elsewhere', () => {
  const mutation: Mutation = { file: 'a.ts', line: 2, column: 5, from: '<', to: '<=', kind: 'typescript' }
  const texts = new Map([
    ['a.ts', 'a < b\n\n\n  a < b\n'],
    ['b.ts', '  c < d\n'],
  ])
  assert.deepEqual(movedTo(mutation, '  a < b', texts), { ...mutation, line: 1, column: 3 })
  assert.deepEqual(movedTo({ ...mutation, column: 3 }, 'c < d', texts), { ...mutation, file: 'b.ts', line: 1 })
  assert.equal(movedTo(mutation, 'e < f', texts), null)
})

test('a test stands beside its source whatever it needs', () => {
  assert.deepEqual(
    ['a/b.test.ts', 'a/b.int.test.ts', 'c/b.test.ts'].map((test) => isBeside(test, 'a/b.ts')),
    [true, true, false],
  )
})
