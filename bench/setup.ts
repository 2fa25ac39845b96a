/** What every measurement starts from: a source with rows, a runtime on a folder of its own, and a tenant in it. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { issueToken } from '../runtime/src/auth/embedded-issuer.ts'
import { type EmbeddedServer, startEmbeddedServer } from '../runtime/src/database/embedded-server.ts'

const root = join(import.meta.dirname, '..')

/** A second of processor time, as /proc counts it. */
const TICKS = Number(execFileSync('getconf', ['CLK_TCK']))

/** What follows `--name` on the command line. */
export function flag(name: string): string | undefined {
  const index = process.argv.indexOf(`--${name}`)
  return index < 0 ? undefined : process.argv[index + 1]
}

export interface Bench {
  readonly folder: string
  readonly source: EmbeddedServer
  readonly client: pg.Client
  readonly url: string
  readonly token: string
  readonly server: ChildProcess
  call(method: string, path: string, body?: unknown): Promise<Answer>
  stop(): Promise<void>
}

export type Answer = Readonly<Record<string, unknown>>

/**
 * @param settings of the source's server
 * @param nodeOptions of the runtime's process
 */
export async function startBench(
  rows: number,
  settings: Readonly<Record<string, string>> = {},
  nodeOptions: readonly string[] = [],
): Promise<Bench> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const source = await startEmbeddedServer({ dataFolder: join(folder, 'source'), durable: false, settings })
  const client = await connect(source)
  await createMeasured(client, rows)
  const runtime = await startRuntime(join(folder, 'data'), root, nodeOptions)
  return {
    ...runtime,
    folder,
    source,
    client,
    async stop() {
      await runtime.stop()
      await client.end()
      await source.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/**
 * The runtime of another checkout, or of this one with other settings, over the same source. To be stopped before the other one.
 * @param settings as variables of its environment
 */
export async function startPeerRuntime(
  bench: Bench,
  checkout = root,
  settings: Readonly<Record<string, string>> = {},
): Promise<Bench> {
  return { ...bench, ...(await startRuntime(join(bench.folder, 'peer'), checkout, [], settings)) }
}

/** With a tenant, and a token of one of its developers. */
async function startRuntime(
  dataDirectory: string,
  checkout: string,
  nodeOptions: readonly string[] = [],
  settings: Readonly<Record<string, string>> = {},
): Promise<Pick<Bench, 'url' | 'token' | 'server' | 'call' | 'stop'>> {
  const server = startServer(dataDirectory, checkout, nodeOptions, settings)
  const url = await addressOf(dataDirectory, server)
  const admin = await issueToken(dataDirectory, { role: 'admin' }, { ttlS: 36_000 })
  await call(url, admin, 'POST', '/api/v1/tenants', { slug: 'bench', display_name: 'Bench', tier: 'enterprise' })
  const token = await issueToken(
    dataDirectory,
    { tenant: 'bench', groups: ['svc-developers'], user: 'bench' },
    { ttlS: 36_000 },
  )
  return {
    url,
    token,
    server,
    call: (method, path, body) => call(url, token, method, path, body),
    async stop() {
      const ended = new Promise((resolve) => server.once('exit', resolve))
      server.kill('SIGTERM')
      await ended
    },
  }
}

/** `rows` rows of ten columns, in the table `public.measured`. */
export async function createMeasured(client: pg.Client, rows: number): Promise<void> {
  await client.query(`CREATE TABLE measured (id bigint PRIMARY KEY, name text NOT NULL, city text, country text,
    amount numeric(12,2), quantity integer, ratio double precision, active boolean, born date, updated_at timestamptz)`)
  await client.query(`INSERT INTO measured SELECT i, 'name ' || i, 'city ' || i % 1000, 'country ' || i % 50, i * 1.25,
    i % 100, i / 7.0, i % 2 = 0, date '1970-01-01' + (i % 18000)::int, timestamptz '2026-01-01' + i * interval '1 second'
    FROM generate_series(1, ${rows}) i`)
  await client.query('VACUUM ANALYZE measured')
}

function startServer(
  dataDirectory: string,
  checkout: string,
  nodeOptions: readonly string[],
  settings: Readonly<Record<string, string>>,
): ChildProcess {
  const launcher = join(checkout, 'runtime/bin/sluice.js')
  return spawn(process.execPath, [...nodeOptions, launcher, 'start', '--data-dir', dataDirectory, '--port', '0'], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      ...process.env,
      SLUICE_LOG__LEVEL: 'warn',
      SLUICE_LIMITS__RATE__ENTERPRISE: '1000000',
      SLUICE_ALLOW_UNPROVED: 'true',
      ...settings,
    },
  })
}

