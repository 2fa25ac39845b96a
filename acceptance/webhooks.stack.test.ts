/** Changed rows by webhooks: whatever receivers and the runtime do, each has the product, and never more than it may be shown. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { until } from '../test/until.ts'
import { HIDDEN, openChangingPeople, random } from './changing-people.ts'
import { type Client, type Json, manifests, ok } from './client.ts'
import { runSluice } from './sluice-command.ts'
import { type Mood, Receiver, refusing, TAKEN } from './webhook-receiver.ts'
import { deployVersion, syncNow, type World } from './world.ts'

const HOOKS = '/api/v1/products/people/webhooks'
const ROWS = 800
const ALL_CLASSIFIED = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier }
  - { name: city, type: string, classification: pii.name }
`

let world: World
let tenant: string
let owner: Client
let key: Json
const receivers: Receiver[] = []

/** Of the runtime that is started here. */
const SETTINGS = {
  SLUICE_WEBHOOKS__BATCH_ROWS: '100',
  SLUICE_WEBHOOKS__RETRY_MS: '50',
  SLUICE_WEBHOOKS__ATTEMPTS: '4',
  SLUICE_WEBHOOKS__TIMEOUT_MS: '3000',
}

async function receiver(): Promise<Receiver> {
  const made = new Receiver()
  await made.listen()
  receivers.push(made)
  return made
}

async function hooked(to: Receiver, more: Json = {}, by: Client = owner): Promise<Json> {
  const wanted = { name: 'copy', url: to.url, application_key: key.id, from: 'start', ...more }
  // Its key is known before the first delivery comes.
  to.signingKey = `whsec_${Buffer.from(`key of ${to.url}`.padEnd(32)).toString('base64')}`
  return ok(by.post(HOOKS, { secret: to.signingKey, ...wanted }))
}

const hook = ({ id }: Json): Promise<Json> => ok(owner.get(`${HOOKS}/${id}`))
const drop = ({ id }: Json): Promise<Json> => ok(owner.send(`${HOOKS}/${id}`, { method: 'DELETE' }))

const newestEpoch = async (): Promise<number> =>
  (await ok(owner.get('/api/v1/products/people'))).last_materialization.epoch

async function changed(sql: string): Promise<number> {
  await world.source.query(sql)
  await syncNow(owner)
  return newestEpoch()
}

async function sourceState(): Promise<string> {
  const { rows } = await world.source.query('SELECT id, email, city FROM hook_people ORDER BY id')
  return JSON.stringify(rows.map(({ id, email, city }) => [id, email, city]))
}

async function shownTo(client: Client): Promise<string> {
  const { rows } = await ok(client.post('/api/v1/query', { sql: 'SELECT id, email, city FROM crm.people ORDER BY id' }))
  return JSON.stringify(rows)
}

/** Where a receiver that is away for longer than it is tried has been given up, it is asked for again. */
async function reaches(to: Receiver, made: Json, epoch: number): Promise<void> {
  let last: Json = null
  await until(
    () => `epoch ${epoch} has come: ${to}, ${JSON.stringify(last)}`,
    async () => {
      if (to.faults.length > 0) throw new Error(to.faults.join('\n'))
      if ((to.epochs.at(-1) ?? 0) >= epoch) return true
      const { status, body } = await owner.get(`${HOOKS}/${made.id}`).catch(() => ({ status: 0, body: null }))
      last = body
      if (status === 200 && body.state === 'failed') await owner.post(`${HOOKS}/${made.id}/redeliver`)
      return false
    },
  )
}

before(async () => {
  Object.assign(process.env, SETTINGS)
  ;({ world, tenant, owner } = await openChangingPeople('hook_people', ROWS))
  key = await ok(owner.post('/api/v1/application-keys', { name: 'masked' }))
})

after(async () => {
  await world?.close()
  for (const one of receivers) await one.close()
})

