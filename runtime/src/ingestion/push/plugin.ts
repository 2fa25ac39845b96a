/**
 * The connector of connections that rows are pushed to. There is no source to go to: what it knows stands in the settings,
 * and the rows are in the registry until a run takes them (`ingest-pushed.ts`).
 */
import { type Connector, type DiscoveredTable, defineConnector, SluiceError } from '@sluice/sdk'
import { DEFAULT_SCHEMA } from '../../manifest/context.ts'
import { PUSH_TYPE, type PushTable, pushTables, settingsSchema } from './settings.ts'

export const pushPlugin = defineConnector({
  type: PUSH_TYPE,
  name: PUSH_TYPE,
  version: '0.1.0',
  description: 'Rows that other systems send to the runtime over HTTP.',
  settingsSchema,
  capabilities: { modes: ['cdc'] },
  async open(settings, { clock }): Promise<Connector> {
    const tables = [...pushTables(settings).values()].sort((one, other) => (one.name < other.name ? -1 : 1))
    return {
      async check() {
        const startedMs = clock.nowMs()
        const message = `rows of ${tables.length} tables can be sent`
        const steps = [{ name: 'privileges', ok: true, message }] as const
        return { ok: true, steps, latencyMs: Math.max(0, clock.nowMs() - startedMs) }
      },
      async discover({ after, limit }) {
        const left = tables.filter(({ name }) => after === null || name > after)
        const page = left.slice(0, limit)
        return { tables: page.map(described), next: left.length > page.length ? (page.at(-1)?.name ?? null) : null }
      },
      read() {
        throw new SluiceError('UNSUPPORTED', 'rows that are pushed cannot be read from a source', {
          code: 'unsupported',
          remedy: 'Leave mode out in inputs.yaml: a sync takes what was sent.',
        })
      },
      ack: async () => undefined,
      close: async () => undefined,
    }
  },
})

function described({ name, columns, primaryKey }: PushTable): DiscoveredTable {
  return {
    ...{ schema: DEFAULT_SCHEMA, name, kind: 'table', estimatedRows: null, primaryKey, suggestedCursor: null },
    columns: columns.map(({ name: column, type, nullable }) => ({ name: column, type, nullable, sourceType: type })),
  }
}
