/**
 * A product that takes long holds nobody up: while it is made, what comes later is readable in the others, and in the end it has the
 * newest rows. How long it takes is for the test to say: a making waits for the product's lock, which the test holds.
 */
import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import type pg from 'pg'
import { type Json, ok } from '../acceptance/client.ts'
import { PushedWorld } from './pushed-world.ts'
import { until } from './until.ts'

const QUICK = ['quick', 'other', 'joined'] as const
const JOIN = 'SELECT a.id, a.v + b.v AS v FROM a JOIN b ON b.id = a.id'

let world: PushedWorld

before(async () => {
  world = await PushedWorld.open(['orders', 'customers'])
  await world.push('orders', rowsOf(0))
  await world.push('customers', rowsOf(0))
  await world.deploy({ name: 'quick', inputs: ['orders'] })
  await world.deploy({ name: 'other', inputs: ['customers'] })
  await world.deploy({ name: 'joined', inputs: ['orders', 'customers'], transform: JOIN })
  const checks = '  - name: small\n    range: { column: v, max: 900 }\n'
  await world.deploy({ name: 'slow', inputs: ['orders'], checks })
  // Made of the slow one: it follows in its run.
  await world.deploy({ name: 'after', inputs: ['crm.slow'], transform: 'SELECT id, v + 1000 AS v FROM a' })
  // What is deployed while its input is made for the first time follows with the next rows.
  await round(0)
  await show(0, [...QUICK, 'slow', 'after'])
})
after(() => world?.stop())

const rowsOf = (v: number) => Array.from({ length: 5 }, (_, id) => ({ id, v }))

/** What the product has of round `v`. */
const valueOf = (product: string, v: number) => (product === 'joined' ? 2 * v : product === 'after' ? v + 1000 : v)

async function show(v: number, products: readonly string[]): Promise<void> {
  let seen: unknown
  await until(
    () => `${products.join(', ')} show ${v}: ${JSON.stringify(seen)}`,
    async () => {
      const found = await Promise.all(products.map(async (name) => [...((await world.rows(name))?.values() ?? [])]))
      seen = found
      return found.every((values, at) => {
        return values.length === 5 && values.every((one) => one === valueOf(products[at] as string, v))
      })
    },
  )
}

async function round(v: number): Promise<void> {
  await world.push('orders', rowsOf(v))
  await world.push('customers', rowsOf(v))
}

/** As the next waves are to find it, whatever makings have noted meanwhile. */
async function isSlow(): Promise<void> {
  for (const name of [...QUICK, 'after']) await world.take(name, 300)
  await world.take('slow', 60_000)
}

/** Runs that `slow` is left to; the newest first. */
const leftRuns = () =>
  world.found(`select r.id, r.state, r.result, r.error from runs r join products p on p.id = r.product_id
    where p.name = 'slow' and r.input ? 'left' order by r.created_at desc, r.id desc`)

const epochs = async (name: string) =>
  Number(
    (
      await world.found(
        'select f.epoch from product_fences f join products p on p.id = f.product_id where p.name = $1',
        [name],
      )
    )[0]?.epoch,
  )

/** While it lasts, nobody makes the product. */
async function held<T>(work: () => Promise<T>, product = 'slow'): Promise<T> {
  return world.registry(async (client: pg.Client) => {
    const { rows } = await client.query('select id from products where name = $1', [product])
    await client.query('select pg_advisory_lock(hashtextextended($1, 7))', [rows[0].id])
    return work()
  })
}

it('what a product takes is noted as it is made', async () => {
  const noted = await world.found('select took_ms from product_makings where took_ms > 0')
  assert.equal(noted.length, 5)
})

it('while a slow product is made, what comes later is readable in the others, and it ends with the newest rows', async () => {
  await isSlow()
  const before = await epochs('slow')
  await held(async () => {
    await round(1)
    await show(1, QUICK)
    await until('the slow one is being made', async () => (await leftRuns()).some(({ state }) => state === 'running'))
    for (const v of [2, 3, 4]) {
      await round(v)
      await show(v, QUICK)
    }
    await show(0, ['slow', 'after'])
    assert.equal(await epochs('slow'), before)
    const open = (await leftRuns()).filter(({ state }) => state === 'queued' || state === 'running')
    assert.deepEqual(
      open.map(({ state }) => state),
      ['queued', 'running'],
      'one is at it, one comes after it',
    )
    // The run of the connection says what it has left, and to whom.
    const runs = await world.found(
      `select result from runs where input ? 'follow' and state = 'succeeded' order by created_at desc`,
    )
    const outcomes = runs
      .flatMap(({ result }) => result.products)
      .filter(({ reason }: Json) => reason?.code === 'left_to_run')
    assert.deepEqual(new Set(outcomes.map(({ name }: Json) => name)), new Set(['crm.slow', 'crm.after']))
    assert.ok(
      outcomes.some(({ reason }: Json) => reason.message.endsWith(open[0]?.id)),
      JSON.stringify(outcomes),
    )
    // Both are of orders, and not of the same rows of it now.
    const sql = 'SELECT q.v AS q, s.v AS s FROM crm.quick q JOIN crm.slow s ON s.id = q.id'
    const apart = await ok(world.developer.post('/api/v1/query', { sql }))
    assert.equal(apart.meta.consistent, false)
    // Who asks for it is not given what nobody has asked for.
    const asked = await ok(world.developer.post('/api/v1/products/slow/materialize'))
    assert.ok(
      open.every(({ id }) => id !== asked.id),
      JSON.stringify(asked),
    )
    await ok(world.developer.post(`/api/v1/ingestion/${asked.id}/cancel`))
  })
  await show(4, ['slow', 'after'])
  await until('nobody is at it', async () => (await leftRuns()).every(({ state }) => state === 'succeeded'))
  // The one that was at it, which may have read before the last round, and the one after it.
  const made = (await epochs('slow')) - before
  assert.ok(made >= 1 && made <= 2, `${made} epochs`)
  const sql = 'SELECT q.v AS q, s.v AS s FROM crm.quick q JOIN crm.slow s ON s.id = q.id'
  const { rows, meta } = await ok(world.developer.post('/api/v1/query', { sql, consistent: true }))
  assert.deepEqual([rows.length, meta.consistent], [5, true])
})

