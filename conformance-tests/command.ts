/** The command `sluice-conformance`: runs the suite against a plugin by its path or package name. */
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { type ConnectorPlugin, capabilityNames, SDK_VERSION, type ServingPlugin } from '@sluice/sdk'
import { buildNow } from './build.ts'
import { LEVELS } from './check.ts'
import {
  CONNECTOR_CHECKS,
  type ConnectorSuiteOptions,
  runConnectorSuite,
  selectConnectorChecks,
} from './connector-suite.ts'
import type { Fixture } from './context.ts'
import { HONESTY_CHECKS } from './honesty.ts'
import { capabilityLines, type KillRate, type KillRun, knownKillRate, measureKillRate } from './kill-rate.ts'
import { measureReads } from './measure.ts'
import { importBeside, packageOf, pluginModule } from './plugin-package.ts'
import type { Knobs } from './profile.ts'
import { type CheckNeeds, provedCapabilities } from './proof.ts'
import { Redactor } from './redaction.ts'
import { CHECKS } from './registry.ts'
import { replayCommand } from './replay.ts'
import { summaryLine, timeLine } from './report.ts'
import { writeReports } from './report-files.ts'
import {
  errorText,
  failureLines,
  type RecordedCheck,
  type RunCapabilities,
  type RunRecord,
  recordedCheck,
  recordOf,
} from './run-record.ts'
import { defaultKeyFile } from './signing-key.ts'
import { parseSchedule } from './simulation/schedule.ts'
import { type CheckResult, runSuite, type SuiteOptions, selectChecks, type Waiver } from './suite.ts'

const USAGE = `usage: sluice-conformance PLUGIN [options]

A plugin whose package has a script named build is built first, so that what is tried is what its sources say now.

PLUGIN is a folder or module with a serving plugin as its default export, or a package's name. Beside it stands
conformance.ts (or .js) with: start(): Promise<{settings, restart(), stop()}>, and perhaps knobs and waivers; or
--fixture names such a module.

  --level core|full|hard   how much to run (core)
  --fixture FILE           the module to use in the place of conformance.ts beside the plugin
  --seed N                 the same seed makes the same rows (1)
  --only NAME|ID,…         these checks alone; M1 to M8 are of the suite itself and need no plugin
  --replay FILE            what failed in that conformance.json, with its level, seed and schedules
  --saboteurs              try the suite itself on defective plugins, and print how many it catches; needs no plugin
  --bench                  also measure point reads; they are told and never judged
  --report DIR             write reports there (JSON, JUnit, HTML, a badge), and, of a whole level, a certificate
  --key FILE               the Ed25519 key that signs it, made on first use
  --signer NAME            who signs it, for people to read; it is worth what the key is
  --no-build               try what was built before, of which no certificate is made
  --list                   name the checks and end: those of the plugin and level, or without a plugin all there are

ends with 0 where every check holds, 1 where one fails, 2 where the suite could not run`

interface FixtureModule {
  readonly start: () => Promise<Fixture>
  readonly knobs?: Knobs
  readonly waivers?: readonly Waiver[]
}

export interface Output {
  line(text: string): void
  problem(text: string): void
}

/** What the command line asks for, once the plugin is loaded. */
interface Request {
  readonly modulePath: string
  readonly options: SuiteOptions | ConnectorSuiteOptions
  readonly redactor: Redactor
  /** Whether it is a whole level, of which a certificate can be made. */
  readonly isWhole: boolean
  /** Whether what is tried is known to be what the sources say. */
  readonly isOfSources: boolean
  /** The command that does it again, or these checks of it. */
  replay(only?: readonly string[]): string
  /** That the fixture names, once it was started. */
  server(): string | undefined
}

/** The exit code: 0, 1 or 2, as the usage says. */
export async function main(args: readonly string[], output: Output): Promise<0 | 1 | 2> {
  const redactor = new Redactor()
  try {
    const { values, positionals } = parse(args)
    if (values.help) {
      output.line(USAGE)
      return 0
    }
    const [specifier] = positionals
    if (specifier === undefined && (values.list || values.saboteurs || isOfSuite(values.only))) {
      return await withoutPlugin(values, output)
    }
    if (specifier === undefined || positionals.length > 1) throw new Error(`one plugin is needed\n\n${USAGE}`)
    const request = await requestOf(specifier, values, redactor)
    if (values.list) {
      for (const check of checksOf(request.options)) output.line(listed(check))
      return 0
    }
    return await runAndReport(request, values, output)
  } catch (error) {
    output.problem(`sluice-conformance: ${redactor.redact(errorText(error))}`)
    return 2
  }
}

function parse(args: readonly string[]) {
  return parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      level: { type: 'string' },
      fixture: { type: 'string' },
      seed: { type: 'string' },
      only: { type: 'string' },
      replay: { type: 'string' },
      saboteurs: { type: 'boolean', default: false },
      bench: { type: 'boolean', default: false },
      report: { type: 'string' },
      key: { type: 'string' },
      signer: { type: 'string' },
      'no-build': { type: 'boolean', default: false },
      list: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
}

