import assert from 'node:assert/strict'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { codeFolder } from '@sluice/engine'
import { type CheckReport, type Connector, type ConnectorPlugin, isSluiceError, type ReadEvent } from '@sluice/sdk'
import { createNetworkPolicy } from '../../runtime/src/ingestion/network.ts'
import { SourceReaders } from '../../runtime/src/ingestion/source-readers.ts'
import {
  type Attack,
  BACKEND_TYPES,
  BODIES,
  type HostileSource,
  message,
  PLACES,
  type Place,
  startHostileSource,
} from './hostile-source.fixture.ts'

/** Every one of them with `SLUICE_TEST_HOSTILE=all`; else each type and each way at least twice. */
const isWhole = process.env['SLUICE_TEST_HOSTILE'] === 'all'
const CODE_FOLDER = codeFolder(join(tmpdir(), 'sluice-hostile-cache'))
const never = new AbortController().signal
const MB = 1024 * 1024
const MEMORY_BYTES = 96 * MB

const OPERATIONS = ['check', 'discover', 'read'] as const
type Operation = (typeof OPERATIONS)[number]

const GARBAGE = Buffer.from(Array.from({ length: 64 }, (_, index) => (index * 151 + 7) % 256))

/** What is done to a message of some type. Those that end the line let the connector hear of it at once. */
const WAYS: Readonly<Record<string, (type: string) => Attack>> = {
  'in full, out of order': (type) => (line) => line.end(Buffer.concat(Array(3).fill(message(type)))),
  'cut off': (type) => (line) => line.end(message(type, BODIES[type], (BODIES[type]?.length ?? 0) + 44)),
  'of length zero': (type) => (line) => line.end(message(type, BODIES[type], 0)),
  'of negative length': (type) => (line) => line.end(message(type, BODIES[type], -1)),
  'without a body': (type) => (line) => line.end(message(type, Buffer.alloc(0))),
  'with another body': (type) => (line) => line.end(message(type, GARBAGE)),
  'announced as 2 GiB': (type) => (line) => line.end(message(type, GARBAGE, 0x7fffffff)),
  'byte by byte': (type) => (line) => void drip(line, message(type, GARBAGE)),
}

async function drip(line: Parameters<Attack>[0], bytes: Buffer): Promise<void> {
  for (const byte of bytes) {
    line.write(Buffer.from([byte]))
    await pause(1)
  }
  line.end()
}

interface Case {
  readonly operation: Operation
  readonly place: Place
  readonly type: string
  readonly way: string
}

function cases(): readonly Case[] {
  const all = BACKEND_TYPES.flatMap((type) =>
    Object.keys(WAYS).flatMap((way) =>
      OPERATIONS.flatMap((operation) =>
        PLACES.filter((place) => place !== 'rows' || operation === 'read').map((place) => ({
          operation,
          place,
          type,
          way,
        })),
      ),
    ),
  )
  // A step that shares no factor with the lists, so that it meets every member of each.
  return isWhole ? all : all.filter((_, index) => index % 61 === 0)
}

/** More of it than anybody can take: what the server goes on with until its line is cut. */
const ENDLESS: readonly (readonly [name: string, place: Place, operation: Operation, attack: Attack])[] = [
  [
    'rows without end where the catalog was asked for',
    'catalog',
    'discover',
    flood(message('D', Buffer.alloc(64 * 1024))),
  ],
  ['notices without end', 'rows', 'read', flood(Buffer.concat(Array(500).fill(message('N'))))],
  ['a message of 2 GiB that comes', 'query', 'discover', floodAfter(message('D', GARBAGE, 0x7fffffff))],
  ['a row of 4 GiB that comes', 'rows', 'read', floodAfter(message('d', GARBAGE, 0xfffffff0))],
  ['an error without fields', 'login', 'check', (line) => line.write(message('E', Buffer.alloc(0)))],
  ['silence', 'query', 'check', () => {}],
  ['silence', 'catalog', 'discover', () => {}],
  ['silence', 'rows', 'read', () => {}],
]

function flood(bytes: Buffer): Attack {
  return (line) => {
    const more = () => {
      while (!line.destroyed && line.write(bytes)) {
        // Until it is full.
      }
    }
    line.on('drain', more)
    more()
  }
}

function floodAfter(first: Buffer): Attack {
  return (line) => {
    line.write(first)
    flood(Buffer.alloc(MB))(line)
  }
}

