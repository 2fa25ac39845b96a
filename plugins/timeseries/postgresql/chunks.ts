/**
 * A tenant's rows in partitions by time. Only time that has rows gets one; where a load would need very many, each
 * holds several intervals, so that a read over everything stays within the server's locks.
 */
import {
  attachChunk,
  type Client,
  createPartition,
  finishPartition,
  PARTITION_SCHEMA,
  partitionName,
  qualified,
  quoteLiteral,
  runAll,
  type TableShape,
  wallStatements,
  watchTruncations,
} from '@sluice/lookup/row-secured-postgresql'
import type { Host } from '@sluice/sdk'
import { parseTime, type TimeType } from '../row-secured-series/buckets.ts'
import type { Span } from '../row-secured-series/spans.ts'

export interface Chunk extends Span {
  /** Its table. */
  readonly name: string
}

function edge(type: TimeType, instantMs: number): string {
  const date = new Date(instantMs)
  const pad = (value: number, width = 2) => String(value).padStart(width, '0')
  const day = `${pad(date.getUTCFullYear(), 4)}-${pad(date.getUTCMonth() + 1)}-${pad(date.getUTCDate())}`
  if (type === 'date') return quoteLiteral(day)
  return quoteLiteral(
    `${day} ${pad(date.getUTCHours())}:${pad(date.getUTCMinutes())}:00${type === 'timestamptz' ? '+00' : ''}`,
  )
}

function boundsOf(type: TimeType, span: Span): string {
  return `for values from (${edge(type, span.fromMs)}) to (${edge(type, span.toMs)})`
}

/** Chunks of a partition that nobody sees yet; returns their tables. */
export async function createChunks(
  client: Client,
  host: Host,
  partition: string,
  type: TimeType,
  spans: readonly Span[],
): Promise<readonly string[]> {
  const parent = qualified(PARTITION_SCHEMA, partition)
  const names: string[] = []
  for (const span of spans) {
    const name = partitionName(host.randomBytes(12))
    await client.query(
      `create table ${qualified(PARTITION_SCHEMA, name)} partition of ${parent} ${boundsOf(type, span)}`,
    )
    names.push(name)
  }
  return names
}

/** Every chunk gets the wall: one that is named directly bypasses its parent's. */
export async function secureChunks(client: Client, names: readonly string[], tenant: string): Promise<void> {
  for (const name of names) await runAll(client, wallStatements(qualified(PARTITION_SCHEMA, name)))
  await watchTruncations(client, names, tenant)
}

/** A chunk of a partition that is being read; locks nothing that reads need. */
export async function addChunk(
  client: Client,
  host: Host,
  partition: string,
  tenant: string,
  shape: TableShape,
  type: TimeType,
  span: Span,
): Promise<void> {
  const name = partitionName(host.randomBytes(12))
  await createPartition(client, name, tenant, shape)
  await finishPartition(client, name, shape)
  await attachChunk(client, partition, name, boundsOf(type, span))
}

const BOUNDS = /FROM \('([^']+)'\) TO \('([^']+)'\)/

export async function chunksOf(client: Client, partition: string): Promise<readonly Chunk[]> {
  const result = await client.query<{ name: string; bounds: string }>(
    `select c.relname as name, pg_get_expr(c.relpartbound, c.oid) as bounds
       from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = to_regclass($1)`,
    [qualified(PARTITION_SCHEMA, partition)],
  )
  return result.rows.map(({ name, bounds }) => {
    const [, from = '', to = ''] = BOUNDS.exec(bounds) ?? []
    return { name, fromMs: parseTime(from)?.ms ?? Number.NaN, toMs: parseTime(to)?.ms ?? Number.NaN }
  })
}
