/** A product as readers meet it: where each variant can be read, at which epoch, and who may. */
import {
  CLEAR,
  isSluiceError,
  type ServingPlugin,
  type ServingStore,
  SluiceError,
  type Target,
  type Variant,
} from '@sluice/sdk'
import type { Principal, TenantCall } from '../../flow.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { type Remaking, remakingRemedy } from '../../materializer/remaking.ts'
import { storeMissing } from '../../materializer/store-missing.ts'
import { copyRebuilding } from '../../materializer/store-review.ts'
import type { Classification, ProductGrant, ReadDecision } from '../../policy/classification.ts'
import { decideRead, stricter } from '../../policy/classification.ts'
import { type MadeMasks, missingMasks, NO_MASKS } from '../../policy/made-masks.ts'
import {
  type ClassifiedColumn,
  type ColumnMask,
  type MaskingRules,
  masksFor,
  variantName,
} from '../../policy/masking.ts'
import type { Place } from '../../registry/endpoint-states.ts'
import type { RaisedByDigest } from '../../registry/raised-classes.ts'
import type { Rests } from '../../registry/rests-on.ts'

/** One store's copy of one variant, as the last successful write left it. */
export interface ServedTarget {
  readonly plugin: ServingPlugin
  readonly store: ServingStore
  readonly target: Target
  readonly place: Place
  /** Of the version that made it: a store may be behind the lake. */
  readonly madeBy: ManifestSet
  readonly version: string
  readonly epoch: number
  readonly snapshotId: string
  readonly committedAt: string
  /** Since when its rows are: `readAtOf`. */
  readonly readAt: string
  /** What its rows rest on: `restsOf`. */
  readonly rests: Rests | null
  readonly maskedColumns: readonly string[]
  /** How they are masked in it. */
  readonly masks: MadeMasks
}

export interface ServedEndpoint {
  readonly type: string
  readonly targets: ReadonlyMap<Variant, ServedTarget>
  /** False where no store of this type is configured any more. */
  readonly isServed: boolean
  /** Variants whose copy the store has lost. */
  readonly rebuilding: ReadonlySet<Variant>
  /** Variants whose copy the store is to have, and has not been given yet. */
  readonly coming: ReadonlySet<Variant>
  /** False where a copy of any variant is still to be written, so that another one is served soon. */
  readonly isSettled: boolean
}

/** A variant's committed state in the lake. */
export interface ServedVariant {
  readonly variant: Variant
  readonly epoch: number
  readonly snapshotId: string
  readonly committedAt: string
  /** Since when its rows are: `readAtOf`. */
  readonly readAt: string
  /** What its rows rest on: `restsOf`. */
  readonly rests: Rests | null
  readonly maskedColumns: readonly string[]
  /** How they are masked in it. */
  readonly masks: MadeMasks
}

export interface ServedProduct {
  readonly id: string
  readonly tenant: string
  readonly domain: string
  readonly name: string
  /** Whether it is a version beside the one in service, for developers alone. */
  readonly isPreview: boolean
  /** Of the version deployed now; a read obeys the stricter of this and what its snapshot was made under. */
  readonly classification: Classification
  readonly snapshotClassification: Classification
  readonly columns: readonly ClassifiedColumn[]
  /** Those that the version deployed now has no more, each with the class that it had last. */
  readonly formerColumns: readonly ClassifiedColumn[]
  /** By digest of the version that made them: columns that are hidden by more than their own class. */
  readonly raised: RaisedByDigest
  readonly grants: readonly ProductGrant[]
  readonly policyVersion: string
  readonly remaking: Remaking
  readonly endpoints: ReadonlyMap<string, ServedEndpoint>
  readonly variants: ReadonlyMap<Variant, ServedVariant>
}

/** As much of a product as says who may read it, and what is masked for whom. */
export type ReadableProduct = Pick<
  ServedProduct,
  'id' | 'domain' | 'name' | 'isPreview' | 'classification' | 'snapshotClassification' | 'columns' | 'grants'
>

export interface ReadAccess {
  readonly variant: Variant
  readonly masks: readonly ColumnMask[]
  readonly audit: boolean
}

