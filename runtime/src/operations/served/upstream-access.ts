/** Products as inputs of others: as whom they are read, and what of them is shown to him. */
import { isSluiceError } from '@sluice/sdk'
import type { Principal } from '../../flow.ts'
import type { Input, ManifestSet, OutputManifest } from '../../manifest/manifest-set.ts'
import { inputForbidden, type UpstreamAccess } from '../../materializer/inputs.ts'
import { planVariants } from '../../materializer/variants.ts'
import {
  CLASSIFICATIONS,
  type Classification,
  type ClearClasses,
  decideRead,
  isSubject,
  type ReadDecision,
  stricter,
} from '../../policy/classification.ts'
import { missingMasks, plannedMasks } from '../../policy/made-masks.ts'
import { isSensitive, masksFor } from '../../policy/masking.ts'
import { withRaised } from '../../policy/raised.ts'
import { type GrantSubject, productGrants } from '../../registry/grants.ts'
import { findProduct, holderOfGrants, type Product } from '../../registry/products.ts'
import type { Queryable } from '../../registry/sql.ts'
import { findVersion, type UpstreamReader, type VersionUpstream } from '../../registry/versions.ts'
import type { ServedDeps } from './deps.ts'
import { NO_PRODUCT, type ServedProduct } from './served-product.ts'

/** What is kept of whoever deploys. */
export function readerOf(principal: Principal, { grants }: Pick<ServedProduct, 'grants'>): UpstreamReader {
  const { issuer, subject, isAdmin, isDeveloper, isViewer, claimedClearance } = principal
  const teams = grants.filter((grant) => grant.subjectType === 'team' && isSubject(principal, grant))
  const groups = [...new Set(teams.map((grant) => grant.subject))]
  return { issuer, subject, groups, isAdmin, isDeveloper, isViewer, claimedClearance }
}

/** As readers meet it: the stricter of what is deployed and what its rows were made under. */
export function classificationOf({ classification, snapshotClassification }: ServedProduct): Classification {
  return stricter(classification, snapshotClassification)
}

/** The input as the version's deployer is shown it today. Throws PERMISSION `input_forbidden`. */
export async function upstreamAccess(
  platform: Pick<ServedDeps, 'pool' | 'served' | 'rules'>,
  product: Product,
  version: string,
  input: Input,
): Promise<UpstreamAccess> {
  const kept = (await findVersion(platform.pool, product.id, version))?.upstreams?.[input.name]
  if (kept === undefined) throw inputForbidden(input, 'nobody has deployed it as an input')
  const served = await platform.served.find(product.tenant, kept.productId).catch((error: unknown) => {
    if (isSluiceError(error) && error.code === NO_PRODUCT.code) throw inputForbidden(input, 'it was deleted')
    throw error
  })
  await requireNoLaxer(platform, input, kept, product, served)
  const { variant, productId } = kept
  const decision = shownTo(kept, served)
  if (!decision.allowed)
    throw inputForbidden(input, `whoever deployed this version may not read it: ${decision.reason}`)
  const masks = masksFor(served.columns, decision.clearClasses, platform.rules).filter(({ column }) =>
    isRead(kept, column),
  )
  const former = (await formerlyHidden(platform, served)).filter((name) => isRead(kept, name))
  const hidden = [...masks.map(({ column }) => column), ...former]
  const { remaking } = served
  const fits = await fitsOnceMade(platform, served, kept, decision.clearClasses)
  return { productId, variant, hidden, masks, columns: kept.columns ?? null, fitsOnceMade: fits, remaking }
}

/** As of `UpstreamAccess`. */
async function fitsOnceMade(
  deps: Pick<ServedDeps, 'pool' | 'rules'>,
  served: ServedProduct,
  kept: VersionUpstream,
  clearClasses: ClearClasses,
): Promise<boolean> {
  const { rules } = deps
  const output = await outputToday(deps, served)
  if (output === null) return false
  const masks = masksFor(output.columns, clearClasses, rules).filter(({ column }) => isRead(kept, column))
  const plan = planVariants(output, served.grants, rules).find(({ variant }) => variant === kept.variant)
  return plan !== undefined && missingMasks(masks, plannedMasks(plan.masks)).length === 0
}

