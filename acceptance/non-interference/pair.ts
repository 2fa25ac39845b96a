/** One pair of worlds from its seed: made, done the same to, asked the same, and compared. */
import { randomBytes } from 'node:crypto'
import { Random } from '../../conformance-tests/random.ts'
import type { Json } from '../client.ts'
import type { Deployment } from '../deployment.ts'
import { type Heard, told } from './comparison.ts'
import { derivedFiles } from './derived.ts'
import { exchange, formOf, type Sent } from './exchange.ts'
import { changesOf, type Operation, operationsOf, PLACES, qualityOf } from './operations.ts'
import {
  CLASSES,
  type Difference,
  HIDDEN,
  type HiddenColumn,
  hasPseudonyms,
  type Loan,
  openWorld,
  type World,
} from './worlds.ts'

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

interface Comparison {
  readonly seed: number
  readonly difference: Difference
  readonly ears: readonly [Ear, Ear]
}

async function compare(
  worlds: readonly [World, World],
  seed: number,
  count: number,
  difference: Difference,
): Promise<PairResult> {
  const random = new Random(seed)
  const comparison = { seed, difference, ears: [earOf(worlds[0], difference), earOf(worlds[1], difference)] } as const
  const interferences: Interference[] = []
  const readers = worlds[0].readers.map(({ name }) => name)
  const places = readers.flatMap((reader) => PLACES.map((path): Operation => ({ reader, method: 'GET', path })))
  let operations = 0
  const ask = async (asked: readonly Operation[]) => {
    for (const operation of asked) {
      const heard = (await Promise.all(comparison.ears.map((ear) => hear(ear, operation)))) as [string, string]
      operations += 1
      interferences.push(...apart(comparison, operation, heard))
    }
  }
  const some = (share: number) =>
    operationsOf(random, [...readers, 'viewer', 'viewer'], Math.ceil(count * share), difference)
  const steps = Math.max(2, Math.round(count / OF_A_STEP))
  let isRaised = false
  for (let step = 0; step < steps; step += 1) {
    isRaised ||= step > 0 && random.chance(0.4)
    interferences.push(...(await happen(comparison, random, worlds, { step, isRaised })))
    const loan = loanOf(random)
    const takeBack = await Promise.all(worlds.map((world) => world.lend(loan)))
    // Who may see what differs is told so; of that nothing may be left afterwards.
    if (tellsOf(difference, loan)) {
      for (const operation of some(LENT / steps)) await Promise.all(comparison.ears.map((ear) => hear(ear, operation)))
    } else {
      await ask(some(LENT / steps))
    }
    await Promise.all(takeBack.map((end) => end()))
    await ask([...some((1 - LENT) / steps), ...places, ...EVENTS])
  }
  return { operations, interferences }
}

/** Operations between deployments. */
const OF_A_STEP = 400
/** Share of the operations while somebody has been lent a clearance. */
const LENT = 0.2

/** What owners do, in both worlds, and whether they were told the same. */
async function happen(
  comparison: Comparison,
  random: Random,
  worlds: readonly World[],
  { step, isRaised }: { readonly step: number; readonly isRaised: boolean },
): Promise<readonly Interference[]> {
  const changes = changesOf(random)
  const release = { quality: qualityOf(random), isRaised }
  const files = derivedFiles(random, 'derived')
  const version = `${step + 1}.0.0`
  const verdicts = await Promise.all(
    worlds.map(async (world) => {
      for (const sql of changes) await world.change(sql)
      const own = await world.deploy(version, release)
      if (step === 0 && !own.startsWith('201')) throw new Error(`the product is refused: ${own}`)
      const derived = await world.derive(version, files)
      await world.sync()
      return `${own} ${derived}`
    }),
  )
  const operation: Operation = { reader: 'owner', method: 'POST', path: 'deploy', body: { ...release, ...files } }
  return apart(comparison, operation, verdicts as [string, string])
}

function apart({ seed, difference }: Comparison, operation: Operation, heard: [string, string]): Interference[] {
  if (heard[0] === heard[1]) return []
  const at = Math.max(0, firstDifference(...heard) - AROUND)
  const [first, second] = heard.map((text) => text.slice(at, at + 2 * AROUND)) as [string, string]
  return [{ seed, difference, operation, heard: [first, second] }]
}

function loanOf(random: Random): Loan {
  return random.chance(0.25) ? { table: 'public.people' } : { class: random.pick(Object.values(CLASSES)) }
}

const tellsOf = ({ hidden }: Difference, loan: Loan): boolean =>
  Object.keys(hidden).length > 0 &&
  ('table' in loan || Object.keys(hidden).some((column) => CLASSES[column as HiddenColumn] === loan.class))

const EVENT_STREAM = '/api/v1/events'
const EVENTS = ['viewer', 'developer'].map((reader): Operation => ({ reader, method: 'GET', path: EVENT_STREAM }))

