/** A runtime that was killed under a parent that does not wait for it, as the first process of a container often does. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, it } from 'node:test'
import { until } from '../until.ts'
import { RuntimeProcess } from './runtime-process.ts'

const LAUNCHER = join(import.meta.dirname, '../../runtime/bin/sluice.js')
const folder = await mkdtemp(join(tmpdir(), 'sluice-unreaped-'))
const started: ChildProcess[] = []
after(async () => {
  for (const child of started) child.kill('SIGKILL')
  await rm(folder, { recursive: true, force: true })
})

/** The program's parent becomes another, which knows nothing of it and waits for nobody. */
async function startUnreaped(dataFolder: string): Promise<number> {
  const program = [process.execPath, LAUNCHER, 'start', '--data-dir', dataFolder, '--port', '0']
  const parent = spawn('/bin/sh', ['-c', '"$@" >&2 & echo $!; exec sleep 3600', 'sh', ...program], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  started.push(parent)
  const [said] = await once(parent.stdout as NodeJS.ReadableStream, 'data')
  return Number(String(said))
}

async function stateOf(pid: number): Promise<string> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  return stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3)
}

it('leaves nothing that keeps the next one from starting', { skip: process.platform !== 'linux' }, async () => {
  const data = join(folder, 'data')
  const pid = await startUnreaped(data)
  await until('the first runtime serves', async () => {
    return (await readFile(join(data, 'runtime.json'), 'utf8').catch(() => '')).endsWith('}')
  })
  process.kill(pid, 'SIGKILL')
  await until('the first runtime has ended', async () => (await stateOf(pid)) === 'Z')
  const next = await RuntimeProcess.spawn(data, null)
  try {
    const url = await next.address()
    assert.ok(url, next.output)
    await until('the next runtime is ready', async () => (await fetch(`${url}/readyz`)).status === 200)
    assert.equal(await stateOf(pid), 'Z', 'nobody has waited for the first one')
  } finally {
    await next.stop()
  }
})
