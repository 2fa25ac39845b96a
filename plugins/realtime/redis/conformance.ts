/**
 * What the conformance suite needs to run against this store: `SLUICE_TEST_REDIS_URL`, a server that tests may fill and
 * restart (`appendonly yes`, `enable-debug-command local`).
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'

const RESTART_DEADLINE_MS = 20_000

export async function start() {
  const url = process.env['SLUICE_TEST_REDIS_URL']
  if (url === undefined) throw new Error('set SLUICE_TEST_REDIS_URL to a Redis server that tests may fill and restart')
  const cluster = process.env['SLUICE_TEST_REDIS_CLUSTER'] === 'true'
  const unreachable = { url: 'redis://127.0.0.1:1', connect_timeout_ms: 500 }
  const server = await serverAt(url, cluster)
  return { settings: { url, cluster }, server, unreachable, restart: () => restart(url, cluster), async stop() {} }
}

/** `Redis 8.2.1`, `Valkey 9.1.2`, `Redis Cluster 8.2.1`. */
async function serverAt(url: string, isCluster: boolean): Promise<string> {
  const info = await withClient(url, (client) => client.info('server'))
  const valkey = /^valkey_version:(\S+)/m.exec(info)?.[1]
  const version = valkey ?? /^redis_version:(\S+)/m.exec(info)?.[1] ?? ''
  return `${valkey === undefined ? 'Redis' : 'Valkey'}${isCluster ? ' Cluster' : ''} ${version}`
}

/** Every server, so that what is only in memory is gone. */
async function restart(url: string, isCluster: boolean): Promise<void> {
  const urls = isCluster ? await nodesOf(url) : [url]
  const before = await Promise.all(urls.map(stateOf))
  for (const each of urls) await withClient(each, (client) => client.call('DEBUG', 'RESTART')).catch(() => undefined)
  for (const deadline = Date.now() + RESTART_DEADLINE_MS; Date.now() < deadline; await sleep(50)) {
    const after = await Promise.all(urls.map((each) => stateOf(each).catch(() => null)))
    if (after.every((state, index) => state?.isReady && state.runId !== before[index]?.runId)) return
  }
  throw new Error('the Redis server did not restart: does it allow DEBUG?')
}

async function nodesOf(url: string): Promise<readonly string[]> {
  const nodes = await withClient(url, (client) => client.call('CLUSTER', 'NODES'))
  return [...String(nodes).matchAll(/ ([\d.]+:\d+)@/g)].map(
    ([, address = '']) => Object.assign(new URL(url), { host: address }).href,
  )
}

function stateOf(url: string): Promise<{ readonly runId: string; readonly isReady: boolean }> {
  return withClient(url, async (client) => {
    const runId = /run_id:(\w+)/.exec(await client.info('server'))?.[1] ?? ''
    const cluster = String(await client.call('CLUSTER', 'INFO').catch(() => 'cluster_state:ok'))
    return { runId, isReady: cluster.includes('cluster_state:ok') }
  })
}

async function withClient<T>(url: string, run: (client: Redis) => Promise<T>): Promise<T> {
  const client = new Redis(url, { retryStrategy: () => null, lazyConnect: true })
  client.on('error', () => undefined)
  try {
    await client.connect()
    return await run(client)
  } finally {
    client.disconnect()
  }
}
