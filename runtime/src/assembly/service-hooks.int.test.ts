/**
 * Every member of what services are asked for has a caller in the runtime. Where a service can be made to lie without its server,
 * one that does so changes what the runtime does; for the others the caller is named, and looked up.
 */
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import type { Buckets, DashboardTemplates, EventBus, RunningService, StoredObject } from '@sluice/sdk'
import { BucketStore } from '../../../iceberg/src/store/bucket-store.ts'
import { until } from '../../../test/until.ts'
import { inTransaction } from '../database/pools.ts'
import { startTestPostgres } from '../database/testing.ts'
import { eventMigrations } from '../events/migrations.ts'
import { appendEvent, provisionTopics } from '../events/outbox.ts'
import { EventRelay } from '../events/relay.ts'
import { checkVisualization } from '../manifest/check-visualization.ts'
import { ServiceHealth } from '../plugins/service-health.ts'
import { openService } from '../plugins/services.ts'

const database = await (await startTestPostgres()).createDatabase({ migrations: [eventMigrations] })
const pool = database.pool({ maxConnections: 4 })
const folder = await mkdtemp(join(tmpdir(), 'sluice-service-hooks-'))
after(async () => {
  await database.drop()
  await rm(folder, { recursive: true, force: true })
})

interface Lie {
  outcome(isLying: boolean): Promise<unknown>
}
/** Where the runtime calls it: a file of the repository, and the text of the call. */
type Caller = readonly [file: string, call: string]

const broken = (): never => {
  throw Object.assign(new Error('it is broken'), { code: 'broken' })
}
const codeOf = (work: Promise<unknown>) =>
  work.then(
    (value) => value,
    (error: unknown) => (error as { readonly code?: string }).code ?? 'another error',
  )

let tenants = 0

/** What an event bus has been told of a tenant that has an event. */
async function relayed(lies: Partial<EventBus>, isThere: () => Promise<boolean> = async () => true): Promise<unknown> {
  tenants += 1
  const [tenant, told, warned] = [`t${tenants}`, [] as string[], [] as string[]]
  for (const table of ['event_relay_positions', 'events', 'event_topics']) await pool.query(`delete from ${table}`)
  await inTransaction(pool, (tx) => provisionTopics(tx, tenant))
  const event = { tenant, kind: 'ingestion', name: 'ended', subject: 'run_1', data: {} } as const
  await inTransaction(pool, (tx) => appendEvent(tx, event))
  const bus = {
    admits: () => true,
    provision: async () => void told.push('provision'),
    drop: async () => void told.push('drop'),
    publish: async (messages: readonly unknown[]) => void told.push(`publish ${messages.length}`),
    close: async () => undefined,
    ...lies,
  } as EventBus
  const logger = {
    debug() {},
    info() {},
    error() {},
    warn: (_: string, { code = 'refused' }: { readonly code?: string }) => void warned.push(code),
  }
  const relay = new EventRelay({
    ...{ name: `bus${tenants}`, pool, address: database.address, bus, logger: logger as never, pollMs: 50 },
    isActive: isThere,
  })
  const moved = async () => {
    const { rows } = await pool.query<{ sequence: string }>(
      'select * from event_relay_positions where tenant = $1 and relay = $2',
      [tenant, `bus${tenants}`],
    )
    return rows.some(({ sequence }) => Number(sequence) > 0)
  }
  await until('the event was sent, or it is said why not', async () => warned.length > 0 || (await moved()))
  await relay.close()
  return { told, isMoved: await moved(), warned: warned.slice(0, 1) }
}

const busLie = (lies: Partial<EventBus>, isThere?: () => () => Promise<boolean>): Lie => ({
  outcome: (isLying) => relayed(isLying ? lies : {}, isThere?.()),
})

/** Active when its topics are made, and gone when that is done. */
const leaving = () => {
  let asked = 0
  return async () => (asked += 1) === 1
}