/** A developer who is shown what is hidden, and his key that shows it, too. */
async function clearedDeveloper(user: string) {
  const client = await world.as(tenant, 'svc-developers', user)
  const grant = { subject: { user }, may: 'unmask', classes: ['*'] }
  const granted = await ok(world.admin.post('/api/v1/products/people/grants', grant, { 'x-tenant-id': tenant }))
  const made = await ok(client.post('/api/v1/application-keys', { name: user, unmask: ['*'] }))
  return { client, granted, key: made }
}

const slow = (ms: number): Mood => ({
  isApplied: true,
  answer: (response) => void setTimeout(() => response.writeHead(200).end('late'), ms),
})
const silent = (isApplied: boolean): Mood => ({ isApplied, answer: () => undefined })
const garbage: Mood = { isApplied: true, answer: (response) => response.socket?.end('HTTP/9 what?\r\n\r\n') }
const cut = (isApplied: boolean): Mood => ({ isApplied, answer: (response) => response.socket?.destroy() })
const appliedAndRefused: Mood = { isApplied: true, answer: (response) => response.writeHead(500).end() }
const endless: Mood = {
  isApplied: true,
  answer(response) {
    response.writeHead(500)
    const pour = setInterval(() => response.write('x'.repeat(16_384)), 1)
    response.on('close', () => clearInterval(pour))
  },
}

