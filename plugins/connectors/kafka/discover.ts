/** Which topics are tables, and what their columns are. */
import { type DiscoveredTable, type DiscoverPage, isSluiceError, type Logger } from '@sluice/sdk'
import type { ClusterClient } from './cluster.ts'
import { allColumns, valueColumns } from './columns.ts'
import { readersOf } from './decoder.ts'
import { requestInvalid, stopIfAborted, tooMuch } from './failure.ts'
import { SCHEMA } from './read.ts'
import type { Registry } from './registry/schemas.ts'
import type { KafkaSource } from './settings.ts'
import type { TopicTable } from './topic-settings.ts'

const MAX_TOPICS = 5000
const AFTER = 'after:'

/** In the order of their names; those that the login may not see are left out. */
export async function listedTopics(
  source: KafkaSource,
  client: ClusterClient,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const topics = await client.topics(source.named, signal)
  const names = topics
    .filter(({ error, isInternal, name }) => error === 0 && !isInternal && source.tableOf(name) !== null)
    .map(({ name }) => name)
  if (names.length > MAX_TOPICS)
    throw tooMuch(`the patterns take ${names.length} topics, and ${MAX_TOPICS} are the most`, 'Name narrower patterns.')
  return [...new Set(names)].sort()
}

export async function listed(
  source: KafkaSource,
  client: ClusterClient,
  registry: Registry | null,
  { after, limit }: { readonly after: string | null; readonly limit: number },
  logger: Logger,
  signal: AbortSignal,
): Promise<DiscoverPage> {
  stopIfAborted(signal)
  if (after !== null && !after.startsWith(AFTER))
    throw requestInvalid('the position in the list is none of this connector')
  const names = (await listedTopics(source, client, signal)).filter(
    (name) => after === null || name > after.slice(AFTER.length),
  )
  const page = names.slice(0, limit)
  const tables: DiscoveredTable[] = []
  for (const name of page) {
    stopIfAborted(signal)
    const table = await described(source, client, registry, name, logger, signal)
    if (table !== null) tables.push(table)
  }
  return { tables, next: names.length > page.length ? AFTER + page.at(-1) : null }
}

/** Of one key the offset grows; rows of different partitions have their times alone. */
function cursorOf({ mode, metadata, primaryKey }: TopicTable): string | null {
  const cursor = mode === 'upsert' ? '_offset' : '_timestamp'
  return metadata && !primaryKey.includes(cursor) ? cursor : null
}

/** Null: it has gone meanwhile. One that cannot be read leaves the others. */
async function described(
  source: KafkaSource,
  client: ClusterClient,
  registry: Registry | null,
  name: string,
  logger: Logger,
  signal: AbortSignal,
): Promise<DiscoveredTable | null> {
  const table = source.tableOf(name)
  if (table === null) return null
  const about = {
    ...({
      schema: SCHEMA,
      name,
      kind: 'table',
      primaryKey: table.primaryKey,
      suggestedCursor: cursorOf(table),
    } as const),
  }
  try {
    const topic = await client.topic(name, signal)
    const ranges = await client.ranges(topic, signal)
    const values = await valueColumns(table, topic, ranges, client, signal, await readersOf(table, registry, signal))
    return {
      ...about,
      estimatedRows: ranges.reduce((sum, { first, end }) => sum + (end - first), 0),
      columns: allColumns(table, values).map((column) => ({ ...column, sourceType: table.format })),
    }
  } catch (error) {
    const isItsOwn =
      isSluiceError(error, 'INVALID_DATA') || isSluiceError(error, 'PERMISSION') || isSluiceError(error, 'QUOTA')
    if (!isItsOwn) throw error
    if (isSluiceError(error) && error.code === 'source_request_invalid') return null
    logger.warn('the columns of a topic are not known', { topic: name, code: isSluiceError(error) ? error.code : '' })
    return { ...about, estimatedRows: null, columns: [] }
  }
}
