import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { Client as S3Client } from 'minio'
import pg from 'pg'
import type { Client } from '../acceptance/client.ts'
import { Random } from '../conformance-tests/random.ts'
import type { StackServer } from '../stack/server.ts'
import { postgres } from '../stack/servers/postgres.ts'
import { redis } from '../stack/servers/redis.ts'
import { versitygw } from '../stack/servers/versitygw.ts'
import { Fleet, type FleetServers, serversFromEnvironment } from '../stack/several/fleet.ts'
import { until } from '../test/until.ts'
import type { Outcome, Proof, Request } from './proof.ts'
import { RUNTIME_SOURCES } from './runtime-sources.ts'

const TENANTS = 500
const CLIENTS = 4
/** Clients wait for the next start when they have made so many since the last, so that starts and ends meet work. */
const TENANTS_PER_START = 10
/** A runtime ends so soon after its start: at any point of what clients then ask of it. */
const LONGEST_LIFE_MS = 400
interface Counts {
  starts: number
  kills: number
  /** Requests that were answered with success. */
  created: number
  /** Requests that ended otherwise: the runtime was killed under them. */
  unanswered: number
}

/** Ends and starts one runtime until all is over; a start that fails is thrown. */
async function restart(fleet: Fleet, random: Random, counts: Counts, signal: AbortSignal): Promise<void> {
  const runtime = fleet.runtimes[1]
  while (runtime && !signal.aborted) {
    await sleep(random.next() * LONGEST_LIFE_MS)
    const isKilled = random.chance(0.7)
    await runtime.stop(isKilled ? 'SIGKILL' : 'SIGTERM')
    await runtime.start()
    counts.starts += 1
    counts.kills += isKilled ? 1 : 0
  }
}

async function create(
  admin: Client,
  slugs: string[],
  counts: Counts,
  tell: (left: number) => void,
  signal: AbortSignal,
): Promise<void> {
  const count = slugs.length
  for (let slug = slugs.pop(); slug !== undefined; slug = slugs.pop()) {
    const starts = Math.floor((count - slugs.length) / TENANTS_PER_START)
    await until('the next start', () => signal.aborted || counts.starts >= starts)
    // A runtime that is being killed answers nobody: counted as unanswered.
    const answer = await admin.post('/api/v1/tenants', { slug, display_name: slug, tier: 'free' }).catch(() => null)
    if (answer?.status === 201) counts.created += 1
    else counts.unanswered += 1
    tell(slugs.length)
  }
}

/** Per tenant: what it is said to be, and whether all of it is there, or nothing. */
async function judge(slugs: readonly string[], registry: pg.Client, s3: S3Client) {
  const wrong: string[] = []
  const statuses = { active: 0, failed: 0, none: 0 }
  for (const slug of slugs) {
    const { rows } = await registry.query(
      `select (select status from tenants where slug = $1) as status,
         (select count(*)::int from tenant_keys where tenant = $1) as keys,
         (select count(*)::int from event_topics where tenant = $1) as topics`,
      [slug],
    )
    const { status, keys, topics } = rows[0] as { status: string | null; keys: number; topics: number }
    const hasBucket = await s3.bucketExists(`sluice-${slug}`)
    const isWhole = status === 'active' && keys === 2 && topics > 0 && hasBucket
    const isUndone = (status === 'failed' || status === null) && keys === 0 && topics === 0 && !hasBucket
    statuses[status === 'active' || status === 'failed' ? status : 'none'] += 1
    if (!isWhole && !isUndone) wrong.push(`${slug}: ${status}, ${keys} keys, ${topics} topics, bucket ${hasBucket}`)
  }
  return { wrong, statuses }
}

async function onFleet(
  fleet: Fleet,
  servers: FleetServers,
  count: number,
  { seed, signal, say }: Request,
): Promise<Outcome> {
  const counts: Counts = { starts: 0, kills: 0, created: 0, unanswered: 0 }
  const slugs = Array.from({ length: count }, (_, index) => `tenant-${index}`)
  const admin = await fleet.client(['--role', 'admin'])
  const over = new AbortController()
  const restarting = restart(fleet, new Random(seed), counts, AbortSignal.any([signal, over.signal]))
  // A start that has failed ends the waiting for the next one, and is thrown below.
  restarting.catch(() => over.abort())
  const waiting = slugs.toReversed()
  const tell = (left: number) => (left % 50 === 0 ? say(`${left} tenants left, ${counts.starts} starts`) : undefined)
  await Promise.all(Array.from({ length: CLIENTS }, () => create(admin, waiting, counts, tell, over.signal)))
  over.abort()
  await restarting
  const registry = new pg.Client({ connectionString: fleet.environment['SLUICE_DATABASE__REGISTRY_URL'] })
  await registry.connect()
  const { hostname, port } = new URL(servers.s3.endpoint)
  const keys = { accessKey: servers.s3.key, secretKey: servers.s3.secret }
  const s3 = new S3Client({ endPoint: hostname, port: Number(port), useSSL: false, region: 'us-east-1', ...keys })
  try {
    // Leases of those who were killed end within a minute, and housekeeping looks twice in one.
    await until('every tenant is whole or undone', async () => {
      const { rowCount } = await registry.query(`select from tenants where status = 'provisioning'`)
      return rowCount === 0
    })
    const { wrong, statuses } = await judge(slugs, registry, s3)
    for (const line of wrong.slice(0, 20)) say(line)
    const holds = wrong.length === 0 && statuses.active >= counts.created
    return { holds, figures: { tenants: count, clients: CLIENTS, ...counts, ...statuses, wrong: wrong.length } }
  } finally {
    await registry.end()
  }
}

async function run(request: Request): Promise<Outcome> {
  const options = { tenants: { type: 'string', default: String(TENANTS) } } as const
  const { values } = parseArgs({ args: [...request.args], options })
  const folder = await mkdtemp(join(tmpdir(), 'sluice-prove-'))
  const running: StackServer[] = []
  try {
    for (const kind of [postgres, redis, versitygw]) running.push(await kind.start(join(folder, kind.variable)))
    const servers = serversFromEnvironment(Object.assign({}, ...running.map(({ env }) => env)) as NodeJS.ProcessEnv)
    const fleet = await Fleet.start(join(folder, 'fleet'), servers, 2)
    try {
      return await onFleet(fleet, servers, Number(values.tenants), request)
    } finally {
      await fleet.close()
    }
  } finally {
    for (const server of running.reverse()) await server.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

export const tenants: Proof = {
  name: 'tenants',
  proves:
    'Made by four clients through two runtimes, of which one is killed and started all the time, each tenant is whole or undone, and no start fails.',
  costs: 'about 4 minutes for 500 tenants, and installs Redis and an S3 store',
  options: [`--tenants N   so many (${TENANTS})`],
  of: [...RUNTIME_SOURCES, 'stack/several/*.ts'],
  run,
}
