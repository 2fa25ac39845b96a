/** Whether a product is already what it would be made now. */
import { isStableText } from '@sluice/engine'
import type { Lake } from '@sluice/iceberg'
import { SluiceError, ttlMs } from '@sluice/sdk'
import { contractConfig } from '../manifest/contract-config.ts'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import { areNoted } from '../policy/made-masks.ts'
import type { Materialization } from '../registry/materializations.ts'
import type { Product } from '../registry/products.ts'
import { INPUTS, inputsText, newestSummary, RECIPE, recipeOf } from './changed-rows.ts'
import type { Deployed } from './deployed.ts'
import type { InputState } from './input-state.ts'
import type { MaskKey } from './mask-sql.ts'
import { lakeTable } from './variants.ts'

export interface Made {
  readonly product: Product
  readonly deployed: Deployed
  readonly keys: readonly MaskKey[]
  readonly inputs: readonly InputState[]
}

/**
 * By the snapshots of its inputs, and by the recipe that each of its tables was made by: no row is read. False of what may
 * become another one without them: by the clock or by chance, by rows that are appended, in an engine of others.
 */
export async function isUnchanged(
  { product, deployed, keys, inputs }: Made,
  newest: Materialization,
  lake: Lake,
  signal: AbortSignal,
): Promise<boolean> {
  const { manifests, variants, version, digest } = deployed
  const made = inputsText(inputs)
  if (newest.version !== version || newest.digest !== digest || made === '' || !dependsOnInputsAlone(manifests)) {
    return false
  }
  // Nobody is shown rows of which it is not known by which masks they were made.
  if (!areNoted(newest)) return false
  for (const plan of variants) {
    const table = await lake.load(lakeTable(product.tenant, product.domain, product.name, plan.variant), { signal })
    const summary = table && newestSummary(table, lake)
    const isOfNewest = summary?.['sluice.epoch'] === String(newest.epoch)
    if (!isOfNewest || summary[INPUTS] !== made || summary[RECIPE] !== recipeOf(manifests, plan, keys, inputs))
      return false
  }
  return true
}

/**
 * Whether values by key are half through their time, which counts from the commit of their epoch: of one that stays, they
 * would come to their end though their inputs are read.
 */
export function valuesAge(
  { serving }: Pick<ManifestSet, 'serving'>,
  { committedAt }: Materialization,
  now: Date,
): boolean {
  return serving.endpoints.some(({ type, config }) => {
    const { ttl } = contractConfig(type, config)
    return ttl !== undefined && committedAt.getTime() + ttlMs(ttl) / 2 <= now.getTime()
  })
}

function dependsOnInputsAlone({ inputs, compute, output, quality }: ManifestSet): boolean {
  if (compute.engine === 'distributed' || output.writeMode === 'append') return false
  const rules = quality.checks.map(({ rule }) => rule)
  const texts = [
    compute.transform,
    ...inputs.map(({ where }) => where),
    ...rules.map((rule) => (rule.kind === 'sql' ? rule.sql : null)),
  ]
  return !rules.some(({ kind }) => kind === 'freshness') && texts.every((text) => text === null || isStableText(text))
}

/** It is what it would be made. */
export const UNCHANGED = 'inputs_unchanged'

/** There is nothing to do, and nothing is published. */
export function inputsUnchanged(): SluiceError {
  return new SluiceError('CONFLICT', 'its inputs have the rows that it was made of', {
    code: UNCHANGED,
    remedy: 'Nothing is to be done. To make it all the same: sluice product materialize.',
  })
}