describe('a source that sends what no server would', { timeout: 600_000 }, () => {
  const limits = {
    maxReaders: 6,
    memoryBytes: MEMORY_BYTES,
    privateFolders: [],
    codeCacheDir: CODE_FOLDER,
  }
  const patient = new SourceReaders({ ...limits, silenceMs: 600_000, callMs: 600_000, readMs: 600_000 })
  // Whatever a slow machine takes too long for with these has failed in words, too.
  const brisk = new SourceReaders({ ...limits, silenceMs: 2_000, callMs: 2_000, readMs: 2_000 })
  const plugins = new Map<SourceReaders, ConnectorPlugin>()
  let hostile: HostileSource
  let honest: HostileSource
  let neighbour: Connector

  before(async () => {
    const url = import.meta.resolve('@sluice/connectors/postgresql')
    const plugin = (await import(url)).default as ConnectorPlugin
    for (const readers of [patient, brisk]) {
      plugins.set(readers, readers.wall(plugin, url))
      // As in a runtime.
      await readers.prepare(CODE_FOLDER)
    }
    hostile = await startHostileSource()
    honest = await startHostileSource()
    neighbour = await openOver(honest, patient)
  })

  after(async () => {
    await neighbour?.close()
    await Promise.all([patient.close(), brisk.close()])
    await hostile?.stop()
    await honest?.stop()
  })

  const openOver = (source: HostileSource, readers: SourceReaders) =>
    (plugins.get(readers) as ConnectorPlugin).open(settingsOf(source.port), hostOver('somebody'))

  it('is read while it behaves', async () => {
    const connector = await openOver(hostile, patient)
    assert.equal((await connector.check(never)).ok, true)
    const { tables } = await connector.discover({ after: null, limit: 10 }, never)
    assert.deepEqual(
      tables.map(({ schema, name, columns }) => [schema, name, columns.length]),
      [['public', 't', 1]],
    )
    assert.equal(await rowsOf(connector), 2)
    await connector.close()
    assert.deepEqual(
      patient.walls().filter((wall) => !wall.up && wall.name !== 'own-user'),
      [],
    )
  })

  it('fails its own call, in words, and nobody else’s', async () => {
    let connector = await openOver(hostile, brisk)
    const wrong: string[] = []
    for (const one of cases()) {
      const name = JSON.stringify(one)
      hostile.attack(one.place, (WAYS[one.way] as (type: string) => Attack)(one.type))
      const outcome = await outcomeOf(connector, one.operation)
      const isTold = outcome === 'fine' || (outcome.remedy.length > 0 && !/defect|internal|contract/.test(outcome.code))
      if (!isTold) wrong.push(`${name}: ${JSON.stringify(outcome)}`)
      if (outcome !== 'fine' && /^source_(answer|memory|reader)/.test(outcome.code)) {
        await connector.close()
        connector = await openOver(hostile, brisk)
      }
    }
    await connector.close()
    assert.deepEqual(wrong, [])
    assert.equal(await rowsOf(neighbour), 2)
  })

  for (const [name, place, operation, attack] of ENDLESS) {
    it(`${name} at ${operation} is ended in time and memory`, async () => {
      const connector = await openOver(hostile, brisk)
      hostile.attack(place, attack)
      const before = process.memoryUsage().rss
      const outcome = await outcomeOf(connector, operation)
      assert.notEqual(outcome, 'fine')
      assert.match((outcome as Failure).code, /^source_(timeout|memory_exceeded|answer_invalid|lost)$/)
      assert(process.memoryUsage().rss - before < 200 * MB)
      hostile.attack(place, null)
      await connector.close()
      assert.equal((await neighbour.check(never)).ok, true)
    })
  }

  it('answers with ten thousand columns, and with names of any characters', async () => {
    const names = [
      'a"b',
      "a'b",
      'a\nb',
      'a\tb',
      '\u202egnp.exe',
      '\u0007bell',
      '\u001b[31mred',
      ' ',
      'ä'.repeat(31),
      '$1',
    ]
    hostile.columns = [...names, ...Array.from({ length: 10_000 }, (_, index) => `column_${index}`)]
    const connector = await openOver(hostile, patient)
    const [table] = (await connector.discover({ after: null, limit: 10 }, never)).tables
    assert.deepEqual(
      table?.columns.map((column) => column.name),
      hostile.columns,
    )
    assert.equal(await rowsOf(connector), 2)
    hostile.columns = ['id']
    await connector.close()
  })

  it('has its process ended by an abort, and by the end of its connector', async () => {
    hostile.attack('rows', () => {})
    const connector = await openOver(hostile, patient)
    const caller = new AbortController()
    const reading = rowsOf(connector, caller.signal)
    setTimeout(() => caller.abort(), 200)
    await assert.rejects(reading, (error) => isSluiceError(error) && error.code === 'aborted')
    const closing = rowsOf(connector)
    setTimeout(() => void connector.close(), 200)
    await assert.rejects(closing)
    await connector.close()
    hostile.attack('rows', null)
  })
})

interface Failure {
  readonly code: string
  readonly remedy: string
}

async function outcomeOf(connector: Connector, operation: Operation): Promise<'fine' | Failure> {
  try {
    if (operation === 'check') return reported(await connector.check(never))
    if (operation === 'discover') await connector.discover({ after: null, limit: 10 }, never)
    else await rowsOf(connector)
    return 'fine'
  } catch (error) {
    assert(isSluiceError(error), String(error))
    return { code: error.code, remedy: error.remedy ?? '' }
  }
}

/** A failing check is an answer. */
function reported({ ok, steps }: CheckReport): 'fine' | Failure {
  if (ok) return 'fine'
  const last = steps.at(-1)
  assert.equal(last?.ok, false)
  return {
    code: last.message.includes('no end') ? 'source_answer_invalid' : 'source_timeout',
    remedy: last.remedy ?? '',
  }
}

async function rowsOf(connector: Connector, signal = never): Promise<number> {
  let last: ReadEvent | null = null
  const request = { schema: 'public', table: 't', mode: 'full', columns: [], primaryKey: [] } as const
  for await (const event of connector.read({ ...request, cursorColumn: null, state: null, signal })) last = event
  return last?.kind === 'state' ? last.rows : -1
}

function settingsOf(port: number): Readonly<Record<string, unknown>> {
  return { host: '127.0.0.1', port, database: 'd', user: 'u', ssl_mode: 'disable', connect_timeout_s: 120 }
}

function hostOver(tenant: string) {
  const nothing = () => {}
  return {
    tenant,
    logger: { debug: nothing, info: nothing, warn: nothing, error: nothing },
    metrics: { count: nothing, observe: nothing },
    clock: { nowMs: Date.now, every: () => nothing },
    randomBytes: (count: number) => new Uint8Array(count),
    faultPoint: async () => undefined,
    network: createNetworkPolicy({
      allow: [],
      allowLoopback: true,
      allowCleartextPasswords: false,
      ownEndpoints: () => [],
    }),
  }
}
