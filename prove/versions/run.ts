/**
 * Random versions of random products over a small source: what each plan says is what its deployment does, as each reader reads
 * it at each door, before, meanwhile and afterwards. What there is to be read says an evaluator of its own.
 */
import { randomBytes } from 'node:crypto'
import { parseArgs } from 'node:util'
import { ok } from '../../acceptance/client.ts'
import { type Deployment, openDeployment } from '../../acceptance/deployment.ts'
import { Random } from '../../conformance-tests/random.ts'
import type { Outcome, Request } from '../proof.ts'
import { firstVersion } from './generator.ts'
import { type Lane, openLane, register, synced } from './lane.ts'
import { outcomeOf } from './oracle.ts'
import { type Counts, Pair, type State } from './pair.ts'
import { useMasks } from './readers.ts'
import { newSource, rowsSql, tableSql } from './source.ts'
import { filesOf, type Named } from './version.ts'

/** Of one product, which goes on from version to version. */
const PAIRS_OF_A_CHAIN = 6
const LANES = 2
const SHOWN = 12

const OPTIONS = {
  pairs: { type: 'string', default: '1000' },
  minutes: { type: 'string', default: '600' },
  lanes: { type: 'string', default: String(LANES) },
  chain: { type: 'string' },
} as const

export interface Found {
  readonly chain: number
  readonly pair: number
  readonly changes: readonly string[]
  readonly text: string
}

export interface Sizes {
  readonly pairs: number
  readonly minutes: number
  readonly lanes: number
  /** That one alone. */
  readonly chain: number | null
}

export function sizesOf(args: readonly string[]): Sizes {
  const { values } = parseArgs({ args: [...args], options: OPTIONS })
  const number = (text: string) => {
    const given = Number(text)
    if (!Number.isSafeInteger(given) || given < 0) throw new Error(`${text} is no whole number`)
    return given
  }
  const chain = values.chain === undefined ? null : number(values.chain)
  return { pairs: number(values.pairs), minutes: number(values.minutes), lanes: number(values.lanes), chain }
}

/** In the environment of the runtime that is started for it. */
export function configure(environment: NodeJS.ProcessEnv): void {
  delete environment['SLUICE_ACCEPTANCE_URL']
  environment['SLUICE_ACCEPTANCE_RATE'] = '100000'
  useMasks(environment)
}

export class Versions {
  readonly #seed: number
  readonly #say: Request['say']
  readonly found: Found[] = []
  readonly byChange = new Map<string, number>()
  readonly counts: Counts = {
    polls: 0,
    stricter: 0,
    told: 0,
    refused: 0,
    blocked: 0,
    rollbacks: 0,
    previews: 0,
    notCounted: 0,
    followed: 0,
  }
  pairs = 0
  chains = 0

  constructor(seed: number, say: Request['say']) {
    this.#seed = seed
    this.#say = say
  }

  async play(
    deployment: Deployment,
    { pairs, minutes, lanes, chain: only }: Sizes,
    signal: AbortSignal,
  ): Promise<void> {
    const endsMs = performance.now() + minutes * 60_000
    let next = only ?? 0
    const isOver = () =>
      signal.aborted || performance.now() > endsMs || this.pairs >= pairs || (only !== null && next > only)
    const run = async (at: number) => {
      const lane = await openLane(deployment, `versions-${randomBytes(4).toString('hex')}-${at}`)
      try {
        while (!isOver()) {
          const chain = next
          next += 1
          await this.#chain(lane, chain, () => signal.aborted || performance.now() > endsMs || this.pairs >= pairs)
        }
      } finally {
        await lane.close()
      }
    }
    await Promise.all(Array.from({ length: only === null ? lanes : 1 }, (_, at) => run(at)))
  }

