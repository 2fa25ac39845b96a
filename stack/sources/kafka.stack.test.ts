/**
 * Products over topics, as their users run them: producers write while syncs run, readers and the runtime are killed, keys
 * are deleted by tombstones, topics are made anew. What queries show is what the topics have, nothing lost and nothing doubled.
 */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, type Json, manifests, ok } from '../../acceptance/client.ts'
import { type OwnRecord, SourceCluster } from '../../plugins/connectors/kafka/source-cluster.ts'
import { issueToken } from '../../runtime/src/auth/embedded-issuer.ts'
import { placeTestCluster } from '../../runtime/src/database/testing.ts'
import { RuntimeProcess } from '../../test/crash/runtime-process.ts'

const COLUMNS = `  - { name: id, type: long, role: identity, nullable: false }
  - { name: city, type: string }
`
const ENDPOINTS = '  - type: analytics\n'
const APPENDED = 'mode: incremental, primary_key: [id], deletes: unseen, deletes_reason: records are only ever added'
const UPSERTED = 'mode: incremental, primary_key: [id]'
const PARTITIONS = 4
const RECORDS = 5000
const KEYS = 40

let folder: string
let data: string
let config: string
let cluster: SourceCluster
let runtime: RuntimeProcess
let developer: Client
let random = 11

/** Numbers below `count`, the same in every run. */
function any(count: number): number {
  random = (random * 1_103_515_245 + 12_345) % 2_147_483_648
  return Math.floor((random / 2_147_483_648) * count)
}

const document = (id: number, city = `city ${id % 7}`) => JSON.stringify({ id, city })

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-kafka-'))
  data = join(folder, 'data')
  config = join(folder, 'sluice.yaml')
  const plugins = [
    'lookup/postgresql',
    'timeseries/postgresql',
    'analytics/duckdb',
    'realtime/lmdb',
    'connectors/kafka',
  ]
  await writeFile(config, `plugins: [${plugins.map((name) => `'@sluice/${name}'`).join(', ')}]\n`)
  cluster = await SourceCluster.open()
  await cluster.create('orders', { partitions: PARTITIONS })
  await cluster.create('people', { partitions: PARTITIONS, configs: { 'cleanup.policy': 'compact' } })
  const url = await start()
  const admin = new Client(url, await issueToken(data, { role: 'admin' }, { ttlS: 36_000 }))
  await ok(admin.post('/api/v1/tenants', { slug: 'acme', display_name: 'Acme', tier: 'enterprise' }))
  const columns = [
    { name: 'id', type: 'long' },
    { name: 'city', type: 'string' },
  ]
  const settings = {
    ...{ ...cluster.settings, topics: ['orders', 'people'] },
    tables: {
      orders: { columns, primary_key: ['id'] },
      people: { columns, mode: 'upsert', primary_key: ['id'] },
    },
  }
  for (const name of ['orders', 'people']) {
    const own = { ...settings, topics: [name], tables: { [name]: settings.tables[name as 'orders'] } }
    const connection = { name, connector_type: 'kafka', config_encrypted: JSON.stringify(own) }
    await ok(developer.post('/api/v1/connections', connection))
  }
})

after(async () => {
  await runtime?.stop()
  await cluster?.close()
  await rm(folder, { recursive: true, force: true })
})

async function start(): Promise<string> {
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, null, 0, config)
  const url = await runtime.address()
  assert.ok(url, runtime.output)
  const who = { tenant: 'acme', groups: ['svc-developers'], user: 'dora' }
  developer = new Client(url, await issueToken(data, who, { ttlS: 36_000 }))
  return url
}

async function deploy(topic: string, input: string): Promise<void> {
  const texts = manifests(`kafka.${topic}`, { endpoints: ENDPOINTS, columns: COLUMNS })
  const files = {
    ...texts,
    product: texts.product.replace('name: people', `name: ${topic}`),
    inputs: texts.inputs.replace('mode: full', input).replace('connection: db', `connection: ${topic}`),
  }
  const product = { name: topic, namespace: 'crm', archetype: 'source_aligned', description: '' }
  await ok(developer.post('/api/v1/products', product))
  await ok(developer.upload(`/api/v1/products/${topic}/manifests`, files))
  await ok(developer.post(`/api/v1/products/${topic}/deploy`, { version: '1.0.0', dry_run: false }))
}

async function sync(topic: string, state = 'succeeded'): Promise<Json> {
  const { id } = await ok(developer.post(`/api/v1/connections/${topic}/sync`))
  const run = await developer.untilEnded(id)
  assert.equal(run.state, state, JSON.stringify(run))
  return run
}