describe('a receiver', () => {
  it('has the product at each epoch, whatever it answers and however often it is away; others are not held up', async () => {
    const moods = [silent(false), silent(true), garbage, cut(true), cut(false), appliedAndRefused, endless, slow(200)]
    moods.push(refusing(503), refusing(404), refusing(302, { location: '/elsewhere' }))
    const seed = Math.floor(Math.random() * 1_000_000)
    console.log(`seed ${seed}`)
    const next = random(seed)
    const { client, key: clearedKey } = await clearedDeveloper('cleo')
    const [wild, steady, dead] = [await receiver(), await receiver(), await receiver()]
    wild.mood = () => (next() < 0.3 ? (moods[Math.floor(next() * moods.length)] as Mood) : TAKEN)
    dead.mood = () => silent(false)
    const deadOnes: Json[] = []
    for (let number = 0; number < 6; number += 1) deadOnes.push(await hooked(dead))
    const clear = await hooked(wild, { application_key: clearedKey.id }, client)
    const masked = await hooked(steady)
    const redeliver = setInterval(() => {
      void client
        .get(`${HOOKS}/${clear.id}`)
        .then(({ body }) => (body.state === 'failed' ? client.post(`${HOOKS}/${clear.id}/redeliver`) : null))
        .catch(() => null)
    }, 100)
    try {
      let epoch = await newestEpoch()
      for (let round = 0; round < 4; round += 1) {
        await reaches(wild, clear, epoch)
        await reaches(steady, masked, epoch)
        assert.equal(wild.state, await sourceState(), `epoch ${epoch}, seed ${seed}`)
        const some = () => Math.floor(next() * ROWS)
        await wild.close()
        epoch = await changed(
          `DELETE FROM hook_people WHERE id BETWEEN ${some()} AND ${some()} AND id % 3 = 0;
           UPDATE hook_people SET city = 'c${some()}' WHERE id % 5 = ${some() % 5};
           UPDATE hook_people SET email = '${HIDDEN}-' || id || '-${some()}' WHERE id % 11 = ${some() % 11};
           INSERT INTO hook_people SELECT i, '${HIDDEN}-' || i, 'new ${some()}' FROM generate_series(${ROWS + round * 90}, ${ROWS + round * 90 + 150}) i ON CONFLICT DO NOTHING`,
        )
        await wild.listen()
      }
      await reaches(wild, clear, epoch)
      await reaches(steady, masked, epoch)
      assert.equal(wild.state, await sourceState(), `seed ${seed}`)
      assert.equal(steady.state, await shownTo(owner), 'what the masked reader is shown')
    } finally {
      clearInterval(redeliver)
    }
    assert.ok(wild.doubles > 0, 'some came twice')
    assert.deepEqual([wild.resets, steady.resets, steady.doubles], [0, 0, 0])
    assert.ok(wild.ofRows.some(({ text }) => text.includes(HIDDEN)))
    assert.ok(!steady.deliveries.some(({ text }) => text.includes(HIDDEN)), 'no clear value comes by a masked key')
    assert.ok(steady.ofRows.every(({ body }) => body.events.length <= 100))
    assert.equal(dead.epochs.length, 0)
    for (const one of deadOnes) await drop(one)
    await ok(client.send(`${HOOKS}/${clear.id}`, { method: 'DELETE' }))
    await drop(masked)
  })

  for (const point of ['webhooks.begun', 'webhooks.answered', 'webhooks.acknowledged']) {
    it(`loses nothing where the runtime dies at ${point}`, async (t) => {
      const { crash } = world.deployment
      if (crash === null) return t.skip('the runtime under test is another’s to kill')
      const to = await receiver()
      process.env['SLUICE_FAULT'] = `${point}@3`
      await crash()
      const made = await hooked(to)
      // The runtime that dies of it is started again without the fault; crash waits for nothing that has ended.
      await until('it dies', () =>
        fetch(`${world.deployment.url}/healthz`).then(
          () => false,
          () => true,
        ),
      )
      process.env['SLUICE_FAULT'] = ''
      const before = to.ofRows.length
      assert.ok(before >= 2 && before <= 3, `${before} deliveries came before`)
      await crash()
      await reaches(to, made, await newestEpoch())
      assert.equal(to.state, await shownTo(owner))
      assert.deepEqual([to.resets, to.doubles], [0, point === 'webhooks.answered' ? 1 : 0])
      await drop(made)
    })
  }

  it('that begins now hears what comes, is paused and resumed, and is asked for its answer by a test', async () => {
    const to = await receiver()
    const made = await hooked(to, { from: 'now' })
    assert.deepEqual(await ok(owner.post(`${HOOKS}/${made.id}/test`)), { ok: true, status: 204, error_code: null })
    assert.equal(to.deliveries.at(-1)?.body.type, 'sluice.webhook.test')
    to.mood = () => refusing(418)
    const refused = await ok(owner.post(`${HOOKS}/${made.id}/test`))
    assert.deepEqual(refused, { ok: false, status: 418, error_code: 'receiver_refused' })
    to.mood = () => TAKEN
    assert.equal((await ok(owner.post(`${HOOKS}/${made.id}/pause`))).state, 'paused')
    const again = await owner.post(`${HOOKS}/${made.id}/pause`)
    assert.deepEqual([again.status, again.body.code], [409, 'webhook_state_conflict'])
    const epoch = await changed(`UPDATE hook_people SET city = 'paused' WHERE id = (SELECT min(id) FROM hook_people)`)
    assert.equal(to.ofRows.length, 0)
    assert.equal((await ok(owner.post(`${HOOKS}/${made.id}/resume`))).state, 'active')
    await reaches(to, made, epoch)
    assert.deepEqual([to.rows.size, to.ofRows.length], [1, 1])
    await until('it is noted', async () => (await hook(made)).epoch === epoch)
    await drop(made)
  })

  it('is made, looked at and taken away by the command', async () => {
    const token = await world.deployment.token(['--tenant', tenant, '--group', 'svc-developers', '--user', 'dora'])
    const to = await receiver()
    const sluice = async (...words: string[]): Promise<string> => {
      const { code, out, err } = await runSluice(['webhook', ...words], { url: world.deployment.url, token })
      assert.equal(code, 0, `${words.join(' ')}: ${err}`)
      return out
    }
    const made = await sluice('create', 'crm.people', 'shop', '--to', to.url, '--key', key.id)
    const [id] = /whk_\w+/.exec(made) ?? ['']
    to.signingKey = /whsec_\S+/.exec(made)?.[0] ?? ''
    assert.equal(await sluice('test', 'crm.people', id), 'It was acknowledged: 204.\n')
    assert.deepEqual(to.faults, [])
    assert.match(await sluice('pause', 'crm.people', id), /paused/)
    assert.match(await sluice('list', 'crm.people'), /shop +127\.0\.0\.1 +paused/)
    assert.match(await sluice('resume', 'crm.people', id), /active/)
    assert.match(await sluice('show', 'crm.people', id), /active/)
    assert.doesNotMatch(await sluice('dead-letters', 'crm.people', id), /msg_/)
    const { code, err } = await runSluice(['webhook', 'redeliver', 'crm.people', id], {
      url: world.deployment.url,
      token,
    })
    assert.ok(code !== 0 && /the webhook is active, and not failed/.test(err), err)
    await sluice('delete', 'crm.people', id)
    assert.equal((await owner.get(`${HOOKS}/${id}`)).status, 404)
  })

  it('that refuses for long is a dead letter, told of once, and goes on when it is asked to', async () => {
    const admin = { 'x-tenant-id': tenant }
    const [to, ear] = [await receiver(), await receiver()]
    const target = { kind: 'webhook', name: 'ear', url: ear.url }
    const made = await hooked(to)
    await reaches(to, made, await newestEpoch())
    const told = await ok(world.admin.post('/api/v1/notifications', target, admin))
    ear.signingKey = told.signing_key
    to.mood = () => refusing(503)
    const epoch = await changed(`UPDATE hook_people SET city = 'dead' WHERE id <= 150`)
    await until('it has failed', async () => (await hook(made)).state === 'failed')
    const count = to.ofRows.length
    const { reason, status, epoch: reached, sequence } = await hook(made)
    assert.deepEqual([reason, status], ['receiver_refused', 503])
    assert.ok(reached < epoch)
    const { data } = await ok(owner.get(`${HOOKS}/${made.id}/dead-letters`))
    assert.equal(data.length, 1)
    assert.deepEqual(
      [data[0].attempts, data[0].epoch, data[0].status, data[0].redelivered_at, data[0].sequence],
      [4, epoch, 503, null, sequence],
    )
    const tries = to.ofRows.slice(-4)
    assert.equal(new Set(tries.map(({ headers }) => headers['webhook-id'])).size, 1, 'each try has the same id')
    assert.equal(new Set(tries.map(({ text }) => text)).size, 1, 'and the same body')
    await until('the incident is told', () => ear.deliveries.length === 1)
    assert.deepEqual(
      [ear.deliveries[0]?.body.type, ear.deliveries[0]?.body.cause],
      ['sluice.incident.opened', 'webhook_failed'],
    )
    // What comes meanwhile waits behind it, and a run that succeeds closes nothing.
    const later = await changed(`UPDATE hook_people SET city = 'later' WHERE id = 7`)
    assert.equal(to.ofRows.length, count)
    to.mood = () => TAKEN
    await ok(owner.post(`${HOOKS}/${made.id}/redeliver`))
    await reaches(to, made, later)
    assert.equal(to.state, await shownTo(owner))
    await until('the end of it is told', () => ear.deliveries.length === 2)
    assert.equal(ear.deliveries[1]?.body.type, 'sluice.incident.closed')
    const [letter] = (await ok(owner.get(`${HOOKS}/${made.id}/dead-letters`))).data
    const closedAt = Date.parse(ear.deliveries[1]?.body.closed_at)
    assert.ok(closedAt >= Date.parse(letter.redelivered_at), 'it is over when the delivery has come')
    assert.deepEqual(ear.faults, [])
    await drop(made)
    await world.admin.send(`/api/v1/notifications/${told.id}`, { method: 'DELETE', headers: admin })
  })

  it('is asked again when it wants to be, and never again where it is gone', async () => {
    const to = await receiver()
    const waits = 3
    to.mood = () => (to.deliveries.length === 1 ? refusing(429, { 'retry-after': String(waits) }) : TAKEN)
    const made = await hooked(to)
    await reaches(to, made, await newestEpoch())
    const [first, second] = to.deliveries
    // Their clocks are others'.
    assert.ok((second?.atMs ?? 0) - (first?.atMs ?? 0) > (waits - 0.5) * 1000)
    to.mood = () => refusing(410)
    await changed(`UPDATE hook_people SET city = 'gone' WHERE id = 7`)
    await until('it has ended', async () => (await hook(made)).state === 'ended')
    assert.equal((await hook(made)).reason, 'webhook_gone')
    const resumed = await owner.post(`${HOOKS}/${made.id}/resume`)
    assert.deepEqual([resumed.status, resumed.body.code], [409, 'webhook_state_conflict'])
    await drop(made)
  })
})

