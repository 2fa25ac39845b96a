import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'

/** In a process of its own: a test runner has its own word for tests that never end. */
const HANGING = `
import reference from './reference/index.ts'
import { start } from './reference/conformance.ts'
import { runSuite } from './suite.ts'

/** A lock that a write which fails never gives back. */
const plugin = {
  ...reference,
  async open(settings, host) {
    const store = await reference.open(settings, host)
    let isHeld = false
    return {
      ...store,
      async write(target, changes, commit) {
        if (isHeld) await new Promise(() => undefined)
        isHeld = true
        const receipt = await store.write(target, changes, commit)
        isHeld = false
        return receipt
      },
    }
  },
}
const results = await runSuite({ plugin, start, only: ['41', '42'] })
console.log(JSON.stringify(results.map(({ id, status, error }) => [id, status, error?.parts?.what ?? null])))
`

test('a call that is never answered fails its check by name, and the checks after it are run', async () => {
  const run = spawn(process.execPath, ['--input-type=module', '--eval', HANGING], { cwd: import.meta.dirname })
  const output: Buffer[] = []
  run.stdout.on('data', (part: Buffer) => output.push(part))
  const [code] = await once(run, 'close')
  const [hung, next] = JSON.parse(Buffer.concat(output).toString() || '[]')
  assert.equal(code, 0)
  assert.deepEqual(hung, [41, 'failed', 'store.write has not answered, and nothing is left that it could wait for'])
  assert.deepEqual(next, [42, 'passed', null])
})
