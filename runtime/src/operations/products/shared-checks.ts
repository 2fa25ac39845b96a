/** Checks that other products of the tenant have in service, for those that use them. */
import type { ManifestContext } from '../../manifest/context.ts'
import type { Check, ManifestSet, UsedChecks } from '../../manifest/manifest-set.ts'
import { findProductsByName } from '../../registry/products.ts'
import type { Queryable } from '../../registry/sql.ts'
import { findVersion } from '../../registry/versions.ts'

/** Members may read the manifests of every product of their tenant, and so may use checks of each. */
export async function checksInService(
  db: Queryable,
  tenant: string,
  uses: readonly UsedChecks[],
): Promise<NonNullable<ManifestContext['sharedChecks']>> {
  const found = new Map<string, readonly Check[] | null>()
  for (const { product: full } of uses) {
    const [domain = '', name = ''] = full.split('.')
    const [product] = await findProductsByName(db, tenant, name, domain)
    const version = product?.currentVersion ?? null
    const kept = product && version !== null ? await findVersion<ManifestSet>(db, product.id, version) : null
    found.set(full, kept?.normalised.quality.checks ?? null)
  }
  return found
}