/**
 * Columns whose newest rows are of a version that gave them a class which the version in service does not: what is made of them
 * is judged by the one, and would be made of the other until they are made anew. They are hidden from whoever is cleared, too.
 */
export async function formerlyHidden(
  deps: Pick<ServedDeps, 'pool' | 'rules'>,
  served: ServedProduct,
): Promise<readonly string[]> {
  const today = (await outputToday(deps, served))?.columns
  if (today === undefined) return []
  return served.columns
    .filter(({ classification }) => isSensitive(classification, deps.rules))
    .filter(({ name, classification }) => {
      const own = today.filter((column) => column.name === name)
      return own.length > 0 && !own.some((column) => column.classification === classification)
    })
    .map(({ name }) => name)
}

/** Of the version in service, its columns with the classes that their sources were given since. Null where there is none. */
async function outputToday(
  { pool, rules }: Pick<ServedDeps, 'pool' | 'rules'>,
  { id, tenant, raised }: ServedProduct,
): Promise<OutputManifest | null> {
  const product = await findProduct(pool, tenant, id)
  const version = product?.currentVersion ? await findVersion<ManifestSet>(pool, id, product.currentVersion) : null
  if (version === null) return null
  const { output } = version.normalised
  return { ...output, columns: withRaised(output.columns, raised.get(version.digest), rules) }
}

/** Whether the version was judged by that column of the product: another one is not there for it. */
export function isRead({ columns }: VersionUpstream, name: string): boolean {
  return columns?.includes(name) ?? true
}

/** What its deployer is shown of the product. Nothing of a session is asked for: what matters is what he holds. */
export function shownTo({ reader, productId }: VersionUpstream, served: ServedProduct): ReadDecision {
  const principal = { ...reader, tenant: served.tenant, email: null, tokenExpiresAtMs: 0, tokenIssuedAtMs: 0 }
  return decideRead(
    principal,
    { id: productId, classification: classificationOf(served), isPreview: served.isPreview },
    served.grants,
  )
}

/**
 * A product that was closed to many since then is not shown to them by another one: neither by its classification, nor by grants
 * that were given when everybody read it anyway. Deployed anew, it is judged anew.
 */
async function requireNoLaxer(
  { pool }: Pick<ServedDeps, 'pool'>,
  input: Input,
  { classification, reader }: VersionUpstream,
  product: Product,
  served: ServedProduct,
): Promise<void> {
  const now = classificationOf(served)
  if (!isStricter(now, classification)) return
  const own = await readAs(pool, product)
  if (isStricter(now, own)) throw inputForbidden(input, `it is ${now} by now, and what is made of it is ${own}`)
  const isOf = (one: GrantSubject) => (other: GrantSubject) =>
    one.subjectType === other.subjectType && one.subject === other.subject && one.issuer === other.issuer
  const isReader = isOf({ subjectType: 'user', subject: reader.subject, issuer: reader.issuer })
  const grants = await productGrants(pool, product.tenant, holderOfGrants(product))
  if (grants.every((grant) => isReader(grant) || served.grants.some(isOf(grant)))) return
  throw inputForbidden(input, `it is ${now} by now, and others hold grants on what is made of it`)
}

/** A preview is read as its version says, whatever stands in its row. */
async function readAs(
  db: Queryable,
  { id, previewOf, classification, currentVersion }: Product,
): Promise<Classification> {
  if (previewOf === null || currentVersion === null) return classification
  const version = await findVersion<ManifestSet>(db, id, currentVersion)
  return version?.normalised.product.classification ?? classification
}

/** Whether fewer may read the one than the other. */
export function isStricter(one: Classification, other: Classification): boolean {
  return CLASSIFICATIONS.indexOf(one) > CLASSIFICATIONS.indexOf(other)
}
