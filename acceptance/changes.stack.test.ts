/** Changed rows as a stream: whoever follows has the product, whatever happens to him on the way, and never more than he may see. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { until, withLimits } from '../test/until.ts'
import { HIDDEN, openChangingPeople, random } from './changing-people.ts'
import { Client, type Json, manifests, ok } from './client.ts'
import { deployVersion, syncNow, type World } from './world.ts'

const CHANGES = '/api/v1/products/people/changes'
const ROWS = 3_000

let world: World
let tenant: string
let owner: Client
let viewer: Client
let cleared: Client
let unmask: Json
/** By epoch, what the source had when it was made. */
const expected = new Map<number, string>()

interface Event {
  readonly id: string
  readonly event: string
  readonly data: Json
  readonly text: string
}

/** One connection. Ends with the stream, or where whoever reads stops. */
async function* eventsOf(client: Client, query: string, lastEventId?: string): AsyncGenerator<Event> {
  const ended = new AbortController()
  try {
    const headers = {
      accept: 'text/event-stream',
      ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
    }
    const response = await client.begin(`${CHANGES}${query}`, headers, ended.signal)
    assert.equal(response.status, 200, response.status === 200 ? '' : await response.text())
    let rest = ''
    for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      rest += chunk
      for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
        const text = rest.slice(0, end)
        rest = rest.slice(end + 2)
        const fields = new Map(
          text.split('\n').map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
        )
        const data = fields.get('data')
        if (data === undefined) continue
        yield { id: fields.get('id') ?? '', event: fields.get('event') ?? '', data: JSON.parse(data), text }
      }
    }
  } finally {
    ended.abort()
  }
}

/** A copy of the product, kept by what came. */
class Follower {
  readonly client: Client
  readonly rows = new Map<number, Json>()
  readonly texts: string[] = []
  readonly epochs: number[] = []
  resets = 0
  connections = 0
  isEnded = false
  problem: Json | null = null
  lastId: string | undefined
  #seen = new Set<number>()
  #isStopped = false
  #drop: (() => boolean) | null

  /** @param drop whether the connection is lost after this event */
  constructor(client: Client, drop: (() => boolean) | null = null) {
    this.client = client
    this.#drop = drop
  }

