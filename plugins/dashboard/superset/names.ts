/** What things are called in Superset. Every name follows from the dataset, so that a repeated `put` meets what is there. */
import { createHash } from 'node:crypto'
import type { DashboardDatasetId } from '@sluice/sdk'

/** Stable, so that what is imported again takes the place of what is there. */
export function assetUuid(kind: string, dataset: DashboardDatasetId): string {
  const hex = digest(`asset:${kind}`, dataset)
  // Of version 8: made by a rule of its own.
  return [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `a${hex.slice(17, 20)}`, hex.slice(20, 32)].join(
    '-',
  )
}

/** The last part of the dashboard's address. */
export function dashboardSlug(dataset: DashboardDatasetId): string {
  return `sluice-${digest('slug', dataset).slice(0, 20)}`
}

/** Of the rules that hide rows: one by tenant, one by classification. */
export function ruleName(kind: 'tenant' | 'classification', dataset: DashboardDatasetId): string {
  return `sluice ${kind} ${digest('rule', dataset).slice(0, 24)}`
}

function digest(what: string, { productId, variant }: DashboardDatasetId): string {
  return createHash('sha256')
    .update(JSON.stringify([what, productId, variant]))
    .digest('hex')
}
