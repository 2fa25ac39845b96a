/** One pair of worlds from its seed: made, done the same to, asked the same, and compared. */
import { randomBytes } from 'node:crypto'
import { Random } from '../../conformance-tests/random.ts'
import type { Deployment } from '../deployment.ts'
import { type Heard, told } from './comparison.ts'
import { changesOf, type Operation, operationsOf, PLACES, qualityOf } from './operations.ts'
import { type Difference, HIDDEN, type HiddenColumn, hasPseudonyms, openWorld, type World } from './worlds.ts'

export interface Interference {
  readonly seed: number
  readonly difference: Difference
  readonly operation: Operation
  /** As compared, from the first place on where they differ. */
  readonly heard: readonly [string, string]
}

export interface PairResult {
  readonly operations: number
  readonly interferences: readonly Interference[]
}

const AROUND = 200

/** In turn each hidden column by itself, with values that the seed chooses, and the neighbour's rows. */
export function differenceOf(seed: number): Difference {
  const random = new Random(seed).fork('difference')
  const columns = Object.keys(HIDDEN) as HiddenColumn[]
  const column = columns[seed % (columns.length + 1)]
  if (column === undefined) return { hidden: {}, neighbourRows: random.integer(1, 500) }
  return { hidden: { [column]: twoOf(random, column) }, neighbourRows: 0 }
}

/** Everything at once but what is shown as a pseudonym: what interferes is found, and not by what. */
export function everyDifference(seed: number): Difference {
  const random = new Random(seed).fork('difference')
  const columns = (Object.keys(HIDDEN) as HiddenColumn[]).filter((column) => column !== 'email')
  const hidden = Object.fromEntries(columns.map((column) => [column, twoOf(random, column)]))
  return { hidden, neighbourRows: random.integer(1, 500) }
}

function twoOf(random: Random, column: HiddenColumn): readonly [string, string] {
  return random.shuffled<string>(HIDDEN[column]).slice(0, 2) as [string, string]
}

/** @param count of operations; what is asked for at the end of each step comes on top */
export async function comparePair(
  deployment: Deployment,
  seed: number,
  count: number,
  difference: Difference = differenceOf(seed),
): Promise<PairResult> {
  const pair = randomBytes(3).toString('hex')
  const worlds: World[] = []
  try {
    for (const isSecond of [false, true]) worlds.push(await openWorld(deployment, pair, isSecond, difference))
    return await compare(worlds as [World, World], seed, count, difference)
  } finally {
    for (const world of worlds) await world.close()
  }
}

async function compare(
  worlds: readonly [World, World],
  seed: number,
  count: number,
  difference: Difference,
): Promise<PairResult> {
  const random = new Random(seed)
  const interferences: Interference[] = []
  let operations = 0
  const steps = 2
  for (let step = 0; step < steps; step += 1) {
    const changes = changesOf(random)
    const quality = qualityOf(random)
    for (const world of worlds) {
      for (const sql of changes) await world.change(sql)
      await world.deploy(`${step + 1}.0.0`, quality)
      await world.sync()
    }
    const places = worlds[0].readers.flatMap(({ name: reader }) =>
      PLACES.map((path): Operation => ({ reader, method: 'GET', path })),
    )
    const readers = worlds[0].readers.map(({ name }) => name)
    const asked = operationsOf(random, [...readers, 'viewer', 'viewer'], Math.ceil(count / steps))
    for (const operation of [...asked, ...places, ...EVENTS]) {
      const heard = (await Promise.all(worlds.map((world) => hear(world, operation, difference)))) as [string, string]
      operations += 1
      if (heard[0] === heard[1]) continue
      const at = Math.max(0, firstDifference(...heard) - AROUND)
      interferences.push({
        ...{ seed, difference, operation },
        heard: [heard[0].slice(at, at + 2 * AROUND), heard[1].slice(at, at + 2 * AROUND)],
      })
    }
  }
  return { operations, interferences }
}

const EVENT_STREAM = '/api/v1/events'
const EVENTS = ['viewer', 'developer'].map((reader): Operation => ({ reader, method: 'GET', path: EVENT_STREAM }))

async function hear(world: World, operation: Operation, difference: Difference): Promise<string> {
  const client = world.readers.find(({ name }) => name === operation.reader)?.client
  if (client === undefined) throw new Error(`no reader is called ${operation.reader}`)
  if (operation.path === EVENT_STREAM) {
    const heard = { status: 200, contentType: 'text/event-stream', text: await world.events(client) }
    return told(heard, world.names, hasPseudonyms(difference))
  }
  const path = operation.path.replaceAll('{tenant}', world.slug)
  const accept = { accept: operation.accept ?? 'application/json' }
  const answer =
    operation.method === 'GET' ? await client.get(path, accept) : await client.post(path, operation.body, accept)
  const heard: Heard = {
    status: answer.status,
    contentType: answer.headers.get('content-type') ?? '',
    text: typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body),
  }
  return told(heard, world.names, hasPseudonyms(difference))
}

function firstDifference(left: string, right: string): number {
  let at = 0
  while (at < left.length && left[at] === right[at]) at += 1
  return at
}
