import type { Lake } from '@sluice/iceberg'
import type { ConnectorHost, Logger } from '@sluice/sdk'
import type pg from 'pg'
import type { Config } from '../../config.ts'
import type { PushIntake } from '../../ingestion/push/intake.ts'
import type { PluginSet } from '../../plugins/plugin-set.ts'
import type { NamingIssuer } from '../../policy/identity.ts'
import type { MasterKeys } from '../../registry/master-keys.ts'

/** What the operations of `connections` work with. */
export interface ConnectionsDeps {
  readonly config: Config
  readonly pool: pg.Pool
  readonly masters: MasterKeys
  readonly lake: Lake
  readonly plugins: PluginSet
  /** All that are trusted. */
  readonly issuers: readonly NamingIssuer[]
  /** Takes rows that are pushed. */
  readonly pushes: PushIntake
  readonly connectorHost: ConnectorHost
  readonly logger: Logger
}
