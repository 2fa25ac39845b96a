/**
 * Every hook of a connector and of its log has a caller in the runtime, and one that listens: a connector that lies there
 * makes it do something else.
 */
import assert from 'node:assert/strict'
import { mkdtemp, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { LIMITS, readScan } from '@sluice/iceberg/testing'
import {
  batchFromRows,
  type ChangeEvent,
  type ChangePosition,
  type ChangeSource,
  type Connector,
  type ConnectorPlugin,
  isSluiceError,
  type ReadEvent,
  SluiceError,
} from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import { eventMigrations } from '../../events/migrations.ts'
import { provisionTopics } from '../../events/outbox.ts'
import type { Principal, TenantCall } from '../../flow.ts'
import type { IngestionDeps } from '../../ingestion/ingestion-run.ts'
import { runIngestion } from '../../ingestion/run-ingestion.ts'
import { claimJobs, expectJob } from '../../jobs/claims.ts'
import { type RegistryLake, startRegistryLake } from '../../lake/testing.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { rawTable } from '../../materializer/inputs.ts'
import { capture, ensureCapture, savePosition, saveStream, settleStreams } from '../../registry/captures.ts'
import { type Connection, createConnection } from '../../registry/connections.ts'
import type { MasterKeys } from '../../registry/master-keys.ts'
import { registryMigrations } from '../../registry/migrations.ts'
import type { Product } from '../../registry/products.ts'
import { claimRun, finishRun } from '../../registry/run-claims.ts'
import { enqueueRun } from '../../registry/runs.ts'
import { FOLLOW_JOB } from '../../registry/schedule-job.ts'
import { setSchedule } from '../../registry/schedules.ts'
import { ANN, tenantWithKeys } from '../../registry/testing.ts'
import { checkCapture } from '../connections/captures.ts'
import { testConnection } from '../connections/connections.ts'
import { requireLogs } from '../products/log-reads.ts'
import { ConnectionFollower } from './connection-follower.ts'
import type { RunsDeps } from './deps.ts'

const TENANT = 'acme'
const BEGIN: ChangePosition = { lineage: '1', order: '1' }
const HEAD: ChangePosition = { lineage: '1', order: '2' }
const logger = { debug() {}, info() {}, warn() {}, error() {} }

let lake: RegistryLake
let masters: MasterKeys
let scratchDirectory: string
let worlds = 0
before(async () => {
  lake = await startRegistryLake([registryMigrations, eventMigrations])
  masters = await tenantWithKeys(lake.pool, TENANT, lake.dir)
  await lake.pool.query(`update tenants set tier = 'enterprise'`)
  await inTransaction(lake.pool, (tx) => provisionTopics(tx, TENANT))
  scratchDirectory = await mkdtemp(join(tmpdir(), 'sluice-hooks-'))
})
after(() => lake[Symbol.asyncDispose]())

const schema = {
  columns: [
    { name: 'id', type: 'integer', nullable: false },
    { name: 'v', type: 'string', nullable: true },
  ],
  primaryKey: ['id'],
} as const
const TABLE = { schema: 'public', name: 't', kind: 'table', estimatedRows: 1, suggestedCursor: null } as const

/** A table of one row, whose log tells of another. */
class Source {
  readonly lies: { -readonly [Hook in keyof Connector]?: Connector[Hook] } = {}
  readonly logLies: { -readonly [Hook in keyof ChangeSource]?: ChangeSource[Hook] } = {}
  readonly acked: string[] = []
  kept = true

  readonly honest: Connector = {
    check: async () => ({ ok: true, steps: [{ name: 'auth', ok: true, message: 'well' }], latencyMs: 0 }),
    discover: async () => ({
      tables: [{ ...TABLE, ...schema, columns: schema.columns.map((one) => ({ ...one, sourceType: one.type })) }],
      next: null,
    }),
    async *read(): AsyncGenerator<ReadEvent> {
      yield { kind: 'schema', schema }
      yield { kind: 'batch', batch: batchFromRows([[1, 'one']], 2) }
      yield { kind: 'state', state: { version: 1, value: {} }, rows: 1 }
    },
    ack: async () => undefined,
    close: async () => undefined,
  }

  readonly honestLog: ChangeSource = {
    refusals: async () => [],
    prepare: async () => ({
      position: BEGIN,
      refused: [],
      incarnations: [{ schema: 'public', table: 't', incarnation: 'i' }],
    }),
    async *changes({ after: from }): AsyncGenerator<ChangeEvent> {
      if (from.order < HEAD.order) {
        yield { kind: 'schema', stream: 0, schema }
        yield { kind: 'rows', stream: 0, chunk: Buffer.from('"u","2",,,"2","two"\n'), rows: 1 }
      }
      yield { kind: 'checkpoint', position: HEAD, sourceTime: '2026-01-01T00:00:00Z' }
    },
    awaitChanges: async () => ({ kind: 'changed' }),
    ack: async ({ position }) => void this.acked.push(position.order),
    health: async () => ({ state: 'ok', retainedBytes: 1, limitBytes: null, message: 'well' }),
    release: async () => void (this.kept = false),
  }

  readonly plugin = {
    ...{ kind: 'connector', type: 'postgresql', name: 'lying', version: '1.0.0', description: 'For tests.' },
    ...{ settingsSchema: { type: 'object' }, capabilities: { modes: ['full', 'incremental', 'cdc'] } },
    open: async () => {
      return { ...this.honest, ...this.lies, changes: { ...this.honestLog, ...this.logLies } }
    },
  } as unknown as ConnectorPlugin
}

interface World {
  readonly source: Source
  readonly connection: Connection
  readonly platform: RunsDeps
  sync(mode: 'full' | 'cdc'): Promise<unknown>
}

const input = (connection: string, mode: 'full' | 'cdc') => ({
  ...{ name: 't', connection, table: 'public.t', mode, cursorColumn: null, primaryKey: [], columns: null, where: null },
  onSchemaChange: 'evolve',
})
const manifestsOf = (connection: string, mode: 'full' | 'cdc') =>
  ({
    inputs: [input(connection, mode)],
    quality: { checks: [] },
    compute: { trigger: 'manual', transform: 'SELECT 1' },
  }) as unknown as ManifestSet

async function world(): Promise<World> {
  worlds += 1
  const [name, source] = [`src${worlds}`, new Source()]
  const made = { tenant: TENANT, name, connectorType: 'postgresql', config: {}, createdBy: ANN } as const
  const connection = await inTransaction(lake.pool, (tx) => createConnection(tx, made))
  const platform = {
    ...{ pool: lake.pool, masters, logger, connectorHost: {} },
    plugins: { connector: () => source.plugin },
  } as unknown as RunsDeps
  const sync = async (mode: 'full' | 'cdc') => {
    const run = { tenant: TENANT, kind: 'ingestion', connectionId: connection.id, trigger: 'manual' } as const
    await enqueueRun(lake.pool, { ...run, createdBy: ANN })
    const claimed = await claimRun(lake.pool, { workerId: 'w', leaseMs: 3_600_000 })
    assert.ok(claimed)
    const { lease } = claimed
    const about = { connection, lease, signal: signal(), toTransforms: async () => {} }
    const deps = {
      ...{ pool: lake.pool, masters, lake: lake.lake, limits: LIMITS, scratchDirectory },
      ...{ faultPoint: async () => undefined, readsAtOneMoment: () => false, tellLogLost: async () => undefined },
      openConnector: () => source.plugin.open({}, {} as never),
      productsOf: async () => [{ product: {} as Product, manifests: manifestsOf(name, mode) }],
      checkStorage: async () => ({ bytes: 1e9, exceeded: () => new Error('too much') }),
    } as unknown as IngestionDeps
    const outcome = await codeOf(runIngestion(about, deps))
    await finishRun(lake.pool, lease, { state: 'succeeded', result: {} })
    const rows = await lake.lake
      .scan(rawTable(TENANT, name, 'public.t'))
      .then((scan) => readScan(lake, scan))
      .catch(() => [])
    const position = (await capture(lake.pool, connection.id))?.position?.order
    return { outcome, rows, position, acked: source.acked.at(-1) }
  }
  return { source, connection, platform, sync }
}

const signal = () => AbortSignal.timeout(600_000)

/** What came of it, without what differs from run to run. */
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    (error: unknown) => (isSluiceError(error) ? error.code : 'another error'),
  )

