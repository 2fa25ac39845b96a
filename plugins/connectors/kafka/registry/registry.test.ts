/** Registries that mean ill or are away, and schemas that do: each ends in words, bounded, and no record is taken for unreadable by an accident. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, test } from 'node:test'
import { type ConnectorHost, isSluiceError } from '@sluice/sdk'
import { Unreadable } from '../decode.ts'
import { RegistryDecoder } from '../decoder.ts'
import { hostWith } from '../scripted-broker.fixture.ts'
import { parseTopic } from '../topic-settings.ts'
import { Registry } from './schemas.ts'
import { parseRegistry } from './settings.ts'

const SIGNAL = new AbortController().signal
const HOST = hostWith({ nowMs: () => 0, every: () => () => undefined }, [])
const servers: Server[] = []
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
})

type Answering = (path: string, answer: ServerResponse, question: IncomingMessage) => void

async function registryOf(answering: Answering, more: object = {}, host: ConnectorHost = HOST): Promise<Registry> {
  const server = createServer((question, answer) => answering(question.url ?? '', answer, question))
  servers.push(server.listen(0, '127.0.0.1'))
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const settings = { registry_url: url, ...more } as Parameters<typeof parseRegistry>[0]
  const place = parseRegistry(settings)
  assert.ok(place)
  return new Registry(place, host)
}

const json = (answer: ServerResponse, body: unknown, status = 200) =>
  answer.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
const schemaOf = (type: unknown, more: object = {}) => ({ schema: JSON.stringify(type), ...more })
const record = (fields: readonly unknown[], name = 'R') => ({ type: 'record', name, fields })
const READER = record([{ name: 'id', type: 'long', default: 1 }])

test('only the registry’s own word for it says that there is no schema: whatever else goes wrong fails the read', async () => {
  const cases: readonly (readonly [Answering, string, string])[] = [
    [(_, answer) => answer.writeHead(404).end('<html>not found'), 'INVALID_DATA', 'source_answer_invalid'],
    [(_, answer) => json(answer, { error_code: 404 }, 404), 'INVALID_DATA', 'source_answer_invalid'],
    [(_, answer) => json(answer, {}, 503), 'TRANSIENT', 'source_busy'],
    [(_, answer) => json(answer, {}, 429), 'TRANSIENT', 'source_busy'],
    [(_, answer) => json(answer, {}, 401), 'CONFIG', 'source_login_refused'],
    [(_, answer) => json(answer, {}, 403), 'PERMISSION', 'source_permission_denied'],
    [(_, answer) => answer.writeHead(200).end('no JSON'), 'INVALID_DATA', 'source_answer_invalid'],
    [(_, answer) => answer.socket?.destroy(), 'TRANSIENT', 'source_lost'],
    [
      (_, answer) => {
        answer.writeHead(200, { 'content-length': '1000' }).write('{"schema":')
        setImmediate(() => answer.socket?.destroy())
      },
      'TRANSIENT',
      'source_lost',
    ],
    [
      (_, answer) => answer.writeHead(200).end(Buffer.alloc(5 * 1024 * 1024, 32)),
      'INVALID_DATA',
      'source_answer_invalid',
    ],
    [
      (_, answer) => answer.writeHead(302, { location: 'http://169.254.169.254/' }).end(),
      'INVALID_DATA',
      'source_answer_invalid',
    ],
  ]
  for (const [answering, kind, code] of cases) {
    const registry = await registryOf(answering)
    await assert.rejects(
      registry.byId(1, SIGNAL),
      (error) => isSluiceError(error) && error.kind === kind && error.code === code,
      code,
    )
  }
})

test('a redirect leads nowhere', async () => {
  const asked: string[] = []
  const registry = await registryOf((path, answer) => {
    asked.push(path)
    answer.writeHead(307, { location: '/elsewhere' }).end(JSON.stringify(schemaOf(READER)))
  })
  await assert.rejects(registry.byId(1, SIGNAL), /sends readers to another address/)
  assert.deepEqual(asked, ['/schemas/ids/1'])
})

test('an address is asked for at the host’s policy, and a login does not travel in clear', async () => {
  const place = parseRegistry({ registry_url: 'http://169.254.169.254' } as Parameters<typeof parseRegistry>[0])
  assert.ok(place)
  await assert.rejects(new Registry(place, HOST).byId(1, SIGNAL), { code: 'address_refused' })
  const heard: (string | undefined)[] = []
  const answering: Answering = (_, answer, { headers }) => {
    heard.push(headers.authorization)
    json(answer, schemaOf(READER))
  }
  const network = { ...HOST.network, allowsCleartextPassword: () => false }
  const shy = await registryOf(answering, { registry_token: 'secret' }, { ...HOST, network })
  await assert.rejects(shy.byId(1, SIGNAL), { code: 'cleartext_password_refused' })
  assert.deepEqual(heard, [])
  const open = { ...HOST, network: { ...HOST.network, allowsCleartextPassword: () => true } }
  await (await registryOf(answering, { registry_token: 'secret' }, open)).byId(1, SIGNAL)
  await (await registryOf(answering, { registry_user: 'a', registry_password: 'b' }, open)).byId(1, SIGNAL)
  assert.deepEqual(heard, ['Bearer secret', 'Basic YTpi'])
})

test('a registry that says nothing ends by the deadline', async () => {
  let runOut: () => void = () => undefined
  const clock = {
    nowMs: () => 0,
    every: (_: number, run: () => void) => {
      runOut = run
      return () => undefined
    },
  }
  const registry = await registryOf(() => runOut(), {}, { ...HOST, clock })
  await assert.rejects(registry.byId(1, SIGNAL), { kind: 'TRANSIENT', code: 'source_timeout' })
})

const one = { references: [{ name: 'x', subject: 'a', version: 1 }] }

test('schemas that cannot be used put their records aside, with the reason', async () => {
  let deep: unknown = 'int'
  for (let depth = 0; depth < 3000; depth += 1) deep = { type: 'array', items: deep }
  const schemas: readonly (readonly [unknown, RegExp])[] = [
    [{ error_code: 40403 }, /none of that number/],
    [schemaOf(READER, { schemaType: 'PROTOBUF' }), /none of Avro/],
    [{ schema: '{' }, /no schema of Avro/],
    [schemaOf(deep), /no schema of Avro/],
    [schemaOf(record([{ name: 'id', type: 'Nowhere' }])), /no schema of Avro/],
    [schemaOf(READER, one), /circle/],
    [schemaOf(READER, { references: [{ subject: 'none', version: 1 }] }), /does not have/],
    [schemaOf(READER, { references: [{ subject: '..', version: 1 }] }), /name no subject/],
    [schemaOf(READER, { references: 7 }), /no list/],
    [schemaOf(record([{ name: 'id', type: 'long' }], 'Other')), /"Other"/],
  ]
  const registry = await registryOf((path, answer) => {
    const id = Number(/ids\/(\d+)/.exec(path)?.[1] ?? -1)
    if (path.startsWith('/subjects/a/')) return json(answer, schemaOf(record([], 'A'), one))
    const [body = { error_code: 40402 }] = schemas[id] ?? []
    json(answer, body, (body as { error_code?: number }).error_code === undefined ? 200 : 404)
  })
  const decoder = await decoding(registry)
  for (const [id, [, reason]] of schemas.entries()) {
    const value = Buffer.from([0, 0, 0, 0, id, 2])
    await decoder.prepare({ key: null, value }, 'all')
    const found = decoder.value(value)
    assert.ok(found instanceof Unreadable, String(id))
    assert.match(found.reason, reason)
  }
})

async function decoding(registry: Registry): Promise<RegistryDecoder> {
  const defaults = { format: 'avro', mode: 'append', keyFormat: 'text', hasRegistry: true } as const
  const reader = await (await registryOf((_, answer) => json(answer, schemaOf(READER)))).latest('r', SIGNAL)
  return new RegistryDecoder(parseTopic('orders', {}, defaults), registry, { value: reader, key: null }, SIGNAL)
}

test('a schema is asked for once, however many records it has, and what is remembered is bounded', async () => {
  const asked: string[] = []
  const registry = await registryOf((path, answer) => {
    asked.push(path)
    json(answer, schemaOf(READER))
  })
  const decoder = await decoding(registry)
  const see = async (id: number) => {
    const value = Buffer.from([0, 0, 0, id >> 8, id & 255, 14])
    await decoder.prepare({ key: null, value }, 'all')
    const found = decoder.value(value)
    assert.ok(!(found instanceof Unreadable))
    assert.equal(found.text({ name: 'id', type: 'long' }), '7')
  }
  for (let at = 0; at < 20; at += 1) await see(1)
  assert.equal(asked.length, 1)
  for (let id = 2; id < 70; id += 1) await see(id)
  await see(69)
  assert.equal(asked.length, 69)
  await see(1)
  assert.equal(asked.length, 70)
})

test('lists without end, records in themselves and huge defaults cost their own record', async () => {
  const endless = record([{ name: 'more', type: { type: 'array', items: 'null' } }])
  const itself = record([{ name: 'next', type: ['null', 'R'] }])
  const schemas = [endless, itself]
  const registry = await registryOf((path, answer) => json(answer, schemaOf(schemas[Number(path.at(-1))])))
  const decoder = await decoding(registry)
  const values = [
    Buffer.from([0, 0, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0xff, 0x0f]),
    Buffer.concat([Buffer.from([0, 0, 0, 0, 1]), Buffer.alloc(100_000, 2)]),
  ]
  for (const value of values) {
    await decoder.prepare({ key: null, value }, 'all')
    assert.ok(decoder.value(value) instanceof Unreadable)
  }
})
