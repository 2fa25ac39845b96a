/** A timeseries and its aggregates are planned, made and removed together. */
import {
  applyTable,
  beginDefinitions,
  buildCompanion,
  type DatasetKey,
  datasetsOf,
  dropTable,
  loadDataset,
  placePartition,
  planTable,
  registerExists,
  setEpoch,
  type WantedTable,
} from '@sluice/lookup/row-secured-postgresql'
import { checkPlanHash, type Plan, type PlanStep, planOfSteps } from '@sluice/sdk'
import type { KeptAggregate } from './aggregates.ts'
import type { Series } from './series.ts'

export async function planSeries(series: Series): Promise<Plan> {
  const steps: PlanStep[] = []
  steps.push(...(await series.keeping.planRows(series.sessions, series.wanted)).steps)
  for (const { wanted } of series.kept) steps.push(...(await planTable(series.sessions, wanted)).steps)
  for (const stale of await staleAggregates(series))
    steps.push(...(await dropTable(series.sessions, series.host, stale, 'plan')).steps)
  return planOfSteps(steps)
}

export async function applySeries(series: Series, expectedHash?: string): Promise<Plan> {
  const plan = await planSeries(series)
  checkPlanHash(plan, expectedHash)
  const { sessions, host, kept } = series
  await series.keeping.applyRows(series)
  for (const one of kept) {
    await applyTable(sessions, host, one.wanted)
    await fillAggregate(series, one)
  }
  for (const stale of await staleAggregates(series)) await dropTable(sessions, host, stale, 'apply')
  return plan
}

export async function dropSeries(series: Series, mode: 'plan' | 'apply'): Promise<Plan> {
  const steps: PlanStep[] = []
  const tables = [...tablesOf(series), ...(await staleAggregates(series))]
  for (const wanted of tables) steps.push(...(await dropTable(series.sessions, series.host, wanted, mode)).steps)
  return planOfSteps(steps)
}

function tablesOf(series: Series): readonly WantedTable[] {
  return [series.wanted, ...series.kept.map((one) => one.wanted)]
}

/** An aggregate that was asked for after rows had come is computed from them. */
async function fillAggregate(series: Series, kept: KeptAggregate): Promise<void> {
  const { sessions, host, wanted } = series
  await sessions.use('owner', 'computing an aggregate', async (client) => {
    await beginDefinitions(client, wanted.key.tenant)
    const rows = await loadDataset(client, wanted.key, true)
    const lines = await loadDataset(client, kept.wanted.key, true)
    const isDue = rows !== null && rows.partition !== null && lines !== null && lines.partition === null
    if (isDue && rows.partition !== null && rows.epoch !== null && rows.committedAt !== null) {
      const partition = await buildCompanion(client, host, kept, rows.partition)
      await placePartition(client, sessions, kept.wanted, partition)
      const { epoch, committedAt } = rows
      await setEpoch(client, kept.wanted.key, { epoch, committedAt }, committedAt)
    }
    await client.query('commit')
  })
}

/** What the register has of this dataset's aggregates and the config no longer names. */
async function staleAggregates(series: Series): Promise<readonly WantedTable[]> {
  const { key, schema, table } = series.wanted
  const wanted = new Set(tablesOf(series).map((one) => one.key.endpoint))
  const isOurs = (other: DatasetKey) =>
    other.domain === key.domain && other.product === key.product && other.variant === key.variant
  return await series.sessions.transaction('owner', key.tenant, 'looking for aggregates', async (client) => {
    if (!(await registerExists(client))) return []
    const found = await datasetsOf(client, key.tenant, key.endpoint)
    return found
      .filter((one) => isOurs(one.key) && !wanted.has(one.key.endpoint))
      .map((one) => ({ key: one.key, schema, table, shape: one.dataset.shape }))
  })
}