describe('policy', () => {
  it('of a grant that ends is obeyed before the next row', async () => {
    const { granted, key: clearedKey, client } = await clearedDeveloper('gera')
    const to = await receiver()
    const made = await hooked(to, { application_key: clearedKey.id }, client)
    await reaches(to, made, await newestEpoch())
    assert.ok(to.ofRows.some(({ text }) => text.includes(HIDDEN)))
    // Rows in clear wait to be delivered.
    to.mood = () => refusing(503, { 'retry-after': '1' })
    const epoch = await changed(`UPDATE hook_people SET email = email || '-${HIDDEN}'`)
    const path = `/api/v1/products/people/grants/${granted.id}`
    await ok(world.admin.send(path, { method: 'DELETE', headers: { 'x-tenant-id': tenant } }))
    const count = to.deliveries.length
    to.mood = () => TAKEN
    await until(
      () => `it begins anew: ${to}`,
      () => to.resets === 1 && to.epochs.at(-1) === epoch && to.rows.size > 0,
    )
    const since = to.deliveries.slice(count)
    assert.deepEqual(
      since.filter(({ text }) => text.includes(HIDDEN)).map(({ atMs }) => atMs),
      [],
    )
    assert.equal(since.find(({ body }) => body.events[0].event === 'reset')?.body.events[0].data.reason, 'changed')
    assert.equal(to.state, await shownTo(owner))
    await ok(client.send(`${HOOKS}/${made.id}`, { method: 'DELETE' }))
  })

  it('of a class that is raised is told by a reset, and what follows obeys it', async () => {
    const to = await receiver()
    const made = await hooked(to)
    await reaches(to, made, await newestEpoch())
    assert.match(to.state, /city|later|dead/)
    await deployVersion(owner, 'people', '1.1.0', manifests('public.hook_people', { columns: ALL_CLASSIFIED }))
    const epoch = await newestEpoch()
    await until(
      () => `it begins anew: ${to}`,
      () => to.resets >= 1 && to.epochs.at(-1) === epoch,
    )
    assert.equal(to.state, await shownTo(owner))
    // By its column: a pseudonym may have any hexadecimal word in it.
    const cities = new Set(JSON.parse(to.state).map(([, , city]: readonly string[]) => city))
    assert.deepEqual([...cities], ['[redacted]'])
    await drop(made)
  })

  it('of a key that is revoked ends the webhook, and nothing is delivered by it', async () => {
    const own = await ok(owner.post('/api/v1/application-keys', { name: 'short' }))
    const to = await receiver()
    const made = await hooked(to, { application_key: own.id })
    await reaches(to, made, await newestEpoch())
    const count = to.deliveries.length
    await ok(owner.send(`/api/v1/application-keys/${own.id}`, { method: 'DELETE' }))
    await changed(`UPDATE hook_people SET city = 'revoked' WHERE id = 7`)
    await until('it has ended', async () => (await hook(made)).state === 'ended')
    // A try that was under way when the key went finds that its right has ended; one after it finds no key.
    const { reason } = await hook(made)
    assert.ok(reason === 'webhook_key_ended' || reason === 'right_ended', reason)
    assert.equal(to.deliveries.length, count)
    await drop(made)
  })

  it('of a product that its key may not read any more ends the webhook', async () => {
    const keyMaker = await world.as(tenant, 'svc-developers', 'mara')
    const grant = { subject: { user: 'mara' }, may: 'read' }
    const granted = await ok(world.admin.post('/api/v1/products/people/grants', grant, { 'x-tenant-id': tenant }))
    const own = await ok(keyMaker.post('/api/v1/application-keys', { name: 'mara' }))
    const to = await receiver()
    const made = await hooked(to, { application_key: own.id }, keyMaker)
    const files = manifests('public.hook_people', { columns: ALL_CLASSIFIED })
    const product = `${files.product}classification: confidential\n`
    await deployVersion(owner, 'people', '1.2.0', { ...files, product })
    await reaches(to, made, await newestEpoch())
    const path = `/api/v1/products/people/grants/${granted.id}`
    await ok(world.admin.send(path, { method: 'DELETE', headers: { 'x-tenant-id': tenant } }))
    const count = to.deliveries.length
    await world.source.query(`UPDATE hook_people SET city = 'forbidden' WHERE id = 7`)
    await syncNow(owner)
    await until('it has ended', async () => (await hook(made)).state === 'ended')
    assert.equal((await hook(made)).reason, 'product_forbidden')
    assert.equal(to.deliveries.length, count)
    await ok(keyMaker.send(`${HOOKS}/${made.id}`, { method: 'DELETE' }))
  })
})

