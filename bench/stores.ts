/**
 * Measures the stores of the full stack (PostgreSQL, Redis, DuckDB over a lake in S3) as ratios to the bare client, and to
 * the bulk loader, of the same server in the same run. `node bench/stores.ts --rows 1000000 --seconds 3`.
 */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import autocannon from 'autocannon'
import pg from 'pg'
import type { StackServer } from '../stack/server.ts'
import { postgres } from '../stack/servers/postgres.ts'
import { redisCommand, startRedisLike } from '../stack/servers/redis.ts'
import { versitygw } from '../stack/servers/versitygw.ts'
import { connectionTo, Fleet, serversFromEnvironment } from '../stack/several/fleet.ts'
import { type Answer, call, createMeasured, deploy, flag, register, storesS, sync } from './setup.ts'
import { type Bare, bareDuckdb, barePostgres, bareRedis, inTurns, type Speed, speedOf } from './stores-bare.ts'

const run = promisify(execFile)
const rows = Number(flag('rows') ?? 1_000_000)
const seconds = Number(flag('seconds') ?? 3)
const AT_ONCE = [1, 32]
/** What a range of a minute holds: the rows lie a second apart. */
const SERIES_ROWS = 60

interface Stack {
  readonly folder: string
  readonly url: string
  readonly token: string
  readonly postgres: string
  readonly redis: string
  readonly source: pg.Client
  readonly sourceUrl: string
  call(method: string, path: string, body?: unknown): Promise<Answer>
  stop(): Promise<void>
}