interface Lie {
  tell(source: Source): void
  outcome(world: World): Promise<unknown>
}

const broken = (): never => {
  throw new SluiceError('TRANSIENT', 'it is broken', { code: 'source_broken' })
}
const full = (of: World) => of.sync('full')
const byLog = (of: World) => of.sync('cdc')

const LIES: Readonly<Record<Exclude<keyof Connector, 'changes'>, Lie>> = {
  check: {
    tell: ({ lies }) => {
      lies.check = async () => ({ ok: false, steps: [], latencyMs: 0 })
    },
    outcome: async ({ platform, connection }) => {
      const principal = { isDeveloper: true } as Principal
      const call = { tenant: TENANT, principal, signal: signal() } as TenantCall
      await testConnection(platform, call, connection.id)
      return (await lake.pool.query('select status from connections where id = $1', [connection.id])).rows
    },
  },
  discover: {
    tell: ({ lies }) => {
      lies.discover = async () => ({ tables: [], next: null })
    },
    outcome: full,
  },
  read: {
    tell: ({ lies, honest }) => {
      lies.read = async function* (request) {
        for await (const event of honest.read(request)) {
          if (event.kind === 'state') yield { ...event, rows: 0 }
          else if (event.kind !== 'batch') yield event
        }
      }
    },
    outcome: full,
  },
  ack: {
    tell: ({ lies }) => {
      lies.ack = async () => broken()
    },
    outcome: full,
  },
  close: {
    tell: ({ lies }) => {
      lies.close = async () => broken()
    },
    outcome: full,
  },
}

