/** Who expects something of a product's rows, and what. */
import { isSluiceError } from '@sluice/sdk'
import { fullNameOf } from '../../ingestion/product-outcome.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import type { ExpectingInput } from '../../materializer/expected.ts'
import { PRODUCTS } from '../../registry/product-sources.ts'
import { findProduct, type Product, productsExpecting } from '../../registry/products.ts'
import type { ServedDeps } from './deps.ts'
import { upstreamAccess } from './upstream-access.ts'

/**
 * Of products in service of the same tenant. One whose deployer may not read the product any more has nothing to expect of it: it
 * is not made of it either. Of a preview, those that are made of the product that it is of.
 */
export async function expectingInputs(
  platform: Pick<ServedDeps, 'pool' | 'served' | 'rules'>,
  product: Product,
): Promise<readonly ExpectingInput[]> {
  const { tenant, previewOf } = product
  const read = previewOf === null ? product : await findProduct(platform.pool, tenant, previewOf)
  if (read === null) return []
  const own = fullNameOf(read)
  const found: ExpectingInput[] = []
  for (const one of await productsExpecting<ManifestSet>(platform.pool, tenant, own)) {
    const { product: reader, normalised: manifests } = one
    for (const input of manifests.inputs) {
      if (input.connection !== PRODUCTS || input.table !== own) continue
      const expectations = (manifests.quality.expectations ?? []).filter(({ on }) => on === input.name)
      if (expectations.length === 0) continue
      const version = reader.currentVersion as string
      const access = await upstreamAccess(platform, reader, version, input).catch((error: unknown) => {
        if (isSluiceError(error) && error.code === 'input_forbidden') return null
        throw error
      })
      // Another product of the same name is not the one that it was deployed over.
      if (access === null || access.productId !== read.id) continue
      const { team, email } = manifests.product.owner
      const about = { productId: reader.id, product: fullNameOf(reader), owner: team ?? email }
      found.push({ ...about, input, access, expectations })
    }
  }
  return found
}
