import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { type Outcome, readRecord, writeOutcome } from './record.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-record-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const PASSED = { kind: 'passed', key: 'k', at: '2026-01-01', commit: 'c', seconds: 3 } as const satisfies Outcome
const GREEN = { key: 'k', green: { at: '2026-01-01', commit: 'c', seconds: 3 }, leftOutSince: null }

/** What is there after the outcomes of one suite, in a file of its own. */
function recorded(...outcomes: readonly Outcome[]) {
  const file = join(folder, `${Math.random()}`, 'record.json')
  for (const outcome of outcomes) writeOutcome(file, 'redis', outcome)
  return { file, suite: readRecord(file)['redis'] }
}

describe('the record of green', () => {
  it('gives back what was written, of each suite', () => {
    const { file } = recorded(PASSED)
    writeOutcome(file, 'kafka', { ...PASSED, key: 'other' })
    assert.deepEqual(readRecord(file), { redis: GREEN, kafka: { ...GREEN, key: 'other' } })
    assert.deepEqual(readdirSync(join(file, '..')), ['record.json'])
  })

  it('takes the key from what fails, and keeps when it was green', () => {
    assert.deepEqual(recorded(PASSED, { kind: 'failed' }).suite, { ...GREEN, key: null })
    assert.deepEqual(recorded({ kind: 'failed' }).suite, { key: null, green: null, leftOutSince: null })
  })

  it('keeps since when something was left out, until it runs', () => {
    const first = { kind: 'left out', at: '2026-01-02' } as const
    const again = { kind: 'left out', at: '2026-01-03' } as const
    assert.deepEqual(recorded(PASSED, first, again).suite, { ...GREEN, leftOutSince: '2026-01-02' })
    assert.equal(recorded(first, PASSED).suite?.leftOutSince, null)
    assert.equal(recorded(first, { kind: 'failed' }).suite?.leftOutSince, null)
  })

  it('is empty where there is none or it cannot be read, and is written anew then', () => {
    const file = join(folder, 'broken.json')
    assert.deepEqual(readRecord(file), {})
    for (const text of [
      '',
      '{',
      'null',
      '[]',
      JSON.stringify({ version: 2, suites: { kafka: GREEN } }),
      '{"version":1,"suites":[]}',
    ]) {
      writeFileSync(file, text)
      assert.deepEqual(readRecord(file), {}, text)
      writeOutcome(file, 'redis', PASSED)
      assert.deepEqual(readRecord(file), { redis: GREEN }, text)
    }
  })

  it('leaves out a suite whose entry is not one', () => {
    const { file } = recorded(PASSED)
    for (const wrong of [null, 'k', {}, { ...GREEN, key: 1 }, { ...GREEN, green: { at: 'x' } }]) {
      writeFileSync(file, JSON.stringify({ version: 1, suites: { redis: GREEN, kafka: wrong } }))
      assert.deepEqual(readRecord(file), { redis: GREEN })
    }
  })

  it('is whole at every moment while several write it', async () => {
    const file = join(folder, 'shared.json')
    const module = new URL('./record.ts', import.meta.url).href
    const program = `const { writeOutcome } = await import('${module}')
      for (let n = 0; n < 100; n += 1) writeOutcome('${file}', process.argv[1], ${JSON.stringify(PASSED)})`
    const writers = ['redis', 'kafka'].map((name) =>
      spawn(process.execPath, ['--input-type=module', '-e', program, name], { stdio: 'inherit' }),
    )
    const ended = Promise.all(writers.map((writer) => once(writer, 'exit')))
    while (writers.some(({ exitCode }) => exitCode === null)) {
      if (existsSync(file)) assert.equal(JSON.parse(readFileSync(file, 'utf8')).version, 1)
      await new Promise((resolve) => setImmediate(resolve))
    }
    assert.deepEqual(await ended, [
      [0, null],
      [0, null],
    ])
    // One may have missed the other's last change, never its own.
    assert.ok(Object.values(readRecord(file)).some((one) => one.key === 'k'))
  })
})
