/** Aggregates kept in tables of their own, as row-secured as the rows, and moved in the same transaction. */
import {
  type Client,
  type Companion,
  loadDataset,
  notProvisioned,
  PARTITION_SCHEMA,
  qualified,
  type WantedTable,
} from '@sluice/lookup/row-secured-postgresql'
import type { Target } from '@sluice/sdk'
import { bucketAfter, bucketOf, edgeAs } from './buckets.ts'
import type { TimeseriesConfig } from './config.ts'
import { type AggregateLayout, type Layout, wantedAggregate } from './layout.ts'

export interface KeptAggregate extends Companion {
  readonly layout: AggregateLayout
}

/** Times whose buckets have to be computed again, old ones of changed rows included. */
export const TOUCHED = 'pg_temp.touched_times'

export function keptAggregates(target: Target<TimeseriesConfig>, layout: Layout): readonly KeptAggregate[] {
  return layout.aggregates.map((aggregate) => ({
    layout: aggregate,
    wanted: wantedAggregate(target, aggregate),
    fill: async (client, partition, rows) => {
      const into = `insert into ${qualified(PARTITION_SCHEMA, partition)} (${ownColumns(aggregate)})`
      await client.query(`${into} ${groupedRows(layout, aggregate, `${qualified(PARTITION_SCHEMA, rows)} t`, 'true')}`)
    },
  }))
}

function ownColumns(aggregate: AggregateLayout): string {
  return ['bucket', ...aggregate.measures.map((measure) => measure.sql)].join(', ')
}

/** One line a bucket; `more` are further columns, which lead and are grouped by. */
export function groupedRows(
  layout: Layout,
  aggregate: AggregateLayout,
  from: string,
  where: string,
  more: readonly string[] = [],
): string {
  const bucket = bucketOf(aggregate.every, layout.time.type, `t.${layout.time.sql}`)
  const measures = aggregate.measures.map((measure) => `${measure.of(`t.${measure.source}`)} as ${measure.sql}`)
  const keys = [...more, `${bucket} as bucket`]
  const positions = keys.map((_, index) => index + 1).join(', ')
  return `select ${[...keys, ...measures].join(', ')} from ${from} where ${where} group by ${positions}`
}

/** The aggregate's parent as the register has it. */
async function relationOf(client: Client, wanted: WantedTable): Promise<string> {
  const dataset = await loadDataset(client, wanted.key)
  if (dataset === null || dataset.partition === null) throw notProvisioned(wanted.key)
  return qualified(wanted.schema, dataset.relation)
}

export async function recomputeAll(client: Client, layout: Layout, kept: KeptAggregate, rows: string): Promise<void> {
  const table = await relationOf(client, kept.wanted)
  const tenant = kept.wanted.key.tenant
  await client.query(`delete from ${table} where tenant_id = $1`, [tenant])
  const lines = groupedRows(layout, kept.layout, `${rows} t`, 't.tenant_id = $1', ['$1::text as tenant_id'])
  await client.query(`insert into ${table} (tenant_id, ${ownColumns(kept.layout)}) ${lines}`, [tenant])
}

/** The buckets of the touched times, from the rows as they are now; a bucket without rows goes. */
export async function recomputeTouched(
  client: Client,
  layout: Layout,
  kept: KeptAggregate,
  rows: string,
): Promise<void> {
  const table = await relationOf(client, kept.wanted)
  const tenant = kept.wanted.key.tenant
  const { every } = kept.layout
  const { type, sql: time } = layout.time
  const touched = `select distinct ${bucketOf(every, type, 'time')} as bucket from ${TOUCHED}`
  await client.query(`delete from ${table} a using (${touched}) b where a.tenant_id = $1 and a.bucket = b.bucket`, [
    tenant,
  ])
  const edges = `select ${edgeAs(type, 'bucket')} as low, ${edgeAs(type, bucketAfter(every, 'bucket'))} as high from (${touched}) d`
  const from = `(${edges}) b join ${rows} t on t.${time} >= b.low and t.${time} < b.high`
  const lines = groupedRows(layout, kept.layout, from, 't.tenant_id = $1', ['$1::text as tenant_id'])
  await client.query(`insert into ${table} (tenant_id, ${ownColumns(kept.layout)}) ${lines}`, [tenant])
}
