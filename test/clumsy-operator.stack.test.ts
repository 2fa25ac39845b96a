/** What a runtime makes of those who start and stop it in the wrong way. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { RuntimeProcess } from './crash/runtime-process.ts'

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
})
