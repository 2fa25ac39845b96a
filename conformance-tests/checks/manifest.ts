/** What a plugin says of itself, before and while it runs. What is said of a store that holds nothing proves nothing. */
import { type Capabilities, LOGICAL_TYPE_NAMES, READ_OPERATIONS, SDK_VERSION, type ServingPlugin } from '@sluice/sdk'
import { type Check, expect } from '../check.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { problemsOf, schemaProblems } from '../json-schema.ts'
import { answerOf, planOf, pointPlan } from '../reading.ts'
import { parseVersion, rangeHolds } from '../sdk-range.ts'
import { SIMPLE } from '../shapes.ts'

const NAME = /^[a-z][a-z0-9_-]*$/

export const manifestChecks: readonly Check[] = [
  {
    id: 1,
    name: 'manifest-schema-valid',
    level: 'core',
    async run(context) {
      await context.filled(4)
      const { plugin } = context
      const problems = [
        ...(NAME.test(plugin.type) && NAME.test(plugin.name) ? [] : ['type and name are lower-case words']),
        ...(parseVersion(plugin.version) ? [] : [`the version ${plugin.version} is none`]),
        ...(plugin.description.trim().length >= 10 ? [] : ['there is no description']),
        ...schemaProblems(plugin.settingsSchema).map((problem) => `settingsSchema: ${problem}`),
        ...schemaProblems(plugin.configSchema).map((problem) => `configSchema: ${problem}`),
        ...tableProblems(plugin.capabilities),
      ]
      expectNone(problems, 'defineServingPlugin', 'pages, forms and checks are made from it')
    },
  },
  {
    id: 2,
    name: 'spec-range-negotiates',
    level: 'core',
    async run(context) {
      await context.filled(4)
      const { plugin, manifest } = context
      const range = manifest?.sdk ?? `^${SDK_VERSION}`
      const [major, minor] = parseVersion(SDK_VERSION) ?? [1, 0]
      const answers = {
        own: rangeHolds(range, SDK_VERSION),
        laterMinor: rangeHolds(range, `${major}.${minor + 1}.0`),
        laterMajor: rangeHolds(range, `${major + 1}.0.0`),
        formerMajor: rangeHolds(range, `${Math.max(0, major - 1)}.9.0`),
      }
      const isRight = answers.own && answers.laterMinor && !answers.laterMajor && (major === 0 || !answers.formerMajor)
      const entries = Object.values(manifest?.plugins ?? {})
      const isListed = entries.some(
        ({ kind, type, name }) => kind === 'serving' && type === plugin.type && name === plugin.name,
      )
      expect(isRight === true && (manifest === undefined || isListed), () => ({
        what: isRight
          ? `no entry of the manifest is the serving plugin ${plugin.type}/${plugin.name}`
          : `the range ${range} does not hold exactly the minor versions from ${SDK_VERSION} on`,
        where: 'package.json, sluice',
        why: 'the runtime decides by it, before any code is loaded, whether the plugin fits: minor versions only add',
        remedy: `Write ^${SDK_VERSION}, and name every plugin of the package with its kind, type and name.`,
      }))
    },
  },
  {
    id: 3,
    name: 'config-schema-accepts-example-rejects-unknown',
    level: 'core',
    async run(context) {
      await context.filled(4)
      const { plugin, fixture } = context
      const config = context.targetFor(SIMPLE).config as Readonly<Record<string, unknown>>
      const unknown = { ...config, no_such_option: true }
      const problems = [
        ...problemsOf(plugin.configSchema, config).map((problem) => `the suite’s own config: ${problem}`),
        ...problemsOf(plugin.settingsSchema, fixture.settings).map((problem) => `the settings in use: ${problem}`),
        ...(plugin.checkConfig?.(config, SIMPLE) ?? []).map(({ pointer, message }) => `${pointer}: ${message}`),
        ...(problemsOf(plugin.configSchema, unknown).length > 0 ? [] : ['an unknown option is accepted']),
        ...misspelt(plugin, config),
      ]
      expectNone(problems, 'configSchema and checkConfig', 'a misspelt option must be refused when it is written')
    },
  },
  {
    id: 14,
    name: 'capabilities-stable-across-opens',
    level: 'core',
    async run(context) {
      const texts = [tableText(context.capabilities)]
      const dataset = await context.filled(4)
      texts.push(tableText(context.capabilities))
      await context.reopen()
      await dataset.expectRows('the store is used between two looks at its table')
      texts.push(tableText(context.capabilities))
      expect(new Set(texts).size === 1, () => ({
        what: 'the capability table changes while the plugin runs',
        where: 'plugin.capabilities',
        why: 'the runtime reads it once, and pages are made from it',
        remedy: 'Make it a constant.',
      }))
    },
  },
  {
    id: 15,
    name: 'implications-hold',
    level: 'core',
    async run(context) {
      const dataset = await context.filled(4)
      const problems = impliedProblems(context)
      if (context.capabilities.jsonBatches && !(await givesJson(context, dataset))) {
        problems.push('jsonBatches is declared, and a read with encoding json gives columns')
      }
      expectNone(problems, 'capabilities', 'one line of the table promises others')
    },
  },
]

