/**
 * Measures Sluice as ratios to a limit in the same run and prints a table. `npm run bench -- --rows 1000000`.
 * Absolute numbers belong to the machine; only the ratios are worth comparing.
 */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import autocannon from 'autocannon'
import { treeMb } from './memory.ts'
import { fillPeer, KEYED } from './reads.ts'
import { type Bench, connectSource, deploy, flag, register, startBench, storesS, sync } from './setup.ts'

const run = promisify(execFile)
const rows = Number(flag('rows') ?? 1_000_000)
const seconds = Number(flag('seconds') ?? 8)
/** `--loads-only` measures no reads, for sizes at which only memory and bulk speed are of interest. */
const loadsOnly = process.argv.includes('--loads-only')
const CONNECTIONS = 32

function record(what: string, ours: number, limit: number, unit: string, aim: number | null): void {
  const shown = (value: number) => `${Math.round(value).toLocaleString('en')} ${unit}`
  const wanted = aim === null ? '' : ` (aim ${aim})`
  console.log(
    `${what.padEnd(56)} ${shown(ours).padStart(18)} ${shown(limit).padStart(18)}  ${(ours / limit).toFixed(2)}${wanted}`,
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
  // A round that does not count: what is measured is code that is warm.
  const rounds: [number, number][] = []
  await ours()
  await limit()
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

/** A product of its own, so that its run fills nothing else. */
async function measureRealtime(bench: Bench): Promise<void> {
  await register(bench, 'keyed')
  const done = await deploy(bench, '1.0.0', KEYED, 'keyed')
  if (done === null) throw new Error('the deploy materialized nothing')
  const path = join(bench.folder, 'peer-lmdb')
  const inS = await fillPeer(bench, path)
  record(
    'lake → realtime / puts of ready texts into LMDB',
    rows / (await storesS(bench, done, 'keyed')),
    rows / inS,
    'rows/s',
    null,
  )
  if (loadsOnly) return
  const peer = await startPeer('lmdb', path)
  const [ours, limit] = await inTurns(
    () => load(`${bench.url}/api/v1/products/keyed/realtime?key=ID`, bench.token),
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

/** Calls back with the memory of the server's process tree now and then; gives what ends that. */
function watchMemory(bench: Bench, seen: (mb: number) => void): () => void {
  const timer = setInterval(() => void treeMb(bench.server.pid as number).then(seen), 250)
  return () => clearInterval(timer)
}

async function measureLoads(bench: Bench): Promise<void> {
  const idleMb = await treeMb(bench.server.pid as number)
  let peakMb = idleMb
  const end = watchMemory(bench, (mb) => {
    peakMb = Math.max(peakMb, mb)
  })
  await connectSource(bench)
  await register(bench)
  await deploy(bench, '1.0.0', '  - type: lookup\n')
  const done = await sync(bench)
  end()
  const loaded = done.log.find((line) => line.message.includes('rows (full)'))?.at as string
  const ingestS = secondsBetween(done.started_at, loaded)
  const csv = join(bench.folder, 'out.csv')
  const outS = await psql(bench, `\\copy measured to '${csv}' csv`)
  record('PostgreSQL → committed lake table / psql \\copy to csv', rows / ingestS, rows / outS, 'rows/s', 0.5)
  await bench.client.query('CREATE TABLE copied (LIKE measured INCLUDING ALL)')
  const inS = await psql(bench, `\\copy copied from '${csv}' csv`)
  await bench.client.query('DROP TABLE copied')
  await rm(csv)
  record('lake → lookup / psql \\copy', rows / (await storesS(bench, done)), rows / inS, 'rows/s', 0.6)
  const allS = secondsBetween(loaded, done.finished_at)
  record('transform, checks, lake and lookup / psql \\copy', rows / allS, rows / inS, 'rows/s', null)
  const grownMb = Math.round(peakMb - idleMb)
  console.log(`process tree: ${Math.round(idleMb)} MiB idle, ${Math.round(peakMb)} MiB at the peak (+${grownMb})`)
}

async function main(): Promise<void> {
  console.log(
    `${rows.toLocaleString('en')} rows, ${CONNECTIONS} connections, ${seconds} s a round, Node ${process.version}\n`,
  )
  const bench = await startBench(rows)
  try {
    await measureLoads(bench)
    if (!loadsOnly) await measureLookup(bench)
    await measureRealtime(bench)
  } finally {
    await bench.stop()
  }
}

await main()
