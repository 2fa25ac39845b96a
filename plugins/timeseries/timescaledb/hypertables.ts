/**
 * Rows in hypertables. One can be no partition of a table that tenants share, so each dataset has its own, with the
 * wall on it; the register says which one is read. Chunks inherit the grants and not the wall. So each gets one too,
 * and they lie in a schema that readers may not use. Writers must: TimescaleDB opens the chunks by name for them.
 */
import {
  beginDefinitions,
  type Client,
  createPartition,
  ensureRegister,
  finishPartition,
  grantSchema,
  grantTable,
  insertDataset,
  loadDataset,
  lockDefinitions,
  moveDataset,
  PARTITION_SCHEMA,
  partitionName,
  planTable,
  qualified,
  quoteIdentifier,
  quoteLiteral,
  retirePartition,
  runAll,
  type Sessions,
  shapeHash,
  sharedColumns,
  stepsFor,
  sweepRetired,
  type WantedTable,
  wallStatements,
  watchOlderPartition,
} from '@sluice/lookup/row-secured-postgresql'
import { type Plan, type PlanStep, type ProbeReport, planOfSteps, SluiceError } from '@sluice/sdk'
import type { Layout } from '../row-secured-series/layout.ts'
import type { Keeping, Series } from '../row-secured-series/series.ts'
import { type Span, spansFor } from '../row-secured-series/spans.ts'

const CHUNK_SCHEMA = 'sluice_chunks'

/** What the register names before there are rows; no table has such a name. */
const NO_TABLE = '-'

export const hypertables: Keeping = {
  isPlannedOnce: false,
  rowsOf: (wanted) => ({ ...wanted, schema: PARTITION_SCHEMA }),
  partitionBy: () => '',
  planRows,
  applyRows,
  async begin(client, series, partition, instantsMs) {
    const { layout } = series
    await makeHypertable(client, series, partition)
    for (const span of spansFor(instantsMs, layout.chunkEvery, [])) await addChunk(client, partition, layout, span)
    return () => secureChunks(client, partition)
  },
  makeRoom: addMissingChunks,
  place: ({ sessions, wanted }, client, partition) => place(client, sessions, wanted, partition),
  check: extensionCheck,
}

async function makeHypertable(client: Client, { sessions, layout }: Series, partition: string): Promise<void> {
  await lockDefinitions(client, CHUNK_SCHEMA)
  await client.query(`create schema if not exists ${CHUNK_SCHEMA}`)
  await client.query(`grant usage on schema ${CHUNK_SCHEMA} to ${quoteIdentifier(sessions.roles.writer)}`)
  const { count, unit } = layout.chunkEvery
  await client.query(
    `select ${await extensionSchema(client)}.create_hypertable($1::regclass, $2::name,
       chunk_time_interval => interval '${count} ${unit}', associated_schema_name => $3, create_default_indexes => false)`,
    [qualified(PARTITION_SCHEMA, partition), timeColumn(layout), CHUNK_SCHEMA],
  )
}

const timeColumn = ({ shape }: Layout): string => String(shape.traits.time)

/** Not left to TimescaleDB, which would make one for each interval, and none with a wall. Returns its table. */
async function addChunk(client: Client, partition: string, layout: Layout, { fromMs, toMs }: Span): Promise<string> {
  const slice = `{${JSON.stringify(timeColumn(layout))}: [${fromMs}000, ${toMs}000]}`
  const { rows } = await client.query<{ name: string }>(
    'select table_name as name from _timescaledb_functions.create_chunk($1::regclass, $2::jsonb)',
    [qualified(PARTITION_SCHEMA, partition), slice],
  )
  return rows[0]?.name ?? ''
}

/** TimescaleDB lets no wall of a chunk bind its owner, which is the login that makes tables. */
function chunkWall(name: string): readonly string[] {
  const chunk = qualified(CHUNK_SCHEMA, name)
  const policies = wallStatements(chunk).filter((statement) => statement.startsWith('create policy'))
  return [...policies, `alter table ${chunk} enable row level security`]
}

async function secureChunks(client: Client, partition: string): Promise<void> {
  for (const { name } of await chunksOf(client, partition)) {
    await runAll(client, chunkWall(name))
  }
}

/** Made by the owner and committed before the rows come; a chunk that stays empty does no harm. */
async function addMissingChunks(series: Series, partition: string, instantsMs: readonly number[]): Promise<void> {
  const { sessions, wanted, layout } = series
  const asOwner = <T>(run: (owner: Client) => Promise<T>) =>
    sessions.transaction('owner', wanted.key.tenant, 'adding a chunk', run)
  const there = await asOwner((owner) => chunksOf(owner, partition))
  for (const span of spansFor(instantsMs, layout.chunkEvery, there)) {
    const add = async (owner: Client) => {
      const name = await addChunk(owner, partition, layout, span)
      await runAll(owner, chunkWall(name))
    }
    await asOwner(add).catch(async (error: unknown) => {
      // Another writer was first with a chunk of that time.
      const now = await asOwner((owner) => chunksOf(owner, partition))
      if (!now.some(({ fromMs, toMs }) => fromMs <= span.fromMs && span.fromMs < toMs)) throw error
    })
  }
}

