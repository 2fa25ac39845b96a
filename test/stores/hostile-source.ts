/** What a runtime has to bear of a source that sends what no server would, whatever protocol it speaks. */
import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { codeFolder } from '@sluice/engine'
import { type CheckReport, type Connector, type ConnectorPlugin, isSluiceError, type ReadEvent } from '@sluice/sdk'
import { createNetworkPolicy } from '../../runtime/src/ingestion/network.ts'
import { SourceReaders } from '../../runtime/src/ingestion/source-readers.ts'

/** Takes the line over. */
export type Attack = (line: Socket) => void

export interface HostileSource {
  readonly port: number
  /** From the next connection on; null: none. */
  attack(place: string, attack: Attack | null): void
  /** What discover and read find. */
  columns: readonly string[]
  /** A message of that type as it would stand next on the line; whole and well-formed where nothing else is said. */
  message(type: string, body?: Buffer, length?: number): Buffer
  stop(): Promise<void>
}

/** A kind of source, and what its protocol has. */
export interface HostileKind {
  /** The specifier of its connector. */
  readonly plugin: string
  readonly schema: string
  start(): Promise<HostileSource>
  /** Of messages, each with a body that is well-formed as far as one can be alone. */
  readonly bodies: Readonly<Record<string, Buffer>>
  /** Where in the conversation it turns hostile; the last one is in the middle of rows. */
  readonly places: readonly string[]
  /** Lengths in the header of a message that lie about it, by what they are. */
  readonly lengths: Readonly<Record<string, number>>
  readonly endless: readonly (readonly [
    name: string,
    place: string,
    operation: Operation,
    attack: (source: HostileSource) => Attack,
  ])[]
  /** Names of columns that its servers take. */
  readonly names: readonly string[]
  readonly mostColumns: number
}

/** Every one of them with `SLUICE_TEST_HOSTILE=all`; else each type and each way at least twice. */
const isWhole = process.env['SLUICE_TEST_HOSTILE'] === 'all'
const CODE_FOLDER = codeFolder(join(tmpdir(), 'sluice-hostile-cache'))
const never = new AbortController().signal
const MB = 1024 * 1024
const MEMORY_BYTES = 96 * MB
const PATIENT_MS = 600_000
/** What an attack without end is ended by. */
const BRISK_MS = 2_000

const OPERATIONS = ['check', 'discover', 'read'] as const
export type Operation = (typeof OPERATIONS)[number]

export const GARBAGE = Buffer.from(Array.from({ length: 64 }, (_, index) => (index * 151 + 7) % 256))

/** What is done to a message of some type. Those that end the line let the connector hear of it at once. */
type Way = (source: HostileSource, kind: HostileKind, type: string) => Attack

const WAYS: Readonly<Record<string, Way>> = {
  'in full, out of order': (source, _, type) => (line) =>
    line.end(Buffer.concat([source.message(type), source.message(type), source.message(type)])),
  'cut off':
    (source, { bodies }, type) =>
    (line) =>
      line.end(source.message(type, bodies[type], (bodies[type]?.length ?? 0) + 44)),
  'without a body': (source, _, type) => (line) => line.end(source.message(type, Buffer.alloc(0))),
  'with another body': (source, _, type) => (line) => line.end(source.message(type, GARBAGE)),
  'byte by byte': (source, _, type) => (line) => void drip(line, source.message(type, GARBAGE)),
}

function waysOf(kind: HostileKind): Readonly<Record<string, Way>> {
  const lies = Object.entries(kind.lengths).map(([name, length]): readonly [string, Way] => [
    name,
    (source, { bodies }, type) =>
      (line) =>
        line.end(source.message(type, bodies[type], length)),
  ])
  return { ...WAYS, ...Object.fromEntries(lies) }
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
  readonly place: string
  readonly type: string
  readonly way: string
}

function casesOf(kind: HostileKind): readonly Case[] {
  const all = Object.keys(kind.bodies).flatMap((type) =>
    Object.keys(waysOf(kind)).flatMap((way) =>
      OPERATIONS.flatMap((operation) =>
        kind.places
          .filter((place) => place !== kind.places.at(-1) || operation === 'read')
          .map((place) => ({ operation, place, type, way })),
      ),
    ),
  )
  // A step that shares no factor with the lists, so that it meets every member of each.
  return isWhole ? all : all.filter((_, index) => index % 61 === 0)
}

