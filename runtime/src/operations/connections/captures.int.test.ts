import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { ChangeHealth, Connector, Logger } from '@sluice/sdk'
import { SluiceError } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import { eventMigrations } from '../../events/migrations.ts'
import { provisionTopics } from '../../events/outbox.ts'
import { type RegistryLake, startRegistryLake } from '../../lake/testing.ts'
import {
  type Capture,
  capture,
  captureStreams,
  capturesOfTenant,
  capturesToRelease,
  ensureCapture,
  savePosition,
  saveStream,
} from '../../registry/captures.ts'
import { storeSecrets } from '../../registry/connection-secrets.ts'
import { type Connection, createConnection, deleteConnection } from '../../registry/connections.ts'
import type { MasterKeys } from '../../registry/master-keys.ts'
import { registryMigrations } from '../../registry/migrations.ts'
import { ANN, tenantWithKeys } from '../../registry/testing.ts'
import { checkCapture, leaveCapture, release, releaseOfTenant } from './captures.ts'

const TENANT = 'acme'
const logger = { info: () => undefined, warn: () => undefined } as unknown as Logger
const signal = () => AbortSignal.timeout(600_000)
let lake: RegistryLake
let masters: MasterKeys
let made = 0

before(async () => {
  lake = await startRegistryLake([registryMigrations, eventMigrations])
  masters = await tenantWithKeys(lake.pool, TENANT, lake.dir)
  await inTransaction(lake.pool, (tx) => provisionTopics(tx, TENANT))
})
after(() => lake[Symbol.asyncDispose]())

/** A connection that is read by a log, at its first position. */
async function captured() {
  made += 1
  const settings = { tenant: TENANT, name: `db${made}`, connectorType: 'postgresql', config: { host: 'there' } }
  return inTransaction(lake.pool, async (tx) => {
    const connection = await createConnection(tx, { ...settings, createdBy: ANN })
    await storeSecrets(tx, masters, connection, { password: 'hidden' })
    const known = await ensureCapture(tx, connection)
    const position = { lineage: '1', order: '5' }
    await savePosition(tx, connection.id, position)
    await saveStream(tx, connection.id, { tableName: 'public.t', primaryKey: ['id'], incarnation: null, position })
    return { connection, known: { ...known, position } }
  })
}

function sourceWith(health: Partial<ChangeHealth> | null) {
  const released: string[] = []
  const connector = {
    close: async () => undefined,
    changes: {
      async health() {
        if (health === null) throw new SluiceError('TRANSIENT', 'nobody answers', { code: 'source_unreachable' })
        return { state: 'ok', retainedBytes: 10, limitBytes: null, message: 'well', ...health }
      },
      async release({ capture: name }: { readonly capture: string }) {
        if (health === null) throw new SluiceError('TRANSIENT', 'nobody answers', { code: 'source_unreachable' })
        released.push(name)
      },
    },
  } as unknown as Connector
  return { connector, released }
}

async function check({ known }: { readonly known: Capture }, health: Partial<ChangeHealth> | null, isRead = true) {
  const { connector, released } = sourceWith(health)
  const watching = { open: async () => connector, isRead: async () => isRead, maxBytes: 1_000 }
  await checkCapture({ pool: lake.pool, logger }, known, watching, signal())
  return released
}
const incidents = async ({ id }: Connection) =>
  (await lake.pool.query('select cause, closed_at from incidents where connection_id = $1', [id])).rows

test('a log at risk is told of once, and when it is well again', async () => {
  const world = await captured()
  await check(world, { state: 'at_risk', limitBytes: 500, retainedBytes: 400, message: 'nearly' })
  await check(world, { state: 'at_risk', limitBytes: 500, retainedBytes: 450, message: 'nearly' })
  const { health } = (await capture(lake.pool, world.connection.id)) as Capture
  assert.deepEqual([health?.state, health?.retainedBytes, health?.message], ['at_risk', 450, 'nearly'])
  assert.deepEqual(await incidents(world.connection), [{ cause: 'log_at_risk', closed_at: null }])
  const told = `select count(*)::int as n from events where subject = $1 and type = 'sluice.ingestion.log_at_risk'`
  assert.equal((await lake.pool.query(told, [world.connection.id])).rows[0].n, 1)
  await check(world, {})
  assert.notEqual((await incidents(world.connection))[0].closed_at, null)
})

test('a source without a limit of its own keeps no more for us than it may; one that has a limit sees to itself', async () => {
  const world = await captured()
  assert.deepEqual(await check(world, { retainedBytes: 2_000, limitBytes: 5_000 }), [])
  assert.deepEqual(await check(world, { retainedBytes: 2_000 }), [world.known.name])
  const now = (await capture(lake.pool, world.connection.id)) as Capture
  assert.deepEqual([now.position, now.generation, now.health?.state], [null, 2, 'released'])
  assert.deepEqual(await captureStreams(lake.pool, world.connection.id), [])
})

test('a source that does not answer is said to, and one whose log nobody reads is let go', async () => {
  const world = await captured()
  await check(world, null)
  assert.equal((await capture(lake.pool, world.connection.id))?.health?.state, 'unreachable')
  assert.deepEqual(await check(world, {}, false), [world.known.name])
  assert.equal(await capture(lake.pool, world.connection.id), null)
})

test('a connection that is deleted leaves nothing at its source, though that answers later', async () => {
  const { connection, known } = await captured()
  await inTransaction(lake.pool, async (tx) => {
    await leaveCapture(tx, { masters }, connection)
    await deleteConnection(tx, TENANT, connection.id)
  })
  const [asked] = await capturesToRelease(lake.pool, 10)
  assert.ok(asked)
  assert.ok(!asked.sealed.toString('latin1').includes('hidden'))
  const platform = { pool: lake.pool, masters, logger }
  assert.equal(await release(platform, asked, async () => sourceWith(null).connector, signal()), false)
  const [again] = await capturesToRelease(lake.pool, 10)
  assert.equal(again?.attempts, 1)
  const { connector, released } = sourceWith({})
  let opened: unknown = null
  const open = async (_: unknown, settings: unknown) => {
    opened = settings
    return connector
  }
  assert.equal(await release(platform, asked, open, signal()), true)
  assert.deepEqual([opened, released], [{ host: 'there', password: 'hidden' }, [known.name]])
  assert.deepEqual(await capturesToRelease(lake.pool, 10), [])
})

test('a tenant that goes has its sources let go of their logs; what one that does not answer keeps is told', async () => {
  const [answering, silent] = [await captured(), await captured()]
  const released: string[] = []
  const open = async (_: unknown, settings: Readonly<Record<string, unknown>>) => {
    assert.equal(settings['password'], 'hidden')
    const is = sourceWith(released.length === 0 ? {} : null)
    released.push('asked')
    return is.connector
  }
  const others = (await capturesOfTenant(lake.pool, TENANT)).length
  const left = await releaseOfTenant({ pool: lake.pool, masters, logger }, TENANT, open, signal())
  assert.equal(left.length, others - 1)
  const names = [answering, silent].map(({ known }) => known.name)
  assert.ok(left.some((text) => names.some((name) => text.includes(name))))
  assert.deepEqual(await capturesOfTenant(lake.pool, TENANT), [])
})
