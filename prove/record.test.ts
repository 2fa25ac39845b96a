import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { crashFigures } from './crash.ts'
import { PROOFS } from './proofs.ts'
import { sourcesOf } from './record.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-prove-'))
after(() => rmSync(folder, { recursive: true, force: true }))

test('the sources of a proof are files by path and content, and nothing installed', () => {
  mkdirSync(join(folder, 'a/node_modules'), { recursive: true })
  writeFileSync(join(folder, 'a/b.ts'), '1')
  writeFileSync(join(folder, 'a/node_modules/c.ts'), '1')
  const before = sourcesOf(['a/**/*.ts'], folder)
  assert.deepEqual([before.files, before.commit], [1, 'unknown'])
  assert.equal(sourcesOf(['a/**/*.ts'], folder).sha256, before.sha256)
  writeFileSync(join(folder, 'a/b.ts'), '2')
  assert.notEqual(sourcesOf(['a/**/*.ts'], folder).sha256, before.sha256)
})

test('every proof has a name of its own, and sources', () => {
  assert.equal(new Set(PROOFS.map(({ name }) => name)).size, PROOFS.length)
  for (const { name, of } of PROOFS) assert.ok(sourcesOf(of).files > 0, name)
})

test('what the test of kills reports becomes figures', () => {
  const lines = ['seed 7: 3 kills, 1 runs checked', 'seed 7: 33 kills, 40 starts, 9 runs checked', '  lake.commit: 2']
  const figures = { kills: 33, starts: 40, runsChecked: 9, killsByPoint: { 'lake.commit': 2 } }
  assert.deepEqual(crashFigures(lines), figures)
  assert.equal(crashFigures(['seed 7: 3 kills, 1 runs checked'])['kills'], 0)
})
