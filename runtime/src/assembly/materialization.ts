/** What materializations work with. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Engine, EngineLimits } from '@sluice/engine'
import type { Registry } from 'prom-client'
import type { Config } from '../config.ts'
import { wishDashboards } from '../dashboards/states.ts'
import { appendEvent } from '../events/outbox.ts'
import type { FaultPoint } from '../fault-points.ts'
import { fullNameOf } from '../ingestion/product-outcome.ts'
import { qualified } from '../manifest/context.ts'
import { ChangeSpools } from '../materializer/change-spools.ts'
import type { MaterializeDeps } from '../materializer/deps.ts'
import { learnedBefore } from '../materializer/learned.ts'
import { spoolMetrics } from '../metrics/change-spools.ts'
import { type KeptQuality, openSightOf, seesCheck, shownQuality } from '../operations/products/visible-quality.ts'
import { noteExpectations } from '../operations/runs/expectation-incidents.ts'
import { expectingInputs } from '../operations/served/expecting-inputs.ts'
import { upstreamAccess } from '../operations/served/upstream-access.ts'
import { checkStorage } from '../operations/tenants/tenants.ts'
import { replaceContractRows } from '../registry/contract-quarantine.ts'
import { grantsHeldOn } from '../registry/grants.ts'
import { noteBegun, noteCommitted } from '../registry/openlineage-runs.ts'
import { keepProfiles } from '../registry/past-epochs.ts'
import { maskKey } from '../registry/tenant-keys.ts'
import { replaceViolatingRows } from '../registry/violating-rows.ts'
import type { Platform } from './platform.ts'

const MB = 1024 * 1024
const OWN_MEMORY_BYTES = 512 * MB
const SPILL_BYTES = 64 * 1024 * MB
const THREADS = 2

export async function openChangeSpools(
  engine: Engine,
  config: Config,
  scratchDirectory: string,
  metrics: Registry,
): Promise<ChangeSpools> {
  const directory = join(scratchDirectory, 'changes')
  await mkdir(directory, { recursive: true, mode: 0o700 })
  const maxBytes = config.limits.change_spool_mb * MB
  const spools = new ChangeSpools({ engine, limits: ownLimits(config), directory, maxBytes })
  spoolMetrics(metrics, spools)
  return spools
}

export function materializeDeps(platform: Platform, faultPoint: FaultPoint): MaterializeDeps {
  const { config, pool, masters, rules } = platform
  return {
    pool,
    engine: platform.engine,
    distributed: platform.distributed,
    lake: platform.lake,
    plugins: platform.plugins,
    rules,
    logger: platform.logger,
    faultPoint,
    scratchDirectory: platform.scratchDirectory,
    nowMs: Date.now,
    limits: ownLimits(config),
    transformLimits: {
      memoryBytes: config.limits.transform_memory_mb * MB,
      timeoutMs: config.limits.transform_timeout_ms,
      threads: THREADS,
    },
    grants: (productId) => grantsHeldOn(pool, productId),
    maskSecret: (tenant, classification) => maskKey(pool, masters, tenant, classification),
    upstreamOf: (product, version, input) => upstreamAccess(platform, product, version, input),
    checkStorage: (tenant) => checkStorage(platform, tenant),
    openChecks: async (product, version, checks) => {
      const sight = await openSightOf(pool, product, version, checks, rules)
      return checks.filter((check) => seesCheck(sight, check))
    },
    expectingInputs: (product) => expectingInputs(platform, product),
    noteExpectations,
    keepViolations: (tx, materialization, found) => replaceViolatingRows(tx, masters, materialization, found),
    learned: (product, manifests, inputs) => learnedBefore(pool, masters, product, manifests, inputs),
    keepProfiles: (tx, materialization, profiles) => keepProfiles(tx, masters, materialization, profiles),
    async keepAside(tx, product, runId, inputs) {
      const of = { tenant: product.tenant, productId: product.id, product: fullNameOf(product), runId }
      const rows = inputs.flatMap(({ input, connectionId, held }) =>
        connectionId === undefined
          ? []
          : (held?.aside ?? []).map((row) => ({ ...row, connectionId, table: qualified(input.table) })),
      )
      await replaceContractRows(tx, masters, of, rows)
    },
    async noteBegun(product, runId, version) {
      const { tenant, id: productId } = product
      const of = { tenant, runId, productId, product: fullNameOf(product) }
      if (config.openlineage !== undefined && product.previewOf === null) await noteBegun(pool, of, version)
    },
    async announce(tx, product, materialization) {
      // Events go to all who listen to the tenant's, and a preview is for its developers.
      if (product.previewOf !== null) return
      const { checks = [] } = (materialization.quality ?? {}) as Partial<KeptQuality>
      const { epoch, version, counts, qualityScore } =
        checks.length === 0
          ? materialization
          : shownQuality(await openSightOf(tx, product, materialization.version, checks, rules), materialization)
      const { rows, quarantined } = counts
      const data = { product: product.name, namespace: product.domain, version, epoch, rows, quarantined }
      await appendEvent(tx, {
        tenant: product.tenant,
        kind: 'materialization',
        name: 'committed',
        subject: product.id,
        data,
      })
      await appendEvent(tx, {
        tenant: product.tenant,
        kind: 'quality',
        name: 'checked',
        subject: product.id,
        data: { epoch, score: qualityScore },
      })
      await wishDashboards(tx, product.id)
      const { tenant, productId, runId } = materialization
      if (config.openlineage !== undefined && runId !== null) {
        await noteCommitted(tx, { tenant, productId, runId, product: fullNameOf(product) }, materialization)
      }
    },
  }
}

/** Of the runtime's own jobs, which may spill to disk. */
export function ownLimits(config: Config): EngineLimits {
  return {
    memoryBytes: OWN_MEMORY_BYTES,
    timeoutMs: config.limits.transform_timeout_ms,
    threads: THREADS,
    tempBytes: SPILL_BYTES,
  }
}
