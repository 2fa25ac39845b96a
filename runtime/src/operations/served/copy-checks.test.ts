import assert from 'node:assert/strict'
import { it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { openTenantScope, type ServingStore, type Target } from '@sluice/sdk'
import pg from 'pg'
import type { EndpointState } from '../../registry/endpoint-states.ts'
import { CopyChecks } from './copy-checks.ts'

const NO_LOGGER = { trace() {}, debug() {}, info() {}, warn() {}, error() {} }
const EXPECTED = { epoch: 3, committedAt: new Date('2024-01-01T00:00:00Z') }

function stateOf(productId: string): EndpointState {
  return { productId, endpoint: 'realtime', variant: 'clear' } as EndpointState
}

it('a store that does not answer is waited for once, asked once for each copy, and heard when it answers late', async () => {
  const answers: ((found: null) => void)[] = []
  const store = {
    recover: () => new Promise<null>((resolve) => answers.push(resolve)),
  } as unknown as ServingStore
  const target = { scope: openTenantScope('acme') } as Target
  // What is found cannot be written down: it is believed all the same.
  const pool = new pg.Pool()
  await pool.end()
  let told = 0
  const checks = new CopyChecks({ pool, logger: NO_LOGGER as never, onLateLoss: () => told++ })
  const ask = (product: string) => checks.isLost(stateOf(product), EXPECTED, store, target)

  assert.deepEqual(await Promise.all([ask('one'), ask('one')]), [false, false])
  assert.equal(answers.length, 1)
  for (const product of ['one', 'one', 'two', 'three', 'three']) {
    assert.equal(await Promise.race([ask(product), turn('it was waited for')]), false, product)
  }
  assert.equal(answers.length, 3)
  assert.equal(told, 0)

  for (const answer of answers.splice(0)) answer(null)
  for (let turns = 0; turns < 10 && told < 3; turns += 1) await turn()
  assert.ok(told >= 3, 'each of the copies was lost')
  const next = ask('one')
  await turn()
  answers[0]?.(null)
  assert.equal(await next, true, 'the store is waited for again')
})
