/**
 * `npm run prove -- NAME [--seed N] [--unrecorded] [OPTION…]`: runs one long proof, prints how it goes, and keeps what it
 * found in docs/proofs. Without a name it lists them. Ends with 1 where the proof fails, 2 where it could not run.
 */
import type { Proof } from './proof.ts'
import { PROOFS } from './proofs.ts'
import { keep, recordOf, sourcesOf } from './record.ts'

interface Wish {
  readonly proof: Proof
  readonly seed: number
  /** A sample for a machine that runs it often says less than what is kept, and must not replace it. */
  readonly isRecorded: boolean
  readonly args: readonly string[]
}

function list(): void {
  console.log('npm run prove -- NAME [--seed N] [--unrecorded] [OPTION…]\n')
  for (const { name, proves, costs, options } of PROOFS) {
    console.log(`${name}\n  ${proves}\n  Costs ${costs}.`)
    for (const option of options) console.log(`    ${option}`)
  }
}

/** What stands behind a lone `--` is the proof's own, whatever it looks like. */
function wishOf([name, ...given]: readonly string[]): Wish {
  const proof = PROOFS.find((candidate) => candidate.name === name)
  if (!proof) throw new Error(`no proof is called ${name}; there are ${PROOFS.map((one) => one.name).join(', ')}`)
  const end = given.includes('--') ? given.indexOf('--') : given.length
  const args = given.slice(0, end)
  const at = args.indexOf('--seed')
  const [, text = String(Date.now() % 1_000_000)] = at < 0 ? [] : args.splice(at, 2)
  const seed = Number(text)
  if (!Number.isSafeInteger(seed) || seed < 0) throw new Error('--seed is a whole number')
  const rest = args.filter((arg) => arg !== '--unrecorded')
  return { proof, seed, isRecorded: rest.length === args.length, args: [...rest, ...given.slice(end)] }
}

async function run({ proof, seed, isRecorded, args }: Wish): Promise<void> {
  const interrupted = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => interrupted.abort())
  const startedAt = new Date()
  const sources = sourcesOf(proof.of)
  const say = (line: string) => console.log(`${new Date().toISOString().slice(11, 19)} ${line}`)
  say(`${proof.name} with seed ${seed}`)
  const outcome = await proof.run({ seed, args, signal: interrupted.signal, say })
  if (interrupted.signal.aborted) throw new Error('interrupted, so nothing is recorded')
  if (outcome === null) return
  const record = recordOf({ proof, args, seed, startedAt, sources, outcome })
  console.log(JSON.stringify(record.figures, null, 2))
  if (isRecorded) say(`kept in ${keep(record)}`)
  say(`${proof.name} ${record.result} (${record.tookSeconds} s, seed ${seed})`)
  if (!outcome.holds) process.exitCode = 1
}

const args = process.argv.slice(2)
if (args.length === 0) list()
else {
  try {
    await run(wishOf(args))
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 2
  }
}
