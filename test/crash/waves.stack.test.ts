/** A small world of the long proof of waves, with kills of the runtime: `npm run prove -- waves` has 300 products. */
import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { runWaves } from '../../prove/waves/run.ts'

const seed = Number(process.env['SLUICE_CRASH_SEED'] ?? Date.now() % 1_000_000)
const SIZES = ['--products', '10', '--tables', '2', '--layers', '4', '--rounds', '2', '--large', '0']

test(`a change reaches just what is made of it, and a killed runtime comes to the same end (seed ${seed})`, async (context) => {
  const lines: string[] = []
  const say = (line: string) => {
    lines.push(line)
    context.diagnostic(line)
  }
  const outcome = await runWaves({ seed, args: SIZES, signal: context.signal, say })
  assert.ok(outcome?.holds, lines.join('\n'))
})