  async #chain(lane: Lane, chain: number, isOver: () => boolean): Promise<void> {
    const random = new Random(this.#seed).fork(`chain ${chain}`)
    const name = `p${chain}`
    const named: Named = { name, connection: `db${chain}`, table: `v${chain}`, places: `w${chain}` }
    let state = await begun(lane, named, random)
    this.chains += 1
    for (let pair = 0; pair < PAIRS_OF_A_CHAIN && !isOver(); pair += 1) {
      const startedMs = performance.now()
      const before = state.number
      try {
        const result = await new Pair(lane, named, random.fork(`pair ${pair}`), this.counts).play(state)
        for (const change of result.changes) this.byChange.set(change, (this.byChange.get(change) ?? 0) + 1)
        state = result.state
        this.#tell({ chain, pair, changes: result.changes }, result.found)
        this.#say(
          `chain ${chain}, pair ${pair}: ${before} to ${state.number}, ${result.changes.join(', ')}; ${Math.round(performance.now() - startedMs)} ms${result.found.length > 0 ? `; ${result.found.length} FOUND` : ''}`,
        )
        this.pairs += 1
        // What is not as the oracle has it makes all that follows differ, too.
        if (result.found.length > 0) break
      } catch (error) {
        this.#tell({ chain, pair, changes: [] }, [
          error instanceof Error ? (error.stack ?? error.message) : String(error),
        ])
        this.pairs += 1
        break
      }
    }
    await ended(lane, named)
  }

  #tell(at: Omit<Found, 'text'>, texts: readonly string[]): void {
    for (const text of texts) this.found.push({ ...at, text })
    if (texts.length === 0) return
    this.#say(
      `FOUND in chain ${at.chain}, pair ${at.pair} (${at.changes.join(', ')}); again: npm run prove -- versions --seed ${this.#seed} --chain ${at.chain} --unrecorded`,
    )
    for (const text of texts.slice(0, SHOWN)) this.#say(`  ${text}`)
    if (texts.length > SHOWN) this.#say(`  and ${texts.length - SHOWN} others`)
  }
}

async function begun(lane: Lane, named: Named, random: Random): Promise<State> {
  const { owner, source: server } = lane
  const source = newSource(random.fork('source'))
  await server.query(tableSql(named.table, named.places))
  await server.query(rowsSql(named.table, named.places, source))
  await ok(
    owner.post('/api/v1/connections', {
      name: named.connection,
      connector_type: 'postgresql',
      config_encrypted: lane.login,
    }),
  )
  await register(lane, named.name)
  const version = firstVersion(random.fork('first'))
  const path = `/api/v1/products/made.${named.name}`
  await ok(owner.upload(`${path}/manifests`, filesOf(version, named)))
  await ok(owner.post(`${path}/deploy`, { version: '1.0.0', dry_run: false }))
  const run = await synced(lane, named.connection)
  if (run.state !== 'succeeded') throw new Error(`the first version is not made: ${JSON.stringify(run)}`)
  const content = { version, rows: outcomeOf(version, source, null).rows }
  return { content, number: '1.0.0', major: 1, minor: 0, isPaused: false, source }
}

async function ended({ owner, source }: Lane, { name, connection, table, places }: Named): Promise<void> {
  await owner.send(`/api/v1/products/made.${name}`, { method: 'DELETE' })
  await owner.send(`/api/v1/connections/${connection}`, { method: 'DELETE' })
  await source.query(`DROP TABLE IF EXISTS ${table}; DROP TABLE IF EXISTS ${places}`)
}

export async function runVersions({ seed, args, signal, say }: Request): Promise<Outcome | null> {
  const sizes = sizesOf(args)
  configure(process.env)
  const deployment = await openDeployment()
  const versions = new Versions(seed, say)
  try {
    await versions.play(deployment, sizes, signal)
  } finally {
    await deployment.stop()
  }
  if (sizes.chain !== null) return null
  const { pairs, chains, counts, byChange, found } = versions
  const changes = Object.fromEntries([...byChange].toSorted(([one], [other]) => (one < other ? -1 : 1)))
  return { holds: found.length === 0, figures: { pairs, chains, ...counts, changes, found: found.length } }
}
