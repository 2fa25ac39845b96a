/** What a run that reads a source, or changes what was read of it, is given. */

import type { EngineLimits, StorageRoom } from '@sluice/engine'
import type { Lake } from '@sluice/iceberg'
import type { Connector, Logger } from '@sluice/sdk'
import type pg from 'pg'
import type { FaultPoint } from '../fault-points.ts'
import type { Connection } from '../registry/connections.ts'
import type { SpoolLimits } from '../registry/log-spool.ts'
import type { MasterKeys } from '../registry/master-keys.ts'
import type { RunLease } from '../registry/run-claims.ts'
import { appendRunLog } from '../registry/run-progress.ts'
import type { WaveDeps } from './make-wave.ts'
import type { DeployedProduct } from './wave.ts'

export interface IngestionDeps extends WaveDeps {
  readonly masters: MasterKeys
  readonly lake: Lake
  readonly logger: Logger
  readonly faultPoint: FaultPoint
  readonly limits: EngineLimits
  /** `oneMoment`: all its reads are to see one instant of the source. */
  openConnector(connection: Connection, options: { readonly oneMoment: boolean }): Promise<Connector>
  /** Whether connectors of its type can do that. */
  readsAtOneMoment(connection: Connection): boolean
  /** The products in service that read from the connection. */
  productsOf(connection: Connection): Promise<readonly DeployedProduct[]>
  checkStorage(tenant: string): Promise<StorageRoom>
  /** Of logs, while the lake cannot be written. */
  readonly logSpool: SpoolLimits
  /** For what need not outlive the run; emptied when the runtime starts. */
  readonly scratchDirectory: string
  /** That the log of a source was lost, in the transaction that begins it anew. */
  tellLogLost(
    tx: pg.PoolClient,
    connection: Connection,
    about: { readonly reason: string; readonly runId: string },
  ): Promise<void>
}

export interface IngestionRun {
  readonly connection: Connection
  readonly lease: RunLease
  readonly signal: AbortSignal
  /** Waits for a place among transforms, and gives that for ingestions back. */
  toTransforms(): Promise<void>
  /** It reads the log alone, and what has failed in it by itself holds nothing else up. */
  readonly isFollowing?: boolean
}

/** In the log that the run's readers are shown. */
export async function say(
  run: IngestionRun,
  deps: IngestionDeps,
  level: 'info' | 'warn' | 'error',
  message: string,
): Promise<void> {
  await appendRunLog(deps.pool, run.lease, level, message)
}
