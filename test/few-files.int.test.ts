/** A process that may open no more files: what it cannot start is refused, nothing ends by it, and nothing is left open. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'

const run = promisify(execFile)
const FIXTURE = join(import.meta.dirname, 'few-files.fixture.ts')
/** None is left, then enough for one line more, until there are enough for a process. */
const LEFT = [0, 3, 6, 10, 18]

for (const kind of ['engine', 'source']) {
  test(`of the kind ${kind}: however few files are left, it is refused or started, and started once there are some`, {
    skip: process.platform !== 'linux',
  }, async () => {
    const refused: number[] = []
    for (const left of LEFT) {
      const command = [
        '-c',
        'ulimit -n 96; exec "$@"',
        'sh',
        process.execPath,
        '--no-warnings',
        FIXTURE,
        kind,
        `${left}`,
      ]
      const { stdout } = await run('/bin/sh', command)
      const { said, leaked, again } = JSON.parse(stdout)
      assert.ok(['process_not_started', 'started'].includes(said), `${left}: ${stdout}`)
      assert.deepEqual([leaked, again], [0, 'started'], `${left}: ${stdout}`)
      if (said !== 'started') refused.push(left)
    }
    assert.ok(refused.includes(0), `refused with ${refused.join()} left`)
  })
}
