import {
  contentDigest,
  describeWall,
  dropTenantTables,
  installWall,
  judgeSchema,
  PageReader,
  probeWall,
  recoverEpoch,
  type Sessions,
  writeEpoch,
} from '@sluice/lookup/row-secured-postgresql'
import {
  type AppliedEpoch,
  type ChangeSet,
  type Commit,
  type Digest,
  type Health,
  type Host,
  type InstalledPolicy,
  OneBatch,
  type Plan,
  type ProbeReport,
  physicalName,
  type ReadBatch,
  type ReadPlan,
  type Receipt,
  type RowPolicy,
  type SchemaVerdict,
  type ServingStore,
  type TableSchema,
  type Target,
  type TenantScope,
  tenantOf,
} from '@sluice/sdk'
import { keptAggregates } from './aggregates.ts'
import type { TimeseriesConfig } from './config.ts'
import { datasetKey, ENDPOINT, layoutOf, wantedTable } from './layout.ts'
import { applySeries, dropSeries, planSeries } from './provisioning.ts'
import { aggregateOf, checkPlan, describeAggregate, describeRows, isKeptFor, laneOf } from './reads.ts'
import type { Keeping, Series } from './series.ts'
import { timeseriesSteps } from './writes.ts'

type TimeseriesTarget = Target<TimeseriesConfig>

export class TimeseriesStore implements ServingStore<TimeseriesConfig> {
  readonly #sessions: Sessions
  readonly #host: Host
  readonly #keeping: Keeping
  readonly #reader: PageReader

  constructor(sessions: Sessions, host: Host, keeping: Keeping) {
    this.#sessions = sessions
    this.#keeping = keeping
    this.#host = host
    this.#reader = new PageReader(sessions, host.clock)
  }

  async provision(target: TimeseriesTarget, mode: 'plan' | 'apply', expectedHash?: string): Promise<Plan> {
    const series = this.#series(target)
    if (mode === 'plan') return await planSeries(series)
    return await this.#sessions.whileOpen('provisioning', () => applySeries(series, expectedHash))
  }

  readonly rls = {
    install: async (target: TimeseriesTarget, policy: RowPolicy): Promise<void> => {
      const { rows, kept } = this.#series(target)
      for (const { wanted: beside } of kept) await installWall(this.#sessions, beside, policy)
      await installWall(this.#sessions, rows, policy)
    },
    describe: async (target: TimeseriesTarget): Promise<InstalledPolicy> => {
      const { rows, kept } = this.#series(target)
      for (const { wanted: beside } of kept) await describeWall(this.#sessions, beside)
      return await describeWall(this.#sessions, rows)
    },
  }

  async write(target: TimeseriesTarget, changes: ChangeSet, commit: Commit): Promise<Receipt> {
    const series = this.#series(target)
    const steps = timeseriesSteps(series, changes, commit.epoch)
    return await this.#sessions.whileOpen('a write', () =>
      writeEpoch(this.#sessions, this.#host, series.wanted, changes, commit, steps),
    )
  }

  read(target: TimeseriesTarget, plan: ReadPlan): AsyncIterable<ReadBatch> {
    return new OneBatch(() => this.#page(target, plan))
  }

  async #page(target: TimeseriesTarget, plan: ReadPlan): Promise<ReadBatch> {
    const layout = layoutOf(target.schema, target.config)
    const rows = this.#keeping.rowsOf(wantedTable(target))
    const aggregate = aggregateOf(plan, layout)
    checkPlan(plan, aggregate?.served ?? layout.served)
    const isKept = aggregate !== null && isKeptFor(plan)
    const key = datasetKey(target, isKept ? aggregate : undefined)
    const schema = isKept ? physicalName(target.domain) : rows.schema
    return await this.#reader.read(
      key,
      schema,
      plan,
      laneOf(plan, aggregate ? 'bucket' : layout.time.name, this.#keeping.isPlannedOnce),
      (parameters) =>
        aggregate
          ? describeAggregate(plan, layout, aggregate, key, schema, parameters)
          : describeRows(plan, layout, key, schema, parameters),
    )
  }

  async recover(target: TimeseriesTarget): Promise<AppliedEpoch | null> {
    return await recoverEpoch(this.#sessions, datasetKey(target))
  }

  async validate(target: TimeseriesTarget, previous: TableSchema | null): Promise<readonly SchemaVerdict[]> {
    const before = previous === null ? null : layoutOf(previous, target.config).shape
    return await judgeSchema(this.#sessions, wantedTable(target), target.schema, before)
  }

  async digest(target: TimeseriesTarget, signal: AbortSignal): Promise<Digest> {
    const layout = layoutOf(target.schema, target.config)
    const columns = layout.columns.flatMap((column) => layout.served.get(column.name) ?? [])
    const rows = this.#keeping.rowsOf(wantedTable(target))
    return await contentDigest(this.#sessions, rows, columns, 'true', signal)
  }

  async drop(target: TimeseriesTarget, mode: 'plan' | 'apply'): Promise<Plan> {
    return await dropSeries(this.#series(target), mode)
  }

  async dropTenant(scope: TenantScope): Promise<void> {
    await dropTenantTables(this.#sessions, tenantOf(scope), ENDPOINT, (key) => physicalName(key.domain))
  }

  async probe(signal: AbortSignal): Promise<ProbeReport> {
    const report = await probeWall(this.#sessions, signal)
    return { ...report, checks: [...report.checks, await this.#keeping.check(this.#sessions, signal)] }
  }

  health(): Health {
    return this.#sessions.health()
  }

  async close(): Promise<void> {
    this.#reader.close()
    await this.#sessions.close()
  }

  #series(target: TimeseriesTarget): Series {
    const layout = layoutOf(target.schema, target.config)
    const wanted = wantedTable(target)
    const kept = keptAggregates(target, layout)
    const [sessions, host, keeping] = [this.#sessions, this.#host, this.#keeping]
    return { sessions, host, wanted, rows: keeping.rowsOf(wanted), layout, kept, keeping }
  }
}
