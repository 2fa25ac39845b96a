/** How a lookup table takes an epoch: the SQL of its three histories. */
import type { ChangeSet } from '@sluice/sdk'
import {
  type Client,
  type Counts,
  checkCount,
  copyCsv,
  type DatasetKey,
  differs,
  type EpochSteps,
  equalKeys,
  finishPartition,
  firstRowNumber,
  numberRows,
  PARTITION_SCHEMA,
  type PlacedColumn,
  qualified,
  quoteIdentifier,
  quoteLiteral,
  STAGED_DELETES,
  STAGED_UPSERTS,
  sqlNames,
  stageChanges,
  stagedCount,
} from '../row-secured-postgresql/index.ts'
import type { Layout } from './layout.ts'

export function lookupSteps(
  layout: Layout,
  key: DatasetKey,
  schema: string,
  changes: ChangeSet,
  epoch: number,
): EpochSteps {
  return {
    build: (client, partition, instant) => build(client, layout, partition, instant, changes, epoch),
    stage: (client) => stageChanges(client, layout.columns, layout.key, changes),
    merge: async (client, dataset, instant) => {
      const table: Table = {
        client,
        layout,
        name: qualified(schema, dataset.relation),
        tenant: key.tenant,
        instant,
        epoch,
      }
      return await mergeRows(table, changes)
    },
  }
}

async function build(
  client: Client,
  layout: Layout,
  partition: string,
  instant: string,
  changes: ChangeSet,
  epoch: number,
): Promise<Counts> {
  const table = qualified(PARTITION_SCHEMA, partition)
  const during = filledIn(layout, table, instant, epoch)
  for (const { begin } of during) await client.query(begin)
  const names = changes.schema.columns.map((column) => column.name)
  // The table is of this transaction, so its rows can be written as old ones: no later visit has to mark them.
  const arrived = await copyCsv(client, table, sqlNames(layout.columns), changes.upsertsCsv(names), ', freeze')
  checkCount(changes.upsertCount, arrived)
  for (const { end } of during) await client.query(end)
  await finishPartition(client, partition, layout.shape)
  return { upserted: arrived, deleted: 0 }
}

/** What the table fills in by itself while its first rows arrive. */
function filledIn(
  layout: Layout,
  table: string,
  instant: string,
  epoch: number,
): readonly { readonly begin: string; readonly end: string }[] {
  if (layout.key.length === 0) return [numberRows(table, epoch)]
  if (layout.mode !== 'type_2') return []
  const byDefault = (name: string, value: string) => {
    const column = `alter table ${table} alter column ${historyName(layout, name)}`
    return { begin: `${column} set default ${value}`, end: `${column} drop default` }
  }
  return [byDefault('valid_from', quoteLiteral(instant)), byDefault('is_current', 'true')]
}

/** The name in the table of a column that the history adds. */
function historyName(layout: Layout, name: string): string {
  return layout.served.get(name)?.sql.slice('t.'.length) ?? quoteIdentifier(name)
}

interface Table {
  readonly client: Client
  readonly layout: Layout
  /** Qualified and quoted. */
  readonly name: string
  readonly tenant: string
  readonly instant: string
  readonly epoch: number
}

async function mergeRows(table: Table, changes: ChangeSet): Promise<Counts> {
  if (table.layout.key.length === 0) return await addRows(table, changes.mode)
  if (table.layout.mode === 'type_2') return await mergeType2(table, changes.mode)
  if (changes.mode === 'delta') return await mergeDelta(table)
  return table.layout.mode === 'type_3' ? await restart(table) : await mergeFull(table)
}

async function run(table: Table, sql: string, ...more: readonly string[]): Promise<number> {
  const result = await table.client.query(sql, [table.tenant, ...more])
  return result.rowCount ?? 0
}

/** Without a key: a full set takes everything's place, a delta is added. */
async function addRows(table: Table, mode: ChangeSet['mode']): Promise<Counts> {
  const deleted = mode === 'full' ? await deleteAll(table) : 0
  const columns = sqlNames(table.layout.columns)
  const upserted = await run(
    table,
    `insert into ${table.name} (tenant_id, row_number, ${columns.join(', ')})
     select $1::text, $2::bigint + row_number() over (), ${columns.join(', ')} from ${STAGED_UPSERTS}`,
    firstRowNumber(table.epoch).toString(),
  )
  return { upserted, deleted }
}

function deleteAll(table: Table): Promise<number> {
  return run(table, `delete from ${table.name} where tenant_id = $1`)
}

async function mergeDelta(table: Table): Promise<Counts> {
  const deleted = await run(
    table,
    `delete from ${table.name} t using ${STAGED_DELETES} d where t.tenant_id = $1 and ${equalKeys(table.layout.key, 't', 'd')}`,
  )
  await upsert(table)
  return { upserted: await stagedCount(table.client), deleted }
}

