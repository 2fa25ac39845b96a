/** What the runtime asks of a place that holds files. */
import {
  type CheckReport,
  type Clock,
  type Connector,
  type ConnectorHost,
  type DiscoveredTable,
  type DiscoverPage,
  isSluiceError,
  type Logger,
} from '@sluice/sdk'
import { requestInvalid, stopIfAborted } from './failure.ts'
import type { FileStore } from './file-store.ts'
import { readTable, SCHEMA } from './read.ts'
import type { TableOfFiles } from './table-settings.ts'
import { type FoundTable, Tables } from './tables.ts'

export function createConnector(
  store: FileStore,
  named: readonly TableOfFiles[],
  { clock, logger }: Pick<ConnectorHost, 'clock' | 'logger'>,
): Connector {
  const closed = new AbortController()
  const tables = new Tables(store, named)
  const untilClosed = (signal: AbortSignal) => AbortSignal.any([signal, closed.signal])
  return {
    check: (signal) => checked(store, tables, clock, untilClosed(signal)),
    discover: (page, signal) => listed(tables, page, logger, untilClosed(signal)),
    read: (request) => readTable(tables, store, { ...request, signal: untilClosed(request.signal) }),
    // A file waits for nobody.
    ack: async () => undefined,
    close: async () => closed.abort(),
  }
}

const MAX_CHECKED = 100

async function checked(store: FileStore, tables: Tables, clock: Clock, signal: AbortSignal): Promise<CheckReport> {
  const startedMs = clock.nowMs()
  const steps = await store.check(signal)
  const isReached = steps.every(({ ok }) => ok)
  const last = isReached ? await tablesStep(tables, signal) : null
  const all = last === null ? steps : [...steps.filter(({ name }) => name !== last.name), last]
  return { ok: all.every(({ ok }) => ok), steps: all, latencyMs: Math.max(0, clock.nowMs() - startedMs) }
}

/** Whether each table can be read: its columns are found out. */
async function tablesStep(tables: Tables, signal: AbortSignal) {
  const name = 'privileges'
  try {
    const names = await tables.names(signal)
    if (names.length === 0)
      return {
        name,
        ok: false,
        message: 'there is no table',
        remedy: 'Name tables in the settings, each by a glob and a format.',
      } as const
    for (const table of names.slice(0, MAX_CHECKED)) await tables.look(table, signal, kept)
    return { name, ok: true, message: `${names.length} tables can be read` } as const
  } catch (error) {
    if (!isSluiceError(error) || error.code === 'aborted') throw error
    return { name, ok: false, message: error.message, remedy: error.remedy ?? 'Correct what is named.' } as const
  }
}

const AFTER = 'after:'

async function listed(
  tables: Tables,
  { after, limit }: { readonly after: string | null; readonly limit: number },
  logger: Logger,
  signal: AbortSignal,
): Promise<DiscoverPage> {
  stopIfAborted(signal)
  if (after !== null && !after.startsWith(AFTER))
    throw requestInvalid('the position in the list is none of this connector')
  const names = (await tables.names(signal)).filter((name) => after === null || name > after.slice(AFTER.length))
  const page = names.slice(0, limit)
  const found: DiscoveredTable[] = []
  for (const name of page) {
    try {
      found.push(described(await tables.look(name, signal, kept)))
    } catch (error) {
      // One table that cannot be read leaves the others; `check`, and whoever reads it, are told what is wrong with it.
      if (!isSluiceError(error, 'INVALID_DATA') && !isSluiceError(error, 'PERMISSION')) throw error
      logger.warn('the columns of a table of files are not known', { table: name, code: error.code })
      found.push(unreadable(name, tables.named(name)))
    }
  }
  return { tables: found, next: names.length > page.length ? AFTER + page.at(-1) : null }
}

const kept = async (value: FoundTable) => ({ value, discard: async () => undefined })

function unreadable(name: string, table: TableOfFiles | null): DiscoveredTable {
  return {
    ...{ schema: SCHEMA, name, kind: 'table', estimatedRows: null, columns: [] },
    primaryKey: table?.primaryKey ?? [],
    suggestedCursor: table?.cursorColumn ?? null,
  }
}

function described({ table, columns }: FoundTable): DiscoveredTable {
  const { name, primaryKey, cursorColumn, format } = table
  return {
    ...{ schema: SCHEMA, name, kind: 'table', estimatedRows: null, primaryKey, suggestedCursor: cursorColumn },
    columns: columns.map((column) => ({ ...column, sourceType: format })),
  }
}
