/** Rows in native partitions: one a tenant of a parent that tenants share, and in it one for each span of time. */
import {
  applyTable,
  type Client,
  isOverlap,
  PARTITION_SCHEMA,
  planTable,
  qualified,
  quoteIdentifier,
  type Sessions,
  sharedColumns,
} from '@sluice/lookup/row-secured-postgresql'
import type { ProbeReport } from '@sluice/sdk'
import type { Layout } from '../row-secured-series/layout.ts'
import type { Keeping, Series } from '../row-secured-series/series.ts'
import { spansFor } from '../row-secured-series/spans.ts'
import { addChunk, chunksOf, createChunks, secureChunks } from './chunks.ts'

export const nativePartitions: Keeping = {
  isPlannedOnce: true,
  rowsOf: (wanted) => wanted,
  partitionBy,
  planRows: planTable,
  async applyRows({ sessions, host, wanted, layout }) {
    const copy = async (client: Client, from: string, to: string) =>
      await copySeries(client, { host, layout, wanted }, from, to, await sharedColumns(client, from, layout.shape))
    await applyTable(sessions, host, wanted, undefined, partitionBy(layout), copy)
  },
  async begin(client, { host, layout, wanted }, partition, instantsMs) {
    const spans = spansFor(instantsMs, layout.chunkEvery, [])
    const chunks = await createChunks(client, host, partition, layout.time.type, spans)
    return () => secureChunks(client, chunks, wanted.key.tenant)
  },
  makeRoom: addMissingChunks,
  check: partitioningCheck,
}

function partitionBy(layout: Layout): string {
  return `partition by range (${layout.time.sql})`
}

/** Made by the owner and committed before the rows come; a chunk that stays empty does no harm. */
async function addMissingChunks(series: Series, partition: string, instantsMs: readonly number[]): Promise<void> {
  const { sessions, host, wanted, layout } = series
  const tenant = wanted.key.tenant
  const doing = 'adding a partition by time'
  const there = await sessions.transaction('owner', tenant, doing, (owner) => chunksOf(owner, partition))
  for (const span of spansFor(instantsMs, layout.chunkEvery, there)) {
    const add = (owner: Client) => addChunk(owner, host, partition, tenant, layout.shape, layout.time.type, span)
    await sessions.transaction('owner', tenant, doing, add).catch((error: unknown) => {
      // Another writer was first with a chunk of that time.
      if (!isOverlap(error)) throw error
    })
  }
}

/** Rows of the former shape go into chunks of the same bounds. */
async function copySeries(
  client: Client,
  { host, layout, wanted }: Pick<Series, 'host' | 'layout' | 'wanted'>,
  from: string,
  to: string,
  kept: readonly string[],
): Promise<void> {
  const spans = await chunksOf(client, from)
  const chunks = await createChunks(client, host, to, layout.time.type, spans)
  const list = kept.map(quoteIdentifier).join(', ')
  await client.query(
    `insert into ${qualified(PARTITION_SCHEMA, to)} (${list}) select ${list} from ${qualified(PARTITION_SCHEMA, from)}`,
  )
  await secureChunks(client, chunks, wanted.key.tenant)
}

/** Hypertables cannot be partitions, and a parent shared by tenants needs partitions: rows are kept natively. */
async function partitioningCheck(sessions: Sessions, signal: AbortSignal): Promise<ProbeReport['checks'][number]> {
  const found = await sessions.use(
    'reader',
    'looking for TimescaleDB',
    (client) =>
      client.query<{ version: string }>(`select extversion as version from pg_extension where extname = 'timescaledb'`),
    signal,
  )
  const version = found.rows[0]?.version
  const there =
    version === undefined
      ? 'TimescaleDB is not installed'
      : `TimescaleDB ${version} is installed: the driver timescaledb uses it`
  return { name: 'partitioning', ok: true, message: `native partitions by tenant and time; ${there}` }
}
