import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { loadConfig } from '../config.ts'
import { inTransaction } from '../database/pools.ts'
import { startTestPostgres } from '../database/testing.ts'
import { provisionTopics } from '../events/outbox.ts'
import { enlistTenants } from '../events/relay-positions.ts'
import { openBus } from './event-bus.ts'
import { Lifecycle } from './lifecycle.ts'
import { MIGRATIONS } from './migrations.ts'
import { servicesOf } from './plugin-host.ts'

const logger = { debug() {}, info() {}, warn() {}, error() {} }
const database = await (await startTestPostgres()).createDatabase({ migrations: MIGRATIONS })
const pool = database.pool()

let folder: string
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-bus-'))
  await mkdir(join(folder, 'plugin'))
  const manifest = { sdk: '^1.0.0', plugins: { '.': { kind: 'event-bus', name: 'bare' } } }
  await writeFile(join(folder, 'plugin/package.json'), JSON.stringify({ type: 'module', sluice: manifest }))
  await writeFile(join(folder, 'plugin/index.js'), BARE)
})
after(async () => {
  await database.drop()
  await rm(folder, { recursive: true })
})

/** Has the setting, and not the part that it asks for. */
const BARE = `export default {
  kind: 'event-bus', name: 'bare', version: '1.0.0', description: 'Nothing but events.',
  settingsSchema: { type: 'object', properties: { change_topics: { type: 'boolean', default: false } } },
  async open() {
    return { admits: () => true, provision() {}, drop() {}, publish() {}, async close() { globalThis.bareClosed = true } }
  },
}`

async function opened(bare: object, name = 'bare'): Promise<boolean> {
  const file = join(folder, 'sluice.yaml')
  await writeFile(file, JSON.stringify({ plugins: [join(folder, 'plugin')], events: { [name]: bare } }))
  const services = { logger, faultPoint: async () => {}, dataDirectory: folder }
  const metrics = { of: () => ({ count() {}, observe() {} }) } as never
  const lifecycle = new Lifecycle(logger)
  try {
    const registry = { pool, address: database.address, logger }
    const config = loadConfig({ file, environment: {}, flags: {} })
    return (await openBus(config, registry, servicesOf(config, services, metrics), lifecycle)) !== null
  } finally {
    await lifecycle.stop()
  }
}

it('a bus that carries events alone is none for changed rows, whatever its settings say', async () => {
  const refused = { kind: 'CONFIG', code: 'bus_without_changes' }
  for (const change_topics of [true, 'true']) await assert.rejects(opened({ change_topics }), refused)
  assert.equal((globalThis as { bareClosed?: boolean }).bareClosed, true)
  for (const bare of [{}, { change_topics: false }, { change_topics: 'false' }]) assert.equal(await opened(bare), true)
})

it('what a former bus has not carried is waited for until another one is opened, and no longer', async () => {
  await inTransaction(pool, (tx) => provisionTopics(tx, 'acme'))
  await enlistTenants(pool, 'former')
  const waiting = async () => {
    const { rows } = await pool.query<{ relay: string }>('select distinct relay from event_relay_positions')
    return rows.map(({ relay }) => relay).filter((relay) => relay !== 'bare')
  }
  await assert.rejects(opened({}, 'bear'), { code: 'unknown_driver' })
  await assert.rejects(opened({ change_topics: true }), { code: 'bus_without_changes' })
  assert.deepEqual(await waiting(), ['former'])
  await opened({})
  assert.deepEqual(await waiting(), [])
})
