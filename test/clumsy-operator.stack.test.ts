/** What a runtime makes of those who start and stop it in the wrong way. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { servedAt } from './first-steps.ts'
import { until } from './until.ts'

const KEY_FILES = ['master-keys.json', 'issuer-keys.json', 'cursor.key']

let folder: string
let data: string

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-clumsy-'))
  data = join(folder, 'data')
})
after(() => rm(folder, { recursive: true, force: true }))

async function refused(dataFolder: string, port = 0): Promise<string> {
  const runtime = await RuntimeProcess.spawn(dataFolder, null, port)
  assert.deepEqual(await runtime.ended, { code: 1, signal: null }, runtime.output)
  return runtime.output
}

it('makes nothing for a server that could not listen', async () => {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    const { port } = server.address() as { port: number }
    const fresh = join(folder, 'fresh')
    assert.match(await refused(fresh, port), /another process listens there\nChoose another --port/)
    assert.ok(!existsSync(join(fresh, 'postgres')))
  } finally {
    server.close()
  }
})

it('says of a host that is none of this machine what it is, whatever the port', async () => {
  for (const host of ['192.0.2.1', 'nowhere.invalid']) {
    const runtime = await RuntimeProcess.spawn(join(folder, 'hosts'), null, 0, undefined, undefined, {
      SLUICE_HOST: host,
    })
    assert.deepEqual(await runtime.ended, { code: 1, signal: null }, runtime.output)
    assert.match(runtime.output, /cannot listen on \S+, port 0: (this machine has no such address|names of machines)/)
    assert.doesNotMatch(runtime.output, /\bE[A-Z]{4,}\b|getaddrinfo/)
    assert.ok(!existsSync(join(folder, 'hosts/postgres')))
  }
})

it('stops in order when it is told so while it starts, and when it is told twice', async () => {
  for (const when of ['lock', 'runtime.json']) {
    const runtime = await RuntimeProcess.spawn(data, null)
    while (!runtime.isEnded && !existsSync(join(data, when === 'lock' ? 'runtime.lock' : when))) {
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    process.kill(runtime.pid, 'SIGINT')
    await new Promise((resolve) => setTimeout(resolve, 20))
    process.kill(runtime.pid, 'SIGINT')
    process.kill(runtime.pid, 'SIGTERM')
    assert.deepEqual(await runtime.ended, { code: 0, signal: null }, runtime.output)
    assert.doesNotMatch(runtime.output, /left behind/)
    assert.deepEqual(await runtime.lastSurvivors(), [])
    assert.deepEqual(runtime.leftovers(), [])
  }
})

it('makes its database to the end where a terminal tells all of it to stop, and says of what was ended that it was', async () => {
  const first = join(folder, 'first')
  const making = async () => {
    const runtime = await RuntimeProcess.spawn(first, null, 0, undefined, undefined, { SLUICE_LOG__LEVEL: 'info' })
    await until('it is being made', () => runtime.isEnded || existsSync(join(first, 'postgres/cluster.new/PG_VERSION')))
    return runtime
  }
  const killed = await making()
  const maker = killed.survivors().find((one) => one.includes('initdb')) as string
  process.kill(Number.parseInt(maker, 10), 'SIGKILL')
  assert.deepEqual(await killed.ended, { code: 1, signal: null }, killed.output)
  assert.match(killed.output, /folder was ended by SIGKILL\nStart again\./)
  await rm(join(first, 'postgres/cluster.new'), { recursive: true, force: true })
  const told = await making()
  process.kill(-told.pid, 'SIGINT')
  assert.deepEqual(await told.ended, { code: 0, signal: null }, told.output)
  assert.match(told.output, /SIGINT: it stops as soon as it has started/)
  assert.deepEqual(await told.lastSurvivors(), [])
  await rm(first, { recursive: true })
})

it('goes on after a hang-up that no terminal has sent', async (t) => {
  const runtime = await RuntimeProcess.spawn(data, null, 0, undefined, undefined, { SLUICE_LOG__LEVEL: 'info' })
  t.after(() => runtime.kill())
  const address = await runtime.address()
  process.kill(runtime.pid, 'SIGHUP')
  await until('it says so', async () => runtime.isEnded || runtime.output.includes('SIGHUP changes nothing'))
  assert.equal((await fetch(`${address}/healthz`)).status, 200)
  assert.deepEqual(await runtime.stop(), { code: 0, signal: null }, runtime.output)
  assert.deepEqual(await runtime.lastSurvivors(), [])
})

for (const name of KEY_FILES) {
  it(`does not start with a ${name} that was cut off, and says what to do`, async () => {
    const file = join(data, name)
    const whole = await readFile(file)
    for (const length of [0, 20]) {
      await writeFile(file, whole.subarray(0, length))
      assert.match(await refused(data), /^sluice: .*\n(Restore|Put|Remove) /m)
      assert.equal((await readFile(file)).length, length, 'nothing was made in its place')
    }
    await writeFile(file, whole)
  })
}

it('never makes a new registry where one was, and says which folder is not whole', async () => {
  const [marker, elsewhere] = [join(data, 'postgres/cluster/PG_VERSION'), join(folder, 'PG_VERSION')]
  await rename(marker, elsewhere)
  const before = await readdir(join(data, 'postgres/cluster'))
  assert.match(await refused(data), /lacks PG_VERSION: .*cluster\nPut the data folder back from a backup/)
  assert.deepEqual(await readdir(join(data, 'postgres/cluster')), before)
  await rename(elsewhere, marker)
})

it('does not begin anew beside a lake whose registry is gone', async () => {
  const bucket = join(data, 'lake/sluice-acme')
  await mkdir(join(bucket, 'acme'), { recursive: true })
  await writeFile(join(bucket, 'acme/rows.parquet'), 'rows')
  assert.match(await refused(data), /holds a lake, and the registry has never had a tenant\nPut back the registry/)
  assert.equal(await readFile(join(bucket, 'acme/rows.parquet'), 'utf8'), 'rows')
  await rm(bucket, { recursive: true })
})

it('says of a folder or key file that is something else what it is', async () => {
  const file = join(folder, 'file')
  await writeFile(file, '')
  assert.match(await refused(file), /^sluice: .*file: something else is there$/m)
  assert.match(await refused(join(file, 'below')), /^sluice: .*no folder$/m)
  const key = join(data, 'master-keys.json')
  await rename(key, `${key}.kept`)
  await mkdir(key)
  assert.match(await refused(data), /the master key file cannot be read: .*\nLet this account read it/)
  await rm(key, { recursive: true })
  await rename(`${key}.kept`, key)
})

it('says of a second runtime on the folder who has it, and leaves the first as it is', async () => {
  const first = await RuntimeProcess.spawn(data, null)
  const address = await first.address()
  assert.ok(address, first.output)
  try {
    assert.match(await refused(data), /in use by another process \(pid \d+, since .*\)\nStop that process, or start/)
    assert.equal((await fetch(`${address}/healthz`)).status, 200)
  } finally {
    await first.stop()
  }
})

it('starts its PostgreSQL again when that was killed, and stops in order afterwards', async () => {
  const runtime = await RuntimeProcess.spawn(data, null)
  const address = await servedAt(runtime)
  try {
    const postmaster = async () =>
      Number((await readFile(join(data, 'postgres/cluster/postmaster.pid'), 'utf8')).split('\n')[0])
    const former = await postmaster()
    process.kill(former, 'SIGKILL')
    await until('it was noticed', () => runtime.output.includes('the embedded PostgreSQL has ended by itself'))
    await until('it is ready again', async () => (await fetch(`${address}/readyz`)).status === 200)
    assert.notEqual(await postmaster(), former)
  } finally {
    assert.deepEqual(await runtime.stop(), { code: 0, signal: null })
  }
  assert.doesNotMatch(runtime.output, /left behind|stopping .* failed/)
})

/** What is done to the folder of a stopped runtime, and what a start says of it. */
const SPOILED = [
  ['rm -rf pg_wal/0*', /is not whole[^]*from a backup/],
  ['rm global/pg_control', /is not whole[^]*from a backup/],
  ['rm postgresql.conf', /is not whole[^]*from a backup/],
  ['rm -rf base/1*', /lacks the files of a database\nPut the whole data folder back/],
  ['cd global && rm $(ls | grep "^[0-9]" | tail -30)', /lacks some[^]*from a backup/],
  ['chmod 0777 .', /another owner or mode[^]*cp -a/],
  ['chmod 0000 postgresql.conf', /another owner or mode[^]*cp -a/],
  ['chmod 0644 ../../issuer-keys.json', /can be read by other users\nMake the key file private/],
] as const

