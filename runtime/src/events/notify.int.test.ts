import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, beforeEach, it } from 'node:test'
import { type NetworkPolicy, SluiceError } from '@sluice/sdk'
import { inTransaction } from '../database/pools.ts'
import type { Principal } from '../flow.ts'
import { claimJobs, failJob, finishJob } from '../jobs/claims.ts'
import { rotateSecretKey } from '../registry/connection-secrets.ts'
import type { Connection } from '../registry/connections.ts'
import { closeIncidents, NOTIFICATIONS_JOB, openIncident, pruneIncidents, STALE } from '../registry/incidents.ts'
import { openMasterKeyFile } from '../registry/master-keys.ts'
import {
  createTarget,
  listTargets,
  type NotificationTarget,
  type TargetKind,
} from '../registry/notification-targets.ts'
import type { Product } from '../registry/products.ts'
import { refreshSetter } from '../registry/schedules.ts'
import { createTenantKeys } from '../registry/tenant-keys.ts'
import { ANN, startTestRegistry } from '../registry/testing.ts'
import { deliver } from './notify.ts'

interface Heard {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

const registry = await startTestRegistry()
const { pool } = registry
const folder = mkdtempSync(join(tmpdir(), 'sluice-notify-'))
const masters = openMasterKeyFile(join(folder, 'master.json'))
const heard: Heard[] = []
let status = 204
const server = createServer((request, response) => {
  let body = ''
  request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk))
  request.on('end', () => {
    heard.push({ path: request.url ?? '', headers: request.headers, body })
    response.writeHead(status, { location: '/elsewhere' }).end()
  })
})
before(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)))
after(async () => {
  server.close()
  await registry[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true })
})

/** As the host's: by name, once. */
const asked: string[] = []
let isAllowed = true
const network: NetworkPolicy = {
  async resolve(host) {
    asked.push(host)
    if (isAllowed) return { address: '127.0.0.1', family: 4 }
    throw new SluiceError('PERMISSION', 'connections to that address are not allowed', { code: 'address_refused' })
  },
  allowsCleartextPassword: () => true,
}
const SIGNAL = new AbortController().signal
const KEY = `whsec_${Buffer.from('0123456789abcdef0123456789abcdef').toString('base64')}`

let tenant: string
let connection: Connection
let product: Product
const maker = (more: Partial<Principal> = {}): Principal => ({
  ...ANN,
  tenant,
  groups: [],
  isAdmin: false,
  isDeveloper: true,
  isViewer: false,
  claimedClearance: null,
  email: null,
  tokenExpiresAtMs: Date.now(),
  tokenIssuedAtMs: Date.now() - 60_000,
  ...more,
})

beforeEach(async () => {
  await pool.query('delete from jobs')
  heard.length = 0
  asked.length = 0
  status = 204
  isAllowed = true
  tenant = await registry.tenant()
  await inTransaction(pool, (tx) => createTenantKeys(tx, masters, tenant))
  connection = await registry.connection(tenant)
  product = await registry.product(tenant)
})

async function target(kind: TargetKind, by = maker()): Promise<NotificationTarget> {
  const { port } = server.address() as AddressInfo
  const secret = { url: `http://hooks.test:${port}/${kind}?key=s3cret`, signingKey: kind === 'webhook' ? KEY : null }
  const wanted = { tenant, kind, name: 'us', host: 'hooks.test', secret, maker: by }
  return (await inTransaction(pool, (tx) => createTarget(tx, masters, wanted))) as NotificationTarget
}

const fail = (cause = 'source_unreachable', subject = connection) =>
  inTransaction(pool, (tx) => openIncident(tx, tenant, { connectionId: subject.id }, { cause, runId: 'run_1' }))
const mend = (options = {}) => inTransaction(pool, (tx) => closeIncidents(tx, { connectionId: connection.id }, options))

/** What runtimes do until nothing is due. Returns codes of tries that failed. */
async function work(): Promise<readonly string[]> {
  const failures: string[] = []
  for (;;) {
    const [job] = await claimJobs(pool, [{ kinds: [NOTIFICATIONS_JOB] }], 60_000)
    if (job === undefined) return failures
    try {
      await finishJob(pool, job, await deliver({ pool, masters, network }, job.tenant ?? '', job.key, SIGNAL))
    } catch (error) {
      failures.push((error as SluiceError).code)
      await failJob(pool, job, error, 3_600_000)
    }
  }
}

const later = () => pool.query('update jobs set due_at = now()')

