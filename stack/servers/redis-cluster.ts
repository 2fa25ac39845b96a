/** A Redis cluster of three masters, each with a third of the slots. */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { freePort } from '../../runtime/src/database/free-port.ts'
import type { ServerKind, StackServer } from '../server.ts'
import { redisCommand, redisVersion, startRedisLike } from './redis.ts'

const SLOTS = 16_384
const MASTERS = 3
const READY_MS = 120_000

export const redisCluster: ServerKind = {
  name: 'a Redis cluster',
  variable: 'SLUICE_TEST_REDIS_URL',
  version: redisVersion,
  async start(folder) {
    const command = await redisCommand()
    const nodes: StackServer[] = []
    const stop = async () => {
      for (const node of nodes) await node.stop()
    }
    try {
      for (let index = 0; index < MASTERS; index += 1) {
        const options = ['--cluster-enabled', 'yes', '--cluster-port', String(await freePort())]
        nodes.push(await startRedisLike('redis', command, join(folder, `node-${index}`), options))
      }
      const urls = nodes.map(({ env }) => env['SLUICE_TEST_REDIS_URL'] ?? '')
      await makeWhole(urls)
      return { env: { SLUICE_TEST_REDIS_URL: urls[0] ?? '', SLUICE_TEST_REDIS_CLUSTER: 'true' }, stop }
    } catch (error) {
      await stop()
      throw error
    }
  },
}

async function makeWhole(urls: readonly string[]): Promise<void> {
  const clients = urls.map((url) => new Redis(url))
  try {
    for (const [index, client] of clients.entries()) {
      const [from, to] = [index, index + 1].map((part) => Math.floor((part * SLOTS) / MASTERS))
      await client.call('CLUSTER', 'ADDSLOTSRANGE', String(from), String((to ?? 0) - 1))
      const first = new URL(urls[0] ?? '')
      const busPort = /:(\d+)@(\d+)/.exec(String(await clients[0]?.call('CLUSTER', 'NODES')))?.[2] ?? ''
      if (index > 0) await client.call('CLUSTER', 'MEET', first.hostname, first.port, busPort)
    }
    for (const deadline = Date.now() + READY_MS; Date.now() < deadline; await sleep(100)) {
      const states = await Promise.all(clients.map((client) => client.call('CLUSTER', 'INFO')))
      const isWhole = (state: unknown) => /cluster_state:ok[^]*cluster_known_nodes:3/.test(String(state))
      if (states.every(isWhole)) return
    }
    throw new Error('the Redis cluster did not become whole')
  } finally {
    for (const client of clients) client.disconnect()
  }
}

export default redisCluster
