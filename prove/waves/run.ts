/**
 * What a change costs where many products are made of each other: it reaches just those that are made of it, each once; for all
 * others nothing is done; of products that the guard proves, work grows with what changed; who asks for consistent answers never
 * sees a wave half done; and a runtime that is killed in it comes to the same end. Who is made of what the generator knows, what
 * they hold says PostgreSQL.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Random } from '../../conformance-tests/random.ts'
import { startCluster } from '../../plugins/connectors/postgresql/source-server.ts'
import type { Figures, Outcome, Request } from '../proof.ts'
import { measuredWave, shares, steps, tooMuch } from './growth.ts'
import { anyChange, changeOfRow } from './oracle.ts'
import { largeProducts, type Made, smallProducts } from './products.ts'
import { type Found, type Plan, playRound, wrongRows } from './round.ts'
import { Jobs, type Spent, spentBy } from './watched.ts'
import { type Kill, prepare, World } from './world.ts'

/** A product is made whole where it and its inputs have no more rows than 100,000; some of these leave out one in a hundred. */
export const LEAST_ROWS = 110_000
/** Of the runtime after a kill, until it has finished what it was at. */
const MOST_STEPS = 40
const SHOWN = 20

const OPTIONS = {
  products: { type: 'string', default: '300' },
  tables: { type: 'string', default: '20' },
  layers: { type: 'string', default: '6' },
  rounds: { type: 'string', default: '20' },
  large: { type: 'string', default: '12' },
  rows: { type: 'string', default: '120000' },
  minutes: { type: 'string', default: '600' },
} as const

type Sizes = Readonly<Record<keyof typeof OPTIONS, number>>

function sizesOf(args: readonly string[]): Sizes {
  const { values } = parseArgs({ args: [...args], options: OPTIONS })
  const number = (name: keyof typeof OPTIONS, least: number) => {
    const given = Number(values[name])
    if (!Number.isSafeInteger(given) || given < least) throw new Error(`--${name} is a whole number from ${least}`)
    return given
  }
  return {
    products: number('products', 1),
    tables: number('tables', 1),
    layers: number('layers', 1),
    rounds: number('rounds', 0),
    large: number('large', 0),
    rows: number('rows', LEAST_ROWS),
    minutes: number('minutes', 1),
  }
}

/** A full wave of the large products, and what is left of it where few rows have changed. */
async function growth(world: World, large: readonly Made[], { rows }: Sizes, jobs: Jobs, say: Request['say']) {
  const names = new Set(large.map(({ name }) => name))
  const full = await measuredWave(world, names, jobs)
  say(`a full wave: ${JSON.stringify(full)}`)
  const nothing = await spentBy(world, () => world.sync())
  say(`a wave of nothing: ${JSON.stringify(nothing)}`)
  const wrong: string[] = []
  const few: Record<string, Figures> = {}
  for (const step of large.length === 0 ? [] : steps(rows)) {
    await world.source.sql(step.sql)
    const wave = await measuredWave(world, names, jobs)
    wrong.push(...tooMuch(step, wave, full))
    few[step.what] = { ...wave, spent: { ...wave.spent }, shares: shares(wave, full) }
    say(`${step.what} of the large table: ${JSON.stringify(few[step.what])}`)
  }
  return { wrong, figures: { full: { ...full, spent: { ...full.spent } }, nothing: { ...nothing }, ...few } }
}

/** Rounds by turns: one row of one table while nobody disturbs, and anything in one table or two with kills. */
function planOf(random: Random, round: number, { tables }: Sizes, usualMs: number): Plan {
  const isQuiet = round % 2 === 1
  const table = () => `t${random.integer(0, tables - 1)}`
  const changed = new Set([table(), ...(isQuiet ? [] : [table()])])
  const changes = [...changed].map((one) => (isQuiet ? changeOfRow : anyChange)(random, one))
  const kill = (): Kill => ({
    afterMs: Math.round(random.next() * usualMs),
    nextAtStep: random.chance(0.5) ? random.integer(1, MOST_STEPS) : null,
  })
  return { changes, kills: isQuiet ? [] : Array.from({ length: random.integer(1, 2) }, kill) }
}