/** What concerns nobody's plugin: the list of all checks, and the suite's own honesty. */
async function withoutPlugin(values: Values, output: Output): Promise<0 | 1> {
  if (values.list) {
    for (const check of [...CHECKS, ...CONNECTOR_CHECKS, ...HONESTY_CHECKS]) output.line(listed(check))
    return 0
  }
  if (values.saboteurs) {
    const { caught, of, missed, byCapability } = await measureKillRate((line) => output.line(line))
    for (const line of capabilityLines(byCapability)) output.line(line)
    for (const line of missed) output.line(`MISSED  ${line}`)
    output.line(`kill rate: ${caught} of ${of} (${Math.floor((caught / of) * 100)} %)`)
    return missed.length === 0 ? 0 : 1
  }
  let failures = 0
  for (const wanted of values.only?.split(',') ?? []) {
    const check = HONESTY_CHECKS.find(({ id, name }) => wanted.trim() === id || wanted.trim() === name)
    if (!check) throw new Error(`${wanted} is no check of the suite itself, and without a plugin no other can run`)
    const error = await check.run().then(
      () => null,
      (thrown: unknown) => thrown ?? new Error('nothing was thrown'),
    )
    failures += error === null ? 0 : 1
    output.line(
      `${error === null ? 'ok' : 'FAILED'} ${check.id} ${check.name}${error === null ? '' : `\n${errorText(error)}`}`,
    )
  }
  return failures === 0 ? 0 : 1
}

function isOfSuite(only: string | undefined): boolean {
  const names = HONESTY_CHECKS.flatMap(({ id, name }) => [id, name])
  return only?.split(',').some((wanted) => names.includes(wanted.trim())) ?? false
}

function listed({
  id,
  name,
  aliases = [],
}: {
  readonly id: number | string
  readonly name: string
  readonly aliases?: readonly string[]
}): string {
  return [id, name, ...aliases].join(' ')
}

type Values = ReturnType<typeof parse>['values']

async function requestOf(specifier: string, values: Values, redactor: Redactor): Promise<Request> {
  const wish = values.replay === undefined ? wishOf(values) : await replayOf(values.replay, values)
  const modulePath = await pluginModule(specifier)
  const isOfSources = await buildNow(modulePath, !values['no-build'])
  const module = (await import(pathToFileURL(modulePath).href)) as {
    readonly default?: ServingPlugin | ConnectorPlugin
  }
  const plugin = module.default
  if (plugin?.kind !== 'serving' && plugin?.kind !== 'connector') {
    throw new Error(`${specifier} has no serving plugin or connector as its default export`)
  }
  const fixture = await fixtureOf(modulePath, specifier, values.fixture)
  let server: string | undefined
  const start = async () => {
    const started = await fixture.start()
    redactor.learn(plugin.settingsSchema, started.settings)
    server = started.server
    return started
  }
  const manifest = (await packageOf(modulePath))?.manifest
  const options = {
    ...{ plugin, ...fixture, start, ...wish },
    ...(manifest ? { manifest } : {}),
  } as unknown as Request['options']
  checksOf(options)
  const { level, seed, only } = wish
  const replay = (checks = only) => replayCommand({ plugin: specifier, fixture: values.fixture, level, seed }, checks)
  return { modulePath, options, redactor, isWhole: only.length === 0, isOfSources, replay, server: () => server }
}

function isOfConnector(options: Request['options']): options is ConnectorSuiteOptions {
  return options.plugin.kind === 'connector'
}

/** The checks that are asked for; throws for a name that is none. */
function checksOf(options: Request['options']) {
  return isOfConnector(options) ? selectConnectorChecks(options) : selectChecks(options)
}

async function fixtureOf(modulePath: string, specifier: string, named: string | undefined): Promise<FixtureModule> {
  const module = named === undefined ? await importBeside(modulePath) : await import(pathToFileURL(resolve(named)).href)
  const { start, knobs, waivers } = module as Partial<FixtureModule>
  if (typeof start !== 'function') {
    throw new Error(`${named ?? `conformance.ts beside ${specifier}`} does not export start()`)
  }
  return { start, ...(knobs ? { knobs } : {}), ...(waivers ? { waivers } : {}) }
}

type Wish = Required<Pick<SuiteOptions, 'level' | 'seed' | 'only'>> & Pick<SuiteOptions, 'schedules'>

function wishOf({ level: wanted = 'core', seed: text = '1', only }: Values): Wish {
  const level = LEVELS.find((candidate) => candidate === wanted)
  if (level === undefined) throw new Error(`--level is one of ${LEVELS.join(', ')}`)
  const seed = Number(text)
  if (!Number.isSafeInteger(seed) || seed < 0) throw new Error('--seed is a whole number')
  return { level, seed, only: only?.split(',').map((name) => name.trim()) ?? [] }
}