async function opened(lies: Partial<RunningService>, open?: () => never): Promise<unknown> {
  const health = new ServiceHealth()
  let hosts = 0
  const clock = { nowMs: Date.now, every: () => () => {} }
  const host = { clock, [Symbol.asyncDispose]: async () => void (hosts -= 1) }
  const service = { ping: async () => undefined, close: async () => undefined, ...lies }
  const plugin = { kind: 'compute', name: 'lying', open: async () => open?.() ?? service }
  const hostFor = async () => {
    hosts += 1
    return host
  }
  const made = await codeOf(openService(plugin as never, {} as never, { hostFor, health } as never))
  if (typeof made === 'string') return { made, hosts }
  await until('the server was asked', async () => health.states()[0]?.status !== 'unknown')
  const status = health.states()[0]?.status
  const closed = await codeOf((made as { close(): Promise<void> }).close())
  return { status, closed, hosts }
}

const runningLie = (lies: Partial<RunningService>): Lie => ({ outcome: (isLying) => opened(isLying ? lies : {}) })

/** What a store over buckets has of one file, and does with it. */
async function stored(lies: Partial<Buckets>): Promise<unknown> {
  const files = new Map([['b/one', Buffer.from('one')]])
  const gone: string[] = []
  const at = (path: string): StoredObject => ({
    ...{ path, sizeBytes: files.get(path)?.length ?? 0 },
    modifiedAt: new Date(0),
  })
  const buckets = {
    ensureBucket: async (bucket: string) => void gone.push(`made ${bucket}`),
    buckets: async () => ['b'],
    dropBucket: async (bucket: string) => void gone.push(bucket),
    put: async (path: string, body: Uint8Array) => {
      files.set(path, Buffer.from(body))
      return at(path)
    },
    get: async (path: string) => files.get(path) ?? new Uint8Array(),
    copy: async (path: string, target: { take(chunk: Uint8Array): Promise<boolean> }) =>
      void (await target.take(files.get(path) ?? new Uint8Array())),
    stat: async (path: string) => (files.has(path) ? at(path) : null),
    async *list(prefix: string) {
      for (const path of [...files.keys()]) if (path.startsWith(prefix)) yield at(path)
    },
    remove: async (path: string) => void files.delete(path),
    uri: (path: string) => `s3://${path}`,
    pathOf: (uri: string) => uri.slice(5),
    close: () => undefined,
    ...lies,
  } as unknown as Buckets
  const cacheDir = await mkdtemp(join(folder, 'cache-'))
  const store = new BucketStore({ buckets, cacheDir, maxCacheBytes: 1 << 20 })
  const seen = async () => [await store.stat('b/one'), (await Array.fromAsync(store.list('b'))).map(({ path }) => path)]
  const did = async () => {
    await store.ensureBucket('b')
    const has = [await store.buckets(), ...(await seen()), String(await store.get('b/one'))]
    const held = await codeOf(
      (async () => {
        const release = await store.cache.hold([store.localPath('b/one')], new AbortController().signal)
        await release()
        return String(await readFile(store.localPath('b/one')))
      })(),
    )
    await store.put('b/two', Buffer.from('two'))
    const addresses = [store.uri('b/one'), store.pathOf('s3://b/one')]
    await store.remove('b/one')
    const left = [...files.keys()]
    await store.dropBucket('b')
    return { has, held, addresses, left, after: [...files.keys()], gone }
  }
  const outcome = await codeOf(did())
  return [outcome, await codeOf(store.close())]
}

const storeLie = (lies: Partial<Buckets>): Lie => ({ outcome: (isLying) => stored(isLying ? lies : {}) })

const templateLie = (lies: Partial<DashboardTemplates>): Lie => ({
  async outcome(isLying) {
    const templates = { names: ['table'], missing: () => null, ...(isLying ? lies : {}) }
    const product = { columns: [], endpoints: ['lookup'], classification: 'internal' } as const
    const block = { enabled: true, dashboard_template: 'table' } as never
    return checkVisualization(block, product, { endpoints: ['lookup'], templates }).map(({ message }) => message)
  },
})

