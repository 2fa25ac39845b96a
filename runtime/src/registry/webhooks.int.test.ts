/** How far webhooks are: of two runtimes that take one for theirs, one is heard. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, beforeEach, it } from 'node:test'
import { inTransaction } from '../database/pools.ts'
import type { Principal } from '../flow.ts'
import { claimJobs, hurryJob, type Job } from '../jobs/claims.ts'
import { rotateSecretKey } from './connection-secrets.ts'
import { openMasterKeyFile } from './master-keys.ts'
import { createTenantKeys } from './tenant-keys.ts'
import { ANN, startTestRegistry } from './testing.ts'
import {
  addDeadLetter,
  beginDelivery,
  listDeadLetters,
  noteAcknowledged,
  noteFailedTry,
  stopWebhook,
} from './webhook-deliveries.ts'
import {
  createWebhook,
  findWebhook,
  readWebhookSecret,
  setWebhookState,
  WEBHOOKS_JOB,
  type Webhook,
} from './webhooks.ts'

const registry = await startTestRegistry()
const { pool } = registry
const folder = mkdtempSync(join(tmpdir(), 'sluice-webhooks-'))
const masters = openMasterKeyFile(join(folder, 'master.json'))
after(async () => {
  await registry[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true })
})

const PLACE = { shape: 'a', epoch: 1, target: null, offset: 0 }
const NEXT = { shape: 'a', epoch: 2, target: null, offset: 0 }
const SECRET = { url: 'https://hooks.example.com/x', signingKey: 'whsec_eA==' }
let tenant: string
let productId: string

beforeEach(async () => {
  tenant = await registry.tenant()
  productId = (await registry.product(tenant)).id
  await inTransaction(pool, (tx) => createTenantKeys(tx, masters, tenant))
})

const create = (): Promise<Webhook | null> => {
  const maker = { ...ANN, tenant } as Principal
  const wanted = { tenant, productId, name: 'x', host: 'hooks.example.com', applicationKey: 'key_1', place: PLACE }
  return inTransaction(pool, (tx) => createWebhook(tx, masters, { ...wanted, secret: SECRET, maker }))
}
const now = async ({ id }: Webhook): Promise<Webhook> => (await findWebhook(pool, tenant, id)) as Webhook

async function claimed({ id }: Webhook): Promise<Job> {
  await hurryJob(pool, { kind: WEBHOOKS_JOB, key: id, tenant }, 0)
  await pool.query(`update jobs set lease_until = now() - interval '1 second' where lease_until is not null`)
  const [job] = await claimJobs(pool, [{ kinds: [WEBHOOKS_JOB], key: id }], 60_000)
  return job as Job
}

it('hears one of two that hold it for theirs, and counts a delivery that is tried again once', async () => {
  const webhook = (await create()) as Webhook
  const frozen = await claimed(webhook)
  assert.equal(await beginDelivery(pool, frozen, webhook, 'msg_1'), 1)
  const job = await claimed(webhook)
  assert.equal(await beginDelivery(pool, frozen, await now(webhook), 'msg_1'), null, 'it is another’s by now')
  assert.equal(await beginDelivery(pool, job, await now(webhook), 'msg_1'), 1, 'the same number')
  assert.equal(await beginDelivery(pool, job, await now(webhook), 'msg_2'), 2, 'of another delivery another')
  const read = await now(webhook)
  const acknowledged = { delivery: 'msg_2', status: 204, place: NEXT, isAnew: false }
  assert.equal(await noteAcknowledged(pool, frozen, read, acknowledged), false)
  assert.equal(await noteAcknowledged(pool, job, read, { ...acknowledged, delivery: 'msg_1' }), false)
  assert.equal(await noteAcknowledged(pool, job, read, acknowledged), true)
  assert.equal(await noteAcknowledged(pool, job, read, acknowledged), false, 'once')
  assert.equal(await beginDelivery(pool, job, read, 'msg_2'), null, 'the place is another by now')
  const { place, sending, sequence, status } = await now(webhook)
  assert.deepEqual([place, sending, sequence, status], [NEXT, null, 2, 204])
})

it('begins nothing where it is paused or has ended, and forgets what failed when it goes on', async () => {
  const webhook = (await create()) as Webhook
  const job = await claimed(webhook)
  const soFar = await noteFailedTry(pool, job, webhook, { errorCode: 'receiver_refused', status: 503, againMs: 60_000 })
  assert.equal(soFar?.attempts, 1)
  assert.equal((await now(webhook)).isWaiting, true)
  assert.equal(await stopWebhook(pool, job, webhook, { to: 'failed', reason: 'receiver_refused' }), true)
  await addDeadLetter(pool, webhook.id, { delivery: 'msg_1', epoch: 2, errorCode: 'receiver_refused' })
  assert.equal(await beginDelivery(pool, job, await now(webhook), 'msg_1'), null)
  const { items } = await listDeadLetters(pool, webhook.id, { limit: 10, after: null })
  assert.deepEqual(
    items.map(({ delivery, attempts, status }) => [delivery, attempts, status]),
    [['msg_1', 1, 503]],
  )
  assert.equal(await setWebhookState(pool, webhook.id, { from: ['failed'], to: 'active' }), true)
  const { attempts, isWaiting, reason, place } = await now(webhook)
  assert.deepEqual([attempts, isWaiting, reason, place], [0, false, null, PLACE])
  await stopWebhook(pool, job, await now(webhook), { to: 'ended', reason: 'webhook_gone' })
  assert.equal(await setWebhookState(pool, webhook.id, { from: ['failed', 'paused'], to: 'active' }), false)
})

it('is one of ten of a product at most, and is sealed anew with the tenant’s key', async () => {
  const made = []
  for (let count = 0; count < 11; count += 1) made.push(await create())
  assert.deepEqual([made.filter((one) => one === null).length, made.at(-1)], [1, null])
  const { id } = made[0] as Webhook
  await inTransaction(pool, (tx) => rotateSecretKey(tx, masters, tenant))
  assert.deepEqual(await readWebhookSecret(pool, masters, id), SECRET)
  const { rows } = await pool.query(
    'select count(distinct key_version) as versions, min(key_version) as oldest from webhooks where tenant = $1',
    [tenant],
  )
  assert.ok(Number(rows[0].oldest) > 1, JSON.stringify(rows))
})
