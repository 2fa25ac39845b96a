import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'

const RECORDER = join(import.meta.dirname, 'opened.py')
const folder = mkdtempSync(join(tmpdir(), 'sluice-opened-'))
after(() => rmSync(folder, { recursive: true, force: true }))

/** A namespace of mounts, which root has on Linux, and not in every container. */
const isAllowed = spawnSync('unshare', ['-m', 'python3', '--version']).status === 0

test('what a process opens is of the suite that it or an ancestor names', {
  skip: !isAllowed && 'it needs root on Linux, and Python',
}, () => {
  const root = join(folder, 'checkout')
  mkdirSync(join(root, 'node_modules'), { recursive: true })
  for (const name of ['a', 'b', 'c', 'node_modules/d']) writeFileSync(join(root, name), name)
  const orphan = 'SLUICE_TEST_SUITE=one sh -c "env -i sh -c \'cat b; cat node_modules/d\'; cat a"'
  const out = join(folder, 'out.json')
  const script = `${orphan}; SLUICE_TEST_SUITE=two cat a; cat c; exit 3`
  const { status, stdout } = spawnSync('python3', [RECORDER, root, out, 'sh', '-c', script], { encoding: 'utf8' })
  assert.deepEqual([status, stdout], [3, 'bnode_modules/daac'])
  const suites = { one: ['a', 'b'], two: ['a'], '': ['c'] }
  assert.deepEqual(JSON.parse(readFileSync(out, 'utf8')), { suites, opens: 4 })
})