/** More of it than anybody can take: what the server goes on with until its line is cut. */
export function flood(bytes: Buffer): Attack {
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

export function floodAfter(first: Buffer): Attack {
  return (line) => {
    line.write(first)
    flood(Buffer.alloc(MB))(line)
  }
}

export function testHostileSource(kind: HostileKind): void {
  describe('a source that sends what no server would', { timeout: 600_000 }, () => {
    const limits = {
      maxReaders: 6,
      memoryBytes: MEMORY_BYTES,
      privateFolders: [],
      codeCacheDir: CODE_FOLDER,
    }
    const patient = new SourceReaders({ ...limits, silenceMs: PATIENT_MS, callMs: PATIENT_MS, readMs: PATIENT_MS })
    // Its processes start in their own time. Then a slow machine may take too long for an attack, which is an outcome, too.
    let briskMs = PATIENT_MS
    const brisk = new SourceReaders({
      ...limits,
      get silenceMs() {
        return briskMs
      },
      get callMs() {
        return briskMs
      },
      get readMs() {
        return briskMs
      },
    })
    const plugins = new Map<SourceReaders, ConnectorPlugin>()
    let hostile: HostileSource
    let honest: HostileSource
    let neighbour: Connector

    before(async () => {
      const url = import.meta.resolve(kind.plugin)
      const plugin = (await import(url)).default as ConnectorPlugin
      for (const readers of [patient, brisk]) {
        plugins.set(readers, readers.wall(plugin, url))
        // As in a runtime.
        await readers.prepare(CODE_FOLDER)
      }
      hostile = await kind.start()
      honest = await kind.start()
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

    /** What becomes of one call of a connector whose process is up and has read the source while that behaved. */
    async function attacked(connector: Connector, place: string, attack: Attack, operation: Operation) {
      hostile.attack(place, null)
      assert.equal((await connector.check(never)).ok, true)
      hostile.attack(place, attack)
      briskMs = BRISK_MS
      try {
        return await outcomeOf(kind, connector, operation)
      } finally {
        briskMs = PATIENT_MS
        hostile.attack(place, null)
      }
    }

    it('is read while it behaves', async () => {
      const connector = await openOver(hostile, patient)
      assert.equal((await connector.check(never)).ok, true)
      const { tables } = await connector.discover({ after: null, limit: 10 }, never)
      assert.deepEqual(
        tables.map(({ schema, name, columns }) => [schema, name, columns.length]),
        [[kind.schema, 't', 1]],
      )
      assert.equal(await rowsOf(kind, connector), 2)
      await connector.close()
      assert.deepEqual(
        patient.walls().filter((wall) => !wall.up && wall.name !== 'own-user'),
        [],
      )
    })

    it('fails its own call, in words, and nobody else’s', async () => {
      let connector = await openOver(hostile, brisk)
      const wrong: string[] = []
      for (const one of casesOf(kind)) {
        const name = JSON.stringify(one)
        const attack = (waysOf(kind)[one.way] as Way)(hostile, kind, one.type)
        const outcome = await attacked(connector, one.place, attack, one.operation)
        const isTold =
          outcome === 'fine' || (outcome.remedy.length > 0 && !/defect|internal|contract|busy/.test(outcome.code))
        if (!isTold) wrong.push(`${name}: ${JSON.stringify(outcome)}`)
        if (outcome !== 'fine' && /^source_(answer|memory|reader)/.test(outcome.code)) {
          await connector.close()
          connector = await openOver(hostile, brisk)
        }
      }
      await connector.close()
      assert.deepEqual(wrong, [])
      assert.equal(await rowsOf(kind, neighbour), 2)
    })

    for (const [name, place, operation, attack] of kind.endless) {
      it(`${name} at ${operation} is ended in time and memory`, async () => {
        const connector = await openOver(hostile, brisk)
        const before = process.memoryUsage().rss
        const outcome = await attacked(connector, place, attack(hostile), operation)
        assert.notEqual(outcome, 'fine')
        assert.match((outcome as Failure).code, /^source_(timeout|memory_exceeded|answer_invalid|lost)$/)
        assert(process.memoryUsage().rss - before < 200 * MB)
        await connector.close()
        assert.equal((await neighbour.check(never)).ok, true)
      })
    }

    it('answers with thousands of columns, and with names of any characters', async () => {
      hostile.columns = [...kind.names, ...Array.from({ length: kind.mostColumns }, (_, index) => `column_${index}`)]
      const connector = await openOver(hostile, patient)
      const [table] = (await connector.discover({ after: null, limit: 10 }, never)).tables
      assert.deepEqual(
        table?.columns.map((column) => column.name),
        hostile.columns,
      )
      assert.equal(await rowsOf(kind, connector), 2)
      hostile.columns = ['id']
      await connector.close()
    })

    it('has its process ended by an abort, and by the end of its connector', async () => {
      hostile.attack('rows', () => {})
      const connector = await openOver(hostile, patient)
      const caller = new AbortController()
      const reading = rowsOf(kind, connector, caller.signal)
      setTimeout(() => caller.abort(), 200)
      await assert.rejects(reading, (error) => isSluiceError(error) && error.code === 'aborted')
      const closing = rowsOf(kind, connector)
      setTimeout(() => void connector.close(), 200)
      await assert.rejects(closing)
      await connector.close()
      hostile.attack('rows', null)
    })
  })
}

interface Failure {
  readonly code: string
  readonly remedy: string
}

async function outcomeOf(kind: HostileKind, connector: Connector, operation: Operation): Promise<'fine' | Failure> {
  try {
    if (operation === 'check') return reported(await connector.check(never))
    if (operation === 'discover') await connector.discover({ after: null, limit: 10 }, never)
    else await rowsOf(kind, connector)
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

async function rowsOf(kind: HostileKind, connector: Connector, signal = never): Promise<number> {
  let last: ReadEvent | null = null
  const request = { schema: kind.schema, table: 't', mode: 'full', columns: [], primaryKey: [] } as const
  for await (const event of connector.read({ ...request, cursorColumn: null, state: null, signal })) last = event
  return last?.kind === 'state' ? last.rows : -1
}

function settingsOf(port: number): Readonly<Record<string, unknown>> {
  return { host: '127.0.0.1', port, database: 'public', user: 'u', ssl_mode: 'disable', connect_timeout_s: 120 }
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