/**
 * The variant that this reader is given: one of exactly its clearance where that is kept, else the full mask. Throws
 * PERMISSION `product_forbidden`.
 */
export function accessTo(
  product: ReadableProduct,
  principal: Principal,
  rules: MaskingRules,
  available: (variant: Variant) => boolean,
): ReadAccess {
  const classification = stricter(product.classification, product.snapshotClassification)
  const decision = decideRead(principal, { ...product, classification }, product.grants)
  if (!decision.allowed) throw decision.isHidden ? productHidden() : forbidden(product, decision)
  const exact = masksFor(product.columns, decision.clearClasses, rules)
  const variant = variantName(exact, product.columns, rules)
  if (exact.length === 0 || available(variant)) return { variant, masks: exact, audit: decision.audit }
  const full = masksFor(product.columns, new Set(), rules)
  // A column may have a class that is clear to this reader beside one that hides it: what he is to be shown is that one's mask.
  const masks = full.filter((mask) => isAmong(exact, mask) || !exact.some(({ column }) => column === mask.column))
  return { variant: variantName(full, product.columns, rules), masks, audit: decision.audit }
}

/**
 * What is in clear, in place of a twin that is not there, where it has none of the columns which are masked for this reader: of
 * a version before they came there is no such twin, and nothing to hide.
 *
 * @param masksOf of what there is of a variant, as `rowMasks` has it
 */
export function orClear(access: ReadAccess, masksOf: (variant: Variant) => MadeMasks | undefined): ReadAccess {
  const clear = masksOf(access.variant) === undefined ? masksOf(CLEAR) : undefined
  if (clear === undefined || missingMasks(access.masks, clear).length > 0) return access
  return { ...access, variant: CLEAR, masks: [] }
}

function isAmong(masks: readonly ColumnMask[], { column, classification }: ColumnMask): boolean {
  return masks.some((mask) => mask.column === column && mask.classification === classification)
}

/** A product that the caller may not read does not exist for a statement. */
export function accessOrNull(product: ServedProduct, principal: Principal, rules: MaskingRules): ReadAccess | null {
  return accessIfAny(product, principal, rules, (variant) => product.variants.has(variant))
}

/** As `accessTo`; null where the principal may not read the product. */
export function accessIfAny(...asked: Parameters<typeof accessTo>): ReadAccess | null {
  try {
    return accessTo(...asked)
  } catch (error) {
    if (isSluiceError(error, 'PERMISSION')) return null
    throw error
  }
}

/** As if there were none; a refusal to those who look at many products at once. */
export function productHidden(): SluiceError {
  return new SluiceError('PERMISSION', NO_PRODUCT.message, NO_PRODUCT)
}

/** Who has a key for some products is not told which others have the same name. */
export function unambiguous<T>({ principal }: Pick<TenantCall, 'principal'>, finding: Promise<T>): Promise<T> {
  if (principal.key === undefined) return finding
  return finding.catch((error: unknown) => {
    throw isSluiceError(error, 'CONFLICT') && error.code === 'ambiguous_product' ? productHidden() : error
  })
}

/** Of a product that does not exist, and of one that does not for this caller. */
export const NO_PRODUCT = {
  message: 'there is no such product',
  code: 'product_not_found',
  remedy: 'Check the id, the name, or namespace.name.',
} as const

function forbidden(product: ReadableProduct, decision: Extract<ReadDecision, { allowed: false }>): SluiceError {
  return new SluiceError('PERMISSION', `you may not read ${product.domain}.${product.name}: ${decision.reason}`, {
    code: 'product_forbidden',
    remedy: decision.remedy,
  })
}

/**
 * Refuses a copy that shows more of a column than its mask of today: the class was raised, or is masked more strictly by
 * now, and the copy has not been written anew yet.
 */
export function refuseStaleMask(
  { remaking }: Pick<ServedProduct, 'remaking'>,
  masks: readonly ColumnMask[],
  made: MadeMasks,
): void {
  const columns = missingMasks(masks, made).map(({ column }) => column)
  if (columns.length === 0) return
  throw new SluiceError('CONFLICT', 'the class of a column was raised, and its copies have not been made anew yet', {
    code: 'mask_pending',
    remedy: `${remakingRemedy(remaking, columns)} Then read again.`,
    details: { columns },
    retryAfterMs: 5_000,
  })
}

