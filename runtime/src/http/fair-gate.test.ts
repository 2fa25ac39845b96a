/** Slots and their order; how long anything takes is measured in bench/. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { Type } from 'typebox'
import { until } from '../../../test/until.ts'
import { AnswerCosts } from './answer-costs.ts'
import { FairGate } from './fair-gate.ts'
import { defineRoute } from './route.ts'
import { startTestServer } from './test-server.ts'

const never = new AbortController().signal

/** Remembers who began, in order, and lets the oldest go. */
class Hall {
  readonly gate: FairGate
  readonly begun: string[] = []
  readonly inside: { readonly key: string; readonly cost: number }[] = []

  constructor(capacity: number) {
    this.gate = new FairGate(capacity)
  }

  ask(key: string, { weight = 1, cost = 1, signal = never } = {}): Promise<void> {
    const begin = (): void => {
      this.begun.push(key)
      this.inside.push({ key, cost })
    }
    const waits = this.gate.enter(key, weight, cost, () => signal)
    if (waits !== undefined) return waits.then(begin)
    begin()
    return Promise.resolve()
  }

  async letGo(): Promise<void> {
    const oldest = this.inside.shift()
    if (oldest !== undefined) this.gate.leave(oldest.key, oldest.cost)
    await new Promise((resolve) => setImmediate(resolve))
  }

  async finish(): Promise<void> {
    while (this.inside.length > 0) await this.letGo()
  }
}

const times = (count: number, work: () => unknown): void => {
  for (let index = 0; index < count; index++) void work()
}

describe('turns of tenants', () => {
  it('begin at once for who comes second, however much the first has sent', async () => {
    const hall = new Hall(8)
    times(64, () => hall.ask('loud'))
    assert.equal(hall.begun.length, 6, 'one has three quarters')
    await Promise.all([hall.ask('quiet'), hall.ask('quiet')])
    assert.deepEqual(
      hall.inside.slice(6).map(({ key }) => key),
      ['quiet', 'quiet'],
    )
  })

  it('go round, whoever has sent more', async () => {
    const hall = new Hall(4)
    times(64, () => hall.ask('loud'))
    times(8, () => hall.ask('b'))
    times(8, () => hall.ask('c'))
    const before = hall.begun.length
    while (hall.begun.length < before + 12) await hall.letGo()
    const turns = hall.begun.slice(before, before + 12)
    for (const key of ['b', 'c']) assert.ok(turns.filter((one) => one === key).length >= 3, turns.join())
    await hall.finish()
    assert.equal(hall.begun.length, 80)
  })

  it('are as many as the tenant’s weight', async () => {
    const hall = new Hall(1)
    void hall.ask('first')
    times(40, () => hall.ask('enterprise', { weight: 4 }))
    times(40, () => hall.ask('free', { weight: 1 }))
    while (hall.begun.length < 26) await hall.letGo()
    assert.equal(hall.begun.slice(1).filter((key) => key === 'enterprise').length, 20, hall.begun.join())
    await hall.finish()
  })

  it('are fewer for what costs more, and never none', async () => {
    const hall = new Hall(8)
    void hall.ask('first', { cost: 4 })
    times(10, () => hall.ask('heavy', { cost: 1_000 }))
    times(40, () => hall.ask('light'))
    await hall.finish()
    const half = hall.begun.slice(0, 25)
    const heavy = half.filter((key) => key === 'heavy').length
    assert.ok(heavy >= 3 && heavy <= 8, half.join())
    assert.equal(hall.begun.length, 51)
  })

  it('pass by who went away', async () => {
    const hall = new Hall(1)
    const gone = new AbortController()
    void hall.ask('a')
    const left = hall.ask('b', { signal: gone.signal })
    void hall.ask('c')
    gone.abort(new Error('gone'))
    await assert.rejects(left, { message: 'gone' })
    await assert.rejects(hall.ask('d', { signal: gone.signal }), { message: 'gone' })
    await hall.finish()
    assert.deepEqual(hall.begun, ['a', 'c'])
  })

  it('come for everybody, and never more at once than there is room for', async () => {
    const asks = fc.array(
      fc.record({ key: fc.constantFrom('a', 'b', 'c'), cost: fc.nat(12), weight: fc.integer({ min: 1, max: 4 }) }),
      { maxLength: 40 },
    )
    await fc.assert(
      fc.asyncProperty(asks, fc.integer({ min: 1, max: 10 }), async (all, capacity) => {
        const hall = new Hall(capacity)
        const most = Math.ceil(capacity / 2)
        for (const { key, cost, weight } of all) void hall.ask(key, { cost, weight })
        while (hall.inside.length > 0) {
          const used = hall.inside.reduce((sum, { cost }) => sum + Math.min(Math.max(1, cost), most), 0)
          assert.ok(hall.inside.length === 1 || used <= capacity, `${used} of ${capacity}`)
          await hall.letGo()
        }
        assert.equal(hall.begun.length, all.length)
      }),
      { numRuns: 50 },
    )
  })
})

it('the next answer of a kind is expected to cost what those before it did', () => {
  const costs = new AnswerCosts()
  assert.equal(costs.expected('a'), 1)
  costs.learn('a', 160 * 1024)
  assert.equal(costs.expected('a'), 11)
  for (let count = 0; count < 40; count++) costs.learn('a', 0)
  assert.ok(costs.expected('a') < 1.1)
})

it('reads of a tenant wait for its own, and another’s do not', async () => {
  const held: (() => void)[] = []
  const read = defineRoute({
    method: 'GET',
    path: '/api/v1/reads/{name}',
    name: 'read',
    summary: 'Read',
    tags: ['Test'],
    auth: 'tenant',
    params: Type.Object({ name: Type.String() }),
    responses: { 200: { description: 'Rows.' } },
    handler: async ({ params }) => {
      if (params.name === 'held') await new Promise<void>((resolve) => held.push(resolve))
      return { body: params.name }
    },
  })
  await using server = await startTestServer([read], { workAtOnce: 4 })
  const authorization = `Bearer ${await server.token({ tenant: 'other', groups: ['svc-viewers'], user: 'bob' })}`
  const loud = Array.from({ length: 20 }, () => server.ask('/api/v1/reads/held'))
  await until('the loud one has its slots', () => server.app.inFlight === 20)
  const quiet = await server.ask('/api/v1/reads/now', { headers: { authorization } })
  assert.deepEqual([quiet.status, held.length], [200, 3])
  while (held.length > 0 || server.app.inFlight > 0) {
    held.shift()?.()
    await new Promise((resolve) => setImmediate(resolve))
  }
  assert.ok((await Promise.all(loud)).every(({ status }) => status === 200))
})
