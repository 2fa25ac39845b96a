/** The command `sluice-conformance`: runs the suite against a plugin by its path or package name. */
import { mkdir, stat, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import type { ServingPlugin } from '@sluice/sdk'
import { LEVELS, type Level } from './check.ts'
import type { Fixture } from './context.ts'
import type { Knobs } from './profile.ts'
import { failureText, jsonReport, junitReport, type RunFacts, summaryLine } from './report.ts'
import { type CheckResult, runSuite, type SuiteOptions, selectChecks, type Waiver } from './suite.ts'

const USAGE = `usage: sluice-conformance PLUGIN [options]

PLUGIN is a folder or module with a serving plugin as its default export, or a package's name. Beside it stands
conformance.ts (or .js) with: start(): Promise<{settings, restart(), stop()}>, and perhaps knobs and waivers.

  --level core|full|hard   how much to run (core)
  --seed N                 the same seed makes the same rows (1)
  --only NAME|ID,…         these checks alone
  --report DIR             write conformance.json and conformance.xml (JUnit) there
  --list                   name the checks and end

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

/** The exit code: 0, 1 or 2, as the usage says. */
export async function main(args: readonly string[], output: Output): Promise<0 | 1 | 2> {
  try {
    const { values, positionals } = parse(args)
    if (values.help) {
      output.line(USAGE)
      return 0
    }
    const [specifier] = positionals
    if (specifier === undefined || positionals.length > 1) throw new Error(`one plugin is needed\n\n${USAGE}`)
    const options = await optionsFor(specifier, values)
    if (values.list) {
      for (const { id, name } of selectChecks(options)) output.line(`${id} ${name}`)
      return 0
    }
    return await runAndReport(options, values.report, output)
  } catch (error) {
    output.problem(`sluice-conformance: ${failureText(error)}`)
    return 2
  }
}

function parse(args: readonly string[]) {
  return parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      level: { type: 'string', default: 'core' },
      seed: { type: 'string', default: '1' },
      only: { type: 'string' },
      report: { type: 'string' },
      list: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
}

async function optionsFor(specifier: string, values: ReturnType<typeof parse>['values']): Promise<SuiteOptions> {
  const level = LEVELS.find((candidate) => candidate === values.level)
  if (level === undefined) throw new Error(`--level is one of ${LEVELS.join(', ')}`)
  const seed = Number(values.seed)
  if (!Number.isSafeInteger(seed) || seed < 0) throw new Error('--seed is a whole number')
  const { plugin, fixture } = await load(specifier)
  const only = values.only?.split(',').map((name) => name.trim()) ?? []
  const options: SuiteOptions = { plugin, ...fixture, level: level as Level, seed, only }
  selectChecks(options)
  return options
}

async function runAndReport(options: SuiteOptions, folder: string | undefined, output: Output): Promise<0 | 1> {
  const results = await runSuite(options, (result) => output.line(resultLine(result)))
  const { plugin, level = 'core', seed = 1 } = options
  const facts: RunFacts = { plugin: `${plugin.type}/${plugin.name}`, version: plugin.version, level, seed, results }
  if (folder !== undefined) {
    await mkdir(folder, { recursive: true })
    await writeFile(join(folder, 'conformance.json'), jsonReport(facts))
    await writeFile(join(folder, 'conformance.xml'), junitReport(facts))
  }
  output.line(summaryLine(facts))
  return results.some(({ status }) => status === 'failed') ? 1 : 0
}

const MARKS = {
  passed: 'ok',
  inverted: 'ok (inverted)',
  not_applicable: 'n/a',
  waived: 'WAIVED',
  failed: 'FAILED',
} as const

function resultLine({ id, name, status, reason, error }: CheckResult): string {
  const line = `${MARKS[status].padEnd(13)} ${String(id).padStart(3)} ${name}${reason ? ` (${reason})` : ''}`
  return error === undefined ? line : `${line}\n${indented(failureText(error))}`
}

function indented(text: string): string {
  return text.replaceAll(/^/gm, '    ')
}

/** The plugin's module and the fixture beside it. */
async function load(specifier: string): Promise<{ readonly plugin: ServingPlugin; readonly fixture: FixtureModule }> {
  const path = await modulePath(specifier)
  const { default: plugin } = (await import(pathToFileURL(path).href)) as { readonly default?: ServingPlugin }
  if (plugin?.kind !== 'serving') throw new Error(`${specifier} has no serving plugin as its default export`)
  for (const name of ['conformance.ts', 'conformance.js']) {
    const beside = join(dirname(path), name)
    if (!(await isFile(beside))) continue
    const fixture = (await import(pathToFileURL(beside).href)) as FixtureModule
    if (typeof fixture.start === 'function') return { plugin, fixture }
    throw new Error(`${name} beside ${specifier} does not export start()`)
  }
  throw new Error(`there is no conformance.ts beside ${specifier}: export start() from one`)
}

async function modulePath(specifier: string): Promise<string> {
  const path = resolve(specifier)
  for (const candidate of [path, join(path, 'index.ts'), join(path, 'index.js')]) {
    if (await isFile(candidate)) return candidate
  }
  try {
    return createRequire(join(process.cwd(), 'plugin.js')).resolve(specifier)
  } catch {
    throw new Error(`${specifier} is neither a folder or module nor an installed package`)
  }
}

async function isFile(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null))?.isFile() ?? false
}
