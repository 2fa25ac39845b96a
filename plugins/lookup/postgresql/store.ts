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
import {
  applyTable,
  contentDigest,
  describeWall,
  dropTable,
  dropTenantTables,
  installWall,
  judgeSchema,
  PageReader,
  planTable,
  probeWall,
  type ReadAlone,
  recoverEpoch,
  type Sessions,
  writeEpoch,
} from '../row-secured-postgresql/index.ts'
import type { LookupConfig } from './config.ts'
import { datasetKey, ENDPOINT, layoutOf, wantedTable } from './layout.ts'
import { checkPlan, describePage, laneOf, pointOf } from './reads.ts'
import { lookupSteps } from './writes.ts'

type LookupTarget = Target<LookupConfig>

export class LookupStore implements ServingStore<LookupConfig> {
  readonly #sessions: Sessions
  readonly #host: Host
  readonly #reader: PageReader

  constructor(sessions: Sessions, host: Host) {
    this.#sessions = sessions
    this.#host = host
    this.#reader = new PageReader(sessions, host.clock)
  }

  async provision(target: LookupTarget, mode: 'plan' | 'apply', expectedHash?: string): Promise<Plan> {
    const wanted = wantedTable(target)
    if (mode === 'plan') return await planTable(this.#sessions, wanted)
    return await this.#sessions.whileOpen('provisioning', () =>
      applyTable(this.#sessions, this.#host, wanted, expectedHash),
    )
  }

  readonly rls = {
    install: async (target: LookupTarget, policy: RowPolicy): Promise<void> => {
      await installWall(this.#sessions, wantedTable(target), policy)
    },
    describe: async (target: LookupTarget): Promise<InstalledPolicy> => {
      return await describeWall(this.#sessions, wantedTable(target))
    },
  }

  async write(target: LookupTarget, changes: ChangeSet, commit: Commit): Promise<Receipt> {
    const wanted = wantedTable(target)
    const steps = lookupSteps(layoutOf(target.schema, target.config), wanted.key, wanted.schema, changes, commit.epoch)
    return await this.#sessions.whileOpen('a write', () =>
      writeEpoch(this.#sessions, this.#host, wanted, changes, commit, steps),
    )
  }

  read(target: LookupTarget, plan: ReadPlan): AsyncIterable<ReadBatch> {
    return new OneBatch(() => {
      const point = pointOf(plan, target)
      if (point === null) return this.#page(target, plan)
      return this.#reader.point(point.shape, point.key, plan, (left) => this.#page(target, plan, left))
    })
  }

  async #page(target: LookupTarget, plan: ReadPlan, left: ReadAlone = plan): Promise<ReadBatch> {
    const key = datasetKey(target)
    const layout = layoutOf(target.schema, target.config)
    checkPlan(plan, layout)
    const schema = physicalName(target.domain)
    const { lane = laneOf(plan, layout) } = left
    return await this.#reader.read(key, schema, left, lane, (parameters) =>
      describePage(plan, layout, key, schema, parameters),
    )
  }

  async recover(target: LookupTarget): Promise<AppliedEpoch | null> {
    return await recoverEpoch(this.#sessions, datasetKey(target))
  }

  async validate(target: LookupTarget, previous: TableSchema | null): Promise<readonly SchemaVerdict[]> {
    const before = previous === null ? null : layoutOf(previous, target.config).shape
    return await judgeSchema(this.#sessions, wantedTable(target), target.schema, before)
  }

  async digest(target: LookupTarget, signal: AbortSignal): Promise<Digest> {
    const layout = layoutOf(target.schema, target.config)
    const columns = layout.columns.flatMap((column) => layout.served.get(column.name) ?? [])
    const current = layout.mode === 'type_2' ? (layout.served.get('is_current')?.sql ?? 'true') : 'true'
    return await contentDigest(this.#sessions, wantedTable(target), columns, current, signal)
  }

  async drop(target: LookupTarget, mode: 'plan' | 'apply'): Promise<Plan> {
    return await dropTable(this.#sessions, this.#host, wantedTable(target), mode)
  }

  async dropTenant(scope: TenantScope): Promise<void> {
    await dropTenantTables(this.#sessions, tenantOf(scope), ENDPOINT, (key) => physicalName(key.domain))
  }

  async probe(signal: AbortSignal): Promise<ProbeReport> {
    return await probeWall(this.#sessions, signal)
  }

  health(): Health {
    return this.#sessions.health()
  }

  async close(): Promise<void> {
    this.#reader.close()
    await this.#sessions.close()
  }
}