const LOG_LIES: Readonly<Record<keyof ChangeSource, Lie>> = {
  refusals: {
    tell: ({ logLies }) => {
      const about = { code: 'no_identity', reason: 'it has none', remedy: 'Give it one.' }
      logLies.refusals = async () => [{ schema: 'public', table: 't', ...about }]
    },
    outcome: ({ platform, connection }) => {
      const tables = [{ ...TABLE, ...schema }] as never
      const named = <T>(value: T) => new Map([[connection.name, value]])
      return codeOf(
        requireLogs(platform, manifestsOf(connection.name, 'cdc'), named(connection), named(tables), signal()),
      )
    },
  },
  prepare: {
    tell: ({ logLies }) => {
      const refused = {
        schema: 'public',
        table: 't',
        code: 'no_identity',
        reason: 'it has none',
        remedy: 'Give it one.',
      }
      logLies.prepare = async () => ({ position: BEGIN, refused: [refused] })
    },
    outcome: byLog,
  },
  changes: {
    tell: ({ logLies, honestLog }) => {
      logLies.changes = async function* (request) {
        for await (const event of honestLog.changes(request)) if (event.kind === 'checkpoint') yield event
      }
    },
    outcome: byLog,
  },
  ack: {
    tell: ({ logLies }) => {
      logLies.ack = async () => broken()
    },
    outcome: byLog,
  },
  awaitChanges: {
    tell: ({ logLies }) => {
      logLies.awaitChanges = async ({ after: position }) => ({ kind: 'quiet', position })
    },
    outcome: followed,
  },
  health: {
    tell: ({ logLies }) => {
      logLies.health = async () => ({ state: 'at_risk', retainedBytes: 1, limitBytes: 2, message: 'nearly' })
    },
    outcome: async (of) => {
      await checked(of, true)
      return (await capture(lake.pool, of.connection.id))?.health?.state
    },
  },
  release: {
    tell: ({ logLies }) => {
      logLies.release = async () => broken()
    },
    outcome: async (of) => {
      await checked(of, false)
      return [of.source.kept, (await capture(lake.pool, of.connection.id)) === null]
    },
  },
}

/** A connection whose table has been read, by its log, up to the beginning. */
async function captured({ connection }: World) {
  return inTransaction(lake.pool, async (tx) => {
    const known = await ensureCapture(tx, connection)
    await savePosition(tx, connection.id, BEGIN)
    await saveStream(tx, connection.id, {
      tableName: 'public.t',
      primaryKey: ['id'],
      incarnation: 'i',
      position: BEGIN,
    })
    await settleStreams(tx, connection.id)
    return { ...known, position: BEGIN }
  })
}

async function checked(of: World, isRead: boolean): Promise<void> {
  const known = await captured(of)
  const open = () => of.source.plugin.open({}, {} as never)
  await checkCapture(of.platform, known, { open, isRead: async () => isRead, maxBytes: 1_000 }, signal())
}

