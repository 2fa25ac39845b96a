/** A runtime that a test has started ends with the test's process, however that ends; one that is killed may leave what it leaves. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it } from 'node:test'
import { until } from '../until.ts'

const FIXTURE = join(import.meta.dirname, 'abandoned.fixture.ts')

/** Processes that run on the folder. */
async function runningOn(folder: string): Promise<readonly string[]> {
  const commands = (await readdir('/proc'))
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => ''))
  return (await Promise.all(commands)).filter((command) => command.includes(folder))
}

for (const signal of ['SIGKILL', 'SIGINT'] as const) {
  it(`nothing runs on its data folder when the test has ended by ${signal}`, {
    skip: process.platform !== 'linux',
  }, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-abandoned-'))
    const test = spawn(process.execPath, [FIXTURE, folder], { stdio: ['ignore', 'pipe', 'inherit'] })
    try {
      const [said] = await once(test.stdout, 'data')
      const { url } = JSON.parse(String(said))
      assert.equal((await fetch(`${url}/healthz`)).status, 200)
      test.kill(signal)
      await once(test, 'exit')
      await until('nothing of it runs', async () => (await runningOn(folder)).length === 0)
    } finally {
      test.kill('SIGKILL')
      await rm(folder, { recursive: true, force: true })
    }
  })
}