it('what joins it with a product that is taken as it is has the newest rows of that one, too', async () => {
  await world.deploy({ name: 'zlast', inputs: ['orders'] })
  const mixed = { inputs: ['crm.slow', 'crm.zlast'], latest: ['crm.zlast'] }
  await world.deploy({ name: 'mixed', ...mixed, transform: 'SELECT a.id, a.v + b.v AS v FROM a JOIN b ON b.id = a.id' })
  for (const name of ['zlast', 'mixed']) await world.take(name, 300)
  await isSlow()
  // The wave comes to `zlast` after `slow`: what that was left to has come to its end by then.
  await held(async () => {
    await round(10)
    await show(10, ['slow'])
    await until('its run has ended', async () => (await leftRuns()).every(({ state }) => state === 'succeeded'))
  }, 'zlast')
  await show(10, [...QUICK, 'slow', 'zlast', 'after'])
  await until('the join has both', async () => (await world.rows('mixed'))?.get(0) === 20)
})

it('where it fails it waits by itself, longer each time, and is made when it can be', async () => {
  await isSlow()
  const holds = () => world.found(`select failures, until from follow_holds where kind = 'product'`)
  // Over what its check allows; the others have none.
  await round(901)
  await show(901, QUICK)
  await until('it has failed', async () => (await holds()).length === 1)
  const incident = () =>
    world.found(
      `select from incidents i join products p on p.id = i.product_id where p.name = 'slow' and closed_at is null`,
    )
  await until('somebody is told', async () => (await incident()).length === 1)
  const failed = (await leftRuns()).filter(({ state }) => state === 'failed').length
  await isSlow()
  await round(902)
  await show(902, QUICK)
  assert.equal((await leftRuns()).filter(({ state }) => state === 'failed').length, failed, 'it is not tried meanwhile')
  await world.found(`update follow_holds set until = clock_timestamp()`)
  await until('it has failed again', async () => Number((await holds())[0]?.failures) >= 2)
  await isSlow()
  await round(5)
  await show(5, QUICK)
  await world.found(`update follow_holds set until = clock_timestamp()`)
  await show(5, ['slow', 'after'])
  await until('nobody waits for it', async () => (await holds()).length === 0)
  await until('that is over', async () => (await incident()).length === 0)
})

it('where its run begins when the wave has ended, it is tried again as well', async () => {
  // One place: what is left waits until the wave that has left it is over.
  world.workers = 1
  await world.restart(null)
  const holds = () => world.found(`select failures from follow_holds where kind = 'product'`)
  await isSlow()
  await round(903)
  await until('it has failed', async () => (await holds()).length === 1)
  await isSlow()
  await round(8)
  await show(8, QUICK)
  await world.found(`update follow_holds set until = clock_timestamp()`)
  await show(8, ['slow', 'after'])
  await until('nobody waits for it', async () => (await holds()).length === 0)
  world.workers = null
  await world.restart(null)
})

it('a run that is taken up again makes anew what it had made of fewer rows', async () => {
  for (const name of [...QUICK, 'slow', 'after']) await world.take(name, 300)
  const [newest] = await world.found(
    `select result from runs where input ? 'follow' and state = 'succeeded' order by created_at desc limit 1`,
  )
  const order = newest?.result.products.map(({ name }: Json) => name.replace('crm.', '')) as readonly string[]
  const dying = held(async () => {
    await round(6)
    // The wave has made it, and waits for the last.
    await show(6, order.slice(0, 1))
    await round(7)
    world.runtime.kill()
    await world.runtime.ended
  }, order.at(-1))
  // The lock's connection ends with the server.
  await dying.catch(() => undefined)
  await world.start(null)
  await show(7, [...QUICK, 'slow', 'after'])
})

it('who asks for a sync is told what became of each', async () => {
  await isSlow()
  const { id } = await ok(world.developer.post('/api/v1/connections/shop/sync'))
  const run = await world.developer.untilEnded(id)
  assert.deepEqual(
    [run.state, run.products.filter(({ reason }: Json) => reason?.code === 'left_to_run')],
    ['succeeded', []],
  )
})
