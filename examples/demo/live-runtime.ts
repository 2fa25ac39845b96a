/** The runtime of the live demo, which is killed and started again. */
import type { ChildProcess } from 'node:child_process'
import { type Server, startServer } from './server.ts'

/** What differs from the defaults, and is said at the start. */
const SETTINGS = { SLUICE_LIMITS__SCHEDULE_INTERVAL_MS: '1000', SLUICE_LIMITS__LEASE_MS: '5000' }
export const SAID = `Two settings of this runtime are not the defaults: a schedule may come every second
(default: every minute), and what a killed runtime had in hand is taken up after
5 s (default: 30 s). Syncs come by the connection's schedule, "every": "1s".`
/** Of the connection: syncs come by themselves. A tick that comes while one is under way is let go. */
export const SCHEDULE = { every: '1s' }
export const CONNECTION = '/api/v1/connections/shop'
/** For what takes seconds, on a machine of any speed. */
export const PATIENCE_MS = 180_000

/** Where it all is, and what was started. */
export interface Stage {
  readonly folder: string
  readonly data: string
  /** An open file. */
  readonly log: number
  /** Runtimes, started and perhaps ended. */
  readonly runtimes: ChildProcess[]
}

/** @param port where its clients look for it; default: any that is free */
export function startRuntime({ data, log, runtimes }: Stage, port = '0'): Promise<Server> {
  return startServer(data, { env: SETTINGS, log, port, isApart: true, onSpawn: (child) => runtimes.push(child) })
}
