/** What readers are answered: rows of the lake, and what several products hold in one statement while a wave goes on. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Answer } from '../../acceptance/client.ts'
import type { Random } from '../../conformance-tests/random.ts'
import { FINGERPRINT, type HeldRows, type Moment } from './oracle.ts'
import type { World } from './world.ts'

/** Few enough for one statement. */
const A_STATEMENT = 20
/** Between two reads, so that readers leave the processors to the wave. */
const PAUSE_MS = 50

/** All rows of these products, and where those that are read together do not rest on the same rows of every table. */
export async function rowsInLake(
  world: World,
  names: ReadonlySet<string>,
): Promise<{ readonly rows: ReadonlyMap<string, HeldRows>; readonly wrong: readonly string[] }> {
  const found = new Map([...names].map((name) => [name, { ids: [] as (string | null)[], ns: [] as (string | null)[] }]))
  const wrong: string[] = []
  const all = [...names]
  for (let at = 0; at < all.length; at += A_STATEMENT) {
    const some = all.slice(at, at + A_STATEMENT)
    const sql = some.map((name) => `SELECT '${name}' AS name, id, n FROM made.${name}`).join(' UNION ALL ')
    const ask = (consistent: boolean) =>
      world.api.text('/api/v1/query', {
        method: 'POST',
        headers: { accept: 'text/csv', 'content-type': 'application/json' },
        body: JSON.stringify({ sql, consistent }),
      })
    let answer = await ask(true)
    if (answer.status === 409) {
      wrong.push(`when the wave was over, a consistent read was refused: ${answer.text}`)
      answer = await ask(false)
    }
    if (answer.status !== 200) throw new Error(`products could not be read: ${answer.text}`)
    for (const row of answer.text.split(/\r?\n/).slice(1)) {
      const [name = '', id = '', n = ''] = row.split(',')
      const rows = found.get(name.replaceAll('"', ''))
      rows?.ids.push(id === '' ? null : id)
      rows?.ns.push(n === '' ? null : n)
    }
  }
  return { rows: found, wrong }
}

export interface Reads {
  /** What was answered to who asked for consistent rows. */
  readonly consistent: readonly Moment[]
  /** What was answered to who did not. */
  readonly plain: readonly Moment[]
  /** There was no moment that all of them rested on in time, or nobody who answered. */
  readonly refused: number
}

/** Consistent reads wait; who waits for the whole wave sees nothing of its middle. */
const WAITS_MS = 5_000

/** Asks for some of the products in one statement, each third time consistently, until it is told to stop. */
export async function readTogether(
  world: World,
  names: readonly string[],
  random: Random,
  isOver: () => boolean,
): Promise<Reads> {
  const consistent: Moment[] = []
  const plain: Moment[] = []
  let refused = 0
  for (let turn = 0; names.length > 0 && (!isOver() || consistent.length === 0); turn += 1) {
    const some = [...new Set(Array.from({ length: 2 + random.integer(0, 2) }, () => random.pick(names)))]
    const sql = some.map((name) => `SELECT '${name}' AS name, ${FINGERPRINT} FROM made.${name}`).join(' UNION ALL ')
    const isConsistent = turn % 3 === 0
    const asked = { sql, consistent: isConsistent, ...(isOver() ? {} : { timeout_ms: WAITS_MS }) }
    // Nobody answers where the runtime was killed.
    const answer = await world.api.post('/api/v1/query', asked).catch(() => null)
    if (answer?.status === 200) (isConsistent ? consistent : plain).push(momentIn(answer))
    else if (answer === null || isRefusal(answer)) refused += 1
    else throw new Error(`a read ended: ${JSON.stringify(answer.body)}`)
    await sleep(PAUSE_MS)
  }
  return { consistent, plain, refused }
}

const momentIn = ({ body }: Answer): Moment =>
  new Map(body.rows.map(([name, ...values]: readonly [string, ...unknown[]]) => [name, values.map(String).join(' ')]))

/** A runtime that stops or starts says 503. */
const isRefusal = ({ status, body }: Answer): boolean =>
  status === 503 || body.code === 'answer_not_consistent' || body.code === 'query_timeout'

export interface Judged {
  /** Of readers who saw nothing of the change where they could have, all of it, or one table's and not the other's. */
  readonly before: number
  readonly after: number
  readonly between: number
  /** Of readers who did not ask: they saw products of different moments. */
  readonly halfDone: number
  readonly wrong: readonly string[]
}

/** @param moments nothing has changed in the first, and everything in the last */
export function judge({ consistent, plain }: Reads, moments: readonly Moment[]): Judged {
  const seenIn = (seen: Moment, moment: Moment | undefined) =>
    moment !== undefined && [...seen].every(([name, rows]) => moment.get(name) === rows)
  const isOfOne = (seen: Moment) => moments.some((moment) => seenIn(seen, moment))
  const [first, last] = [moments[0], moments.at(-1)]
  let [before, after, between] = [0, 0, 0]
  for (const seen of consistent.filter(isOfOne)) {
    const [isFirst, isLast] = [seenIn(seen, first), seenIn(seen, last)]
    if (isFirst && !isLast) before += 1
    else if (isLast && !isFirst) after += 1
    else if (!isFirst) between += 1
  }
  const torn = consistent.filter((seen) => !isOfOne(seen))
  const wrong = torn.map((seen) => `a consistent read has seen no one moment: ${JSON.stringify([...seen])}`)
  return { before, after, between, halfDone: plain.filter((seen) => !isOfOne(seen)).length, wrong }
}
