import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { pathToFileURL } from 'node:url'

const LOADED = `--import=${pathToFileURL(join(import.meta.dirname, 'to-the-end.ts')).href}`

let folder: string

before(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-to-the-end-'))
})
after(() => rmSync(folder, { recursive: true, force: true }))

/** What the runner says of a file of these tests. */
function run(name: string, tests: string) {
  const file = join(folder, `${name}.test.mjs`)
  writeFileSync(file, `import { test } from 'node:test'\ntest('first', () => {})\n${tests}`)
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const { status, stdout } = spawnSync(process.execPath, ['--test', LOADED, '--test-reporter=tap', file], {
    env: { ...env, SLUICE_TEST_END_MS: '500' },
  })
  return { status, passed: /^# pass (\d+)$/m.exec(String(stdout))?.[1] }
}

describe('a process of tests', () => {
  it('waits for a test that nothing else keeps it for', () => {
    const waiting = 'await new Promise((done) => AbortSignal.timeout(50).addEventListener("abort", done))'
    const tests = `process.on('beforeExit', () => process.exit(0)); test('second', async () => { ${waiting} })`
    assert.deepEqual(run('waiting', tests), { status: 0, passed: '2' })
  })

  it('that ends before its last test has failed', () => {
    const tests = "test('second', () => process.exit(0)); test('third', () => {})"
    assert.equal(run('ending', tests).status, 1)
  })
  it('that something keeps after its last test has failed, and ends', () => {
    const tests = "test('second', () => { setInterval(() => {}, 1000) })"
    assert.equal(run('kept', tests).status, 1)
  })
})
