import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { childrenOf, isAlive, parentOf } from '@sluice/engine/process-table'
import { isSluiceError } from '@sluice/sdk'
import { until } from '../../../test/until.ts'
import { type EmbeddedServer, startEmbeddedServer } from './embedded-server.ts'
import { openPool } from './pools.ts'
import { PATIENT, testCluster } from './testing.ts'

const folders: string[] = []
after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})

function newFolder(base = tmpdir()): string {
  const folder = mkdtempSync(join(base, 'sluice-server-'))
  folders.push(folder)
  return folder
}

async function query<Row>(server: EmbeddedServer, text: string, address = server.address): Promise<Row[]> {
  const pool = openPool(address, { ...PATIENT, applicationName: 'test', maxConnections: 1 })
  try {
    return (await pool.query(text)).rows as Row[]
  } finally {
    await pool.end()
  }
}

/** Of a copied cluster: what is asked of most servers begins when they have one. */
const template = await testCluster()
const start = (dataFolder: string): Promise<EmbeddedServer> =>
  startEmbeddedServer({ dataFolder, template, durable: false })

const module = new URL('./embedded-server.ts', import.meta.url).href
const START = `
import { startEmbeddedServer } from ${JSON.stringify(module)}
const [, dataFolder, template] = process.argv
const server = await startEmbeddedServer({ dataFolder, template, durable: false })
process.stdout.write(JSON.stringify({ pid: server.pid }))`

/** A runtime with a server, in a process that can be killed. */
async function startElsewhere(dataFolder: string): Promise<{ child: ChildProcess; serverPid: number }> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', START, dataFolder, template], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [said] = await once(child.stdout as NodeJS.ReadableStream, 'data')
  return { child, serverPid: JSON.parse(String(said)).pid }
}

const ends = (pid: number, what: string): Promise<void> => until(`${what} ends`, () => !isAlive(pid))