describe('a webhook', () => {
  it('is made with a key of one’s own, at an address that may be gone to, and not without end', async () => {
    const other = await world.as(tenant, 'svc-developers', 'otto')
    const foreign = await world.as(world.tenants[1], 'svc-developers', 'olga')
    const reader = await ok(other.post('/api/v1/application-keys', { name: 'query', operations: ['query'] }))
    const mine = await ok(other.post('/api/v1/application-keys', { name: 'mine' }))
    const wanted = { name: 'x', url: 'http://127.0.0.1:1/', application_key: mine.id }
    const product = { name: 'open', namespace: 'crm', archetype: 'source_aligned', description: '' }
    await ok(owner.post('/api/v1/products', product))
    const files = manifests('public.hook_people', { columns: ALL_CLASSIFIED })
    const named = files.product.replace('name: people', 'name: open')
    await deployVersion(owner, 'open', '1.0.0', { ...files, product: named })
    await syncNow(owner)
    const path = '/api/v1/products/open/webhooks'
    for (const [client, body, status, code] of [
      [other, { ...wanted, application_key: key.id }, 404, 'application_key_not_found'],
      [other, { ...wanted, application_key: reader.id }, 422, 'webhook_key_unusable'],
      [other, { ...wanted, url: 'https://10.0.0.1/' }, 403, 'address_refused'],
      [other, { ...wanted, url: 'https://169.254.169.254/' }, 403, 'address_refused'],
      [other, { ...wanted, url: 'ftp://127.0.0.1/' }, 400, 'invalid_webhook_address'],
      [other, { ...wanted, url: 'https://user:pw@127.0.0.1/' }, 400, 'invalid_webhook_address'],
      [other, { ...wanted, secret: 'short' }, 400, 'validation_failed'],
      [foreign, wanted, 404, 'product_not_found'],
    ] as const) {
      const answer = await client.post(path, body)
      assert.equal(answer.status, status, JSON.stringify([body, answer.body]))
      if (code !== 'validation_failed') assert.equal(answer.body.code, code)
    }
    const made: Json[] = []
    const answers: string[] = []
    for (let number = 0; number < 10; number += 1) made.push(await ok(other.post(path, wanted)))
    assert.match(made[0].signing_key, /^whsec_/)
    const more = await other.post(path, wanted)
    assert.deepEqual([more.status, more.body.code], [409, 'too_many_webhooks'])
    const { body: list } = await owner.get(path)
    answers.push(JSON.stringify(list), JSON.stringify((await other.get(`${path}/${made[0].id}`)).body))
    assert.equal(list.data.length, 10)
    assert.ok(
      !answers.some((text) => text.includes('whsec_') || text.includes('127.0.0.1:1')),
      'neither key nor address',
    )
    const notMine = await owner.send(`${path}/${made[0].id}`, { method: 'DELETE' })
    assert.deepEqual([notMine.status, notMine.body.code], [403, 'webhook_owner_required'])
    assert.equal((await owner.get(`${HOOKS}/${made[0].id}`)).status, 404, 'it is of another product')
    assert.equal((await foreign.get(`${path}/${made[0].id}`)).status, 404)
    for (const { id } of made) await ok(other.send(`${path}/${id}`, { method: 'DELETE' }))
  })
})
