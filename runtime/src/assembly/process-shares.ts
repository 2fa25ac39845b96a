/**
 * What each of several processes that serve HTTP has of the limits of their runtime. What is counted in the registry is of
 * all of them as it is: rates of tenants, processor time, rows of agents, rows that are pushed. What a process counts by
 * itself is divided, so that all of them together have what one would.
 */
import { join } from 'node:path'
import type { Config } from '../config.ts'

/** Which process it is, from 1, and of how many. */
export interface ProcessPlace {
  readonly index: number
  readonly of: number
}

export const ONLY_PROCESS: ProcessPlace = { index: 1, of: 1 }

/** Of two places a tenant has one at most: with a single one, nobody would keep others from having it all the time. */
const LEAST_ENGINES = 2

/** What is left over goes to the first ones; nobody has nothing. */
function share(whole: number, { index, of }: ProcessPlace): number {
  return Math.max(1, Math.floor(whole / of) + (index <= whole % of ? 1 : 0))
}

/** Engine processes of all together: more than configured where each would have less than two. */
export function enginesOfAll({ limits, http }: Pick<Config, 'limits' | 'http'>): number {
  const of = http.processes
  return Array.from({ length: of }, (_, at) => engines(limits.engine_processes, { index: at + 1, of })).reduce(
    (sum, one) => sum + one,
    0,
  )
}

const engines = (whole: number, place: ProcessPlace) =>
  place.of === 1 ? whole : Math.max(LEAST_ENGINES, share(whole, place))

export function sharedConfig(config: Config, place: ProcessPlace): Config {
  if (place.of === 1) return config
  const { limits, object_store: store } = config
  const { rate } = limits
  const cached = 'cache_mb' in store && typeof store.cache_mb === 'number'
  return {
    ...config,
    object_store: cached ? { ...store, cache_mb: share(store.cache_mb, place) } : store,
    limits: {
      ...limits,
      // Runs and what follows sources are the first one's.
      ...(place.index === 1 ? {} : { workers: 0, followed_connections: 0 }),
      engine_processes: engines(limits.engine_processes, place),
      query_cache_mb: Math.floor(limits.query_cache_mb / place.of),
      change_spool_mb: share(limits.change_spool_mb, place),
      event_streams: share(limits.event_streams, place),
      connections: share(limits.connections, place),
      // Its burst is four times that, and has to let one in.
      rate: { ...rate, address: Math.max(0.25, rate.address / place.of) },
    },
  }
}

/** What a process writes for itself alone. */
export interface ProcessFolders {
  readonly scratch: string
  /** Of objects that lie in buckets. */
  readonly lakeCache: string
}

/** Those of a further process go with it, and so does what a killed one has left. */
export function foldersOf({ data_dir: data }: Pick<Config, 'data_dir'>, { index }: ProcessPlace): ProcessFolders {
  const scratch = join(data, 'scratch')
  if (index === 1) return { scratch, lakeCache: join(data, 'lake-cache') }
  const own = join(scratch, `process-${index}`)
  return { scratch: own, lakeCache: join(own, 'lake-cache') }
}
