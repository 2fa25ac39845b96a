/** What a product tells of its preview, to those for whom there is one. */
import type { TenantCall } from '../../flow.ts'
import { seesPreviews } from '../../policy/classification.ts'
import { latestEpoch } from '../../registry/materializations.ts'
import { isPreviewOver, previewOf } from '../../registry/previews.ts'
import type { Product } from '../../registry/products.ts'
import { findVersion } from '../../registry/versions.ts'
import type { ProductsDeps } from './deps.ts'
import { isReader } from './readable-product.ts'

/** `ending`: it is served no longer, and its rows are being removed. */
export async function shownPreview(platform: ProductsDeps, call: TenantCall, product: Product) {
  const { pool } = platform
  const preview = seesPreviews(call.principal) ? await previewOf(pool, product.id) : null
  const version = preview?.currentVersion == null ? null : await findVersion(pool, preview.id, preview.currentVersion)
  if (preview === null || version === null) return null
  const isOver = await isPreviewOver(pool, preview.id)
  const isTold = !isOver && (await isReader(platform, call, preview))
  return {
    product: `${preview.domain}.${preview.name}`,
    state: isOver ? ('ending' as const) : ('served' as const),
    version: version.version,
    digest: version.digest,
    made_by: version.deployedBy.subject,
    made_at: version.deployedAt.toISOString(),
    ends_at: (preview.previewEndsAt as Date).toISOString(),
    epoch: isTold ? ((await latestEpoch(pool, preview.id))?.epoch ?? null) : null,
  }
}
