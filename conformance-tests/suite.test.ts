/** How checks are named, chosen and turned round; whether they are honest is `honesty.stack.test.ts`'s to say. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkNames } from '@sluice/sdk'
import { CONNECTOR_CHECKS } from './connector-suite.ts'
import { HONESTY_CHECKS } from './honesty.ts'
import { start } from './reference/conformance.ts'
import reference from './reference/index.ts'
import { CHECKS } from './registry.ts'
import { type CheckResult, runSuite, type SuiteOptions } from './suite.ts'

function run(options: Partial<SuiteOptions>): Promise<readonly CheckResult[]> {
  return runSuite({ plugin: reference, start, level: 'hard', ...options })
}

function named(results: readonly CheckResult[], status: CheckResult['status']): readonly string[] {
  return results.filter((result) => result.status === status).map(({ id, name }) => `${id} ${name}`)
}

test('numbers and names of checks are unique', () => {
  const all = [...CHECKS, ...CONNECTOR_CHECKS, ...HONESTY_CHECKS]
  const names = all.flatMap((check) => [check.name, ...('aliases' in check ? (check.aliases ?? []) : [])])
  assert.equal(new Set(all.map(({ id }) => id)).size, all.length)
  assert.equal(new Set(names).size, names.length)
  assert.deepEqual([CHECKS.length >= 124, CONNECTOR_CHECKS.length, HONESTY_CHECKS.length], [true, 85, 8])
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

test('a check that asks the store nothing does not pass', async () => {
  const idle = { id: 0, name: 'asks-nothing', level: 'core', run: async () => undefined } as const
  const [result] = await run({ checks: [idle] })
  assert.equal(result?.status, 'failed')
  assert.match(String(result?.error), /has asked the store nothing/)
})

test('a check whose fixture lacks what it would try says so, and does not pass', async () => {
  const bare = async () => {
    const { bypassing: _, ...fixture } = await start()
    return fixture
  }
  const [there] = await run({ only: ['181'] })
  const [lacking] = await run({ only: ['181'], start: bare })
  assert.deepEqual([there?.status, lacking?.status], ['passed', 'not_applicable'])
  assert.match(lacking?.reason ?? '', /no login/)
})

test('a store that holds only some names has to refuse the others', async () => {
  const limits = { ...reference.capabilities.limits, namePattern: '[a-z0-9_-]{1,200}' }
  const capabilities = { ...reference.capabilities, limits }
  const plugin: SuiteOptions['plugin'] = {
    ...reference,
    capabilities,
    async open(settings, host) {
      const store = await reference.open(settings, host)
      return {
        ...store,
        async provision(target, mode, hash) {
          checkNames(target, capabilities)
          return store.provision(target, mode, hash)
        },
      }
    },
  }
  const results = await run({ plugin, level: 'core' })
  assert.deepEqual(named(results, 'failed'), [])
})
