/**
 * Reads over HTTP against the least that could answer them: bare Koa over the same driver, without token, policy and
 * tenant. `npm run bench:reads -- --rows 108000 --requests 10000 --rounds 5 [--only lookup | keys | realtime |
 * timeseries] [--cpu-prof FOLDER]`.
 *
 * The machine may be busy, so what counts is processor time for each request, of the process that answers and of its
 * database: rounds are taken in turns, and of each side the least counts. Requests a second are told beside it.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import autocannon from 'autocannon'
import { open } from 'lmdb'
import { type Bench, connectSource, deploy, flag, processorOf, register, startBench, sync } from './setup.ts'

const CONNECTIONS = 32
/** Rows in a range of time. */
export const SERIES_ROWS = 60
/** Of the source's table: its rows are spread over so many. */
const DAYS = 18_000
const DAY_MS = 86_400_000

/** One side of a comparison: where requests go, and what answers them. */
export interface Side {
  readonly url: string
  readonly token: string | null
  /** Of the process that answers. */
  readonly pid: number
  /** Of the server behind it; null: it is among what the first has started, or there is none. */
  readonly databasePid: number | null
  /** Asked by POST with keys drawn at random; default: by GET. */
  body?(keys: readonly number[]): unknown
}

export interface Round {
  readonly perS: number
  /** Microseconds of processor time for each request. */
  readonly ownUs: number
  readonly databaseUs: number
}

/** In a request for many. */
const KEYS = 100

const randomId = (rows: number) => 1 + Math.floor(Math.random() * rows)

/** An address with random values in place of `ID`, `FROM` and `TO`. */
function addressed(path: string, rows: number): string {
  const days = Math.round((SERIES_ROWS * DAYS) / rows)
  const from = Math.floor(Math.random() * (DAYS - days))
  const day = (at: number) => new Date(at * DAY_MS).toISOString().slice(0, 10)
  return path
    .replace('ID', String(randomId(rows)))
    .replace('FROM', day(from))
    .replace('TO', day(from + days))
}

function asked(path: string, { body }: Side, rows: number) {
  if (body === undefined) return { path: addressed(path, rows) }
  const keys = Array.from({ length: KEYS }, () => randomId(rows))
  return { method: 'POST', path, body: JSON.stringify(body(keys)) }
}

/** Of a round: so many requests, by as many connections at once as there are here. */
export async function load(side: Side, rows: number, requests: number): Promise<Round> {
  const { url, token, pid, databasePid } = side
  const { pathname, search } = new URL(url)
  const path = pathname + decodeURIComponent(search)
  const used = async () => {
    const { ownS, startedS } = await processorOf(pid)
    if (databasePid === null) return { ownS, databaseS: startedS }
    const server = await processorOf(databasePid)
    return { ownS, databaseS: server.ownS + server.startedS }
  }
  const before = await used()
  const result = await autocannon({
    url,
    connections: CONNECTIONS,
    amount: requests,
    timeout: 60,
    requests: [{ setupRequest: (request) => ({ ...request, ...asked(path, side, rows) }), path }],
    headers: {
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      ...(side.body === undefined ? {} : { 'content-type': 'application/json' }),
    },
  })
  const after = await used()
  if (result.non2xx > 0 || result.errors > 0)
    throw new Error(`${url}: ${result.non2xx} answers were no 2xx, ${result.errors} errors`)
  const us = (from: number, to: number) => ((to - from) * 1e6) / result['2xx']
  return {
    perS: result['2xx'] / result.duration,
    ownUs: us(before.ownS, after.ownS),
    databaseUs: us(before.databaseS, after.databaseS),
  }
}

export interface Compared {
  readonly what: string
  readonly aim: number
  readonly ours: readonly Round[]
  readonly limit: readonly Round[]
}

const totalUs = ({ ownUs, databaseUs }: Round) => ownUs + databaseUs
const least = (rounds: readonly Round[]) => rounds.toSorted((a, b) => totalUs(a) - totalUs(b))[0] as Round
export const median = (rounds: readonly Round[]) =>
  rounds.map(({ perS }) => perS).sort((a, b) => a - b)[rounds.length >> 1] as number

function record({ what, aim, ours, limit }: Compared): void {
  const [own, bare] = [least(ours), least(limit)]
  const us = ({ ownUs, databaseUs }: Round) => `${ownUs.toFixed(0)} + ${databaseUs.toFixed(0)} µs`
  const processor = (totalUs(bare) / totalUs(own)).toFixed(2)
  const speed = (median(ours) / median(limit)).toFixed(2)
  console.log(
    `${what.padEnd(52)} ${us(own).padStart(14)} ${us(bare).padStart(14)}  ${processor} (aim ${aim})  ` +
      `${Math.round(median(ours))}/s ${Math.round(median(limit))}/s  ${speed}`,
  )
}

export interface HowMany {
  readonly rows: number
  /** In a round. */
  readonly requests: number
  readonly rounds: number
}

async function compare(what: string, aim: number, ours: Side, limit: Side, { rows, requests, rounds }: HowMany) {
  const compared = { what, aim, ours: [] as Round[], limit: [] as Round[] }
  // A round that does not count: what is measured is code that is warm.
  await load(ours, rows, 2 * requests)
  await load(limit, rows, 2 * requests)
  for (let round = 0; round < rounds; round += 1) {
    compared.ours.push(await load(ours, rows, requests))
    compared.limit.push(await load(limit, rows, requests))
  }
  record(compared)
}