async function query(sql: string): Promise<readonly (readonly unknown[])[]> {
  const { rows } = await ok(developer.post('/api/v1/query', { sql }))
  return rows.map((row: Json) => (Array.isArray(row) ? row : Object.values(row)).map(String))
}

/** Of the runtime that runs now: processes that read a source. */
function readers(): readonly number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        const parent = /\nPPid:\s+(\d+)/.exec(readFileSync(`/proc/${name}/status`, 'utf8'))?.[1]
        return Number(parent) === runtime.pid && readFileSync(`/proc/${name}/cmdline`, 'utf8').includes('source-child')
      } catch {
        return false
      }
    })
    .map(Number)
}

it('topics are checked and listed', async () => {
  const checked = await ok(developer.post('/api/v1/connections/orders/test'))
  assert.ok(JSON.stringify(checked).includes('1 topics can be read'), JSON.stringify(checked))
  const found = JSON.stringify(await ok(developer.get('/api/v1/connections/orders/discover')))
  for (const name of ['orders', 'city', '_partition', '_offset', '_timestamp', '_headers', '_key'])
    assert.ok(found.includes(`"name":"${name}"`), found)
})

it('records of several schemas of a registry are rows, and one whose schema the registry does not have is told', async () => {
  const registry = process.env['SLUICE_TEST_SCHEMA_REGISTRY_URL']
  assert.ok(registry, 'SLUICE_TEST_SCHEMA_REGISTRY_URL names the registry; npm run test:stack starts one')
  const register = async (fields: readonly Json[]) => {
    const schema = JSON.stringify({ type: 'record', name: 'Registered', fields })
    const headers = { 'content-type': 'application/json' }
    const body = JSON.stringify({ schema, schemaType: 'AVRO' })
    const answer = await fetch(`${registry}/subjects/registered-value/versions`, { method: 'POST', headers, body })
    return Number(((await answer.json()) as Json).id)
  }
  // An id of one byte, and a city of three letters.
  const value = (schema: number, id: number, ...rest: number[]) => {
    const bytes = Buffer.from([0, 0, 0, 0, 0, id * 2, 6, 0x52, 0x6f, 0x6d, ...rest])
    bytes.writeUInt32BE(schema, 1)
    return { value: bytes }
  }
  const fields = [
    { name: 'id', type: 'int' },
    { name: 'city', type: 'string' },
  ]
  await cluster.create('registered')
  const first = await register(fields)
  await cluster.send('registered', [value(first, 1)])
  const settings = {
    ...{ ...cluster.settings, topics: ['registered'], format: 'avro', registry_url: registry },
    tables: { registered: { primary_key: ['id'] } },
  }
  const connection = { name: 'registered', connector_type: 'kafka', config_encrypted: JSON.stringify(settings) }
  await ok(developer.post('/api/v1/connections', connection))
  await deploy('registered', APPENDED)
  await sync('registered')
  const second = await register([...fields, { name: 'rank', type: ['null', 'int'], default: null }])
  await cluster.send('registered', [value(second, 2, 2, 10), value(first, 3), value(77_777, 4)])
  const run = await sync('registered')
  assert.equal(run.tables[0].rows_rejected, 1, JSON.stringify(run))
  assert.deepEqual(await query('SELECT id, city FROM crm.registered ORDER BY id'), [
    ['1', 'Rom'],
    ['2', 'Rom'],
    ['3', 'Rom'],
  ])
})

it('no record is lost and none is doubled, though readers and the runtime are killed while a producer writes', async () => {
  await deploy('orders', APPENDED)
  let sent = 0
  const producing = (async () => {
    while (sent < RECORDS) {
      const records = Array.from({ length: 100 }, (_, at): OwnRecord => {
        return { key: `k${any(KEYS)}`, value: document(sent + at), partition: any(PARTITIONS) }
      })
      await cluster.send('orders', records)
      sent += records.length
      await sleep(60)
    }
  })()
  let kills = 0
  for (let round = 0; sent < RECORDS || round < 10; round += 1) {
    const asked = await developer.post('/api/v1/connections/orders/sync')
    const isOfRuntime = round % 4 === 3
    await sleep(any(isOfRuntime ? 1500 : 300))
    if (isOfRuntime) {
      runtime.kill()
      await runtime.ended
      await runtime.lastSurvivors()
      kills += 1
      await start()
    } else if (round % 2 === 0) {
      for (const pid of readers()) {
        try {
          process.kill(pid, 'SIGKILL')
          kills += 1
        } catch {
          // It has ended by itself.
        }
      }
    }
    await developer.untilEnded(asked.body.id)
  }
  await producing
  assert.ok(kills >= 3, `only ${kills} were killed`)
  await sync('orders')
  await sync('orders')
  const sum = (RECORDS * (RECORDS - 1)) / 2
  assert.deepEqual(await query('SELECT count(*), count(DISTINCT id), sum(id) FROM crm.orders'), [
    [String(RECORDS), String(RECORDS), String(sum)],
  ])
})