/** Whether somebody who waits for changes has begun a run, until the source is asked a second time. */
async function followed(of: World): Promise<unknown> {
  const { connection, source, platform } = of
  await captured(of)
  const ended = new AbortController()
  const lied = source.logLies.awaitChanges ?? source.honestLog.awaitChanges
  let asked = 0
  source.logLies.awaitChanges = async (request) => {
    asked += 1
    if (asked > 1) ended.abort()
    request.signal.throwIfAborted()
    return (await lied?.(request)) ?? { kind: 'changed' }
  }
  const product = `prd_follow${worlds}`
  await lake.pool.query(
    `insert into products (id, tenant, domain, name, archetype, classification, status, current_version, created_by)
     values ($1, $2, 'crm', $1, 'aggregate', 'internal', 'deployed', '1.0.0', '{}')`,
    [product, TENANT],
  )
  await lake.pool.query(
    `insert into product_versions (product_id, version, manifests, normalised, digest, deployed_by)
     values ($1, '1.0.0', '{}', $2, 'd', '{}')`,
    [product, JSON.stringify(manifestsOf(connection.name, 'cdc'))],
  )
  const { id, tenant } = connection
  const at = new Date(Date.now() - 3_600_000)
  const schedule = { catchUp: 'one', maxDelay: '1 second', maxDelayMs: 1 } as never
  const setter = { ...ANN, tokenIssuedAtMs: 0 }
  await inTransaction(lake.pool, (tx) =>
    setSchedule(tx, { id, tenant, connectionId: id, productId: null, schedule, since: at, nextRunAt: at, setter }),
  )
  await lake.pool.query('delete from jobs')
  await expectJob(lake.pool, { kind: FOLLOW_JOB, key: id, tenant }, 0)
  const [job] = await claimJobs(lake.pool, [{ kinds: [FOLLOW_JOB] }], 3_600_000)
  assert.ok(job)
  const follower = new ConnectionFollower({ platform, address: {} as never, places: 2 })
  const begun = async () => (await lake.pool.query('select kind from runs where connection_id = $1', [id])).rows.length
  const working = codeOf(follower.kind.work(job, ended.signal) as Promise<unknown>)
  while (!ended.signal.aborted && (await begun()) === 0) await new Promise((resolve) => setTimeout(resolve, 20))
  ended.abort()
  await working
  const runs = await begun()
  await lake.pool.query('delete from runs where connection_id = $1', [id])
  return runs
}

async function outcomeOf({ tell, outcome }: Lie, isLying: boolean): Promise<unknown> {
  const made = await world()
  if (isLying) tell(made.source)
  return outcome(made)
}

/** By the question, which several hooks share. */
const honest = new Map<Lie['outcome'], Promise<unknown>>()

for (const [path, lies] of [
  ['', LIES],
  ['changes.', LOG_LIES],
] as const)
  for (const [hook, lie] of Object.entries(lies))
    test(`a connector that lies in ${path}${hook} changes what the runtime does`, async () => {
      const known = honest.get(lie.outcome) ?? outcomeOf(lie, false)
      honest.set(lie.outcome, known)
      const told = await known
      assert.notDeepEqual(await outcomeOf(lie, true), told, JSON.stringify(told))
    })

test('what the runtime does with a connector that is honest is the same every time', async () => {
  for (const [outcome, told] of honest) {
    const [lie] = [...Object.values(LIES), ...Object.values(LOG_LIES)].filter((one) => one.outcome === outcome)
    assert.deepEqual(await outcomeOf(lie as Lie, false), await told)
  }
})

test('every hook of the contracts is tried here', async () => {
  const hooksOf = async (file: string, name: string) => {
    const source = await readFile(join(import.meta.dirname, '../../../../sdk', file), 'utf8')
    const from = source.slice(source.indexOf(`export interface ${name} {`))
    const members = from.slice(0, from.indexOf('\n}')).matchAll(/^ {2}(?:readonly )?(\w+)\??[(:]/gm)
    return [...members].map(([, member]) => member).sort()
  }
  assert.deepEqual(await hooksOf('connector.ts', 'Connector'), [...Object.keys(LIES), 'changes'].sort())
  assert.deepEqual(await hooksOf('change-source.ts', 'ChangeSource'), Object.keys(LOG_LIES).sort())
})