async function mergeFull(table: Table): Promise<Counts> {
  const deleted = await run(
    table,
    `delete from ${table.name} t where t.tenant_id = $1
       and not exists (select from ${STAGED_UPSERTS} s where ${equalKeys(table.layout.key, 's', 't')})`,
  )
  await upsert(table)
  return { upserted: await stagedCount(table.client), deleted }
}

/** A history that begins again. */
async function restart(table: Table): Promise<Counts> {
  const deleted = await deleteAll(table)
  await upsert(table)
  return { upserted: await stagedCount(table.client), deleted }
}

/** Rows that are what they should be already are not written again. */
async function upsert(table: Table): Promise<void> {
  const { layout, name } = table
  const columns = sqlNames(layout.columns).join(', ')
  const values = layout.columns.filter((column) => !layout.key.some((key) => key.name === column.name))
  const set = [...values.map((column) => `${column.sql} = excluded.${column.sql}`), ...previousValues(layout)]
  const changed = values.map((column) => differs(column.type, `t.${column.sql}`, `excluded.${column.sql}`))
  const update = values.length === 0 ? 'nothing' : `update set ${set.join(', ')} where ${changed.join(' or ')}`
  await run(
    table,
    `insert into ${name} as t (tenant_id, ${columns}) select $1::text, ${columns} from ${STAGED_UPSERTS}
     on conflict (tenant_id, ${sqlNames(layout.key).join(', ')}) do ${update}`,
  )
}

/** type_3: what a tracked column held before its last change. */
function previousValues(layout: Layout): readonly string[] {
  if (layout.mode !== 'type_3') return []
  return layout.tracked.map((column) => {
    const previous = historyName(layout, `previous_${column.name}`)
    const changed = differs(column.type, `t.${column.sql}`, `excluded.${column.sql}`)
    return `${previous} = case when ${changed} then t.${column.sql} else t.${previous} end`
  })
}

async function mergeType2(table: Table, mode: ChangeSet['mode']): Promise<Counts> {
  const removed = mode === 'full' ? await deleteAll(table) : await closeDeleted(table)
  await closeChanged(table)
  await updateUntracked(table)
  await openRows(table)
  return { upserted: await stagedCount(table.client), deleted: removed }
}

function closing(layout: Layout): string {
  return `${historyName(layout, 'valid_to')} = $2::timestamptz, ${historyName(layout, 'is_current')} = false`
}

function closeDeleted(table: Table): Promise<number> {
  const { layout, name } = table
  return run(
    table,
    `update ${name} t set ${closing(layout)} from ${STAGED_DELETES} d
      where t.tenant_id = $1 and t.${historyName(layout, 'is_current')} and ${equalKeys(layout.key, 't', 'd')}`,
    table.instant,
  )
}

function anyDiffers(columns: readonly PlacedColumn[]): string {
  return columns.map((column) => differs(column.type, `t.${column.sql}`, `s.${column.sql}`)).join(' or ')
}

function closeChanged(table: Table): Promise<number> {
  const { layout, name } = table
  return run(
    table,
    `update ${name} t set ${closing(layout)} from ${STAGED_UPSERTS} s
      where t.tenant_id = $1 and t.${historyName(layout, 'is_current')} and ${equalKeys(layout.key, 't', 's')}
        and (${anyDiffers(layout.tracked)})`,
    table.instant,
  )
}

async function updateUntracked(table: Table): Promise<void> {
  const { layout, name } = table
  const fixed = new Set([...layout.key, ...layout.tracked].map((column) => column.name))
  const untracked = layout.columns.filter((column) => !fixed.has(column.name))
  if (untracked.length === 0) return
  const set = untracked.map((column) => `${column.sql} = s.${column.sql}`).join(', ')
  await run(
    table,
    `update ${name} t set ${set} from ${STAGED_UPSERTS} s
      where t.tenant_id = $1 and t.${historyName(layout, 'is_current')} and ${equalKeys(layout.key, 't', 's')}
        and (${anyDiffers(untracked)})`,
  )
}

/** Keys without an open row get one. */
async function openRows(table: Table): Promise<void> {
  const { layout, name } = table
  const columns = sqlNames(layout.columns)
  const current = historyName(layout, 'is_current')
  await run(
    table,
    `insert into ${name} (tenant_id, ${columns.join(', ')}, ${historyName(layout, 'valid_from')}, ${current})
     select $1::text, ${columns.map((column) => `s.${column}`).join(', ')}, $2::timestamptz, true from ${STAGED_UPSERTS} s
      where not exists (select from ${name} t
        where t.tenant_id = $1 and t.${current} and ${equalKeys(layout.key, 't', 's')})`,
    table.instant,
  )
}