function expectNone(problems: readonly string[], where: string, why: string): void {
  expect(problems.length === 0, () => ({
    what: problems.slice(0, 5).join('; '),
    where,
    why,
    remedy: 'Correct what is named.',
  }))
}

function tableText(capabilities: Capabilities): string {
  return JSON.stringify(capabilities)
}

function tableProblems({ commit, operations, filters, types, limits, ttl }: Capabilities): readonly string[] {
  const known: readonly string[] = READ_OPERATIONS
  const operators = ['eq', 'ne', 'lt', 'le', 'gt', 'ge', 'in']
  const { namePattern = '', ...counts } = limits
  return [
    ...(['atomic', 'per-key', 'lake'].includes(commit) ? [] : [`commit is ${commit}`]),
    ...(operations.length > 0 ? [] : ['no operation is declared']),
    ...operations.filter((name) => !known.includes(name)).map((name) => `the operation ${name} is unknown`),
    ...filters.filter((name) => !operators.includes(name)).map((name) => `the filter ${name} is unknown`),
    ...LOGICAL_TYPE_NAMES.filter((name) => !['exact', 'lossy', 'rejected'].includes(types[name])).map(
      (name) => `nothing is said of the type ${name}`,
    ),
    ...Object.entries(counts)
      .filter(([, limit]) => !(Number.isSafeInteger(limit) && limit > 0))
      .map(([name]) => `${name} is no count`),
    ...(isPattern(namePattern) ? [] : ['namePattern is no regular expression']),
    ...(ttl === undefined || ttl.granularityMs > 0 ? [] : ['the granularity of ttl is not positive']),
  ]
}

function isPattern(text: string): boolean {
  try {
    return new RegExp(text, 'u') instanceof RegExp
  } catch {
    return false
  }
}

/** Names of columns that do not exist must be found by `checkConfig`, with a pointer to where they stand. */
function misspelt(plugin: ServingPlugin, config: Readonly<Record<string, unknown>>): readonly string[] {
  return Object.keys(plugin.configSchema.properties ?? {})
    .filter((name) => name.endsWith('_columns') || name.endsWith('_column'))
    .flatMap((name) => {
      const wrong = { ...config, [name]: name.endsWith('s') ? ['no_such_column'] : 'no_such_column' }
      const found = plugin.checkConfig?.(wrong, SIMPLE) ?? []
      return found.some(({ pointer }) => pointer.startsWith(`/${name}`))
        ? []
        : [`/${name} may name a column that is not there`]
    })
}

function impliedProblems({ capabilities, store, plugin }: CheckContext): string[] {
  const { operations, filters, histories = ['current'], commit, ttl, limits } = capabilities
  const has = (name: (typeof operations)[number]) => operations.includes(name)
  const rules: readonly (readonly [boolean, string])[] = [
    [!has('get') || filters.includes('eq'), 'get is declared without the filter eq'],
    [!has('aggregate') || has('range'), 'aggregate is declared without range'],
    [histories.includes('current'), 'histories leave out current'],
    [!histories.includes('type_2') || has('get') || has('scan'), 'type_2 is declared, and nothing can read a history'],
    [commit !== 'lake' || ttl === undefined, 'a store that keeps no rows declares that they expire'],
    [has('key') || has('get') || has('scan') || has('range'), 'no operation gives rows'],
    [
      limits.maxReadRows === 1 || operations.some((name) => name !== 'key'),
      'a key has one row, and maxReadRows is more',
    ],
    [
      !has('key') || plugin.configSchema.properties?.['key_template'] !== undefined,
      'key is declared without key_template',
    ],
    ...(['recover', 'validate', 'activate', 'digest', 'query'] as const).map((name): readonly [boolean, string] => [
      capabilities[name] !== true || typeof store[name] === 'function',
      `${name} is declared, and there is no such hook`,
    ]),
  ]
  return rules.filter(([holds]) => !holds).map(([, problem]) => problem)
}

async function givesJson({ store }: CheckContext, dataset: Dataset): Promise<boolean> {
  const [way = 'scan'] = dataset.ways()
  const [row = []] = [...dataset.content.values()]
  const sight = { target: dataset.target, template: dataset.template, candidates: [] }
  const plan =
    way === 'range' ? planOf(SIMPLE, way, { encoding: 'json' }) : pointPlan(way, row, sight, { encoding: 'json' })
  return (await answerOf(store, dataset.target, plan)).objects.length > 0
}
