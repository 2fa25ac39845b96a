/** Topics whose records fastavro has written, by schemas that a registry of Apicurio's has: several of them in one topic. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { after, before, it } from 'node:test'
import { type ConnectorHost, isSluiceError, type ReadEvent } from '@sluice/sdk'
import plugin from '../../plugins/connectors/kafka/index.ts'
import { hostWith } from '../../plugins/connectors/kafka/scripted-broker.fixture.ts'
import type { KafkaSettings } from '../../plugins/connectors/kafka/settings.ts'
import { SourceCluster } from '../../plugins/connectors/kafka/source-cluster.ts'

const registry = process.env['SLUICE_TEST_SCHEMA_REGISTRY_URL']
const python = process.env['SLUICE_TEST_FASTAVRO_PYTHON']
if (registry === undefined || python === undefined)
  throw new Error(
    'SLUICE_TEST_SCHEMA_REGISTRY_URL and SLUICE_TEST_FASTAVRO_PYTHON are missing; npm run test:stack sets them',
  )

const clock: ConnectorHost['clock'] = {
  nowMs: () => Date.now(),
  every: (ms, run) => {
    const timer = setInterval(run, ms)
    return () => clearInterval(timer)
  },
}
const host = hostWith(clock, [])
let cluster: SourceCluster

before(async () => {
  cluster = await SourceCluster.open()
})
after(async () => {
  await cluster?.close()
})

async function register(subject: string, schema: unknown, references: readonly unknown[] = []): Promise<number> {
  // Each may be as a test wants it: rules of the registry are not what is tested.
  await fetch(`${registry}/config/${subject}`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ compatibility: 'NONE' }),
  })
  const answer = await fetch(`${registry}/subjects/${subject}/versions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ schema: JSON.stringify(schema), schemaType: 'AVRO', references }),
  })
  const body = (await answer.json()) as { readonly id: number }
  assert.ok(answer.ok, JSON.stringify(body))
  return body.id
}

interface Given {
  readonly schema: unknown
  readonly id: number
  readonly value: unknown
  readonly references?: readonly unknown[]
}

async function written(given: readonly Given[]): Promise<readonly Buffer[]> {
  const done = Promise.withResolvers<string>()
  const child = execFile(String(python), [`${import.meta.dirname}/avro_writer.py`], (error, stdout) =>
    error === null ? done.resolve(stdout) : done.reject(error),
  )
  child.stdin?.end(given.map((one) => JSON.stringify(one)).join('\n'))
  return (await done.promise)
    .trim()
    .split('\n')
    .map((line) => Buffer.from(line, 'base64'))
}

async function read(topic: string, table: object, more: object = {}) {
  const settings = { ...cluster.settings, topics: [topic], tables: { [topic]: table }, ...more } as KafkaSettings
  const connector = await plugin.open({ registry_url: String(registry), format: 'avro', ...settings }, host)
  const signal = new AbortController().signal
  try {
    const request = {
      ...({ schema: 'kafka', table: topic, mode: 'full', columns: [], primaryKey: [] } as const),
      ...{ cursorColumn: null, state: null, signal },
    }
    const events: readonly ReadEvent[] = await Array.fromAsync(connector.read(request))
    const columns = events.flatMap((event) => (event.kind === 'schema' ? event.schema.columns : []))
    const lines = events.flatMap((event) =>
      event.kind === 'csv' ? Buffer.from(event.chunk).toString('utf8').trimEnd().split('\n') : [],
    )
    const rejects = events.flatMap((event) => (event.kind === 'reject' ? [event.reason] : []))
    return { columns: columns.map(({ name, type }) => `${name} ${type}`), lines, rejects }
  } finally {
    await connector.close()
  }
}

const FIRST = {
  ...{ type: 'record', name: 'Order', namespace: 'shop' },
  fields: [
    { name: 'id', type: 'int' },
    { name: 'price', type: { type: 'bytes', logicalType: 'decimal', precision: 9, scale: 2 } },
    { name: 'town', type: 'string' },
    { name: 'gone', type: { type: 'array', items: 'string' } },
  ],
}
const SECOND = {
  ...{ type: 'record', name: 'Order', namespace: 'shop' },
  fields: [
    { name: 'id', type: 'long' },
    { name: 'price', type: { type: 'bytes', logicalType: 'decimal', precision: 9, scale: 2 } },
    { name: 'city', type: ['null', 'string'], default: null, aliases: ['town'] },
    { name: 'at', type: ['null', { type: 'long', logicalType: 'timestamp-micros' }], default: null },
    { name: 'state', type: { type: 'enum', name: 'State', symbols: ['NEW', 'PAID'] }, default: 'NEW' },
  ],
}

it('each record is read by its own schema, and is what the latest has of it; those that cannot be read are told', async () => {
  const topic = 'registered-orders'
  await cluster.create(topic)
  const first = await register(`${topic}-value`, FIRST)
  const second = await register(`${topic}-value`, SECOND)
  assert.notEqual(first, second)
  const values = await written([
    { schema: FIRST, id: first, value: { id: 7, price: { $decimal: '1.50' }, town: 'Bonn', gone: ['x'] } },
    {
      ...{ schema: SECOND, id: second },
      value: {
        ...{ id: 9_007_199_254_740, price: { $decimal: '-0.01' }, city: null, state: 'PAID' },
        at: { $instant: '2026-01-02T03:04:05.000006+00:00' },
      },
    },
    { schema: FIRST, id: first, value: { id: -1, price: { $decimal: '0' }, town: 'Köln', gone: [] } },
  ])
  const [one = Buffer.alloc(0)] = values
  const unknown = Buffer.from(one)
  unknown.writeUInt32BE(2_000_000_000, 1)
  const odd = [unknown, Buffer.concat([one, Buffer.from([0])]), one.subarray(0, 7), Buffer.from('{"id":1}')]
  await cluster.send(
    topic,
    [...values, ...odd].map((value) => ({ value })),
  )
  const { columns, lines, rejects } = await read(topic, { metadata: false })
  assert.deepEqual(columns, ['id long', 'price decimal(9,2)', 'city string', 'at timestamptz', 'state string'])
  assert.deepEqual(lines, [
    '"7","1.50","Bonn",,"NEW"',
    '"9007199254740","-0.01",,"2026-01-02T03:04:05.000006Z","PAID"',
    '"-1","0.00","Köln",,"NEW"',
  ])
  assert.equal(rejects.length, odd.length, rejects.join('\n'))
  assert.match(rejects[0] ?? '', /has none of that number/)
  assert.match(rejects[1] ?? '', /behind its end/)
  assert.match(rejects[2] ?? '', /cannot be read by schema/)
  assert.match(rejects[3] ?? '', /no number of a schema/)
})

it('schemas refer to others, and keys have schemas of their own', async () => {
  const topic = 'registered-people'
  await cluster.create(topic)
  const town = { type: 'record', name: 'Town', namespace: 'shop', fields: [{ name: 'name', type: 'string' }] }
  await register('shop.Town', town)
  const person = { type: 'record', name: 'Person', namespace: 'shop', fields: [{ name: 'town', type: 'shop.Town' }] }
  const value = await register(`${topic}-value`, person, [{ name: 'shop.Town', subject: 'shop.Town', version: 1 }])
  const key = { type: 'record', name: 'Key', namespace: 'shop', fields: [{ name: 'id', type: 'long' }] }
  const keyId = await register(`${topic}-key`, key)
  const [seven, eight, bonn, rome] = await written([
    { schema: key, id: keyId, value: { id: 7 } },
    { schema: key, id: keyId, value: { id: 8 } },
    { schema: person, id: value, value: { town: { name: 'Bonn' } }, references: [town] },
    { schema: person, id: value, value: { town: { name: 'Rome' } }, references: [town] },
  ])
  await cluster.send(topic, [
    { key: seven ?? null, value: bonn ?? null },
    { key: eight ?? null, value: bonn ?? null },
    { key: seven ?? null, value: rome ?? null },
    { key: eight ?? null, value: null },
  ])
  const table = { mode: 'upsert', key_format: 'avro', primary_key: ['id'], metadata: false }
  const { columns, lines, rejects } = await read(topic, table)
  assert.deepEqual(columns, ['id long', 'town json'])
  assert.deepEqual(lines, ['"7","{""name"":""Rome""}"'])
  assert.deepEqual(rejects, [])
  const appended = await read(topic, { key_format: 'avro', metadata: true })
  assert.match(appended.lines[0] ?? '', /^"\{""name"":""Bonn""\}","\{""id"":7\}",/)
})

it('a registry that cannot be reached fails the read, and no record is passed by', async () => {
  await assert.rejects(read('registered-orders', {}, { registry_url: 'http://127.0.0.1:1' }), (error) =>
    isSluiceError(error, 'TRANSIENT'),
  )
})