async function startStack(): Promise<Stack> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const running: StackServer[] = [await postgres.start(join(folder, 'postgres'))]
  // As a cache is run: a value that is lost is loaded again from the lake.
  running.push(await startRedisLike('redis', await redisCommand(), join(folder, 'redis'), ['--appendonly', 'no']))
  running.push(await versitygw.start(join(folder, 's3')))
  const servers = serversFromEnvironment(Object.assign({}, ...running.map(({ env }) => env)) as NodeJS.ProcessEnv)
  let url = ''
  const fleet = await Fleet.start(join(folder, 'fleet'), servers, 1, {
    settings: { SLUICE_LIMITS__RATE__ENTERPRISE: '1000000' },
    async reachedBy(_, port) {
      url = `http://127.0.0.1:${port}`
      return port
    },
  })
  const token = (...flags: string[]) => fleet.token([...flags, '--ttl', '10h'])
  const tenant = { slug: 'bench', display_name: 'Bench', tier: 'enterprise' }
  await call(url, await token('--role', 'admin'), 'POST', '/api/v1/tenants', tenant)
  const developer = await token('--tenant', 'bench', '--group', 'svc-developers', '--user', 'bench')
  const source = new pg.Client({ connectionString: fleet.source })
  await source.connect()
  return {
    folder,
    url,
    token: developer,
    postgres: servers.postgres,
    redis: servers.redis,
    source,
    sourceUrl: fleet.source,
    call: (method, path, body) => call(url, developer, method, path, body),
    async stop() {
      await source.end()
      await fleet.close()
      for (const server of running.reverse()) await server.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function connectToSource(stack: Stack): Promise<void> {
  await stack.call('POST', '/api/v1/connections', { ...connectionTo(stack.sourceUrl), name: 'source' })
}

/** Rows a second into the stores of a product of its own. */
async function loadOf(stack: Stack, name: string, endpoints: string): Promise<number> {
  await register(stack, name)
  const done = (await deploy(stack, '1.0.0', endpoints, name)) ?? (await sync(stack))
  return rows / (await storesS(stack, done, name))
}

async function psql(url: string, ...commands: string[]): Promise<number> {
  const startedMs = performance.now()
  await run('psql', ['-q', '-v', 'ON_ERROR_STOP=1', '-d', url, ...commands.flatMap((command) => ['-c', command])])
  return (performance.now() - startedMs) / 1000
}

/** `psql \copy` into a table with the key, or with the index on the time, that the store's has. */
async function copied(stack: Stack, table: string, key: string): Promise<number> {
  const csv = join(stack.folder, 'measured.csv')
  await psql(stack.sourceUrl, `\\copy measured to '${csv}' csv`)
  await psql(
    stack.postgres,
    `create table ${table} (id bigint not null, name text not null, city text, country text,
    amount numeric(12,2), quantity integer, ratio double precision, active boolean, born date, updated_at timestamptz,
    primary key (${key}))`,
  )
  const tookS = await psql(stack.postgres, `\\copy ${table} from '${csv}' csv`)
  await rm(csv)
  return rows / tookS
}

/** `redis-cli --pipe` of ready commands. */
async function piped(stack: Stack): Promise<number> {
  const file = join(stack.folder, 'commands')
  const { rows: all } = await stack.source.query('select id::text as id, row_to_json(m)::text as row from measured m')
  const command = (...parts: string[]) =>
    `*${parts.length}\r\n${parts.map((part) => `$${Buffer.byteLength(part)}\r\n${part}\r\n`).join('')}`
  const text = function* () {
    for (const { id, row } of all as { id: string; row: string }[])
      yield command('SET', `bare:${id}`, row, 'PX', '86400000')
  }
  await pipeline(text(), createWriteStream(file))
  const startedMs = performance.now()
  const child = spawn('redis-cli', ['-u', stack.redis, '--no-auth-warning', '--pipe'], {
    stdio: ['pipe', 'ignore', 'inherit'],
  })
  const ended = once(child, 'exit')
  await pipeline(createReadStream(file), child.stdin)
  await ended
  const tookS = (performance.now() - startedMs) / 1000
  await rm(file)
  return rows / tookS
}

/** `path` and `body` may hold ID, and FROM and TO, which stand a minute apart. */
async function speedOverHttp(stack: Stack, path: string, atOnce: number, sql?: string): Promise<Speed> {
  const asked = (text: string) => {
    const id = 1 + Math.floor(Math.random() * rows)
    const from = new Date(Date.UTC(2026, 0, 1) + id * 1000)
    const to = new Date(from.getTime() + SERIES_ROWS * 1000)
    return text.replace('ID', String(id)).replace('FROM', from.toISOString()).replace('TO', to.toISOString())
  }
  const result = await autocannon({
    url: stack.url,
    connections: atOnce,
    duration: seconds,
    headers: { authorization: `Bearer ${stack.token}`, 'content-type': 'application/json' },
    requests: [
      {
        path,
        ...(sql === undefined ? {} : { method: 'POST', body: JSON.stringify({ sql }) }),
        setupRequest: (request) => ({ ...request, path: asked(path) }),
      },
    ],
  })
  if (result.errors > 0 || result['2xx'] === 0)
    throw new Error(`${path}: ${result.errors} errors, ${result.non2xx} refused`)
  if (result.non2xx > 0) console.log(`  (${result.non2xx} of ${result.requests.total} were refused: ${path})`)
  return { requestsPerS: result['2xx'] / result.duration, medianMs: result.latency.p50 }
}

interface Reading {
  readonly name: string
  readonly limit: string
  readonly path: string
  readonly sql?: string
  bare(atOnce: number): Promise<Bare>
}

async function compare(stack: Stack, reading: Reading, atOnce: number): Promise<void> {
  const bare = await reading.bare(atOnce)
  const [mine, limit] = await inTurns(
    () => speedOverHttp(stack, reading.path, atOnce, reading.sql),
    () => speedOf(bare, rows - SERIES_ROWS, seconds),
  )
  await bare.close()
  const shown = ({ requestsPerS, medianMs }: Speed) => `${Math.round(requestsPerS)}/s, ${medianMs.toFixed(2)} ms`
  const ratio = (mine.requestsPerS / limit.requestsPerS).toFixed(2)
  console.log(`| ${reading.name}, ${atOnce} at once | ${reading.limit} | ${shown(mine)} | ${shown(limit)} | ${ratio} |`)
}

function record(what: string, limit: string, ours: number, theirs: number): void {
  const shown = (value: number) => `${Math.round(value).toLocaleString('en')} rows/s`
  console.log(`| ${what} | ${limit} | ${shown(ours)} | ${shown(theirs)} | ${(ours / theirs).toFixed(2)} |`)
}

const SQL = (table: string) =>
  `select country, count(*) as n, sum(quantity) as q from ${table} group by country order by 1`

async function measure(stack: Stack): Promise<void> {
  await createMeasured(stack.source, rows)
  await connectToSource(stack)
  console.log('| what | limit | ours | limit’s | ratio |\n|---|---|---|---|---|')
  const lookup = await loadOf(stack, 'looked', '  - type: lookup\n')
  record('lake → lookup', 'psql \\copy', lookup, await copied(stack, 'bare_lookup', 'id'))
  const series = '  - type: timeseries\n    config: { time_column: updated_at, chunk_interval: 1 week }\n'
  const timed = await loadOf(stack, 'timed', series)
  record('lake → timeseries', 'psql \\copy', timed, await copied(stack, 'bare_series', 'updated_at, id'))
  const keyed = await loadOf(stack, 'keyed', '  - type: realtime\n    config: { key_template: "{id}" }\n')
  record('lake → realtime', 'redis-cli --pipe', keyed, await piped(stack))
  await loadOf(stack, 'plain', '  - type: analytics\n')
  for (const reading of readings(stack)) for (const atOnce of AT_ONCE) await compare(stack, reading, atOnce)
}

function readings(stack: Stack): readonly Reading[] {
  const products = '/api/v1/products'
  const range = `select coalesce(json_agg(m), '[]')::text from bare_series m where updated_at >= timestamptz '2026-01-01Z' +
    $1 * interval '1 second' and updated_at < timestamptz '2026-01-01Z' + ($1 + ${SERIES_ROWS}) * interval '1 second'`
  return [
    {
      name: 'lookup',
      limit: 'pg',
      path: `${products}/looked/latest?filter=id:ID`,
      bare: (atOnce) =>
        barePostgres(stack.postgres, atOnce, 'select row_to_json(m)::text as row from bare_lookup m where id = $1'),
    },
    {
      name: `timeseries, ${SERIES_ROWS} rows`,
      limit: 'pg',
      path: `${products}/timed/timeseries?from=FROM&to=TO`,
      bare: (atOnce) => barePostgres(stack.postgres, atOnce, range),
    },
    {
      name: 'realtime',
      limit: 'ioredis',
      path: `${products}/keyed/realtime?key=ID`,
      bare: (atOnce) => bareRedis(stack.redis, atOnce, 'bare:'),
    },
    {
      name: 'analytics, a sum over all rows',
      limit: 'DuckDB in the process',
      path: '/api/v1/query',
      sql: SQL('bench.plain'),
      bare: (atOnce) => bareDuckdb(join(stack.folder, 's3/objects/*/bench/bench/plain/data/**/*.parquet'), atOnce, SQL),
    },
  ]
}

const load = () =>
  loadavg()
    .map((one) => one.toFixed(1))
    .join(', ')
console.log(`${rows.toLocaleString('en')} rows, ${seconds} s a round, Node ${process.version}, load ${load()}\n`)
const stack = await startStack()
try {
  await measure(stack)
} finally {
  await stack.stop()
}
console.log(`\nload at the end ${load()}`)