async function against(
  {
    kind,
    target,
    databasePid,
  }: { readonly kind: string; readonly target: string; readonly databasePid: number | null },
  use: (peer: Side) => Promise<void>,
): Promise<void> {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'peers.ts'), kind, target], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  try {
    const [line] = (await once(child.stdout, 'data')) as [Buffer]
    const url = `http://127.0.0.1:${line.toString().trim()}`
    await use({ url, token: null, pid: child.pid as number, databasePid })
  } finally {
    child.kill()
  }
}

export function ours(bench: Bench, path: string): Side {
  return {
    url: `${bench.url}/api/v1/products/${path}`,
    token: bench.token,
    pid: bench.server.pid as number,
    databasePid: null,
  }
}

function postgresPeer({ source }: Bench, kind: string) {
  const { host, port, user, password } = source.tcpAddress
  return { kind, target: `postgresql://${user}:${password}@${host}:${port}/postgres`, databasePid: source.pid }
}

/** Of the product `measured`, which has to be there. */
export async function measureLookup(bench: Bench, many: HowMany): Promise<void> {
  await against(postgresPeer(bench, 'postgresql'), (peer) =>
    compare(
      'lookup / bare Koa + pipelined pg',
      0.85,
      ours(bench, 'measured/latest?filter=id:ID'),
      { ...peer, url: `${peer.url}/?id=ID` },
      many,
    ),
  )
}

/** Of the product `measured`, which has to be there. Keys are asked in one request, and one after the other. */
export async function measureKeys(bench: Bench, many: HowMany): Promise<void> {
  const fewer = { ...many, requests: Math.ceil(many.requests / 10) }
  const item = { product: 'bench.measured', store: 'lookup' }
  const together: Side = {
    ...ours(bench, ''),
    url: `${bench.url}/api/v1/read`,
    body: (keys) => ({ items: [{ ...item, keys }] }),
  }
  await against(postgresPeer(bench, 'keys'), (peer) =>
    compare(
      `${KEYS} keys / bare Koa + one = ANY`,
      0.8,
      together,
      { ...peer, url: `${peer.url}/`, body: (keys) => ({ keys }) },
      fewer,
    ),
  )
  const single = ours(bench, 'measured/latest?filter=id:ID')
  await compare(`${KEYS} keys in a request / a request of one key`, 20 / KEYS, together, single, fewer)
}

/** Of the product `keyed`, which has to be there. */
export async function measureRealtime(bench: Bench, path: string, many: HowMany): Promise<void> {
  await against({ kind: 'lmdb', target: path, databasePid: null }, (peer) =>
    compare(
      'realtime / bare Koa + LMDB get',
      0.85,
      ours(bench, 'keyed/realtime?key=ID'),
      { ...peer, url: `${peer.url}/?id=ID` },
      many,
    ),
  )
}

/** Of the product `series`, which has to be there. */
export async function measureSeries(bench: Bench, many: HowMany): Promise<void> {
  await bench.client.query('CREATE INDEX IF NOT EXISTS measured_born ON measured (born, id)')
  await bench.client.query('VACUUM ANALYZE measured')
  await against(postgresPeer(bench, 'series'), (peer) =>
    compare(
      `timeseries, ${SERIES_ROWS} rows / bare Koa + json_agg`,
      0.8,
      ours(bench, 'series/timeseries?from=FROM&to=TO'),
      { ...peer, url: `${peer.url}/?from=FROM&to=TO` },
      many,
    ),
  )
}

export const LOOKUP = '  - type: lookup\n'
export const KEYED = '  - type: realtime\n    config:\n      key_template: "{id}"\n'
/** Half a century in partitions of a year. */
export const SERIES = '  - type: timeseries\n    config: { time_column: born, chunk_interval: 1 year }\n'

/** The same rows in an LMDB of one's own. Resolves with the seconds that it took to put them. */
export async function fillPeer(bench: Bench, path: string): Promise<number> {
  const database = open<string, string>({ path, compression: false })
  const { rows: all } = await bench.client.query('SELECT id::text AS id, row_to_json(m)::text AS row FROM measured m')
  const startedMs = performance.now()
  for (const { id, row } of all as { id: string; row: string }[]) void database.put(`bench:bench:measured:${id}`, row)
  await database.flushed
  const seconds = (performance.now() - startedMs) / 1000
  await database.close()
  return seconds
}

async function main(): Promise<void> {
  const many = {
    rows: Number(flag('rows') ?? 108_000),
    requests: Number(flag('requests') ?? 10_000),
    rounds: Number(flag('rounds') ?? 5),
  }
  const only = flag('only')
  const profiles = flag('cpu-prof')
  const bench = await startBench(
    many.rows,
    {},
    profiles === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profiles}`],
  )
  try {
    await connectSource(bench)
    await register(bench)
    await deploy(bench, '1.0.0', LOOKUP)
    await sync(bench)
    console.log(`${''.padEnd(52)} ${'ours'.padStart(14)} ${'limit'.padStart(14)}`)
    if (only === undefined || only === 'lookup') await measureLookup(bench, many)
    if (only === undefined || only === 'keys') await measureKeys(bench, many)
    if (only === undefined || only === 'realtime') {
      await register(bench, 'keyed')
      await deploy(bench, '1.0.0', KEYED, 'keyed')
      const path = join(bench.folder, 'peer-lmdb')
      await fillPeer(bench, path)
      await measureRealtime(bench, path, many)
    }
    if (only === undefined || only === 'timeseries') {
      await register(bench, 'series')
      await deploy(bench, '1.0.0', SERIES, 'series')
      await measureSeries(bench, many)
    }
  } finally {
    await bench.stop()
  }
}

if (import.meta.main) await main()
