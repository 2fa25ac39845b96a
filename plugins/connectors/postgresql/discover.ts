import type { DiscoveredTable, DiscoverPage } from '@sluice/sdk'
import { parsePosition } from '../server/request.ts'
import { sourceFailure } from './failure.ts'
import { listRelations, type Relation, type RelationColumn } from './relation.ts'
import { inKeptSession, type Way } from './session.ts'

const MAX_PAGE = 1000

/** See `Connector.discover`. */
export async function discoverTables(
  way: Way,
  page: { readonly after: string | null; readonly limit: number },
  signal: AbortSignal,
): Promise<DiscoverPage> {
  const limit = Math.min(Math.max(1, Math.trunc(page.limit)), MAX_PAGE)
  const after = page.after === null ? null : parsePosition(page.after)
  try {
    return await inKeptSession(way, signal, async (session) => {
      await session.begin()
      const found = await listRelations(session, { schemas: way.source.schemas, after, limit: limit + 1 })
      return toPage(found, limit)
    })
  } catch (error) {
    throw sourceFailure(error, `the catalog of database ${JSON.stringify(way.source.database)}`, signal)
  }
}

function toPage(found: readonly Relation[], limit: number): DiscoverPage {
  const relations = found.slice(0, limit)
  const last = relations.at(-1)
  const next = found.length > limit && last ? JSON.stringify([last.schema, last.name]) : null
  return { tables: relations.map(toTable), next }
}

function toTable(relation: Relation): DiscoveredTable {
  return {
    schema: relation.schema,
    name: relation.name,
    kind: relation.kind,
    estimatedRows: relation.estimatedRows,
    primaryKey: relation.primaryKey,
    columns: relation.columns.map((column) => ({
      name: column.name,
      type: column.carriage.type,
      sourceType: column.sourceType,
      nullable: column.nullable,
    })),
    suggestedCursor: suggestCursor(relation),
  }
}

/** Names that say "changed with every change"; one of creation or of business does not. Best first. */
const CURSOR_NAMES = [
  /^(row_?)?(last_?)?(updated|modified|changed)_?(at|on|ts|time|timestamp|date|datetime)?(_?utc)?$/i,
  /^(last_?)?(update|modify|modification|change)_?(at|on|ts|time|timestamp|date|datetime)(_?utc)?$/i,
  /^sys_?(updated|modified|changed)(_?(at|on))?$/i,
]

/**
 * Only a time that is never null and is named for changes, in a table with a key to tell the versions of a row apart by.
 * Never the key itself: an update would not move it.
 */
function suggestCursor(relation: Relation): string | null {
  if (relation.primaryKey.length === 0) return null
  const able = relation.columns.filter((column) => isTime(column) && !relation.primaryKey.includes(column.name))
  for (const pattern of CURSOR_NAMES) {
    const named = able.filter((column) => pattern.test(column.name))
    const best = named.find((column) => column.carriage.type === 'timestamptz') ?? named[0]
    if (best) return best.name
  }
  return null
}

function isTime(column: RelationColumn): boolean {
  return !column.nullable && (column.carriage.type === 'timestamptz' || column.carriage.type === 'timestamp')
}