/** The failing checks of a former run, as it ran them. */
async function replayOf(file: string, values: Values): Promise<Wish> {
  if (values.level ?? values.seed ?? values.only) throw new Error('--replay brings its own level, seed and checks')
  const report = (await readFile(file, 'utf8').then(JSON.parse, () => null)) as Partial<RunRecord> | null
  if (!Array.isArray(report?.checks)) throw new Error('--replay needs a conformance.json that a run has written')
  const failed = (report.checks as readonly RecordedCheck[]).filter(({ status }) => status === 'failed')
  if (failed.length === 0) throw new Error('nothing failed in that run, so there is nothing to replay')
  const schedules = failed.flatMap(({ failure }) => parseSchedule(failure?.schedule) ?? [])
  const wish = wishOf({
    ...values,
    level: String(report.level),
    seed: String(report.seed),
    only: failed.map(({ name }) => name).join(','),
  })
  return schedules.length > 0 ? { ...wish, schedules } : wish
}

async function runAndReport(request: Request, values: Values, output: Output): Promise<0 | 1> {
  const { options, redactor } = request
  const { plugin, level = 'core', seed = 1 } = options
  const again = (check: string) => request.replay([check])
  const tell = (result: CheckResult) => output.line(checkLine(recordedCheck(result, redactor, again)))
  const results = await (isOfConnector(options) ? runConnectorSuite(options, tell) : runSuite(options, tell))
  const suite = (await packageOf(import.meta.filename))?.version ?? SDK_VERSION
  const server = request.server()
  const facts = {
    plugin: `${plugin.type}/${plugin.name}`,
    version: plugin.version,
    sdk: SDK_VERSION,
    suite,
    level,
    seed,
    date: new Date().toISOString().slice(0, 'YYYY-MM-DD'.length),
    replay: request.replay(),
    ...(server === undefined ? {} : { server }),
  }
  const record = recordOf(facts, results, redactor, again)
  const run: RunRecord = {
    ...record,
    ...(request.isWhole ? { capabilities: capabilitiesOf(plugin, record) } : {}),
    ...(values.report === undefined ? {} : { killRate: rateOf(await knownKillRate()) }),
    ...(values.bench && !isOfConnector(options) ? { measurements: await measureReads(options) } : {}),
  }
  for (const { name, p50Ms, p99Ms } of run.measurements ?? []) {
    output.line(`measured      ${name}: median ${p50Ms} ms, 99th percentile ${p99Ms} ms`)
  }
  if (run.killRate) {
    output.line(`defective stores caught by this suite: ${run.killRate.caught} of ${run.killRate.of}`)
    for (const line of capabilityLines(run.killRate.byCapability ?? {})) output.line(`  ${line}`)
  }
  if (values.report !== undefined) {
    const place = { folder: values.report, keyFile: values.key ?? defaultKeyFile(), signer: values.signer }
    for (const line of await writeReports(run, certifiedOf(request), place)) output.line(line)
  }
  output.line(timeLine(run))
  output.line(summaryLine(run))
  return run.checks.some(({ status }) => status === 'failed') ? 1 : 0
}

/** What a certificate is to be of, or why none is to be made. */
function certifiedOf({ isWhole, isOfSources, modulePath, options: { plugin } }: Request) {
  if (!isWhole) return 'it is made of a whole level'
  if (!isOfSources) return 'with --no-build nobody knows whether what was tried is what the sources say'
  return { plugin, modulePath }
}

function capabilitiesOf(plugin: ServingPlugin | ConnectorPlugin, record: RunRecord): RunCapabilities {
  const on = provedCapabilities(plugin, record, needsOf(plugin))
  return { on, off: capabilityNames(plugin).filter((name) => !on.includes(name)) }
}

function rateOf({ caught, of, byCapability }: KillRun): KillRate & Pick<KillRun, 'byCapability'> {
  return { caught, of, byCapability }
}

/** What each check needs to be declared, in the words of the capability table. */
function needsOf({ kind }: ServingPlugin | ConnectorPlugin): readonly CheckNeeds[] {
  if (kind === 'serving') return CHECKS
  return CONNECTOR_CHECKS.map(({ name, requires }) => ({
    name,
    ...(requires === undefined ? {} : { requires: [{ name: `mode ${requires}` }] }),
  }))
}

const MARKS = {
  passed: 'ok',
  inverted: 'ok (inverted)',
  not_applicable: 'n/a',
  waived: 'WAIVED',
  failed: 'FAILED',
} as const

function checkLine({ id, name, status, reason, failure }: RecordedCheck): string {
  const line = `${MARKS[status].padEnd(13)} ${String(id).padStart(3)} ${name}${reason ? ` (${reason})` : ''}`
  return failure === undefined ? line : [line, ...failureLines(failure).map((text) => `    ${text}`)].join('\n')
}
