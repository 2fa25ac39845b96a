import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { SCHEDULES } from '../conformance-tests/checks/schedules.ts'
import { CERTIFIED } from '../packaging/certified.ts'
import { runChild } from './child.ts'
import type { Figures, Outcome, Proof, Request } from './proof.ts'

const ROOT = join(import.meta.dirname, '..')
const LAUNCHER = join(ROOT, 'conformance-tests/bin/sluice-conformance.js')

/** Stores that need no server beyond npm, and so can be put through everything on any machine. */
const EMBEDDED = CERTIFIED.filter(({ level, servers }) => level === 'hard' && servers === undefined)

/** What a report says of one store. */
interface Report {
  readonly checks: readonly { readonly name: string; readonly status: string }[]
}

function figuresOf({ checks }: Report): Figures {
  const count = (status: string) => checks.filter((check) => check.status === status).length
  return {
    checks: checks.length,
    passed: count('passed'),
    inverted: count('inverted'),
    notApplicable: count('not_applicable'),
    waived: count('waived'),
    failed: checks.filter(({ status }) => status === 'failed').map(({ name }) => name),
  }
}

/** The certificate of such a run is signed with a key that nobody keeps: certificates are made by `npm run certify`. */
async function prove(plugin: string, { seed, signal, say }: Request): Promise<readonly [boolean, Figures]> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-prove-'))
  try {
    const report = join(folder, 'report')
    const wish = ['--level', 'hard', '--seed', String(seed), '--report', report, '--key', join(folder, 'key.pem')]
    const { code, tail, seconds } = await runChild(process.execPath, [LAUNCHER, plugin, ...wish], { cwd: ROOT, signal })
    if (code !== 0) say(tail)
    const told = JSON.parse(await readFile(join(report, 'conformance.json'), 'utf8')) as Report
    return [code === 0, { ...figuresOf(told), seconds: Math.round(seconds) }]
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

function chosen(names: readonly string[]): readonly string[] {
  const known = EMBEDDED.map(({ plugin }) => plugin)
  const unknown = names.filter((name) => !known.includes(name))
  if (unknown.length > 0) throw new Error(`${unknown.join(', ')}: the embedded stores are ${known.join(', ')}`)
  return names.length === 0 ? known : names
}

async function run(request: Request): Promise<Outcome> {
  const { positionals } = parseArgs({ args: [...request.args], allowPositionals: true, options: {} })
  const stores: Record<string, Figures> = {}
  let holds = true
  for (const plugin of chosen(positionals)) {
    const [passed, figures] = await prove(plugin, request)
    stores[plugin] = figures
    holds &&= passed
    request.say(`${plugin}: ${passed ? 'holds' : 'fails'} after ${figures['seconds']} s`)
  }
  return { holds, figures: { schedulesEach: SCHEDULES.hard, stores } }
}

export const conformance: Proof = {
  name: 'conformance',
  proves: 'The embedded stores keep the contract at level hard, whose schedules of misfortunes the seed makes.',
  costs: 'about 60 minutes for 5,000 schedules of each store',
  options: [`PLUGIN…   some of ${EMBEDDED.map(({ plugin }) => plugin).join(', ')}`],
  of: [
    ...EMBEDDED.map(({ plugin }) => `${plugin}/**/*.ts`),
    ...['sdk/**/*.ts', 'conformance-tests/**/*.ts', 'package-lock.json'],
  ],
  run,
}