const OPERATIONS = 'runtime/src/operations'
const KEEPER = 'runtime/src/dashboards/keeper.ts'
const RELAY = 'runtime/src/materializer/change-relay.ts'
const WATCH = `${OPERATIONS}/catalog/statement-watch.ts`
const UPLOADS = `${OPERATIONS}/catalog/uploads.ts`

/** By the file of the SDK, and the interface in it. */
const MEMBERS: Readonly<Record<string, Readonly<Record<string, Lie | Caller>>>> = {
  'service.ts RunningService': {
    ping: runningLie({ ping: async () => broken() }),
    close: runningLie({ close: async () => broken() }),
  },
  'service.ts ServicePlugin': { open: { outcome: (isLying) => opened({}, isLying ? broken : undefined) } },
  'event-bus.ts EventBus': {
    admits: busLie({ admits: () => false }),
    provision: busLie({ provision: async () => broken() }),
    drop: busLie({ drop: async () => broken() }, leaving),
    publish: busLie({ publish: async () => broken() }),
    changes: ['runtime/src/assembly/event-bus.ts', 'changes'],
    ping: runningLie({ ping: async () => broken() }),
    close: runningLie({ close: async () => broken() }),
  },
  'event-bus.ts ChangeBus': {
    isOn: [RELAY, 'bus.isOn'],
    readers: [RELAY, 'bus.readers'],
    ensure: [RELAY, 'bus.ensure('],
    empty: [RELAY, 'bus.empty('],
    remove: [RELAY, 'bus.remove('],
    openWriter: [RELAY, 'bus.openWriter('],
  },
  'event-bus.ts ChangeWriter': { write: [RELAY, '.write('], close: [RELAY, 'writer.close('] },
  'dashboard.ts DashboardTemplates': {
    names: templateLie({ names: ['other'] }),
    missing: templateLie({ missing: () => 'a column of times' }),
  },
  'dashboard.ts DashboardServer': {
    open: [KEEPER, 'server.open('],
    linkTo: ['runtime/src/assembly/dashboard-server.ts', 'server.linkTo('],
    ping: runningLie({ ping: async () => broken() }),
    close: runningLie({ close: async () => broken() }),
  },
  'dashboard.ts DashboardSession': { put: [KEEPER, 'session.put('], remove: [KEEPER, 'session.remove('] },
  'object-store.ts Buckets': {
    ensureBucket: storeLie({ ensureBucket: async () => broken() }),
    buckets: storeLie({ buckets: async () => [] }),
    dropBucket: storeLie({ dropBucket: async () => undefined }),
    put: storeLie({ put: async (path) => ({ path, sizeBytes: 3, modifiedAt: new Date(0) }) }),
    get: storeLie({ get: async () => Buffer.from('other') }),
    copy: storeLie({ copy: async (_, target) => void (await target.take(Buffer.from('other'))) }),
    stat: storeLie({ stat: async () => null }),
    list: storeLie({ async *list() {} }),
    remove: storeLie({ remove: async () => undefined }),
    uri: storeLie({ uri: () => 's3://elsewhere' }),
    pathOf: storeLie({ pathOf: () => null }),
    lend: ['runtime/src/assembly/object-stores.ts', 'lend?.('],
    ping: runningLie({ ping: async () => broken() }),
    close: storeLie({ close: () => broken() }),
  },
  'object-store.ts LentAccess': {
    settings: [`${OPERATIONS}/catalog/files.ts`, 'lentAccess?.settings('],
    read: [`${OPERATIONS}/catalog/files.ts`, 'requireLent(platform).read('],
    write: [UPLOADS, 'requireLent(platform).write('],
    take: [UPLOADS, 'lent.take('],
    refusal: [UPLOADS, 'lent.refusal('],
    close: ['runtime/src/container.ts', 'lentAccessOf(config, objects.buckets),\n    (opened) => opened?.close(),'],
  },
  'object-store.ts LentRead': {
    path: [`${OPERATIONS}/catalog/files.ts`, 'path'],
    sign: [`${OPERATIONS}/catalog/files.ts`, 'read.sign('],
  },
  'object-store.ts LentWrite': {
    step: [UPLOADS, 'step'],
    sizeBytes: [UPLOADS, 'sizeBytes'],
    send: [UPLOADS, 'write.send('],
  },
  'compute.ts ComputePlugin': { policy: ['runtime/src/assembly/compute.ts', 'plugin.policy'] },
  'compute.ts Compute': {
    check: [`${OPERATIONS}/deploy/sources.ts`, '?.check('],
    read: [`${OPERATIONS}/deploy/sources.ts`, 'distributed?.read('],
    transform: ['runtime/src/materializer/distributed-rows.ts', '.transform('],
    query: ['runtime/src/assembly/compute.ts', 'compute.query'],
    statements: ['runtime/src/assembly/compute.ts', 'statements'],
    ping: runningLie({ ping: async () => broken() }),
    close: runningLie({ close: async () => broken() }),
  },
  'compute.ts TransformedRows': {
    pages: ['runtime/src/materializer/distributed-rows.ts', 'rows.pages'],
    lost: ['runtime/src/materializer/distributed-rows.ts', 'rows.lost('],
  },
  'compute.ts ComputedRows': {
    columns: [`${OPERATIONS}/queries/distributed-query.ts`, 'rows.columns'],
    pages: [`${OPERATIONS}/queries/distributed-query.ts`, 'rows.pages'],
    close: [`${OPERATIONS}/queries/distributed-query.ts`, 'rows.close('],
  },
  'compute.ts ComputeStatements': {
    server: ['runtime/src/assembly/compute.ts', 'statements.server'],
    atWork: [WATCH, 'statements.atWork('],
    all: [WATCH, 'statements.all('],
    tables: [WATCH, 'statements.tables('],
    end: [WATCH, 'statements.end('],
  },
}

