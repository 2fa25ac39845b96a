import assert from 'node:assert/strict'
import { it } from 'node:test'
import { until } from '../../../test/until.ts'
import { Lifecycle } from './lifecycle.ts'

function lifecycle(tellAfterMs?: number) {
  const said: string[] = []
  const say = (message: string) => void said.push(message)
  const logger = { debug() {}, info: say, warn() {}, error: say }
  return { cycle: new Lifecycle(logger, tellAfterMs), said }
}

it('says what the start waits for while it does, and nothing of what was quick', async () => {
  const { cycle, said } = lifecycle(5)
  await cycle.start(
    'the quick one',
    () => {},
    () => {},
  )
  const told = until('it is told', () => said.length > 0)
  await cycle.start(
    'the slow one',
    () => told,
    () => {},
  )
  await cycle.during('the last step', () => until('it is told', () => said.length > 1))
  assert.deepEqual(said, ['starting: the slow one', 'starting: the last step'])
  await assert.rejects(
    cycle.during('a failure', () => Promise.reject(new Error('no'))),
    /^Error: no$/,
  )
})

it('stops the newest first, whatever fails', async () => {
  const { cycle, said } = lifecycle()
  const stopped: string[] = []
  const stopper = (name: string) => () => {
    stopped.push(name)
    if (name === 'second') throw new Error('no')
  }
  for (const name of ['first', 'second', 'third']) await cycle.start(name, () => {}, stopper(name))
  await cycle.stop()
  assert.deepEqual(stopped, ['third', 'second', 'first'])
  assert.deepEqual(said, ['stopping second failed'])
})

it('has one deadline: what never stops leaves the others a moment, and nothing waits for it', async () => {
  const { cycle, said } = lifecycle()
  const given: number[] = []
  await cycle.start(
    'the base',
    () => {},
    () => {
      given.push(cycle.leftMs())
    },
  )
  for (const name of ['stuck', 'stuck too'])
    await cycle.start(
      name,
      () => {},
      () => new Promise(() => {}),
    )
  cycle.endWithin(200)
  cycle.endWithin(600_000)
  assert.ok(cycle.leftMs() <= 200)
  assert.equal(cycle.leftMs(5_000), 0)
  await cycle.stop()
  assert.deepEqual(said, ['stopping stuck too failed', 'stopping stuck failed'])
  assert.deepEqual(given, [0])
})
