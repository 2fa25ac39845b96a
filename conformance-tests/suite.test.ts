/** The suite's own honesty: the reference passes, whoever breaks a promise is caught, and whoever does nothing fails. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CheckFailure } from './check.ts'
import { Random } from './random.ts'
import { start } from './reference/conformance.ts'
import reference, { ReferenceMemory } from './reference/index.ts'
import { CHECKS } from './registry.ts'
import { nullStorePlugin, SABOTEURS } from './saboteurs/index.ts'
import { type CheckResult, runSuite, type SuiteOptions } from './suite.ts'

function run(options: Partial<SuiteOptions>): Promise<readonly CheckResult[]> {
  return runSuite({ plugin: reference, start, level: 'hard', ...options })
}

function named(results: readonly CheckResult[], status: CheckResult['status']): readonly string[] {
  return results.filter((result) => result.status === status).map(({ id, name }) => `${id} ${name}`)
}

test('every saboteur is caught by the checks that have to catch it', async (t) => {
  let caught = 0
  let wanted = 0
  const missed: string[] = []
  for (const { name, caughtBy, plugin } of SABOTEURS) {
    const results = await run({ plugin, only: caughtBy.map(String), level: 'core' })
    const failed = results.filter(({ status, error }) => status === 'failed' && error instanceof CheckFailure)
    wanted += caughtBy.length
    caught += failed.length
    const others = results.filter((result) => !failed.includes(result))
    missed.push(...others.map(({ id, status, error }) => `${name} by ${id}: ${status} ${error ?? ''}`))
  }
  t.diagnostic(`saboteurs caught: ${caught} of ${wanted} (${SABOTEURS.length} saboteurs, ${CHECKS.length} checks)`)
  assert.deepEqual(missed, [])
})

test('every check has a saboteur', () => {
  const covered = new Set(SABOTEURS.flatMap(({ caughtBy }) => caughtBy))
  assert.deepEqual(
    CHECKS.filter(({ id }) => !covered.has(id)).map(({ id, name }) => `${id} ${name}`),
    [],
  )
})

test('a store that does nothing fails every check of what it claims', async () => {
  const results = await run({ plugin: nullStorePlugin })
  assert.deepEqual(named(results, 'passed'), [])
  assert.equal(named(results, 'failed').length, CHECKS.length)
})

test('the order of the checks does not matter, nor the seed', async () => {
  for (const seed of [2, 3]) {
    const results = await run({ checks: new Random(seed).shuffled(CHECKS), seed, level: 'core' })
    assert.deepEqual(named(results, 'failed'), [])
    assert.equal(named(results, 'passed').length, results.length)
  }
})

test('a run leaves nothing behind, not even one that failed', async () => {
  const memory = new ReferenceMemory()
  const fixture = { settings: { memory }, async restart() {}, async stop() {} }
  await run({ start: async () => fixture, level: 'core' })
  const plugin = SABOTEURS.find(({ name }) => name === 'does not delete')?.plugin ?? reference
  const [failed] = await run({ plugin, start: async () => fixture, only: ['44'] })
  assert.equal(failed?.status, 'failed')
  assert.deepEqual(memory.all(), [])
})

test('numbers and names of checks are unique', () => {
  assert.equal(new Set(CHECKS.map(({ id }) => id)).size, CHECKS.length)
  assert.equal(new Set(CHECKS.map(({ name }) => name)).size, CHECKS.length)
})

test('the same seed gives the same results, another one other rows', async () => {
  const plugin = SABOTEURS.find(({ name }) => name === 'takes lt for le')?.plugin ?? reference
  const texts = []
  for (const seed of [5, 5, 6]) {
    const [result] = await run({ plugin, seed, only: ['52'] })
    texts.push(String((result?.error as Error | undefined)?.message))
  }
  assert.equal(texts[0], texts[1])
  assert.notEqual(texts[0], texts[2])
})

test('a waiver excuses a failure until it expires', async () => {
  const plugin = nullStorePlugin
  const waiver = { check: 'upsert-last-wins', reason: 'known', issue: '#1' }
  const [standing] = await run({ plugin, only: ['37'], waivers: [{ ...waiver, expires: '9999-12-31' }] })
  const [expired] = await run({ plugin, only: ['37'], waivers: [{ ...waiver, expires: '2020-01-01' }] })
  assert.equal(standing?.status, 'waived')
  assert.equal(expired?.status, 'failed')
})

test('a store without optional capabilities runs their checks inverted', async () => {
  const { digest: _digest, ttl: _ttl, recover: _recover, ...capabilities } = reference.capabilities
  const plugin: SuiteOptions['plugin'] = {
    ...reference,
    capabilities,
    async open(settings, host) {
      const { digest: _d, recover: _r, ...store } = await reference.open(settings, host)
      return store
    },
  }
  const results = await run({ plugin, only: ['61', '64', '119', '120'] })
  assert.equal(named(results, 'inverted').length, 4)
  const [ttl] = await run({ plugin, only: ['112'] })
  assert.equal(ttl?.status, 'failed', 'values that expire although no ttl is declared')
})
