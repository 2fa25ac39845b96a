/** Whether the tables that a version reads by the log of their source can be read so. */
import { type ChangeStream, type RefusedStream, SluiceError } from '@sluice/sdk'
import { changesNotSupported, refusedTable } from '../../ingestion/ingest-log.ts'
import { PUSH_TYPE } from '../../ingestion/push/settings.ts'
import { isReadByLog, tablesOf } from '../../ingestion/source-tables.ts'
import { isNamed, type SourceTable } from '../../manifest/context.ts'
import type { Input, ManifestSet } from '../../manifest/manifest-set.ts'
import type { Connection } from '../../registry/connections.ts'
import { openConnector } from '../connections/connections.ts'
import type { ProductsDeps } from './deps.ts'

/**
 * Asks the source, and changes nothing there. Throws INVALID_DATA `changes_not_supported` where the connector reads no log,
 * and `changes_refused` with what would let the log tell the table.
 */
export async function requireLogs(
  platform: ProductsDeps,
  { inputs }: ManifestSet,
  connections: ReadonlyMap<string, Connection>,
  sources: ReadonlyMap<string, readonly SourceTable[] | null>,
  signal: AbortSignal,
): Promise<void> {
  for (const [name, connection] of connections) {
    const own = inputs.filter((input) => input.connection === name)
    if (connection.connectorType === PUSH_TYPE) requireNoMode(own)
    const tables = tablesOf(own).filter((table) => isReadByLog(table) && table.inputs.some(asksForLog))
    if (tables.length === 0) continue
    const plugin = platform.plugins.connector(connection.connectorType)
    if (!plugin?.capabilities.modes.includes('cdc')) throw changesNotSupported(connection.connectorType)
    const streams = tables.flatMap(({ schema, table, name: full }) => {
      const found = sources.get(name)?.find((source) => isNamed(source, full))
      return found ? [{ schema, table, primaryKey: found.primaryKey }] : []
    })
    const [refused] = await refusals(platform, connection, streams, signal)
    if (refused !== undefined) throw refusedTable(`${refused.schema}.${refused.table}`, refused)
  }
}

/** What was taken for an input that names no mode was asked then: a version that comes back depends on no source. */
function asksForLog({ mode, isChosen }: Input): boolean {
  return mode === 'cdc' && isChosen !== true
}

/** Rows that are pushed come in one way alone. */
function requireNoMode(inputs: readonly Input[]): void {
  const input = inputs.find(({ mode }) => mode === 'full' || mode === 'incremental')
  if (input === undefined) return
  throw new SluiceError(
    'INVALID_DATA',
    `the rows of the input "${input.name}" are pushed, and not read in mode ${input.mode}`,
    {
      code: 'push_has_no_mode',
      remedy: 'Leave mode out in inputs.yaml.',
    },
  )
}

async function refusals(
  platform: ProductsDeps,
  connection: Connection,
  streams: readonly ChangeStream[],
  signal: AbortSignal,
): Promise<readonly RefusedStream[]> {
  const connector = await openConnector(platform, connection)
  try {
    return (await connector.changes?.refusals?.({ streams, signal })) ?? []
  } finally {
    await connector.close()
  }
}
