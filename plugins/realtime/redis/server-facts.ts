/** What a server says of itself: whether it may throw values away, and whether it has. */
import type { ProbeReport } from '@sluice/sdk'
import type { Redis } from 'ioredis'
import type { Connections } from './connections.ts'
import { EVICTIONS_KEY } from './keys.ts'
import { forgotten, type Markers } from './markers.ts'

export interface ServerFacts {
  /** Another one after each start of the server. */
  readonly runId: string
  readonly version: string
  readonly role: string
  readonly evictionPolicy: string
  readonly evictedKeys: number
}

export async function factsOfServer(server: Redis): Promise<ServerFacts> {
  const facts = new Map<string, string>()
  for (const line of (await server.info()).split('\r\n')) {
    const colon = line.indexOf(':')
    if (colon > 0) facts.set(line.slice(0, colon), line.slice(colon + 1))
  }
  return {
    runId: facts.get('run_id') ?? '',
    version: facts.get('redis_version') ?? '0',
    role: facts.get('role') ?? '',
    evictionPolicy: facts.get('maxmemory_policy') ?? '',
    evictedKeys: Number(facts.get('evicted_keys') ?? 0),
  }
}

const MIN_VERSION = [6, 0] as const

type Checks = ProbeReport['checks']

export async function probeServers(connections: Connections): Promise<Checks> {
  const checks = await Promise.all(
    connections.servers().map(async (server) => {
      const { role, evictionPolicy, version, evictedKeys } = await factsOfServer(server)
      const [major = 0, minor = 0] = version.split('.').map(Number)
      const isRecent = major > MIN_VERSION[0] || (major === MIN_VERSION[0] && minor >= MIN_VERSION[1])
      return [
        { name: 'version', ok: isRecent, message: `the server is compatible with Redis ${version}; 6.0 is needed` },
        { name: 'role', ok: role === 'master', message: `the server is a ${role || 'server of an unknown role'}` },
        {
          name: 'eviction',
          ok: evictionPolicy === 'noeviction',
          message: `maxmemory-policy is ${evictionPolicy || 'not told'}; only under noeviction does a value stay until its ttl`,
        },
        { name: 'evicted', ok: true, message: `${evictedKeys} keys were evicted since the server started` },
      ]
    }),
  )
  return checks.flat()
}

/**
 * Looks whether a server has evicted values since anybody looked, and if so forgets all datasets: nobody knows whose values
 * they were, and a value that is gone must not be taken for one that never was. Returns what is wrong now, in words.
 */
export async function noticeEvictions(connections: Connections, markers: Markers): Promise<string | null> {
  let problem: string | null = null
  for (const server of connections.servers()) {
    const { runId, evictedKeys, evictionPolicy } = await factsOfServer(server)
    if (evictionPolicy !== 'noeviction') problem = 'the Redis server may evict values: set maxmemory-policy noeviction'
    const known = Number((await connections.writes.hget(EVICTIONS_KEY, runId)) ?? 0)
    if (evictedKeys === known) continue
    // Fewer than were known: somebody has set the server's counters back.
    if (evictedKeys > known) await forgetAll(markers)
    await connections.writes.hset(EVICTIONS_KEY, runId, evictedKeys)
  }
  return problem
}

async function forgetAll(markers: Markers): Promise<void> {
  for (const prefix of await markers.prefixes()) {
    await markers.update(prefix, (marker) => (marker && !marker.isDropped ? forgotten(marker) : marker))
  }
}