  async follow(query: string): Promise<void> {
    while (!this.#isStopped) {
      this.connections += 1
      try {
        for await (const event of eventsOf(this.client, query, this.lastId)) {
          if (this.#isStopped) return
          this.#apply(event)
          if (this.#drop?.()) break
        }
      } catch (error) {
        // Nobody answers, or who did is gone.
        if (this.#drop === null || !(error instanceof TypeError)) throw error
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
      if (this.#drop === null) {
        this.isEnded = true
        return
      }
    }
  }

  stop(): void {
    this.#isStopped = true
  }

  get state(): string {
    return stateOf([...this.rows.values()])
  }

  toString(): string {
    return `${this.resets} resets, epochs ${this.epochs.slice(-5)}${this.isEnded ? `, its stream has ended: ${JSON.stringify(this.problem)}` : ''}`
  }

  async reaches(epoch: number): Promise<void> {
    await until(
      () => `epoch ${epoch} has come: ${this}`,
      () => (this.epochs.at(-1) ?? 0) >= epoch,
    )
  }

  #apply({ id, event, data, text }: Event): void {
    this.texts.push(text)
    if (event === 'reset') {
      this.resets += 1
      this.rows.clear()
      this.#seen.clear()
    } else if (event === 'epoch') {
      if (this.lastId !== id) this.epochs.push(data.epoch)
      this.#seen.clear()
    } else if (event === 'problem') {
      this.problem = data
    } else {
      assert.ok(!this.#seen.has(data.id), `row ${data.id} comes twice in one epoch`)
      this.#seen.add(data.id)
      if (event === 'upsert') this.rows.set(data.id, data)
      else this.rows.delete(data.id)
      if (event === 'delete') assert.deepEqual(Object.keys(data), ['id'])
    }
    this.lastId = id
  }
}

function stateOf(rows: readonly Json[]): string {
  return JSON.stringify(rows.map(({ id, email, city }) => [id, email, city]).toSorted((a, b) => a[0] - b[0]))
}

async function productOf(client: Client): Promise<string> {
  const { rows } = await ok(client.post('/api/v1/query', { sql: 'SELECT id, email, city FROM crm.people' }))
  return stateOf(rows.map(([id, email, city]: Json) => ({ id, email, city })))
}

const newestEpoch = async (): Promise<number> =>
  (await ok(owner.get('/api/v1/products/people'))).last_materialization.epoch

async function synced(): Promise<number> {
  const { rows } = await world.source.query('SELECT id, email, city FROM change_people')
  await syncNow(owner)
  const epoch = await newestEpoch()
  expected.set(epoch, stateOf(rows))
  return epoch
}

async function changeSome(next: () => number): Promise<void> {
  const some = () => Math.floor(next() * ROWS * 1.2)
  const [from, to] = [some(), some()].toSorted((a, b) => a - b) as [number, number]
  const span = Math.min(to, from + 400)
  await world.source.query(
    `DELETE FROM change_people WHERE id BETWEEN ${from} AND ${from + Math.floor(next() * 150)};
     UPDATE change_people SET city = 'c${some()}' WHERE id BETWEEN ${some()} AND ${span};
     UPDATE change_people SET email = '${HIDDEN}-' || id || '-${some()}' WHERE id % 37 = ${Math.floor(next() * 37)};
     INSERT INTO change_people SELECT i, '${HIDDEN}-' || i, 'new ${some()}' FROM generate_series(${from}, ${span}) i ON CONFLICT DO NOTHING`,
  )
}

async function differences(): Promise<number> {
  const { body } = await world.admin.get('/metrics')
  return Number(/^sluice_change_differences_total (\d+)/m.exec(body)?.[1] ?? 0)
}

before(async () => {
  ;({ world, tenant, owner } = await openChangingPeople('change_people', ROWS))
  viewer = await world.as(tenant, 'svc-viewers', 'vera')
  cleared = await world.as(tenant, 'svc-viewers', 'clea')
  const grant = { subject: { user: 'clea' }, may: 'unmask', classes: ['*'] }
  unmask = await ok(world.admin.post('/api/v1/products/people/grants', grant, { 'x-tenant-id': tenant }))
  await synced()
})

after(() => world?.close())

describe('a follower', () => {
  it('has the product at each epoch, whatever changes and however often it is cut off', async () => {
    const seed = Math.floor(Math.random() * 1_000_000)
    console.log(`seed ${seed}`)
    const next = random(seed)
    const clear = new Follower(cleared, () => next() < 0.004)
    const masked = new Follower(viewer, () => next() < 0.004)
    const states: string[] = []
    const all = [clear, masked].map((one) => one.follow('?from=start'))
    let epoch = await newestEpoch()
    for (let round = 0; round < 6; round += 1) {
      await clear.reaches(epoch)
      states.push(clear.state)
      assert.equal(clear.state, expected.get(epoch), `epoch ${epoch}, seed ${seed}`)
      await changeSome(next)
      epoch = await synced()
    }
    await Promise.all([clear.reaches(epoch), masked.reaches(epoch)])
    assert.equal(clear.state, expected.get(epoch), `seed ${seed}`)
    assert.equal(masked.state, await productOf(viewer), `seed ${seed}`)
    assert.ok(clear.connections > 5 && masked.connections > 5, `${clear.connections}, ${masked.connections}`)
    assert.equal(clear.resets + masked.resets, 0)
    assert.ok(clear.texts.some((text) => text.includes(HIDDEN)))
    assert.ok(!masked.texts.some((text) => text.includes(HIDDEN)), 'no clear value comes to a masked reader')
    for (const one of [clear, masked]) one.stop()
    await changeSome(next)
    await synced()
    await Promise.all(all)
  })

  it('loses nothing and hears nothing twice where the runtime is killed amid an epoch', async (t) => {
    const { crash } = world.deployment
    if (crash === null) return t.skip('the runtime under test is another’s to kill')
    const rows = Number((await world.source.query('SELECT count(*) FROM change_people')).rows[0].count)
    // Amid all rows that there are, and amid the difference that changes each of them.
    const moments = [Math.floor(rows / 2), Math.floor(rows * 1.5)]
    const crashes: Promise<void>[] = []
    const follower = new Follower(cleared, () => {
      const isMoment = follower.texts.length === moments[crashes.length]
      if (isMoment) crashes.push(crash())
      return isMoment
    })
    const following = follower.follow('?from=start')
    const first = Math.max(...expected.keys())
    await follower.reaches(first)
    await Promise.all(crashes)
    await world.source.query("UPDATE change_people SET city = city || '.'")
    const { rows: wanted } = await world.source.query('SELECT id, email, city FROM change_people')
    const { id: run } = await ok(owner.post('/api/v1/connections/db/sync'))
    await follower.reaches(first + 1)
    await Promise.all(crashes)
    assert.equal((await owner.untilEnded(run)).state, 'succeeded')
    assert.equal(crashes.length, 2)
    assert.equal(follower.state, stateOf(wanted))
    assert.deepEqual([follower.epochs, follower.resets], [[first, first + 1], 0])
    assert.equal(follower.texts.length, 2 * rows + 2)
    follower.stop()
    await world.source.query("UPDATE change_people SET city = 'end' WHERE id = (SELECT min(id) FROM change_people)")
    await synced()
    await following
  })

  it('is kept waiting, and not broken off, while engines end under it', async (t) => {
    if (world.deployment.children === null) return t.skip('the runtime is not ours')
    await changeSome(random(7))
    const epoch = await synced()
    const follower = new Follower(cleared)
    let ended = 0
    const kills = setInterval(() => {
      for (const { pid, command } of world.deployment.children?.() ?? []) {
        if (!command.includes('engine')) continue
        process.kill(pid, 'SIGKILL')
        ended += 1
      }
    }, 5)
    const following = follower.follow('?from=start')
    await until(
      () => `engines were ended: ${ended}, ${follower}`,
      () => ended > 20 || follower.isEnded,
    )
    clearInterval(kills)
    await follower.reaches(epoch)
    assert.equal(follower.state, expected.get(epoch))
    assert.equal(follower.connections, 1)
    follower.stop()
    await world.source.query("UPDATE change_people SET city = 'engine' WHERE id = (SELECT min(id) FROM change_people)")
    await synced()
    await following
  })

  it('that begins now hears what comes, and nothing of before', async () => {
    const follower = new Follower(viewer)
    const following = follower.follow('')
    await until('it is told where it is', () => follower.lastId !== undefined)
    assert.deepEqual([follower.rows.size, follower.epochs], [0, [await newestEpoch()]])
    await world.source.query(`UPDATE change_people SET city = 'now' WHERE id = (SELECT min(id) FROM change_people)`)
    await follower.reaches(await synced())
    assert.equal(follower.rows.size, 1)
    follower.stop()
    await world.source.query(`UPDATE change_people SET city = 'later' WHERE id = (SELECT min(id) FROM change_people)`)
    await synced()
    await following
  })

  it('does not cost a difference of its own', async () => {
    const users = await Promise.all(['u1', 'u2', 'u3', 'u4'].map((user) => world.as(tenant, 'svc-viewers', user)))
    const followers = users.flatMap((user) => Array.from({ length: 5 }, () => new Follower(user)))
    const following = followers.map((follower) => follower.follow('?from=now'))
    await until('all are told where they are', () => followers.every(({ lastId }) => lastId !== undefined))
    const { body } = await world.admin.get('/metrics')
    assert.match(body, /^sluice_change_streams 20$/m)
    const sixth = await (users[0] as Client).begin(CHANGES, {}, AbortSignal.timeout(10_000))
    assert.equal(sixth.status, 429)
    const computed = await differences()
    await world.source.query(`UPDATE change_people SET city = 'all' WHERE id % 2 = 0`)
    const epoch = await synced()
    await Promise.all(followers.map((follower) => follower.reaches(epoch)))
    assert.equal((await differences()) - computed, 1)
    const [first] = followers
    for (const follower of followers) {
      assert.equal(follower.state, first?.state)
      follower.stop()
    }
    await world.source.query(`UPDATE change_people SET city = 'done' WHERE id % 2 = 0`)
    await synced()
    await Promise.all(following)
  })
})

describe('policy', () => {
  it('of another class is told by a reset, and what follows obeys it', async () => {
    const follower = new Follower(viewer)
    const following = follower.follow('?from=start')
    await follower.reaches(await newestEpoch())
    const columns = manifests('public.change_people', {
      columns:
        '  - { name: id, type: integer, role: identity, nullable: false }\n  - { name: email, type: string, classification: pii.identifier }\n  - { name: city, type: string, classification: pii.name }\n',
    })
    await deployVersion(owner, 'people', '1.1.0', columns)
    const epoch = await newestEpoch()
    await until(
      () => `it begins anew, and has epoch ${epoch}: ${follower}`,
      () => follower.resets === 1 && follower.epochs.at(-1) === epoch,
    )
    assert.equal(follower.state, await productOf(viewer))
    assert.ok(
      [...follower.rows.values()].every(({ city }) => !/done|city|new|^c\d/.test(city)),
      'cities are masked',
    )
    follower.stop()
    await world.source.query('DELETE FROM change_people WHERE id = (SELECT max(id) FROM change_people)')
    await synced()
    await following
  })

  it('of a grant that ends is obeyed within seconds', async () => {
    const follower = new Follower(cleared)
    const following = follower.follow('?from=start')
    await follower.reaches(await newestEpoch())
    assert.match(follower.state, new RegExp(HIDDEN))
    const path = `/api/v1/products/people/grants/${unmask.id}`
    const ended = await world.admin.send(path, { method: 'DELETE', headers: { 'x-tenant-id': tenant } })
    assert.ok(ended.status < 300, JSON.stringify(ended.body))
    const { size } = follower.rows
    const epoch = await newestEpoch()
    await until(
      () => `it begins anew, masked: ${follower}`,
      () => follower.resets === 1 && follower.rows.size === size && follower.epochs.at(-1) === epoch,
    )
    assert.doesNotMatch(follower.state, new RegExp(HIDDEN))
    follower.stop()
    await world.source.query('DELETE FROM change_people WHERE id = (SELECT max(id) FROM change_people)')
    await synced()
    await following
  })

  it('ends the stream of a key that is revoked', async () => {
    const { id, token } = await ok(owner.post('/api/v1/application-keys', { name: 'follower' }))
    const follower = new Follower(new Client(world.deployment.url, token))
    const following = follower.follow('?from=now')
    await until('it follows', () => follower.lastId !== undefined)
    await owner.send(`/api/v1/application-keys/${id}`, { method: 'DELETE' })
    await following
    assert.equal(follower.isEnded, true)
    assert.equal(follower.problem?.code, 'right_ended')
  })

  it('ends a stream with its token, says so, and goes on where it was with another', async () => {
    await withLimits([3, 30, 120], async (ttlS) => {
      const flags = ['--tenant', tenant, '--group', 'svc-viewers', '--user', 'vera', '--ttl', `${ttlS}s`]
      // Made anew each time: of the same flags the deployment has the same token.
      const token = await world.deployment.token([...flags, '--email', `vera${Date.now()}@example.org`])
      const short = new Follower(new Client(world.deployment.url, token))
      await short.follow('?from=start')
      assert.equal(short.problem?.code, 'right_ended', `${short}`)
      assert.match(short.problem?.remedy, /valid token/)
      assert.ok(short.epochs.length > 0, 'it had all of one')
      const again = new Follower(viewer)
      again.lastId = short.lastId
      for (const [id, row] of short.rows) again.rows.set(id, row)
      await world.source.query("UPDATE change_people SET city = 'later' WHERE id % 11 = 0")
      const epoch = await synced()
      const following = again.follow('')
      await again.reaches(epoch)
      assert.deepEqual([again.state, again.resets], [await productOf(viewer), 0])
      again.stop()
      await world.source.query('DELETE FROM change_people WHERE id = (SELECT max(id) FROM change_people)')
      await synced()
      await following
    })
  })

  it('lets nobody follow by the place of another, and no product that has no key for him', async () => {
    const follower = new Follower(viewer)
    for await (const { id } of eventsOf(viewer, '?from=now')) {
      follower.lastId = id
      break
    }
    for (const [client, place] of [
      [cleared, follower.lastId],
      [viewer, 'none'],
      ...[254, 255, 256, 1_000, 4_000, 6_000].map((length) => [viewer, 'A'.repeat(length)] as const),
      [viewer, `${follower.lastId}${'A'.repeat(300)}`],
    ] as const) {
      const { status, body } = await client.get(CHANGES, { 'last-event-id': place ?? '' })
      assert.deepEqual([status, body.code], [400, 'cursor_invalid'])
    }
    const foreign = await world.as(world.tenants[1], 'svc-developers', 'olga')
    assert.equal((await foreign.get(CHANGES)).status, 404)
    const keyless = manifests('public.change_people', {
      columns:
        '  - { name: id, type: integer, nullable: false }\n  - { name: email, type: string, role: identity, nullable: false, classification: pii.name }\n',
      endpoints: '  - type: analytics\n',
    })
    const wanted = { name: 'keyless', namespace: 'crm', archetype: 'source_aligned', description: '' }
    await ok(owner.post('/api/v1/products', wanted))
    const product = keyless.product.replace('name: people', 'name: keyless')
    await deployVersion(owner, 'keyless', '1.0.0', { ...keyless, product }, ['email'])
    const refused = await viewer.get('/api/v1/products/keyless/changes?from=start')
    assert.deepEqual([refused.status, refused.body.code], [422, 'changes_need_key'])
  })
})
