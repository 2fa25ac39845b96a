/** The reference connector: everything that the contract asks of one, over a source in memory. */
import { type Connector, type ConnectorHost, type DiscoverPage, defineConnector, SluiceError } from '@sluice/sdk'
import type { SourceTable } from '../connector-fixture.ts'
import { changesOf } from './changes.ts'
import { readTable } from './reading.ts'
import { checkSource, visibleTables, within } from './session.ts'
import { checkSettings, type SourceSettings, settingsSchema } from './settings.ts'

export default defineConnector<SourceSettings>({
  type: 'reference',
  name: 'memory',
  version: '0.1.0',
  description: 'Tables of a source in memory; for tests.',
  settingsSchema,
  capabilities: { modes: ['full', 'incremental', 'cdc'] },
  open: async (settings, host) => openConnector(checkSettings(settings), host),
})

function openConnector(settings: SourceSettings, host: ConnectorHost): Connector {
  const closed = new AbortController()
  const untilClosed = (signal: AbortSignal) => AbortSignal.any([signal, closed.signal])
  return {
    check: (signal) => checkSource(settings, host, untilClosed(signal)),
    async discover(page, signal) {
      const pages = within(settings, host, untilClosed(signal), async function* () {
        yield pageOf(visibleTables(settings), settings, page)
      })
      for await (const found of pages) return found
      return { tables: [], next: null }
    },
    read: (request) => readTable(settings, host, { ...request, signal: untilClosed(request.signal) }),
    // The source keeps every row, so it need not be told what has been committed.
    ack: async () => undefined,
    close: async () => closed.abort(),
    changes: changesOf(settings, host, untilClosed),
  }
}

function pageOf(
  tables: readonly SourceTable[],
  { source }: SourceSettings,
  { after, limit }: { readonly after: string | null; readonly limit: number },
): DiscoverPage {
  if (after !== null && !/^after:/.test(after)) {
    throw new SluiceError('INVALID_DATA', 'the position is not one of this connector', {
      code: 'discover_position_invalid',
    })
  }
  const rest = tables.filter(({ name }) => after === null || name > after.slice('after:'.length))
  const page = rest.slice(0, Math.max(1, limit))
  const last = page.at(-1)
  return {
    tables: page.map((table) => ({
      schema: 'memory',
      name: table.name,
      kind: 'table',
      estimatedRows: source.table(table.name)?.rows.size ?? null,
      primaryKey: table.primaryKey,
      columns: table.columns.map((column) => ({ ...column, sourceType: column.type })),
      suggestedCursor: null,
    })),
    next: rest.length > page.length && last ? `after:${last.name}` : null,
  }
}

export { MemorySource } from './memory-source.ts'
export type { SourceSettings } from './settings.ts'
