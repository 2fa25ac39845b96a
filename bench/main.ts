/**
 * Measures Sluice as ratios to a limit in the same run and prints a table. `npm run bench -- --rows 1000000`.
 * Absolute numbers belong to the machine; only the ratios are worth comparing.
 */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import autocannon from 'autocannon'

import { open } from 'lmdb'
import { type Bench, serve, startBench } from './setup.ts'

const run = promisify(execFile)
const rows = Number(flag('rows') ?? 1_000_000)
const seconds = Number(flag('seconds') ?? 8)
const CONNECTIONS = 32

function flag(name: string): string | undefined {
  const index = process.argv.indexOf(`--${name}`)
  return index < 0 ? undefined : process.argv[index + 1]
}

interface Measured {
  readonly what: string
  readonly ours: string
  readonly limit: string
  readonly ratio: number
  readonly aim: number
}

const results: Measured[] = []

function record(what: string, ours: number, limit: number, unit: string, aim: number): void {
  const shown = (value: number) => `${Math.round(value).toLocaleString('en')} ${unit}`
  results.push({ what, ours: shown(ours), limit: shown(limit), ratio: ours / limit, aim })
  console.log(
    `${what.padEnd(52)} ${shown(ours).padStart(18)} ${shown(limit).padStart(18)}  ${(ours / limit).toFixed(2)} (aim ${aim})`,
  )
}

/** Requests a second; the median of three rounds, taken in turns with the peer. */
async function load(url: string, token: string | null): Promise<number> {
  const result = await autocannon({
    url,
    connections: CONNECTIONS,
    duration: seconds,
    requests: [
      {
        setupRequest: (request) => ({
          ...request,
          path: request.path?.replace('ID', String(1 + Math.floor(Math.random() * rows))) ?? '/',
        }),
        path: new URL(url).pathname + decodeURIComponent(new URL(url).search),
      },
    ],
    ...(token === null ? {} : { headers: { authorization: `Bearer ${token}` } }),
  })
  if (result.non2xx > 0 || result.errors > 0)
    throw new Error(`${url}: ${result.non2xx} answers were no 2xx, ${result.errors} errors`)
  return result.requests.average
}

async function inTurns(ours: () => Promise<number>, limit: () => Promise<number>): Promise<readonly [number, number]> {
  const rounds: [number, number][] = []
  for (let round = 0; round < 3; round += 1) rounds.push([await ours(), await limit()])
  const median = (index: 0 | 1) => rounds.map((one) => one[index]).sort((a, b) => a - b)[1] as number
  return [median(0), median(1)]
}

async function startPeer(kind: string, target: string): Promise<{ readonly url: string; stop(): void }> {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'peers.ts'), kind, target], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  return { url: `http://127.0.0.1:${line.toString().trim()}`, stop: () => child.kill() }
}

async function measureLookup(bench: Bench): Promise<void> {
  const { host, port, user, password } = bench.source.tcpAddress
  const peer = await startPeer('postgresql', `postgresql://${user}:${password}@${host}:${port}/postgres`)
  const [ours, limit] = await inTurns(
    () => load(`${bench.url}/api/v1/products/measured/latest?filter=id:ID`, bench.token),
    () => load(`${peer.url}/?id=ID`, null),
  )
  peer.stop()
  record('lookup over HTTP / bare Koa + pipelined pg', ours, limit, 'requests/s', 0.9)
}

async function measureRealtime(bench: Bench): Promise<void> {
  const path = join(bench.folder, 'peer-lmdb')
  const database = open<string, string>({ path, compression: false })
  const { rows: all } = await bench.client.query(
    'SELECT id::text AS id, row_to_json(m)::text AS row FROM measured m LIMIT 200000',
  )
  for (const { id, row } of all as { id: string; row: string }[]) void database.put(`bench:bench:measured:${id}`, row)
  await database.flushed
  await database.close()
  const peer = await startPeer('lmdb', path)
  const [ours, limit] = await inTurns(
    () => load(`${bench.url}/api/v1/products/measured/realtime?key=ID`, bench.token),
    () => load(`${peer.url}/?id=ID`, null),
  )
  peer.stop()
  record('realtime over HTTP / bare Koa + LMDB get', ours, limit, 'requests/s', 0.9)
}

/** The bare client's way: one process, one COPY, the same rows. */
async function psql(bench: Bench, sql: string): Promise<number> {
  const { host, port, user, password } = bench.source.tcpAddress
  const start = performance.now()
  await run('psql', ['-q', '-h', host, '-p', String(port), '-U', user, '-d', 'postgres', '-c', sql], {
    env: { ...process.env, PGPASSWORD: password },
  })
  return (performance.now() - start) / 1000
}

function secondsBetween(from: string, to: string): number {
  return (Date.parse(to) - Date.parse(from)) / 1000
}

/** Proportional set size of a process and all below it: shared memory counts once. */
async function treeMb(pid: number): Promise<number> {
  const { stdout } = await run('ps', ['-eo', 'pid=,ppid='])
  const pairs = stdout
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number) as [number, number])
  const below = (parent: number): number[] =>
    pairs.filter(([, ppid]) => ppid === parent).flatMap(([own]) => [own, ...below(own)])
  let kb = 0
  for (const one of [pid, ...below(pid)]) {
    const text = await readFile(`/proc/${one}/smaps_rollup`, 'utf8').catch(() => '')
    kb += Number(/^Pss:\s+(\d+)/m.exec(text)?.[1] ?? 0)
  }
  return kb / 1024
}

async function main(): Promise<void> {
  console.log(
    `${rows.toLocaleString('en')} rows, ${CONNECTIONS} connections, ${seconds} s a round, Node ${process.version}\n`,
  )
  const bench = await startBench(rows)
  const idleMb = await treeMb(bench.server.pid as number)
  let peakMb = idleMb
  const watch = setInterval(
    () => void treeMb(bench.server.pid as number).then((now) => (peakMb = Math.max(peakMb, now))),
    250,
  )
  try {
    const done = await serve(bench, '  - type: lookup\n  - type: realtime\n    config:\n      key_template: "{id}"\n')
    clearInterval(watch)
    const loaded = done.log.find((line) => line.message.includes('rows (full)'))?.at as string
    const ingestS = secondsBetween(done.started_at, loaded)
    const csv = join(bench.folder, 'out.csv')
    const outS = await psql(bench, `\\copy measured to '${csv}' csv`)
    record('PostgreSQL → committed lake table / psql \\copy to csv', rows / ingestS, rows / outS, 'rows/s', 0.5)
    await bench.client.query('CREATE TABLE copied (LIKE measured INCLUDING ALL)')
    const inS = await psql(bench, `\\copy copied from '${csv}' csv`)
    const storesS = secondsBetween(loaded, done.finished_at)
    record('lake → lookup and realtime, all of it / psql \\copy', rows / storesS, rows / inS, 'rows/s', 0.6)
    console.log(
      `process tree: ${Math.round(idleMb)} MiB idle, ${Math.round(peakMb)} MiB at the peak of the sync (+${Math.round(peakMb - idleMb)})`,
    )
    await measureLookup(bench)
    await measureRealtime(bench)
  } finally {
    clearInterval(watch)
    await bench.stop()
  }
}

await main()
