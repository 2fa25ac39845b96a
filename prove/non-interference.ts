import { parseArgs } from 'node:util'
import { openDeployment } from '../acceptance/deployment.ts'
import { EXCEPTIONS } from '../acceptance/non-interference/comparison.ts'
import { comparePair, type Interference } from '../acceptance/non-interference/pair.ts'
import { useMasks } from '../acceptance/non-interference/worlds.ts'
import type { Outcome, Proof, Request } from './proof.ts'

const OPERATIONS = 10_000
const OF_A_PAIR = 400
const SHOWN = 20

/** Pairs one after the other, each by its own seed, with which it can be had again: `--pair`. */
async function run({ seed, args, signal, say }: Request): Promise<Outcome> {
  const options = {
    operations: { type: 'string', default: String(OPERATIONS) },
    pair: { type: 'string' },
    minutes: { type: 'string', default: '600' },
  } as const
  const { values } = parseArgs({ args: [...args], options })
  const endsAtMs = Date.now() + Number(values.minutes) * 60_000
  useMasks(process.env)
  const deployment = await openDeployment()
  const found: Interference[] = []
  let [operations, pairs] = [0, 0]
  try {
    const most = Number(values.operations)
    const isOver = () => (values.pair === undefined ? operations >= most || Date.now() > endsAtMs : pairs === 1)
    for (; !isOver() && !signal.aborted; pairs += 1) {
      const pairSeed = values.pair === undefined ? seed * 10_000 + pairs : Number(values.pair)
      const result = await comparePair(deployment, pairSeed, Math.min(OF_A_PAIR, most))
      operations += result.operations
      found.push(...result.interferences)
      say(`pair ${pairSeed}: ${result.operations} operations, ${result.interferences.length} told the worlds apart`)
      for (const { difference, operation, heard } of result.interferences.slice(0, SHOWN)) {
        say(`  ${JSON.stringify(difference)} ${JSON.stringify(operation)}`)
        for (const text of heard) say(`    ${JSON.stringify(text)}`)
      }
    }
  } finally {
    await deployment.stop()
  }
  const figures = {
    pairs,
    operations,
    interferences: found.length,
    exceptions: Object.keys(EXCEPTIONS),
  }
  return { holds: found.length === 0, figures }
}

export const nonInterference: Proof = {
  name: 'non-interference',
  proves:
    'Readers without clearance are told the same, to the byte, in two worlds that differ in a hidden value or in another tenant’s rows; what may differ is a list.',
  costs: 'about half an hour for 10,000 operations, and nothing beyond npm',
  options: [
    '--operations N  of readers, in all (default 10,000)',
    '--minutes N     begins no pair of worlds after that (default 600)',
    '--pair SEED     one pair alone, as a failure names it',
  ],
  of: [
    'runtime/src/**/*.ts',
    'plugins/**/*.ts',
    'sdk/**/*.ts',
    'engine/**/*.ts',
    'iceberg/**/*.ts',
    'acceptance/**/*.ts',
    'prove/non-interference.ts',
  ],
  run,
}
