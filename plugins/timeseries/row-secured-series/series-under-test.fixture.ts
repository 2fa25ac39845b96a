import type { Settings } from '@sluice/lookup/row-secured-postgresql'
import type { PostgresFixture } from '@sluice/lookup/row-secured-postgresql/fixture'
import type { ServingPlugin } from '@sluice/sdk'
import type { TimeseriesConfig } from './config.ts'

export interface SeriesUnderTest {
  readonly plugin: ServingPlugin<Settings, TimeseriesConfig>
  start(): Promise<PostgresFixture>
  /** How many tables the rows of the only tenant's product lie in. */
  chunks(fixture: PostgresFixture, product: string): Promise<number>
  /** The check of the probe that says how rows are kept. */
  readonly probe: string
}