/** What a plugin is, and not what it is asked. */
const METADATA = ['kind', 'name', 'version', 'description', 'settingsSchema']

for (const [place, members] of Object.entries(MEMBERS)) {
  const [file = '', name = ''] = place.split(' ')
  for (const [member, told] of Object.entries(members)) {
    if (!('outcome' in told)) continue
    test(`one that lies in ${name}.${member} changes what the runtime does`, async () => {
      const honest = await told.outcome(false)
      assert.deepEqual(await told.outcome(false), honest)
      assert.notDeepEqual(await told.outcome(true), honest, JSON.stringify(honest))
    })
  }
  test(`every member of ${name} has a caller`, async () => {
    const root = join(import.meta.dirname, '../../..')
    const source = await readFile(join(root, 'sdk', file), 'utf8')
    const from = source.slice(source.search(new RegExp(`^export interface ${name}\\b`, 'm')))
    const declared = [...from.slice(0, from.indexOf('\n}')).matchAll(/^ {2}(?:readonly )?(\w+)\??[(:]/gm)]
      .map(([, one]) => one as string)
      .filter((one) => !METADATA.includes(one))
    assert.deepEqual(declared.sort(), Object.keys(members).sort())
    for (const [member, told] of Object.entries(members)) {
      if ('outcome' in told) continue
      const [caller, call] = told
      assert.ok((await readFile(join(root, caller), 'utf8')).includes(call), `${member}: ${caller} has no ${call}`)
    }
  })
}

test('every interface of services that is asked something is tried here', async () => {
  const root = join(import.meta.dirname, '../../../sdk')
  const asked: string[] = []
  for (const file of ['service.ts', 'event-bus.ts', 'dashboard.ts', 'object-store.ts', 'compute.ts']) {
    const source = await readFile(join(root, file), 'utf8')
    for (const [text, name] of source.matchAll(/^export interface (\w+)[^{]*\{[^]*?\n\}/gm))
      if (/^ {2}(\w+)\??\(/m.test(text)) asked.push(`${file} ${name}`)
  }
  // Given by the runtime, and asked by the plugin.
  const given = ['object-store.ts CopyTarget']
  const named = Object.keys(MEMBERS)
  assert.deepEqual(
    asked.filter((one) => !named.includes(one) && !given.includes(one)),
    [],
  )
})
