/** What a start makes of the state that it finds: after a kill that nobody has noticed, and without its keys. */
import assert from 'node:assert/strict'
import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, it } from 'node:test'
import { promisify } from 'node:util'
import { until } from '../until.ts'
import { RuntimeProcess } from './runtime-process.ts'

const LAUNCHER = join(import.meta.dirname, '../../runtime/bin/sluice.js')
const run = promisify(execFile)
const folder = await mkdtemp(join(tmpdir(), 'sluice-unreaped-'))
const data = join(folder, 'data')
const started: ChildProcess[] = []
after(async () => {
  for (const child of started) child.kill('SIGKILL')
  await rm(folder, { recursive: true, force: true })
})

/** Where a runtime on the data folder runs, the command finds it and is its administrator. */
async function sluice(...words: readonly string[]): Promise<string> {
  return (await run(process.execPath, [LAUNCHER, ...words, '--data-dir', data])).stdout.trim()
}

async function whileRunning(work: () => Promise<unknown>): Promise<void> {
  const runtime = await RuntimeProcess.spawn(data, null)
  try {
    assert.ok(await runtime.address(), runtime.output)
    await work()
  } finally {
    await runtime.stop()
  }
}

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

it('is not kept from starting by one that was killed under a parent that does not wait', {
  skip: process.platform !== 'linux',
}, async () => {
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

/** As the first process of a container has them: ids begin at 1 for each start. */
const OWN_IDS = ['--pid', '--fork', '--mount-proc', '--kill-child']

it('starts again as a process of the same id, as in a container, after a kill that left nothing time to say goodbye', {
  skip: spawnSync('unshare', [...OWN_IDS, 'true']).status !== 0,
}, async () => {
  const [contained, address] = [join(folder, 'contained'), join(folder, 'contained/runtime.json')]
  for (const what of ['the first runtime', 'the next runtime']) {
    const program = [process.execPath, LAUNCHER, 'start', '--data-dir', contained, '--port', '0']
    const child = spawn('unshare', [...OWN_IDS, ...program], { stdio: 'ignore' })
    started.push(child)
    const ended = once(child, 'exit').then(([code]) => assert.notEqual(code, 1, `${what} has started`))
    const serves = until(`${what} serves`, async () => {
      const text = await readFile(address, 'utf8').catch(() => '')
      if (!text.endsWith('}')) return child.exitCode !== null
      const { url, pid } = JSON.parse(text)
      assert.equal(pid, 1)
      return (await fetch(`${url}/readyz`)).status === 200
    })
    await Promise.race([serves, ended])
    child.kill('SIGKILL')
    await ended
    await rm(address)
  }
})

it('does not start where the registry names a master key that is gone, and makes none; and does with the new one', async () => {
  await whileRunning(async () => {
    await sluice('tenant', 'create', 'acme', '--tier', 'free')
    assert.match(await sluice('keys', 'rotate-master'), /^2 keys are under the master key mk_/)
  })
  const [file, elsewhere] = [join(data, 'master-keys.json'), join(folder, 'elsewhere.json')]
  await rename(file, elsewhere)
  const without = await RuntimeProcess.spawn(data, null)
  assert.equal((await without.ended).code, 1)
  assert.match(without.output, /master key/)
  await assert.rejects(readFile(file), { code: 'ENOENT' })
  await rename(elsewhere, file)
  await whileRunning(async () => {})
})

it('does not start with another master key under the right id, and writes nothing', async () => {
  const file = join(data, 'master-keys.json')
  const text = await readFile(file, 'utf8')
  const right = JSON.parse(text)
  const wrong = JSON.stringify({
    ...right,
    keys: { ...right.keys, [right.current]: randomBytes(32).toString('base64') },
  })
  await writeFile(file, wrong)
  const started = await RuntimeProcess.spawn(data, null)
  assert.equal((await started.ended).code, 1)
  assert.match(
    started.output,
    /master key mk_\w+ in .* opens none of the registry’s keys\nPut back the master key file/,
  )
  assert.equal(await readFile(file, 'utf8'), wrong)
  await writeFile(file, text)
  await whileRunning(async () => {})
})
