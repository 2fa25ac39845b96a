/** The texts of manifests as they were uploaded, and the checks in them that are other products'. */
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import type { Product } from '../../registry/products.ts'
import { type Draft, findDraft, findVersion, type ProductVersion } from '../../registry/versions.ts'
import { notFound } from '../not-found.ts'
import type { ProductsDeps } from './deps.ts'
import { type SharedCheck, sharedChecksOf } from './shared-checks.ts'

export interface KeptManifests {
  readonly kept: Draft<ManifestSet> | ProductVersion<ManifestSet>
  readonly shared: readonly SharedCheck[]
}

/** Of a version, or those uploaded last. Throws INVALID_DATA `manifests_not_found`. */
export async function keptManifests(
  { pool }: Pick<ProductsDeps, 'pool'>,
  { id, tenant }: Pick<Product, 'id' | 'tenant'>,
  version: string | undefined,
): Promise<KeptManifests> {
  const kept =
    version === undefined ? await findDraft<ManifestSet>(pool, id) : await findVersion<ManifestSet>(pool, id, version)
  if (kept === null) throw notFound('manifests')
  return { kept, shared: await sharedChecksOf(pool, tenant, kept.normalised.quality) }
}
