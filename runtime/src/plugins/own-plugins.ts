/** The plugins that come with the runtime, named so that its program can be one file with them. */

const OWN: Readonly<Record<string, () => Promise<{ readonly default?: unknown }>>> = {
  '@sluice/analytics/duckdb': () => import('@sluice/analytics/duckdb'),
  '@sluice/analytics/trino': () => import('@sluice/analytics/trino'),
  '@sluice/compute/trino': () => import('@sluice/compute/trino'),
  '@sluice/connectors/airbyte': () => import('@sluice/connectors/airbyte'),
  '@sluice/connectors/files': () => import('@sluice/connectors/files'),
  '@sluice/connectors/kafka': () => import('@sluice/connectors/kafka'),
  '@sluice/connectors/mariadb': () => import('@sluice/connectors/mariadb'),
  '@sluice/connectors/mysql': () => import('@sluice/connectors/mysql'),
  '@sluice/connectors/postgresql': () => import('@sluice/connectors/postgresql'),
  '@sluice/connectors/s3-files': () => import('@sluice/connectors/s3-files'),
  '@sluice/dashboard/superset': () => import('@sluice/dashboard/superset'),
  '@sluice/event-bus/kafka': () => import('@sluice/event-bus/kafka'),
  '@sluice/lookup/postgresql': () => import('@sluice/lookup/postgresql'),
  '@sluice/object-store/s3': () => import('@sluice/object-store/s3'),
  '@sluice/realtime/lmdb': () => import('@sluice/realtime/lmdb'),
  '@sluice/realtime/redis': () => import('@sluice/realtime/redis'),
  '@sluice/timeseries/postgresql': () => import('@sluice/timeseries/postgresql'),
  '@sluice/timeseries/timescaledb': () => import('@sluice/timeseries/timescaledb'),
}

/** What drivers of these load where they are chosen, which is seldom: no part of that file. */
export const SELDOM_LOADED: readonly string[] = ['@platformatic/kafka']

export const isOwnPlugin = (specifier: string): boolean => Object.hasOwn(OWN, specifier)

/** The module behind the specifier, or null where it is none of these. */
export async function ownPlugin(specifier: string): Promise<{ readonly default?: unknown } | null> {
  return isOwnPlugin(specifier) ? ((await OWN[specifier]?.()) ?? null) : null
}
