import type { DiscoveredTable, DiscoverPage } from '@sluice/sdk'
import { parsePosition } from '../server/request.ts'
import { sourceFailure } from './failure.ts'
import { listRelations, type Relation, type RelationColumn } from './relation.ts'
import { openSession, type Way } from './session.ts'

const MAX_PAGE = 1000

/** Databases that are offered. */
export function schemasOf({ source }: Way): readonly string[] {
  return source.schemas ?? [source.database]
}

/** See `Connector.discover`. */
export async function discoverTables(
  way: Way,
  page: { readonly after: string | null; readonly limit: number },
  signal: AbortSignal,
): Promise<DiscoverPage> {
  const limit = Math.min(Math.max(1, Math.trunc(page.limit)), MAX_PAGE)
  const after = page.after === null ? null : parsePosition(page.after)
  try {
    const session = await openSession(way, signal)
    try {
      const found = await listRelations(session, { schemas: schemasOf(way), after, limit: limit + 1 })
      return toPage(found, limit)
    } finally {
      await session.close()
    }
  } catch (error) {
    throw sourceFailure(error, `the catalog of database ${JSON.stringify(way.source.database)}`, signal)
  }
}

/** Tables of which no column may be read are listed by the server, and left out here. */
function toPage(found: readonly Relation[], limit: number): DiscoverPage {
  const relations = found.slice(0, limit)
  const last = relations.at(-1)
  const next = found.length > limit && last ? JSON.stringify([last.schema, last.name]) : null
  return { tables: relations.filter(({ columns }) => columns.length > 0).map(toTable), next }
}

function toTable(relation: Relation): DiscoveredTable {
  const { schema, name, kind, estimatedRows, primaryKey, columns } = relation
  return {
    ...{ schema, name, kind, estimatedRows, primaryKey },
    columns: columns.map((column) => ({
      name: column.name,
      type: column.carriage.type,
      sourceType: column.sourceType,
      nullable: column.nullable,
    })),
    suggestedCursor: suggestCursor(relation),
  }
}

/**
 * The time that the server itself sets with every change, in a table with a key to tell the versions of a row apart by; never of
 * the key. What others are named is no proof that they change.
 */
function suggestCursor({ primaryKey, columns }: Relation): string | null {
  if (primaryKey.length === 0) return null
  const isAble = (column: RelationColumn) =>
    column.isChangeTime && !column.nullable && !primaryKey.includes(column.name)
  return columns.find(isAble)?.name ?? null
}
