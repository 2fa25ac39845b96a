/** Settings, and what `check` says of a source. */
import { CHECK_STEPS, isSluiceError } from '@sluice/sdk'
import { callDeadline } from '../call-deadline.ts'
import { expect } from '../check.ts'
import { type ConnectorContext, expectRows } from '../connector-context.ts'
import type { CheckStepName } from '../connector-fixture.ts'
import { brokenSettings, problemsOf, schemaProblems } from '../json-schema.ts'
import { secretNames } from '../overheard.ts'
import { parseVersion } from '../sdk-range.ts'
import type { ConnectorCheck } from './check.ts'

export const settingsChecks: readonly ConnectorCheck[] = [
  {
    id: 'C1',
    name: 'spec-schema-and-example',
    level: 'core',
    async run(context) {
      await context.filled()
      const { plugin, fixture } = context
      const { settingsSchema: schema } = plugin
      // What it declares is its answer here.
      context.listener.ask()
      const secrets = Object.entries(schema.properties ?? {}).filter(([name]) =>
        /password|secret|token|private_key/i.test(name),
      )
      const problems = [
        ...schemaProblems(schema),
        ...problemsOf(schema, fixture.settings).map((problem) => `the settings in use: ${problem}`),
        ...(schema.additionalProperties === false ? [] : ['unknown settings are accepted']),
        ...secrets.filter(([, one]) => one['x-secret'] !== true).map(([name]) => `${name} is no x-secret`),
        ...Object.entries(schema.properties ?? {}).flatMap(([name, { description }]) =>
          description ? [] : [`${name} has no description`],
        ),
        ...(plugin.description.trim().length >= 10 && parseVersion(plugin.version)
          ? []
          : ['description or version is missing']),
        ...(plugin.capabilities.modes.includes('full') ? [] : ['the mode full is not declared']),
      ]
      expect(problems.length === 0, () => ({
        what: problems.slice(0, 5).join('; '),
        where: 'defineConnector',
        why: 'forms are made from it, and secrets are encrypted by it',
        remedy: 'Correct what is named.',
      }))
      for (const { what, settings } of brokenSettings(schema, fixture.settings)) {
        if (problemsOf(schema, settings).length > 0) continue
        const refused = await context.open(settings).then(
          () => false,
          (error: unknown) => isSluiceError(error, 'CONFIG'),
        )
        expect(refused, () => ({
          what: `settings ${what} were accepted`,
          where: 'plugin.open',
          why: 'whoever writes the settings has to be told',
          remedy: 'Throw CONFIG, or let the schema refuse them.',
        }))
      }
    },
  },
  {
    id: 'C2',
    name: 'check-ok',
    level: 'core',
    async run(context) {
      const { table, rows } = await context.filled()
      const { connector, host } = await context.open()
      const report = await connector.check(callDeadline())
      const names = report.steps.map(({ name }) => name)
      const { steps } = context.fixture
      const wanted = steps ?? CHECK_STEPS.filter((name) => names.includes(name))
      const isOk = report.ok && names.length > 0 && report.steps.every(({ ok, message }) => ok && message.trim() !== '')
      expect(isOk && wanted.join() === names.join() && report.latencyMs >= 0, () => ({
        ...wrongReport('of a source that is in order', JSON.stringify(report)),
        expected: `ok, with the steps ${wanted.join(', ')}, each with a message`,
      }))
      expectDeclaredSteps(context, wanted, host.hasResolved)
      expectRows(table, rows, (await context.read(connector, table)).rows, 'what the check says is so')
    },
  },
  {
    id: 'C3',
    name: 'check-each-step-fails-with-remedy',
    level: 'core',
    async run(context) {
      await context.filled()
      const { broken, steps } = context.fixture
      const entries = Object.entries(broken)
      const isEnough = steps === undefined ? entries.length >= 3 : steps.every((step) => broken[step] !== undefined)
      expect(isEnough && entries.every(([step]) => steps?.includes(step as CheckStepName) ?? true), () => ({
        what: 'the fixture does not break what the source has',
        expected: `settings in broken that fail at ${steps?.join(', ') ?? 'at least three of the steps'}`,
        came: entries.map(([step]) => step).join(', ') || 'none',
        where: 'broken and steps of the fixture in conformance.ts',
        why: 'whether a connector tells what is wrong can be seen only where something is',
        remedy: 'Give settings that fail at each step; declare in steps those that a source of this kind has.',
      }))
      for (const [step, settings] of entries) {
        const { connector } = await context.open(settings)
        const report = await connector.check(callDeadline())
        const last = report.steps.at(-1)
        const before = report.steps.slice(0, -1)
        const order = CHECK_STEPS.indexOf(step as (typeof CHECK_STEPS)[number])
        const isTold =
          !report.ok &&
          last?.name === step &&
          !last.ok &&
          last.message.trim() !== '' &&
          (last.remedy ?? '').trim() !== ''
        const isInOrder = before.every(({ name, ok }) => ok && CHECK_STEPS.indexOf(name) < order)
        expect(isTold && isInOrder, () => ({
          ...wrongReport(`of settings that fail at ${step}`, JSON.stringify(report)),
          expected: `steps that are ok, and ${step} as the last, with ok: false, a message and a remedy`,
        }))
        await connector.close()
      }
    },
  },
  {
    id: 'C4',
    name: 'check-never-writes',
    level: 'core',
    async run(context) {
      const { table, rows } = await context.filled()
      const { connector } = await context.open()
      const before = await context.fixture.digest()
      await connector.check(callDeadline())
      await connector.discover({ after: null, limit: 10 }, callDeadline())
      const { rows: given, state } = await context.read(connector, table)
      await connector.ack({ schema: context.fixture.schema, table: table.name }, state)
      const after = await context.fixture.digest()
      expectRows(table, rows, given, 'the connector has to have been there')
      expect(before === after, () => ({
        what: 'the source is another after check, discover, read and ack',
        where: 'the digest of the whole source',
        why: 'it is somebody else’s, and most logins may not write',
        remedy: 'Open read-only transactions; make nothing that stays.',
      }))
    },
  },
]

/** What the connector does shows which steps there are, whatever is declared. */
function expectDeclaredSteps(context: ConnectorContext, steps: readonly string[], hasResolved: boolean): void {
  const needed = [
    ...(hasResolved ? ['dns', 'tcp'] : []),
    ...(secretNames(context.plugin.settingsSchema).length > 0 ? ['auth'] : []),
  ]
  expect(
    needed.every((step) => steps.includes(step)),
    () => ({
      what: 'check leaves out a step that the source has',
      expected: `the steps ${needed.join(', ')}: the connector ${hasResolved ? 'asks for an address' : 'has a secret'}`,
      came: steps.join(', ') || 'none',
      where: 'connector.check, and steps of the fixture',
      why: 'whoever sets up a connection is told at which step it fails',
      remedy: 'Report each step that there is, and declare it in steps of the fixture.',
    }),
  )
}

function wrongReport(when: string, given: string) {
  return {
    what: `${when}: ${given.slice(0, 600)}`,
    where: 'connector.check',
    why: 'whoever sets up a connection is led by it, step by step, to what is wrong',
    remedy: 'Go through the steps in order, end with the first that fails, and say there what to do.',
  }
}
