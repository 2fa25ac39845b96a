/** One day's budget over several askers at once, who might be several runtimes. */
import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import { pruneAgentBudgets, reserveForAgent, settleForAgent } from './agent-budgets.ts'
import { startTestRegistry } from './testing.ts'

const registry = await startTestRegistry()
const { pool } = registry
after(() => registry[Symbol.asyncDispose]())

const LIMITS = { rows: 1_000, bytes: 1_000_000, engineMs: 1_000_000 }
const WANTED = { rows: 100, bytes: 20_000, engineMs: 30_000 }

async function account() {
  return { tenant: await registry.tenant(), issuer: 'https://issuer', subject: 'ann', client: 'desk' }
}

it('askers at once get no more than one answer beyond what there is', async () => {
  const who = await account()
  const given = await Promise.all(Array.from({ length: 40 }, () => reserveForAgent(pool, who, WANTED, LIMITS)))
  assert.equal(given.filter((one) => one !== null).length, 10)
  assert.ok(await reserveForAgent(pool, { ...who, client: 'other' }, WANTED, LIMITS), 'each client has its own')
  assert.ok(await reserveForAgent(pool, { ...who, subject: 'bob' }, WANTED, LIMITS), 'and each principal')
})

it('what was set aside and not taken is there again', async () => {
  const who = await account()
  for (let answer = 0; answer < 50; answer += 1) {
    const reserved = await reserveForAgent(pool, who, WANTED, LIMITS)
    assert.ok(reserved, `answer ${answer}`)
    await settleForAgent(pool, who, reserved, { rows: 1, bytes: 200, engineMs: 3.7 })
  }
  const { rows } = await pool.query('select rows, bytes, engine_ms from agent_budgets where tenant = $1', [who.tenant])
  assert.deepEqual(rows, [{ rows: '50', bytes: '10000', engine_ms: '200' }])
})

it('any of the limits ends it, and a limit of nothing lets nobody begin', async () => {
  for (const [name, limit] of [
    ['rows', 100],
    ['bytes', 20_000],
    ['engineMs', 30_000],
  ] as const) {
    const who = await account()
    const limits = { ...LIMITS, [name]: limit }
    assert.ok(await reserveForAgent(pool, who, WANTED, limits))
    assert.equal(await reserveForAgent(pool, who, WANTED, limits), null, name)
    assert.equal(await reserveForAgent(pool, await account(), WANTED, { ...LIMITS, [name]: 0 }), null)
  }
})

it('days that are over go', async () => {
  const who = await account()
  await reserveForAgent(pool, who, WANTED, LIMITS)
  await pool.query('update agent_budgets set day = day - 1 where tenant = $1', [who.tenant])
  assert.ok(await reserveForAgent(pool, who, WANTED, { ...LIMITS, rows: 1 }), 'a new day has a budget of its own')
  await pool.query('update agent_budgets set day = day - 1 where tenant = $1', [who.tenant])
  assert.equal(await pruneAgentBudgets(pool, 1_000), 1)
})
