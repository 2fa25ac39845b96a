/**
 * Iceberg's own compatibility kit against the catalog of a runtime. The kit wants two namespaces that it may make; a
 * runtime has one of that kind, the sandbox. So it runs twice, and each time another of the two names is the sandbox's.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { openWorld, type World } from '../../acceptance/world.ts'
import { type Outcome, runCompatibilityKit } from './compatibility-kit.ts'
import { serveFreeNamespace } from './free-namespace.ts'
import { REFUSALS } from './kit-refusals.ts'

const NAMES = ['newdb', 'ns'] as const

let world: World
let folder: string
/** What each test came to in both runs. */
let outcomes: ReadonlyMap<string, readonly Outcome[]>

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-kit-'))
  world = await openWorld()
  const runs: Outcome[] = []
  for (const [at, name] of NAMES.entries()) runs.push(...(await runFor(world.tenants[at] as string, name)))
  outcomes = Map.groupBy(runs, ({ test }) => test)
})

after(async () => {
  await world?.close()
  await rm(folder, { recursive: true, force: true })
})

async function runFor(tenant: string, name: string): Promise<readonly Outcome[]> {
  await world.createTenant(tenant)
  const token = await world.deployment.token(['--tenant', tenant, '--group', 'svc-developers', '--user', 'dora'])
  const front = await serveFreeNamespace(world.deployment.url, name)
  try {
    const catalog = { url: `${front.url}/iceberg`, warehouse: tenant, token }
    return await runCompatibilityKit(catalog, join(folder, name))
  } finally {
    await front.stop()
  }
}

const isOfViews = (test: string) => test.startsWith('ViewCatalogTests.')
const inState = (state: Outcome['state']) =>
  [...outcomes].filter(([, runs]) => runs.some((run) => run.state === state)).map(([test]) => test)

describe('Iceberg’s compatibility kit', () => {
  it('passes but for what is refused by decision', () => {
    const passed = new Set([...inState('passed'), ...inState('skipped')])
    const failed = [...outcomes.keys()].filter((test) => !passed.has(test) && !isOfViews(test))
    const refused = REFUSALS.flatMap(({ tests }) => tests.map((test) => `CatalogTests.${test}`))
    assert.deepEqual(failed.sort(), refused.sort())
    assert.ok(inState('passed').length >= 33, `${inState('passed').length} tests pass`)
  })

  for (const { why, failure, tests } of REFUSALS) {
    it(why, () => {
      for (const test of tests) {
        const told = (outcomes.get(`CatalogTests.${test}`) ?? []).map((run) => run.failure)
        assert.ok(
          told.some((text) => failure.test(text)),
          `${test}: ${told.join('\n')}`,
        )
      }
    })
  }

  it('passes no test that needs a view, which the catalog does not have', () => {
    // It expects that none is made where a table is.
    const needsNone = 'ViewCatalogTests.replaceViewThatAlreadyExistsAsTable()'
    assert.deepEqual(inState('passed').filter(isOfViews), [needsNone])
  })
})
