/** The version of a product in service: its manifests, the variants that it has today, and the keys of their masks. */
import { SluiceError } from '@sluice/sdk'
import type pg from 'pg'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import type { ProductGrant } from '../policy/classification.ts'
import type { MaskingRules } from '../policy/masking.ts'
import type { Product } from '../registry/products.ts'
import { findVersion, type HeldShapes, type JudgedColumns } from '../registry/versions.ts'
import { type MaskKey, maskKey } from './mask-sql.ts'
import { planVariants, type VariantPlan } from './variants.ts'

/** A version with the variants that it has today. */
export interface Deployed {
  readonly version: string
  readonly digest: string
  readonly manifests: ManifestSet
  readonly variants: readonly VariantPlan[]
  /** As of `ProductVersion`. */
  readonly judgedColumns: JudgedColumns | null
  readonly heldShapes: HeldShapes | null
}

export interface DeployedDeps {
  readonly pool: pg.Pool
  readonly rules: MaskingRules
  grants(productId: string): Promise<readonly ProductGrant[]>
}

/** Throws CONFLICT `not_deployed`. */
export async function deployedVersion(product: Product, version: string | null, deps: DeployedDeps): Promise<Deployed> {
  const kept = version === null ? null : await findVersion<ManifestSet>(deps.pool, product.id, version)
  if (kept === null) {
    throw new SluiceError('CONFLICT', `${product.domain}.${product.name} has no version in service`, {
      code: 'not_deployed',
      remedy: 'Deploy a version of the product first.',
    })
  }
  const variants = planVariants(kept.normalised.output, await deps.grants(product.id), deps.rules)
  const { version: name, digest, normalised: manifests, judgedColumns, heldShapes } = kept
  return { version: name, digest, manifests, variants, judgedColumns, heldShapes }
}

export interface MaskKeyDeps {
  maskSecret(tenant: string, classification: string): Promise<Uint8Array>
}

export async function keysFor(
  tenant: string,
  variants: readonly VariantPlan[],
  deps: MaskKeyDeps,
): Promise<readonly MaskKey[]> {
  const hashed = variants.flatMap((plan) => plan.masks.filter((mask) => mask.strategy === 'hash'))
  const classes = [...new Set(hashed.map((mask) => mask.classification))].sort()
  return Promise.all(classes.map(async (name) => maskKey(name, await deps.maskSecret(tenant, name))))
}