class Sums {
  rounds = 0
  /** Products by rounds. */
  reached = 0
  left = 0
  readonly reads = { consistent: 0, before: 0, after: 0, between: 0, refused: 0, plain: 0, plainHalfDone: 0 }
  readonly quiet = { reached: 0, ownS: 0, startedS: 0 }

  add({ followers, reads, judged, spent }: Found, { kills }: Plan, products: number): void {
    this.rounds += 1
    this.reached += followers
    this.left += products - followers
    this.reads.consistent += reads.consistent.length
    this.reads.refused += reads.refused
    this.reads.plain += reads.plain.length
    this.reads.plainHalfDone += judged.halfDone
    for (const moment of ['before', 'after', 'between'] as const) this.reads[moment] += judged[moment]
    if (kills.length > 0) return
    this.quiet.reached += followers
    for (const whose of ['ownS', 'startedS'] as const satisfies readonly (keyof Spent)[]) {
      this.quiet[whose] = Math.round((this.quiet[whose] + spent[whose]) * 100) / 100
    }
  }
}

function told(round: number, { changes, kills }: Plan, { followers, reads, judged, spent, tookMs }: Found): string {
  const killed = kills.map(({ afterMs, nextAtStep }) => `${afterMs} ms${nextAtStep ? ` then step ${nextAtStep}` : ''}`)
  return [
    `round ${round}: ${changes.map(({ table }) => table).join(', ')} changed, ${followers} products follow`,
    `${reads.consistent.length} consistent reads (${reads.refused} refused) and ${reads.plain.length} others, ${judged.halfDone} of them of a wave half done`,
    killed.length === 0 ? JSON.stringify(spent) : `killed after ${killed.join(', ')}`,
    `${Math.round(tookMs)} ms`,
  ].join('; ')
}

export async function runWaves({ seed, args, signal, say }: Request): Promise<Outcome> {
  const sizes = sizesOf(args)
  const random = new Random(seed)
  const large = largeProducts(random.fork('large'), sizes.large)
  const made = [...smallProducts(random.fork('small'), sizes), ...large]
  const endsMs = performance.now() + sizes.minutes * 60_000
  say(`again: npm run prove -- waves --seed ${seed} ${args.join(' ')}`)
  const folder = await mkdtemp(join(tmpdir(), 'sluice-waves-'))
  const jobs = await Jobs.in(join(folder, 'jobs'))
  const source = await startCluster({ wal_level: 'logical', max_replication_slots: '4' })
  const world = new World(join(folder, 'data'), source, jobs.folder)
  try {
    await prepare(world, made, sizes, signal)
    say(`${made.length} products are deployed, ${large.length} of them large`)
    const { wrong, figures } = await growth(world, large, sizes, jobs, say)
    wrong.push(...(await wrongRows(world, new Set(made.map(({ name }) => name)))))
    const sums = new Sums()
    let usualMs = 1_000
    const goesOn = () => !signal.aborted && wrong.length === 0 && performance.now() < endsMs
    for (let round = 1; round <= sizes.rounds && goesOn(); round += 1) {
      const own = random.fork(`round ${round}`)
      const plan = planOf(own, round, sizes, usualMs)
      const found = await playRound(world, made, plan, jobs, own.fork('reads'))
      wrong.push(...found.wrong.map((text) => `round ${round}: ${text}`))
      if (plan.kills.length === 0) usualMs = found.tookMs
      sums.add(found, plan, made.length)
      say(told(round, plan, found))
    }
    signal.throwIfAborted()
    if (wrong.length === 0) wrong.push(...(await wrongRows(world, new Set(made.map(({ name }) => name)))))
    await world.stop()
    for (const one of await world.survivors()) wrong.push(`it still runs when the runtime has stopped: ${one}`)
    for (const text of wrong.slice(0, SHOWN)) say(text)
    const counts = { kills: world.kills, ...sums, reads: { ...sums.reads }, quiet: { ...sums.quiet } }
    return { holds: wrong.length === 0, figures: { ...sizes, growth: figures, ...counts, wrong: wrong.length } }
  } finally {
    await world.stop()
    await source.stop()
    await rm(folder, { recursive: true, force: true })
  }
}
