/** What is told of servers beside the runtime, by what they answer. Against real ones: stack/streams and stack/object-store. */
import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { SERVICE_KINDS, SluiceError } from '@sluice/sdk'
import { Registry } from 'prom-client'
import { until } from '../../../test/until.ts'
import { serviceMetrics } from '../metrics/services.ts'
import { ServiceHealth } from './service-health.ts'

const away = new SluiceError('TRANSIENT', 'it is away', { code: 'bus_unavailable', remedy: 'Start it.' })
/** What a client library may say. */
const worded = new Error('connect ECONNREFUSED 10.1.2.3:9092')

for (const kind of SERVICE_KINDS) {
  test(`a service of kind ${kind} that is down is told since when and what to do, until it answers or is closed`, async () => {
    const health = new ServiceHealth()
    const metrics = new Registry()
    serviceMetrics(metrics, health)
    const counted = async () => {
      const text = await metrics.metrics()
      return SERVICE_KINDS.map((one) => Number(new RegExp(`\\{kind="${one}"\\} (\\d)`).exec(text)?.[1]))
    }
    const only = (count: number) => SERVICE_KINDS.map((one) => (one === kind ? count : 0))
    assert.deepEqual(await counted(), only(0), 'there before any is open')
    let answer: Error | null = null
    const due: (() => unknown)[] = []
    const every = (_: number, run: () => unknown) => {
      due.push(run)
      return () => {}
    }
    const clock = { nowMs: Date.now, every }
    const service = { ping: async () => (answer === null ? undefined : Promise.reject(answer)) }
    health.watch({ kind, name: 'one' }, service, clock)
    assert.equal(health.states()[0]?.status, 'unknown')
    await until('it has answered', async () => health.states()[0]?.status === 'ok')
    const ask = async (error: Error | null) => {
      answer = error
      await due[0]?.()
      return health.states()[0]
    }
    const down = await ask(away)
    assert.deepEqual([down?.status, down?.message, down?.remedy], ['down', 'it is away', 'Start it.'])
    const still = await ask(worded)
    assert.deepEqual([still?.status, still?.since], ['down', down?.since])
    assert.ok(still?.remedy && !JSON.stringify(still).includes('10.1.2.3'))
    assert.deepEqual(await counted(), only(1))
    health.watch({ kind, name: 'one' }, {}, clock)
    assert.deepEqual([health.states().length, health.states()[0]?.status], [1, 'down'], 'the worse of two')
    assert.equal((await ask(null))?.message, undefined)
    assert.deepEqual(await counted(), only(0))
    await ask(away)
    health.forget(service)
    assert.equal((await ask(away))?.status, 'unknown', 'an answer that comes late is none of the other')
    assert.deepEqual([health.states().length, await counted()], [1, only(0)])
  })
}

test('a ping that fails at once, and not by its promise, ends nothing but itself', async () => {
  const unheard: unknown[] = []
  const hear = (error: unknown) => unheard.push(error)
  const limits: AbortController[] = []
  const timeout = mock.method(AbortSignal, 'timeout', () => {
    const limit = new AbortController()
    limits.push(limit)
    return limit.signal
  })
  process.on('unhandledRejection', hear)
  try {
    const health = new ServiceHealth()
    const ping = () => {
      throw new Error('it throws')
    }
    health.watch({ kind: 'event-bus', name: 'one' }, { ping }, { nowMs: Date.now, every: () => () => {} })
    await until('it has failed', async () => health.states()[0]?.status === 'down')
    for (const limit of limits) limit.abort(new Error('its time is over'))
    await turn()
    await turn()
    assert.equal(limits.length, 1)
    assert.deepEqual(unheard, [])
  } finally {
    process.off('unhandledRejection', hear)
    timeout.mock.restore()
  }
})

test('of two of one kind and name the worse is told, whichever was opened first', async () => {
  const clock = { nowMs: Date.now, every: () => () => {} }
  const services = {
    ok: { ping: async () => undefined },
    unknown: {},
    down: { ping: () => Promise.reject(away) },
  } as const
  const order = ['ok', 'unknown', 'down'] as const
  for (const one of order) {
    for (const other of order) {
      const health = new ServiceHealth()
      for (const status of [one, other]) health.watch({ kind: 'compute', name: 'x' }, { ...services[status] }, clock)
      const worse = order[Math.max(order.indexOf(one), order.indexOf(other))]
      await until(`${one} and ${other} are ${worse}`, () => health.states()[0]?.status === worse)
      assert.equal(health.states().length, 1)
    }
  }
})

test('a server that says nothing is down', async () => {
  const health = new ServiceHealth(1)
  const silent = { ping: () => new Promise<void>(() => {}) }
  health.watch({ kind: 'event-bus', name: 'one' }, silent, { nowMs: Date.now, every: () => () => {} })
  await until('it is given up', () => health.states()[0]?.status === 'down')
  assert.equal(health.states()[0]?.message, 'it does not answer')
})

test('one that was well is asked once more before it is told to be down', async () => {
  for (const lost of [1, 2]) {
    const ticks: (() => unknown)[] = []
    const every = (_: number, tick: () => unknown) => {
      ticks.push(tick)
      return () => {}
    }
    const clock = { nowMs: Date.now, every }
    let toLose = 0
    const ping = async () => {
      if (toLose > 0) {
        toLose -= 1
        throw away
      }
    }
    const health = new ServiceHealth()
    health.watch({ kind: 'object-store', name: 'one' }, { ping }, clock)
    await until('it is well', () => health.states()[0]?.status === 'ok')
    toLose = lost
    await ticks[0]?.()
    assert.equal(health.states()[0]?.status, lost === 1 ? 'ok' : 'down')
  }
})
