/** Two runtimes on PostgreSQL, Redis and an S3 store, behind one address: what the acceptance tests run against too. */
import { join } from 'node:path'
import type { ServerKind, StackServer } from '../server.ts'
import { Fleet, serversFromEnvironment } from '../several/fleet.ts'
import { postgres } from './postgres.ts'
import { redis } from './redis.ts'
import { versitygw } from './versitygw.ts'

const RUNTIMES = 2

export const twoRuntimes: ServerKind = {
  name: 'two runtimes on the full stack',
  variable: 'SLUICE_ACCEPTANCE_URL',
  version: async () => `${await redis.version?.()} ${await versitygw.version?.()}`,
  async start(folder) {
    const running: StackServer[] = []
    // The runtimes need their servers to end; one that cannot be ended in order keeps nothing else running.
    const stop = async () => {
      const failures: unknown[] = []
      for (const server of running.splice(0).reverse()) await server.stop().catch((error) => failures.push(error))
      if (failures.length > 0) throw new AggregateError(failures, 'not everything could be ended in order')
    }
    try {
      for (const kind of [postgres, redis, versitygw]) running.push(await kind.start(join(folder, kind.variable)))
      const servers = serversFromEnvironment(Object.assign({}, ...running.map(({ env }) => env)) as NodeJS.ProcessEnv)
      // The tests are one address, from which strangers, too, ask at every door.
      const settings = { SLUICE_LIMITS__RATE__ADDRESS: '5000' }
      const fleet = await Fleet.start(join(folder, 'fleet'), servers, RUNTIMES, { settings })
      const env = {
        SLUICE_ACCEPTANCE_URL: fleet.front.url,
        SLUICE_ACCEPTANCE_SOURCE: fleet.source,
        SLUICE_ACCEPTANCE_TOKENS: fleet.tokenCommand.join(' '),
        SLUICE_ACCEPTANCE_KEYS: fleet.keys,
        SLUICE_ACCEPTANCE_RUNTIMES: String(RUNTIMES),
      }
      running.push({ env, stop: () => fleet.close() })
      return { env, stop }
    } catch (error) {
      await stop()
      throw error
    }
  },
}

export default twoRuntimes