async function kill(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

/** The shell above the server, and the one beside it that waits for the runtime's end. */
function watchersOf(serverPid: number): readonly number[] {
  const supervisor = parentOf(serverPid) as number
  const others = childrenOf(supervisor).filter((pid) => pid !== serverPid)
  assert.equal(others.length, 1)
  return [supervisor, ...others]
}

describe('the embedded server', () => {
  it('keeps its data over a restart, and takes logins by socket and by loopback with its password only', async () => {
    const dataFolder = newFolder()
    const first = await startEmbeddedServer({ dataFolder })
    await query(first, 'create table kept as select 7 as number')
    assert.equal(statSync(join(first.folder, 'password')).mode & 0o777, 0o600)
    for (const address of [first.address, first.tcpAddress]) {
      assert.deepEqual(await query(first, 'select number from kept', address), [{ number: 7 }])
      const wrong = { ...address, password: 'wrong' }
      await assert.rejects(query(first, 'select 1', wrong), { code: '28P01' })
    }
    await assert.rejects(startEmbeddedServer({ dataFolder }), { code: 'data_folder_in_use' })
    await first.stop()
    await first.stop()
    assert.equal(isAlive(first.pid), false)
    const second = await startEmbeddedServer({ dataFolder })
    assert.deepEqual(await query(second, 'select number from kept'), [{ number: 7 }])
    await second.stop()
  })

  it('ends by itself when its runtime is killed, and starts again with what was committed', async () => {
    const dataFolder = newFolder()
    const { child, serverPid } = await startElsewhere(dataFolder)
    await kill(child)
    await ends(serverPid, 'the server of a killed runtime')
    const server = await start(dataFolder)
    await query(server, 'select 1')
    await server.stop()
  })

  it('ends a server that was left behind because its supervisor was killed too', {
    skip: process.platform !== 'linux',
  }, async () => {
    const dataFolder = newFolder()
    const { child, serverPid } = await startElsewhere(dataFolder)
    const watchers = watchersOf(serverPid)
    // Held still, it cannot see its server's supervisor end, and end the server.
    child.kill('SIGSTOP')
    for (const pid of watchers) process.kill(pid, 'SIGKILL')
    await kill(child)
    await sleep(500)
    assert.ok(isAlive(serverPid), 'the server should be an orphan by now')
    const server = await start(dataFolder)
    assert.notEqual(server.pid, serverPid)
    assert.equal(isAlive(serverPid), false)
    await query(server, 'select 1')
    await server.stop()
  })

  it('tells when it has ended by itself, and leaves no watcher', { skip: process.platform !== 'linux' }, async () => {
    const dataFolder = newFolder()
    const server = await start(dataFolder)
    const watchers = watchersOf(server.pid)
    assert.equal(watchers.length, 2)
    process.kill(server.pid, 'SIGKILL')
    assert.deepEqual(await server.ended, { code: 137, signal: null })
    for (const pid of watchers) await ends(pid, 'what watched the server')
    await server.stop()
    const next = await start(dataFolder)
    await query(next, 'select 1')
    await next.stop()
  })

  it('starts over a postmaster.pid whose process id another process has now', async () => {
    const dataFolder = newFolder()
    const before = await start(dataFolder)
    const cluster = join(before.folder, 'cluster')
    const note = readFileSync(join(cluster, 'postmaster.pid'), 'utf8')
    await before.stop()
    // As the server's account: another account's process PostgreSQL would not mistake for its own.
    const { uid, gid } = statSync(cluster)
    const bystander = spawn('sleep', ['3600'], process.getuid?.() === 0 ? { uid, gid } : {})
    await once(bystander, 'spawn')
    try {
      writeFileSync(join(cluster, 'postmaster.pid'), note.replace(/^\d+/, String(bystander.pid)))
      const server = await start(dataFolder)
      await query(server, 'select 1')
      assert.equal(bystander.exitCode, null)
      assert.equal(bystander.signalCode, null)
      await server.stop()
    } finally {
      bystander.kill()
    }
  })

  it('makes a new password where the file was lost', async () => {
    const dataFolder = newFolder()
    const before = await start(dataFolder)
    await before.stop()
    rmSync(join(before.folder, 'password'))
    const server = await start(dataFolder)
    assert.notEqual(server.address.password, before.address.password)
    await query(server, 'select 1')
    await server.stop()
  })

  it('starts over where making the cluster was interrupted', async () => {
    const dataFolder = newFolder()
    mkdirSync(join(dataFolder, 'postgres', 'cluster.new', 'base'), { recursive: true })
    const server = await startEmbeddedServer({ dataFolder, durable: false })
    await query(server, 'select 1')
    await server.stop()
  })

  it('refuses a cluster of another major version', async () => {
    const dataFolder = newFolder()
    const before = await start(dataFolder)
    await before.stop()
    writeFileSync(join(before.folder, 'cluster', 'PG_VERSION'), '17\n')
    await assert.rejects(
      start(dataFolder),
      (error) => isSluiceError(error, 'CONFIG') && error.code === 'postgres_version_mismatch',
    )
  })

  it('uses a socket folder short enough however long the path of the data folder is', async () => {
    const dataFolder = join(newFolder(), 'a'.repeat(120))
    const server = await start(dataFolder)
    assert.equal(server.folder, join(dataFolder, 'postgres'))
    assert.ok(Buffer.byteLength(`${server.address.host}/.s.PGSQL.65535`) < 104)
    assert.equal(statSync(server.address.host).mode & 0o777, 0o700)
    await query(server, 'select 1')
    await server.destroy()
    assert.equal(existsSync(server.address.host), false)
  })

  it('under root, says of a copy without owners what is wrong with it', {
    skip: process.getuid?.() !== 0,
  }, async () => {
    const dataFolder = join(newFolder(), 'data')
    await (await start(dataFolder)).stop()
    const copy = `${dataFolder}-copied`
    execFileSync('cp', ['-r', dataFolder, copy])
    await assert.rejects(startEmbeddedServer({ dataFolder: copy }), (error: Error & { remedy?: string }) => {
      assert.match(error.message, /another owner or mode than it was made with/)
      assert.match(error.remedy ?? '', /cp -a/)
      return true
    })
  })

  it('under root, lives elsewhere where the data folder is out of its reach', {
    skip: process.getuid?.() !== 0,
  }, async () => {
    const dataFolder = join(newFolder('/var/tmp'), 'data')
    const server = await start(dataFolder)
    const link = join(dataFolder, 'postgres')
    assert.equal(readlinkSync(link), server.folder)
    await query(server, 'select 1')
    await server.stop()
    const again = await start(dataFolder)
    assert.equal(again.folder, server.folder)
    await again.destroy()
    assert.equal(existsSync(server.folder), false)
    assert.equal(lstatSync(link, { throwIfNoEntry: false }), undefined)
  })
})