async function addressOf(dataDirectory: string, server: ChildProcess): Promise<string> {
  for (let attempt = 0; attempt < 1200 && server.exitCode === null; attempt += 1) {
    const text = await readFile(join(dataDirectory, 'runtime.json'), 'utf8').catch(() => null)
    if (text) return (JSON.parse(text) as { url: string }).url
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error('the server did not start')
}

export async function connect(server: EmbeddedServer, database = 'postgres'): Promise<pg.Client> {
  const { host, port, user, password } = server.tcpAddress
  const client = new pg.Client({ host, port, user, password, database })
  await client.connect()
  return client
}

export async function call(url: string, token: string, method: string, path: string, body?: unknown): Promise<Answer> {
  const form = body instanceof FormData
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, ...(body && !form ? { 'content-type': 'application/json' } : {}) },
    ...(body === undefined ? {} : { body: form ? body : JSON.stringify(body) }),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${method} ${path} → ${response.status} ${text}`)
  return JSON.parse(text) as Answer
}

/** A deployment that measurements call as its developer. */
export type Callable = Pick<Bench, 'call'>

/** Registers the source. */
export async function connectSource(bench: Callable & Pick<Bench, 'source'>): Promise<void> {
  const { host, port, user, password } = bench.source.tcpAddress
  const login = { host, port, database: 'postgres', user, password, ssl_mode: 'disable' }
  await bench.call('POST', '/api/v1/connections', {
    name: 'source',
    connector_type: 'postgresql',
    config_encrypted: JSON.stringify(login),
  })
}

/** A product over the source's table, without a version. */
export async function register(bench: Callable, name = 'measured'): Promise<void> {
  await bench.call('POST', '/api/v1/products', { name, namespace: 'bench', archetype: 'source_aligned' })
}

/** A version with these endpoints, and the input read in that way; resolves with the run that fills its stores, null where the source was never read. */
export async function deploy(
  bench: Callable,
  version: string,
  endpoints: string,
  name = 'measured',
  mode = 'full',
): Promise<Run | null> {
  const form = new FormData()
  for (const [file, text] of Object.entries(manifests(name, endpoints, mode)))
    form.append(file, new Blob([text]), `${file}.yaml`)
  await bench.call('POST', `/api/v1/products/bench.${name}/manifests`, form)
  const deployed = await bench.call('POST', `/api/v1/products/bench.${name}/deploy`, { version, dry_run: false })
  const { run_id: id } = deployed as { readonly run_id?: string | null }
  return id == null ? null : untilEnded(bench, id)
}

export interface Run {
  readonly id: string
  readonly state: string
  readonly started_at: string
  readonly finished_at: string
  readonly log: readonly { readonly at: string; readonly message: string }[]
}

export async function sync(bench: Callable): Promise<Run> {
  const queued = (await bench.call('POST', '/api/v1/connections/source/sync')) as unknown as Run
  return untilEnded(bench, queued.id)
}

async function untilEnded(bench: Callable, id: string): Promise<Run> {
  for (;;) {
    const run = (await bench.call('GET', `/api/v1/ingestion/${id}`)) as unknown as Run
    if (run.state === 'succeeded') return run
    if (run.state !== 'queued' && run.state !== 'running')
      throw new Error(`the run ${run.state}: ${JSON.stringify(run)}`)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

/** From the commit of the newest epoch to the end of the run that made it: all that went into its stores. */
export async function storesS(bench: Callable, done: Run, name = 'measured'): Promise<number> {
  const detail = await bench.call('GET', `/api/v1/products/bench.${name}`)
  const { committed_at: committedAt } = detail['last_materialization'] as { readonly committed_at: string }
  return (Date.parse(done.finished_at) - Date.parse(committedAt)) / 1000
}

function manifests(name: string, endpoints: string, mode: string): Readonly<Record<string, string>> {
  const head = (kind: string) => `apiVersion: svc/v1\nkind: ${kind}\n`
  const columns = [
    'id, type: long, role: identity, nullable: false',
    'name, type: string',
    'city, type: string',
    'country, type: string',
    'amount, type: "decimal(12,2)"',
    'quantity, type: integer',
    'ratio, type: double',
    'active, type: boolean',
    'born, type: date',
    'updated_at, type: timestamptz',
  ]
  return {
    product: `${head('Product')}name: ${name}\nnamespace: bench\narchetype: source_aligned\ndescription: ""\n`,
    inputs: `${head('Inputs')}inputs:\n  - name: measured\n    connection: source\n    table: public.measured\n    mode: ${mode}\n`,
    output: `${head('Output')}format: iceberg\nschema:\n${columns.map((column) => `  - { name: ${column} }`).join('\n')}\nwrite_mode: replace\n`,
    quality: `${head('Quality')}checks: []\n`,
    serving: `${head('Serving')}endpoints:\n${endpoints}`,
    compute: `${head('Compute')}engine: embedded\ntrigger: on_ingestion\n`,
  }
}

/** Processor time of the runtime, of the processes that it has started, and of those of them that have ended. */
export async function processorS({ server }: Pick<Bench, 'server'>): Promise<number> {
  const { ownS, startedS } = await processorOf(server.pid as number)
  return ownS + startedS
}

/** Processor time of a process, and of those that it has started, ended ones among them. */
export async function processorOf(pid: number): Promise<{ readonly ownS: number; readonly startedS: number }> {
  const stats = new Map<number, { readonly parent: number; readonly own: number; readonly ended: number }>()
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const text = await readFile(`/proc/${name}/stat`, 'latin1').catch(() => '')
    const fields = text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number)
    const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = fields.slice(11, 15)
    if (text === '') continue
    stats.set(Number(name), { parent: fields[1] ?? 0, own: user + system, ended: endedUser + endedSystem })
  }
  const startedBy = (parent: number): number => {
    let sum = stats.get(parent)?.ended ?? 0
    for (const [child, stat] of stats) if (stat.parent === parent) sum += stat.own + startedBy(child)
    return sum
  }
  return { ownS: (stats.get(pid)?.own ?? 0) / TICKS, startedS: startedBy(pid) / TICKS }
}
