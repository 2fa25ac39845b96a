/** The suite's own promises: what it says of others has to be worth something. No plugin is needed to prove them. */
import { type ConnectorPlugin, type ServingPlugin, SluiceError } from '@sluice/sdk'
import { expect } from './check.ts'
import { nullConnectorPlugin } from './connector-saboteurs/index.ts'
import { CONNECTOR_CHECKS, runConnectorSuite } from './connector-suite.ts'
import { measureKillRate } from './kill-rate.ts'
import { Random } from './random.ts'
import { Redactor } from './redaction.ts'
import { start as startReference } from './reference/conformance.ts'
import reference, { ReferenceMemory } from './reference/index.ts'
import { start as startSource } from './reference-connector/conformance.ts'
import connector from './reference-connector/index.ts'
import { CHECKS } from './registry.ts'
import { recordOf } from './run-record.ts'
import { nullStorePlugin, SABOTEURS } from './saboteurs/index.ts'
import { type CheckResult, runSuite, type SuiteOptions } from './suite.ts'

export interface HonestyCheck {
  /** `M1` and so on. */
  readonly id: string
  readonly name: string
  run(): Promise<void>
}

export const HONESTY_CHECKS: readonly HonestyCheck[] = [
  {
    id: 'M1',
    name: 'reference-plugin-passes-all',
    async run() {
      expectAll(
        await runSuite({ plugin: reference, start: startReference, level: 'full' }),
        ['passed'],
        'the reference store',
      )
      expectAll(await runReader(connector), ['passed', 'inverted'], 'the reference connector')
    },
  },
  {
    id: 'M2',
    name: 'every-mutant-killed-by-its-check',
    async run() {
      const { caught, of, missed } = await measureKillRate()
      expect(caught === of && of >= 60, () => dishonest(`${caught} of ${of} are caught, and not ${missed.join('; ')}`))
    },
  },
  {
    id: 'M3',
    name: 'no-check-passes-on-null-store',
    async run() {
      const results = await runSuite({ plugin: nullStorePlugin, start: startReference, level: 'full' })
      expectAll(results, ['failed'], 'the store that does nothing')
      expectAll(await runReader(nullConnectorPlugin), ['failed'], 'the connector that does nothing')
      expect(results.length === CHECKS.length, () => dishonest(`only ${results.length} checks ran`))
    },
  },
  {
    id: 'M4',
    name: 'report-reproducible-by-seed',
    async run() {
      const broken = SABOTEURS.find(({ name }) => name === 'takes lt for le')?.plugin ?? reference
      for (const plugin of [reference, broken]) {
        const texts = [await reportOf({ plugin, seed: 5 }), await reportOf({ plugin, seed: 5 })]
        expect(texts[0] === texts[1], () => dishonest('two runs of one seed give two reports'))
      }
      const other = await reportOf({ plugin: broken, seed: 6, only: ['52'] })
      expect(other !== (await reportOf({ plugin: broken, seed: 5, only: ['52'] })), () =>
        dishonest('the seed makes no difference'),
      )
    },
  },
  {
    id: 'M5',
    name: 'waivers-expire',
    async run() {
      const waiver = { check: 'upsert-last-wins-within-batch', reason: 'known', issue: '#1' }
      const statuses: (string | undefined)[] = []
      for (const expires of ['9999-12-31', '2020-01-01']) {
        const waivers = [{ ...waiver, expires }]
        const [result] = await runSuite({ plugin: nullStorePlugin, start: startReference, only: ['37'], waivers })
        statuses.push(result?.status)
      }
      expect(statuses.join() === 'waived,failed', () =>
        dishonest(`a waiver that stands and one that has expired give ${statuses.join()}`),
      )
    },
  },
  {
    id: 'M6',
    name: 'no-residue-after-run',
    async run() {
      const memory = new ReferenceMemory()
      const fixture = { settings: { memory }, async restart() {}, async stop() {} }
      await runSuite({ plugin: reference, start: async () => fixture })
      const broken = SABOTEURS.find(({ name }) => name === 'does not delete')?.plugin ?? reference
      await runSuite({ plugin: broken, start: async () => fixture })
      const source = await startSource()
      await runReader(connector, async () => source)
      const { tables, sessions, log } = source.source
      const left = [memory.all().length, tables.length, sessions, log.captures.length]
      expect(
        left.every((count) => count === 0),
        () => dishonest(`datasets, tables, sessions and captures are left: ${left.join(', ')}`),
      )
    },
  },
  {
    id: 'M7',
    name: 'order-independent',
    async run() {
      for (const seed of [2, 3]) {
        const checks = new Random(seed).shuffled(CHECKS)
        expectAll(
          await runSuite({ plugin: reference, start: startReference, checks, seed }),
          ['passed'],
          `the reference store, shuffled by ${seed}`,
        )
        const others = new Random(seed).shuffled(CONNECTOR_CHECKS)
        const results = await runConnectorSuite({ plugin: connector, start: startSource, checks: others, seed })
        expectAll(results, ['passed', 'inverted'], `the reference connector, shuffled by ${seed}`)
      }
    },
  },
  {
    id: 'M8',
    name: 'redaction-of-report',
    async run() {
      const password = 'pangolin-0c4d'
      const plugin: ServingPlugin = {
        ...(reference as unknown as ServingPlugin),
        settingsSchema: { type: 'object', properties: { password: { type: 'string', 'x-secret': true } } },
        open: () =>
          Promise.reject(
            new SluiceError('CONFIG', `cannot log in with ${password}`, { code: 'login', remedy: password }),
          ),
      }
      const settings = { password }
      const redactor = new Redactor()
      redactor.learn(plugin.settingsSchema, settings)
      const results = await runSuite({
        plugin,
        start: async () => ({ settings, async restart() {}, async stop() {} }),
        only: ['37', '44'],
      })
      const text = JSON.stringify(recordOf(factsOf(1), results, redactor))
      expectAll(results, ['failed'], 'a store that tells its password')
      expect(!text.includes(password) && text.includes('cannot log in'), () =>
        dishonest('a secret of the settings stands in the report'),
      )
    },
  },
]

function runReader(plugin: ConnectorPlugin<never>, start: typeof startSource = startSource) {
  return runConnectorSuite({ plugin, start, level: 'core' })
}

function factsOf(seed: number) {
  return {
    plugin: 'reference/memory',
    version: '0',
    sdk: '0',
    suite: '0',
    level: 'core',
    seed,
    date: '',
    replay: '',
  } as const
}

/** The report without times. */
async function reportOf(options: Partial<SuiteOptions> & Pick<SuiteOptions, 'plugin' | 'seed'>): Promise<string> {
  const results = await runSuite({ start: startReference, ...options })
  const { checks } = recordOf(factsOf(options.seed ?? 1), results, new Redactor())
  return JSON.stringify(checks.map(({ elapsedMs: _, ...check }) => check))
}

function expectAll(results: readonly CheckResult[], wanted: readonly CheckResult['status'][], what: string): void {
  const others = results.filter(({ status }) => !wanted.includes(status))
  expect(results.length > 0 && others.length === 0, () =>
    dishonest(
      `${what}: ${others.map(({ id, name, status, error }) => `${id} ${name} ${status} ${String(error ?? '').slice(0, 300)}`).join('; ')}`,
    ),
  )
}

function dishonest(what: string) {
  return {
    what,
    where: 'the suite itself',
    why: 'a proof is worth what its checker is',
    remedy: 'Correct the check that is named, or give it a saboteur.',
  }
}
