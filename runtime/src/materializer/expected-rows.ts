/** What is staged, as those see it who are downstream: held against what they expect before it is published. */
import { join } from 'node:path'
import { missingMasks, plannedMasks } from '../policy/made-masks.ts'
import type { CheckResult } from '../quality/check-result.ts'
import { decide } from '../quality/verdict.ts'
import { latestEpoch } from '../registry/materializations.ts'
import type { Product } from '../registry/products.ts'
import type { Deployed } from './deployed.ts'
import type { MaterializeDeps } from './deps.ts'
import { type ExpectationRun, heldExpectations } from './expectations.ts'
import type { Expected } from './expected.ts'
import { hasForReader, type UpstreamAccess } from './inputs.ts'
import { stateOfScan } from './lake-state.ts'
import { QualityBlocked } from './prepare.ts'
import type { Prepared } from './prepared.ts'
import { lakeTable } from './variants.ts'

/** Nobody asks them, or nobody is to be heard. */
const NONE: Expected = { expecting: [], results: [] }

/**
 * @param run `isHeardOnly`: whatever fails, the rows are published
 */
export async function expectedOf(
  product: Product,
  { manifests, variants }: Deployed,
  { commits, snapshots }: Pick<Prepared, 'commits' | 'snapshots'>,
  run: Pick<ExpectationRun, 'limits' | 'ownLimits' | 'signal'> & {
    readonly runId: string
    readonly isHeardOnly: boolean
  },
  deps: MaterializeDeps,
): Promise<Expected> {
  const policy = manifests.quality.downstreamExpectations ?? 'warn'
  const expecting = policy === 'ignore' ? [] : await deps.expectingInputs(product)
  if (expecting.length === 0) return NONE
  const { pool, lake, scratchDirectory } = deps
  const { signal, isHeardOnly, runId } = run
  const planned = (variant: string) => plannedMasks(variants.find((plan) => plan.variant === variant)?.masks ?? [])
  const masked = (variant: string) => new Set(planned(variant).keys())
  const newest = await latestEpoch(pool, product.id)
  const results = await heldExpectations(
    expecting,
    {
      ...run,
      tenant: product.tenant,
      directory: join(scratchDirectory, `expected-${runId}-${product.id}`),
      policy: isHeardOnly ? 'warn' : policy,
      masked,
      async candidate({ variant, hidden, masks = [] }) {
        const hides = planned(variant)
        const commit = commits.find(({ snapshotId }) => snapshotId === snapshots[variant])
        if (commit === undefined || hidden.some((column) => !hides.has(column))) return null
        if (missingMasks(masks, hides).length > 0) return null
        return stateOfScan(await lake.scan(await lake.stagedState(commit), {}, signal))
      },
      async served(access: UpstreamAccess) {
        const snapshotId = newest?.snapshots[access.variant]
        if (newest === null || snapshotId === undefined || !hasForReader(newest, access)) return null
        const table = lakeTable(product.tenant, product.domain, product.name, access.variant)
        return stateOfScan(await lake.scan(table, { snapshotId }, signal))
      },
    },
    deps,
  )
  return { expecting, results }
}

/** Throws `QualityBlocked` with all results, where one of them keeps the rows from being published. */
export function requireExpected(
  { results }: Expected,
  checks: readonly CheckResult[],
  { violations }: Pick<Prepared, 'violations'>,
): void {
  const decision = decide(results)
  if (decision.action === 'block') throw new QualityBlocked(decision.checks, [...checks, ...results], violations)
}