/** Sessions look in no schema by themselves. */
async function extensionSchema(client: Client): Promise<string> {
  const { rows } = await client.query<{ schema: string }>(
    `select n.nspname as schema from pg_extension e join pg_namespace n on n.oid = e.extnamespace
      where e.extname = 'timescaledb'`,
  )
  const [found] = rows
  if (found !== undefined) return quoteIdentifier(found.schema)
  throw new SluiceError('CONFIG', 'the database of the timeseries store has no TimescaleDB', {
    code: 'extension_missing',
    remedy: 'Let a superuser create the extension timescaledb there, or choose the driver postgresql.',
  })
}

interface Chunk extends Span {
  readonly name: string
}

async function chunksOf(client: Client, partition: string): Promise<readonly Chunk[]> {
  const result = await client.query<{ name: string; from: string; to: string }>(
    `select chunk_name as name, (extract(epoch from range_start) * 1000)::bigint::text as from,
            (extract(epoch from range_end) * 1000)::bigint::text as to
       from timescaledb_information.chunks where hypertable_schema = $1 and hypertable_name = $2`,
    [PARTITION_SCHEMA, partition],
  )
  return result.rows.map(({ name, from, to }) => ({ name, fromMs: Number(from), toMs: Number(to) }))
}

/** Grants stand on the hypertable, whose wall its readers meet. */
async function place(client: Client, sessions: Sessions, wanted: WantedTable, partition: string): Promise<void> {
  const { key, shape } = wanted
  await runAll(client, [
    grantSchema(PARTITION_SCHEMA, sessions.roles),
    ...grantTable(qualified(PARTITION_SCHEMA, partition), sessions.roles),
  ])
  await moveDataset(client, key, { relation: partition, partition, shape, hash: shapeHash(shape) })
}

async function planRows(sessions: Sessions, wanted: WantedTable): Promise<Plan> {
  return planOfSteps((await planTable(sessions, wanted)).steps.map((step) => inTheirWords(step, wanted)))
}

function inTheirWords(step: PlanStep, { shape }: WantedTable): PlanStep {
  const { statement } = step
  if (statement === undefined || !statement.startsWith('create table')) return step
  const { time, chunkInterval: every } = shape.traits
  const by = `with (tsdb.hypertable, tsdb.partition_column = ${quoteLiteral(String(time))}, tsdb.chunk_interval = ${quoteLiteral(String(every))})`
  return { ...step, statement: statement.replace('partition by list (tenant_id)', by) }
}

/** The dataset's line, and where it has rows of another shape, those in a hypertable of the new one. */
async function applyRows(series: Series): Promise<void> {
  const { sessions, host, wanted } = series
  const { key, shape } = wanted
  let isRetired = false
  await sessions.use('owner', 'provisioning', async (client) => {
    await beginDefinitions(client, key.tenant)
    await ensureRegister(client, sessions.roles)
    await lockDefinitions(client, JSON.stringify(key))
    const dataset = await loadDataset(client, key, true)
    const steps = stepsFor(dataset, wanted)
    await host.faultPoint(`${key.endpoint}.provision-planned`)
    if (dataset === null) await insertDataset(client, key, NO_TABLE, shape, shapeHash(shape))
    else if (steps.length > 0 && dataset.partition === null) {
      await moveDataset(client, key, { relation: NO_TABLE, partition: null, shape, hash: shapeHash(shape) })
    } else if (steps.length > 0 && dataset.partition !== null) {
      await reshape(client, series, dataset.partition)
      isRetired = true
    } else if (dataset.partition !== null) await watchOlderPartition(client, dataset.partition, key.tenant)
    await host.faultPoint(`${key.endpoint}.provision-before-commit`)
    await client.query('commit')
  })
  if (isRetired) await sweepRetired(sessions, key.tenant)
}

async function reshape(client: Client, series: Series, from: string): Promise<void> {
  const { sessions, host, wanted, layout } = series
  const { key, shape, schema } = wanted
  const to = partitionName(host.randomBytes(12))
  await createPartition(client, to, key.tenant, shape)
  await makeHypertable(client, series, to)
  for (const span of await chunksOf(client, from)) await addChunk(client, to, layout, span)
  const list = (await sharedColumns(client, from, shape)).map(quoteIdentifier).join(', ')
  const [old, fresh] = [from, to].map((name) => qualified(PARTITION_SCHEMA, name))
  await client.query(`insert into ${fresh} (${list}) select ${list} from ${old}`)
  await finishPartition(client, to, shape)
  await secureChunks(client, to)
  await retirePartition(client, key.tenant, { schema, relation: from, partition: from })
  await place(client, sessions, wanted, to)
}

async function extensionCheck(sessions: Sessions, signal: AbortSignal): Promise<ProbeReport['checks'][number]> {
  const name = 'timescaledb'
  const found = await sessions.use(
    'reader',
    'looking for TimescaleDB',
    (client) =>
      client.query<{ version: string; reaches: boolean }>(
        `select extversion as version,
                coalesce(has_schema_privilege(to_regnamespace('${CHUNK_SCHEMA}'), 'usage'), false) as reaches
           from pg_extension where extname = 'timescaledb'`,
      ),
    signal,
  )
  const [line] = found.rows
  if (line === undefined) {
    return { name, ok: false, message: 'the database has no TimescaleDB: a superuser must create its extension' }
  }
  if (line.reaches) return { name, ok: false, message: `the reader login may use the schema ${CHUNK_SCHEMA}` }
  return { name, ok: true, message: `hypertables of TimescaleDB ${line.version}` }
}