/** A world as its readers hear it, with what they remember. */
interface Ear {
  readonly world: World
  readonly tell: (heard: Heard) => string
  /** Validators and places of earlier answers, by reader and path. */
  readonly remembered: Map<string, string>
}

function earOf(world: World, difference: Difference): Ear {
  const tell = (heard: Heard) => told(heard, world.names, hasPseudonyms(difference))
  return { world, tell, remembered: new Map() }
}

async function hear(ear: Ear, operation: Operation): Promise<string> {
  const { world, tell } = ear
  const reader = world.readers.find(({ name }) => name === operation.reader)
  if (reader === undefined) throw new Error(`no reader is called ${operation.reader}`)
  if (operation.path === EVENT_STREAM) {
    const headers = { 'content-type': 'text/event-stream' }
    return tell({ status: 200, headers, text: await world.events(reader.client) })
  }
  const ask: Ask = async (sent, isEnough) => {
    const named = (text: string) => text.replaceAll('{tenant}', world.slug)
    const headers = Object.entries(sent.headers ?? {}).map(([name, value]) => [name, named(value)])
    const own = { ...sent, path: named(sent.path), headers: Object.fromEntries(headers) }
    return exchange(world.url, reader.token, own, isEnough)
  }
  const answers = await (FOLLOWED[operation.follow ?? 'once'] ?? once)(ask, operation, ear)
  return answers.map(tell).join('\n')
}

type Ask = (sent: Sent, isEnough?: (text: string) => boolean) => Promise<Heard>
type Follow = (ask: Ask, operation: Operation, ear: Ear) => Promise<readonly Heard[]>

const once: Follow = async (ask, operation) => [await ask(sentOf(operation))]

const FOLLOWED: Readonly<Record<string, Follow>> = {
  once,
  async pages(ask, operation, { remembered }) {
    const key = `${operation.reader} ${operation.path}`
    const answers: Heard[] = []
    while (answers.length < MOST_PAGES) {
      const cursor = remembered.get(key)
      const place = cursor === undefined ? '' : `&cursor=${encodeURIComponent(cursor)}`
      const answer = await ask({ ...sentOf(operation), path: `${operation.path}${place}` })
      answers.push(answer)
      remembered.delete(key)
      const next = jsonOf(answer).next_cursor
      if (typeof next !== 'string') break
      remembered.set(key, next)
    }
    return answers
  },
  async unchanged(ask, operation, { remembered }) {
    const key = `${operation.reader} ${operation.path}`
    const known = remembered.get(key) ?? (await ask(sentOf(operation))).headers['etag']
    const condition = known === undefined ? {} : { 'if-none-match': known }
    const answer = await ask({ ...sentOf(operation), headers: { ...operation.headers, ...condition } })
    if (answer.headers['etag'] !== undefined) remembered.set(key, answer.headers['etag'])
    // When a validator is worth nothing any more is a matter of time: compared is what it stands for.
    return [answer.status === 304 ? await ask(sentOf(operation)) : answer]
  },
  async newest(ask, operation) {
    const list = await ask(sentOf(operation))
    const [first] = jsonOf(list).data ?? []
    if (first === undefined) return [list]
    const [path = ''] = operation.path.split('?')
    return [list, await ask({ ...sentOf(operation), path: `${path}/${first.id}` })]
  },
  async changes(ask, operation) {
    const heard = await ask(sentOf(operation), (text) => EPOCH.test(text))
    // What a heartbeat or a second epoch may add is a matter of time.
    const [, whole] = EPOCH.exec(heard.text) ?? []
    return [{ ...heard, text: whole ?? heard.text }]
  },
  async draft(ask, operation) {
    const { files, path } = operation
    const uploaded =
      files === undefined ? [] : [await ask({ method: 'POST', path: `${path}/manifests`, ...(await formOf(files)) })]
    const draft = await ask({ method: 'GET', path: `${path}/manifests` })
    const { digest } = jsonOf(draft)
    const post = (what: string, body: unknown) =>
      ask(sentOf({ reader: operation.reader, method: 'POST', path: `${path}/${what}`, body }))
    const plan = await post('deploy', { version: '9.9.9', dry_run: true, digest })
    return [...uploaded, draft, plan, await post('preview', { digest, rows: 20 })]
  },
}

const MOST_PAGES = 3
/** All up to the end of the first epoch. */
const EPOCH = /^([^]*?\nevent: epoch\n[^]*?\n\n)/

function sentOf({ method, path, headers, body, text }: Operation): Sent {
  if (body === undefined && text === undefined) return { method, path, ...(headers === undefined ? {} : { headers }) }
  const type = { 'content-type': 'application/json' }
  return { method, path, headers: { ...type, ...headers }, body: text ?? JSON.stringify(body) }
}

function jsonOf({ headers, text }: Heard): Json {
  return headers['content-type']?.startsWith('application/json') ? JSON.parse(text) : {}
}

function firstDifference(left: string, right: string): number {
  let at = 0
  while (at < left.length && left[at] === right[at]) at += 1
  return at
}