it('a thousand failures of one cause are one message, signed, and their end is one', async () => {
  await target('webhook')
  for (let failures = 0; failures < 1_000; failures += 1) assert.equal(await fail(), failures === 0)
  assert.deepEqual([await work(), heard.length], [[], 1])
  const [opened] = heard as [Heard]
  const { type, subject, cause, run_id, closed_at, tenant_id } = JSON.parse(opened.body)
  assert.deepEqual(
    [type, subject, cause, run_id, closed_at, tenant_id],
    [
      'sluice.incident.opened',
      { kind: 'connection', id: connection.id, name: connection.name },
      'source_unreachable',
      'run_1',
      null,
      tenant,
    ],
  )
  const { 'webhook-id': id, 'webhook-timestamp': at, 'webhook-signature': signature, host } = opened.headers
  const mac = createHmac('sha256', Buffer.from('0123456789abcdef0123456789abcdef'))
  assert.equal(signature, `v1,${mac.update(`${id}.${at}.${opened.body}`).digest('base64')}`)
  assert.deepEqual([opened.path, host?.split(':')[0], asked], ['/webhook?key=s3cret', 'hooks.test', ['hooks.test']])

  assert.equal(await mend(), 1)
  assert.equal(await mend(), 0)
  await work()
  assert.equal(heard.length, 2)
  const closed = JSON.parse((heard[1] as Heard).body)
  assert.deepEqual([closed.type, closed.times], ['sluice.incident.closed', 1_000])
  assert.equal(await fail(), true, 'the next failure is another incident')
  assert.equal(await fail('table_not_found'), true, 'and so is another cause')
  await work()
  assert.equal(heard.length, 4)
})

it('two runtimes that see the same failure tell of it once, and Slack is told in its format', async () => {
  await target('slack')
  const opened = await Promise.all([fail(), fail(), fail()])
  assert.equal(opened.filter(Boolean).length, 1)
  await Promise.all([work(), work()])
  assert.deepEqual(
    heard.map(({ path, body }) => [path, JSON.parse(body)]),
    [['/slack?key=s3cret', { text: `The connection ${connection.name} of ${tenant} fails: source_unreachable.` }]],
  )
})

it('is tried again until it is answered, goes to no other address, and is given up after a day', async () => {
  const made = await target('webhook')
  const seen = async () => (await listTargets(pool, tenant, { limit: 1, after: null })).items[0]
  await fail()
  status = 302
  assert.deepEqual(await work(), ['notification_refused'])
  assert.deepEqual(
    [heard.map(({ path }) => path.slice(0, 8)), (await seen())?.errorCode],
    [['/webhook'], 'notification_refused'],
  )
  status = 200
  await fail('table_not_found')
  assert.deepEqual([await work(), heard.length], [[], 1], 'it waits, whatever comes')
  isAllowed = false
  await later()
  assert.deepEqual([await work(), heard.length], [['address_refused'], 1])
  isAllowed = true
  await later()
  await work()
  assert.deepEqual(
    heard.slice(1).map(({ body }) => JSON.parse(body).cause),
    ['source_unreachable', 'table_not_found'],
  )
  assert.deepEqual([(await seen())?.id, (await seen())?.errorCode], [made.id, null])
  await fail('another')
  await pool.query(`update notifications set created_at = created_at - interval '2 days' where done_at is null`)
  await work()
  assert.equal(heard.length, 3)
})

it('tells each of what is theirs, and nothing to who is no developer any more', async () => {
  await target('slack', maker({ subject: 'bob' }))
  await fail()
  await work()
  assert.deepEqual(heard, [], 'the connection is ann’s')
  await target('slack', maker({ subject: 'root', tenant: null, isAdmin: true }))
  await pool.query(
    `insert into product_versions (product_id, version, manifests, normalised, digest, deployed_by)
     values ($1, '1.0.0', '{}', '{}', '', $2)`,
    [product.id, JSON.stringify({ issuer: ANN.issuer, subject: 'bob' })],
  )
  await pool.query(`update products set current_version = '1.0.0' where id = $1`, [product.id])
  const stale = () => inTransaction(pool, (tx) => openIncident(tx, tenant, { productId: product.id }, { cause: STALE }))
  const fresh = () => inTransaction(pool, (tx) => closeIncidents(tx, { productId: product.id }, { only: STALE }))
  await stale()
  await work()
  const text = `The product sales.${product.name} of ${tenant} has rows that are older than its slo.freshness.`
  assert.deepEqual(
    heard.map(({ body }) => JSON.parse(body).text),
    [text, text],
  )
  await fresh()
  await work()
  assert.equal(heard.length, 4)
  await refreshSetter(pool, maker({ subject: 'bob', isDeveloper: false, tokenIssuedAtMs: Date.now() }))
  await stale()
  await work()
  assert.equal(heard.length, 5)
})

it('lies sealed, is sealed anew with the tenant’s key, and goes with what it is of', async () => {
  await target('webhook')
  const all = async () =>
    (await pool.query(`select string_agg(t::text || encode(sealed, 'escape'), '') as all from notification_targets t`))
      .rows[0].all
  assert.doesNotMatch(await all(), /s3cret|whsec/)
  assert.equal(await inTransaction(pool, (tx) => rotateSecretKey(tx, masters, tenant)), 1)
  await fail()
  await work()
  assert.equal(heard.length, 1)
  await mend()
  await pool.query(`update incidents set closed_at = closed_at - interval '31 days'`)
  assert.ok((await pruneIncidents(pool, 100)) > 0)
  assert.equal(
    (
      await pool.query(
        `select from notifications n join notification_targets t on t.id = target_id where t.tenant = $1`,
        [tenant],
      )
    ).rowCount,
    0,
  )
})
