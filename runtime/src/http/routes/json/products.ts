/** Products and their versions as JSON. Ids are opaque. */
import type { Deployment } from '../../../registry/deployments.ts'
import { lostIn, type Materialization } from '../../../registry/materializations.ts'
import type { Product } from '../../../registry/products.ts'
import { iso } from './times.ts'

export function productJson(product: Product) {
  return {
    id: product.id,
    tenant_id: product.tenant,
    name: product.name,
    namespace: product.domain,
    archetype: product.archetype,
    description: product.description,
    classification: product.classification,
    status: product.status,
    current_version: product.currentVersion,
    paused: product.paused,
    created_at: iso(product.createdAt),
    updated_at: iso(product.updatedAt),
  }
}

export function deploymentJson(deployment: Deployment) {
  return {
    id: deployment.id,
    product_id: deployment.productId,
    kind: deployment.kind,
    version: deployment.version,
    state: deployment.state,
    error: deployment.error,
    created_by: deployment.createdBy.subject,
    created_at: iso(deployment.createdAt),
    finished_at: iso(deployment.finishedAt),
  }
}

/** `isClear` says of which columns the reader may know values. */
export function materializationJson(materialization: Materialization, isClear: (column: string) => boolean) {
  return {
    id: materialization.id,
    epoch: materialization.epoch,
    state: materialization.state,
    kind: materialization.kind,
    version: materialization.version,
    snapshot_id: materialization.snapshots['clear'] ?? null,
    rows: materialization.counts['rows'] ?? null,
    quarantined_rows: materialization.counts['quarantined'] ?? (materialization.state === 'blocked' ? 0 : null),
    lossy_values: Object.fromEntries(Object.entries(lostIn(materialization)).filter(([column]) => isClear(column))),
    quality_score: materialization.qualityScore,
    committed_at: iso(materialization.committedAt),
    run_id: materialization.runId,
  }
}