/** As `refuseStaleMask`, where the product has been written, but not yet the copy that this reader would be given. */
export function refuseUnmade(product: ServedProduct, { variant, masks }: ReadAccess): void {
  if (product.variants.size > 0 && !product.variants.has(variant)) refuseStaleMask(product, masks, NO_MASKS)
}

/** Throws CONFLICT `not_materialized`, CONFIG `store_missing`, TRANSIENT `store_rebuilding`, or INVALID_DATA `endpoint_not_declared`. */
export function servedTarget(product: ServedProduct, type: string, access: ReadAccess): ServedTarget {
  const endpoint = product.endpoints.get(type)
  if (!endpoint) {
    const declared = [...product.endpoints.keys()].join(', ') || 'none'
    throw new SluiceError('INVALID_DATA', `${product.domain}.${product.name} has no ${type} endpoint`, {
      code: 'endpoint_not_declared',
      remedy: `Endpoints of this product: ${declared}. Others are declared in serving.yaml.`,
    })
  }
  const target = endpoint.targets.get(access.variant)
  if (target) return target
  if (!endpoint.isServed) throw storeMissing([type])
  if (endpoint.rebuilding.has(access.variant)) throw copyRebuilding()
  refuseUnmade(product, access)
  // Another variant's copy may be there already.
  if (endpoint.coming.has(access.variant)) {
    if (isBehind(product, endpoint)) refuseStaleMask(product, access.masks, NO_MASKS)
    throw notMaterialized(product)
  }
  if (access.masks.length > 0 && endpoint.targets.size > 0) {
    throw new SluiceError('PERMISSION', `the ${type} endpoint is keyed by a column that is masked for you`, {
      code: 'column_masked',
      remedy: UNMASK_REMEDY,
    })
  }
  throw notMaterialized(product)
}

/** Whether it has rows of an epoch before: who reads them was let in until a class was raised. */
function isBehind({ variants }: ServedProduct, { targets }: ServedEndpoint): boolean {
  const newest = variants.get(CLEAR)?.epoch ?? 0
  return [...targets.values()].some(({ epoch }) => epoch < newest)
}

/** Of some classes the rows are written with the epoch after the grant, as they are to be shown. */
export const UNMASK_REMEDY =
  'Ask the owner of the product for a grant that unmasks its class. One that was given since shows from the product’s next epoch on: materialize it.'

/** Of a product that the caller may read, and that has no rows yet. */
export function notMaterialized({ domain, name }: Pick<ServedProduct, 'domain' | 'name'>): SluiceError {
  return new SluiceError('CONFLICT', `${domain}.${name} has not been materialized yet`, {
    code: 'not_materialized',
    remedy: 'Deploy a version, sync its connections, and wait until the run has succeeded.',
  })
}

/** What a reader asked for at least, and that is not there yet. */
export function epochNotReached(
  { domain, name }: Pick<ServedProduct, 'domain' | 'name'>,
  { atLeast, epoch }: { readonly atLeast: number; readonly epoch: number | null },
): SluiceError {
  const has = epoch === null ? 'has none yet' : `is at epoch ${epoch}`
  return new SluiceError('CONFLICT', `${domain}.${name} ${has}, and at least ${atLeast} was asked for`, {
    code: 'epoch_not_reached',
    remedy:
      'Look at the run that was to make it (GET /api/v1/ingestion/{id}, sluice logs), then ask again, or for an earlier epoch.',
    details: { product: `${domain}.${name}`, epoch, at_least_epoch: atLeast },
    retryAfterMs: 5_000,
  })
}

export function notConsistent(products: readonly string[]): SluiceError {
  const names = products.slice(0, 20).join(', ')
  return new SluiceError('CONFLICT', `${names} rest on different rows of what they are made of`, {
    code: 'answer_not_consistent',
    remedy: 'Ask again when the run that makes them has ended, or without "consistent".',
    details: { products: products.slice(0, 20) },
    retryAfterMs: 5_000,
  })
}
