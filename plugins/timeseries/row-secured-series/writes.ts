/** How a timeseries takes an epoch: chunks for its times, rows by key or added, aggregates recomputed. */
import {
  type Client,
  type Counts,
  checkCount,
  copyCsv,
  type Dataset,
  type EpochSteps,
  equalKeys,
  finishPartition,
  firstRowNumber,
  numberRows,
  PARTITION_SCHEMA,
  qualified,
  STAGED_DELETES,
  STAGED_UPSERTS,
  sqlNames,
  stageChanges,
  stagedCount,
} from '@sluice/lookup/row-secured-postgresql'
import type { ChangeSet } from '@sluice/sdk'
import { recomputeAll, recomputeTouched, TOUCHED } from './aggregates.ts'
import { distinctTimes, missingTime } from './buckets.ts'
import type { Layout } from './layout.ts'
import type { Series } from './series.ts'

export function timeseriesSteps(series: Series, changes: ChangeSet, epoch: number): EpochSteps {
  const { layout, kept, keeping } = series
  return {
    companions: kept,
    partitionBy: keeping.partitionBy(layout),
    build: (client, partition) => build(client, series, partition, changes, epoch),
    ...(keeping.place ? { place: keeping.place.bind(null, series) } : {}),
    stage: (client) => stage(client, layout, changes),
    prepare: async (client, dataset) => {
      if (dataset.partition !== null)
        await keeping.makeRoom(series, dataset.partition, await stagedInstants(client, layout))
    },
    merge: (client, dataset) => merge(client, series, dataset, changes, epoch),
  }
}

async function build(
  client: Client,
  series: Series,
  partition: string,
  changes: ChangeSet,
  epoch: number,
): Promise<Counts> {
  const { layout, keeping } = series
  const table = qualified(PARTITION_SCHEMA, partition)
  const instants = await distinctTimes(changes.upsertsCsv([layout.time.name]), layout.chunkEvery)
  const numbering = layout.key.length === 0 ? numberRows(table, epoch) : null
  if (numbering) await client.query(numbering.begin)
  const secure = await keeping.begin(client, series, partition, instants)
  const names = changes.schema.columns.map((column) => column.name)
  const arrived = await copyCsv(client, table, sqlNames(layout.columns), changes.upsertsCsv(names))
  checkCount(changes.upsertCount, arrived)
  if (numbering) await client.query(numbering.end)
  await finishPartition(client, partition, layout.shape)
  await secure()
  return { upserted: arrived, deleted: 0 }
}

async function stage(client: Client, layout: Layout, changes: ChangeSet): Promise<void> {
  await stageChanges(client, layout.columns, layout.key, changes)
  const missing = await client.query(`select from ${STAGED_UPSERTS} where ${layout.time.sql} is null limit 1`)
  if (missing.rowCount !== 0) throw missingTime()
}

/** One for each minute, hour or day that has staged rows, as the chunks' interval needs. */
async function stagedInstants(client: Client, layout: Layout): Promise<readonly number[]> {
  const unit = layout.chunkEvery.unit
  const precision = unit === 'minute' || unit === 'hour' ? unit : 'day'
  const time = layout.time.type === 'date' ? `${layout.time.sql}::timestamp` : layout.time.sql
  const result = await client.query<{ ms: string }>(
    `select distinct (extract(epoch from date_trunc('${precision}', ${time})) * 1000)::bigint::text as ms
       from ${STAGED_UPSERTS}`,
  )
  return result.rows.map((row) => Number(row.ms))
}

async function merge(
  client: Client,
  series: Series,
  dataset: Dataset,
  changes: ChangeSet,
  epoch: number,
): Promise<Counts> {
  const { wanted, layout, kept } = series
  const rows = qualified(series.rows.schema, dataset.relation)
  const tenant = wanted.key.tenant
  const full = changes.mode === 'full'
  if (!full && kept.length > 0) await noteTouched(client, layout)
  const deleted = full
    ? await deleteAll(client, rows, tenant)
    : await deleteByKey(client, layout, rows, tenant, kept.length > 0)
  await insertStaged(client, layout, rows, tenant, epoch)
  for (const one of kept) await (full ? recomputeAll : recomputeTouched)(client, layout, one, rows)
  return { upserted: await stagedCount(client), deleted }
}

async function noteTouched(client: Client, layout: Layout): Promise<void> {
  const name = TOUCHED.slice('pg_temp.'.length)
  await client.query(
    `create temp table ${name} on commit drop as select distinct ${layout.time.sql} as time from ${STAGED_UPSERTS}`,
  )
}

async function deleteAll(client: Client, rows: string, tenant: string): Promise<number> {
  const result = await client.query(`delete from ${rows} where tenant_id = $1`, [tenant])
  return result.rowCount ?? 0
}

/**
 * A key's row may move in time and so to another chunk: what is upserted is removed first, wherever it is. Counts
 * the rows that the deletes of the change set name.
 */
async function deleteByKey(
  client: Client,
  layout: Layout,
  rows: string,
  tenant: string,
  noting: boolean,
): Promise<number> {
  if (layout.key.length === 0) return 0
  const remove = async (stage: string): Promise<number> => {
    const statement = `delete from ${rows} t using ${stage} s
      where t.tenant_id = $1 and ${equalKeys(layout.key, 't', 's')}`
    if (!noting) return (await client.query(statement, [tenant])).rowCount ?? 0
    const noted = `with gone as (${statement} returning t.${layout.time.sql} as time),
      noted as (insert into ${TOUCHED} (time) select distinct time from gone)
      select count(*)::integer as count from gone`
    return (await client.query<{ count: number }>(noted, [tenant])).rows[0]?.count ?? 0
  }
  await remove(STAGED_UPSERTS)
  return await remove(STAGED_DELETES)
}

async function insertStaged(
  client: Client,
  layout: Layout,
  rows: string,
  tenant: string,
  epoch: number,
): Promise<void> {
  const columns = sqlNames(layout.columns).join(', ')
  if (layout.key.length > 0) {
    await client.query(
      `insert into ${rows} (tenant_id, ${columns}) select $1::text, ${columns} from ${STAGED_UPSERTS}`,
      [tenant],
    )
    return
  }
  await client.query(
    `insert into ${rows} (tenant_id, row_number, ${columns})
     select $1::text, $2::bigint + row_number() over (), ${columns} from ${STAGED_UPSERTS}`,
    [tenant, firstRowNumber(epoch).toString()],
  )
}