for (const [spoil, says] of SPOILED) {
  it(`does not start on a copy of its folder after ${spoil}, and says why`, async () => {
    const copy = join(folder, 'copy')
    execFileSync('cp', ['-a', data, copy])
    try {
      execFileSync('/bin/sh', ['-c', spoil], { cwd: join(copy, 'postgres/cluster') })
      const output = await refused(copy)
      assert.match(output, says)
      assert.doesNotMatch(output, /fault of the runtime|E[A-Z]{4,}\b|^ +at /m)
    } finally {
      await rm(copy, { recursive: true, force: true })
    }
  })
}

for (const [text, says] of [
  ['limts: { workers: 3 }', /limts is not known; did you mean limits\?/],
  ['limits: { workers: many }', /limits\.workers must be a whole number/],
  ['limits:\n  workers: 3\n wrong: [', /cannot be read as YAML: line \d+/],
] as const) {
  it(`does not start with the configuration ${JSON.stringify(text)}, and says what is wrong in it`, async () => {
    const file = join(folder, 'sluice.yaml')
    await writeFile(file, text)
    const runtime = await RuntimeProcess.spawn(data, null, 0, file)
    assert.deepEqual(await runtime.ended, { code: 1, signal: null }, runtime.output)
    assert.match(runtime.output, says)
  })
}