it('transactions that were given up are never shown, and those that were kept are, once', async () => {
  await cluster.sendTogether('orders', [{ value: document(900_001), partition: 0 }], false)
  await cluster.sendTogether('orders', [{ value: document(900_002), partition: 0 }], true)
  await sync('orders')
  assert.deepEqual(await query('SELECT id FROM crm.orders WHERE id > 900000'), [['900002']])
})

it('a record that cannot be read is rejected with its place, and keeps no other back', async () => {
  const records = [
    '{"id": 900003, "city"',
    'null',
    '["id"]',
    '{"id": "x", "city": "y"}',
    '{"id": 900004, "city": "\\ud800"}',
  ]
  for (const value of records) await cluster.send('orders', [{ value, partition: 1 }])
  await cluster.send('orders', [{ value: '{"city":"a","id":9007199254740993,"city":"large"}', partition: 1 }])
  const run = await sync('orders')
  // Half of a character is no text: its row lacks the city, and products that use the city are made without it.
  assert.equal(run.tables[0].rows_rejected, records.length - 1, JSON.stringify(run))
  assert.deepEqual(await query('SELECT id, city FROM crm.orders WHERE id > 900002'), [['9007199254740993', 'large']])
})

it('upserts with tombstones are what an oracle has', async () => {
  const oracle = new Map<number, string>()
  const write = async () => {
    const records: OwnRecord[] = Array.from({ length: 60 }, () => {
      const id = any(KEYS)
      if (any(4) === 0) {
        oracle.delete(id)
        return { key: String(id), value: null }
      }
      const city = ['Bonn', 'Köln', '', '"a,b"'][any(4)] as string
      oracle.set(id, city)
      return { key: String(id), value: document(-1, city) }
    })
    await cluster.send('people', records)
  }
  await write()
  await deploy('people', UPSERTED)
  for (let round = 0; round < 5; round += 1) {
    await sync('people')
    const wanted = [...oracle].sort(([one], [other]) => one - other).map(([id, city]) => [String(id), city])
    assert.deepEqual(await query('SELECT id, city FROM crm.people ORDER BY id'), wanted, `round ${round}`)
    await write()
  }
})

it('new partitions are read', async () => {
  await cluster.addPartitions('orders', PARTITIONS + 2)
  await cluster.send('orders', [{ value: document(900_010), partition: PARTITIONS + 1 }])
  await sync('orders')
  assert.deepEqual(await query('SELECT count(*) FROM crm.orders WHERE id = 900010'), [['1']])
})

it('records that retention took before they were read are told', async () => {
  await cluster.send('orders', [{ value: document(900_020), partition: 2 }])
  await cluster.forget('orders', 2)
  await cluster.send('orders', [{ value: document(900_021), partition: 2 }])
  const run = await sync('orders')
  assert.equal(run.tables[0].rows_rejected, 1, JSON.stringify(run))
  assert.deepEqual(await query('SELECT id FROM crm.orders WHERE id IN (900020, 900021)'), [['900021']])
})

it('a topic that was made anew is refused where its rows are kept, and read anew where it is the whole truth', async () => {
  const before = await query('SELECT count(*), sum(id) FROM crm.orders')
  await cluster.drop('orders')
  await cluster.create('orders', { partitions: PARTITIONS })
  await cluster.send('orders', [{ value: document(1_000_000), partition: 0 }])
  const run = await sync('orders', 'failed')
  assert.ok(JSON.stringify(run).includes('source_topic_replaced'), JSON.stringify(run))
  assert.deepEqual(await query('SELECT count(*), sum(id) FROM crm.orders'), before)
  await cluster.drop('people')
  await cluster.create('people', { partitions: 1 })
  await cluster.send('people', [{ key: '7', value: document(7, 'anew') }])
  await sync('people')
  assert.deepEqual(await query('SELECT id, city FROM crm.people'), [['7', 'anew']])
})
