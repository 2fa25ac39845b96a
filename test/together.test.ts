import assert from 'node:assert/strict'
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { ROOT } from './sources.ts'
import { ALONE, inFewProcesses } from './together.ts'

test('every test file runs once, in a process of its own or together with others', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-together-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const files = globSync('{sdk,runtime,plugins,test}/**/*.test.ts', {
    cwd: ROOT,
    exclude: ['**/node_modules/**'],
  }).sort()
  const programs = await inFewProcesses(files, folder)
  const alone = programs.filter((program) => !program.startsWith(folder))
  const together = programs
    .filter((program) => program.startsWith(folder))
    .flatMap((program) => [...readFileSync(program, 'utf8').matchAll(/describe\("([^"]+)"/g)].map(([, file]) => file))
  assert.deepEqual([...alone, ...together].sort(), files)
  assert.ok(together.length > alone.length && programs.length < files.length / 2)
})

test('what runs alone is there', () => {
  for (const glob of ALONE) assert.ok(globSync(glob, { cwd: ROOT, exclude: ['**/node_modules/**'] }).length > 0, glob)
})
