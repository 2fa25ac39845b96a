import assert from 'node:assert/strict'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, it } from 'node:test'
import { RecordingLogger } from '@sluice/conformance'
import { isAlive, workingIn } from '@sluice/engine/process-table'
import { until } from '../../../test/until.ts'
import { startKeptServer } from './kept-server.ts'
import { openPool } from './pools.ts'
import { readPostmasterFile } from './postgres-process.ts'
import { PATIENT } from './testing.ts'

const folder = await mkdtemp(join(tmpdir(), 'sluice-kept-'))
const logger = new RecordingLogger()
const server = await startKeptServer({ dataFolder: folder }, logger)
const pool = openPool(server.address, { ...PATIENT, applicationName: 'test', maxConnections: 2 })
const cluster = await realpath(join(folder, 'postgres/cluster'))
after(async () => {
  await pool.end()
  await server.stop()
  await rm(folder, { recursive: true, force: true })
})

const messages = () => logger.lines.map(({ message }) => message)
const answers = async () => (await pool.query('select 7 as seven').catch(() => null))?.rows[0]?.seven === 7

it('is there again at the same address after it was killed, and nothing of the former one writes beside it', {
  skip: process.platform !== 'linux',
}, async () => {
  await pool.query('create table kept as select 7 as number')
  // It does not look up from this before it is done, which is not in this hour.
  const busy = pool.query(`do $$ declare i bigint := 0; begin while i < 1e15 loop i := i + 1; end loop; end $$`)
  const lost = assert.rejects(busy)
  const backends = await pool.query<{ pid: number }>('select pid from pg_stat_activity where datname is not null')
  const { pid } = readPostmasterFile(cluster) ?? assert.fail()
  process.kill(pid, 'SIGKILL')
  await until('it was started again', () => messages().length === 2)
  await until('it answers', answers)
  await lost
  for (const backend of backends.rows) assert.ok(!isAlive(backend.pid), `${backend.pid} has survived its server`)
  const next = readPostmasterFile(cluster)
  assert.ok(next !== null && next.pid !== pid && next.port === server.tcpAddress.port)
  assert.deepEqual((await pool.query('select number from kept')).rows, [{ number: 7 }])
  assert.deepEqual(messages(), [
    'the embedded PostgreSQL has ended by itself; it is started again',
    'the embedded PostgreSQL works again',
  ])
})

it('that is stopped stays so, also while it is being started again', async () => {
  const { pid } = readPostmasterFile(cluster) ?? assert.fail()
  process.kill(pid, 'SIGKILL')
  await until('it was noticed', () => messages().length > 2)
  await server.stop()
  await until('nothing of it runs any more', () => workingIn(cluster).length === 0)
  await assert.rejects(pool.query('select 1'))
})
