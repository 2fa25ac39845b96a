import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { runChild } from './child.ts'
import type { Figures, Outcome, Proof, Request } from './proof.ts'
import { RUNTIME_SOURCES } from './runtime-sources.ts'

const ROOT = join(import.meta.dirname, '..')
const KILLS = 200

/** What the test reports when all kills are done: `seed 7: 230 kills, 260 starts, 61 runs checked`. */
const SUMMARY = /^seed \d+: (?<kills>\d+) kills, (?<starts>\d+) starts, (?<runs>\d+) runs checked$/
const PROGRESS = /^seed \d+: \d+ kills, \d+ runs checked$/
const HIT = /^ {2}(?<point>[\w.-]+): (?<count>\d+)$/

/** The figures in what the test has printed. */
export function crashFigures(lines: readonly string[]): Figures {
  const plain = lines.map((line) => line.replace(/^ℹ /, '').trimEnd())
  const summary = plain.map((line) => SUMMARY.exec(line)?.groups).findLast((groups) => groups !== undefined)
  const hits = plain.flatMap((line) => {
    const { point, count } = HIT.exec(line)?.groups ?? {}
    return point === undefined ? [] : [[point, Number(count)] as const]
  })
  return {
    kills: Number(summary?.['kills'] ?? 0),
    starts: Number(summary?.['starts'] ?? 0),
    runsChecked: Number(summary?.['runs'] ?? 0),
    killsByPoint: Object.fromEntries(hits),
  }
}

async function run({ seed, args, signal, say }: Request): Promise<Outcome> {
  const { values } = parseArgs({ args: [...args], options: { kills: { type: 'string', default: String(KILLS) } } })
  const lines: string[] = []
  const hear = (line: string) => {
    lines.push(line)
    if (PROGRESS.test(line)) say(line)
  }
  const tests = ['--test', '--test-reporter=spec', 'test/crash/crash.int.test.ts']
  const env = { SLUICE_CRASH_KILLS: values.kills, SLUICE_CRASH_SEED: String(seed) }
  const { code, tail } = await runChild(process.execPath, tests, { cwd: ROOT, env, signal, onLine: hear })
  if (code !== 0) say(tail)
  const figures = crashFigures(lines)
  return { holds: code === 0 && Number(figures['kills']) >= Number(values.kills), figures }
}

export const crash: Proof = {
  name: 'crash',
  proves: 'Killed at any fault point and any moment, hundreds of times, the runtime loses, repeats and mixes nothing.',
  costs: 'about 20 minutes for 200 kills',
  options: [`--kills N   so many beyond one at each fault point (${KILLS})`],
  of: [...RUNTIME_SOURCES, 'test/crash/**'],
  run,
}
