/**
 * Checks are readings: what came of one is shown to who may see the columns that it looks at, in clear. Others are told
 * neither its result nor what it put aside, and their score is made of the checks that they see.
 */

import type { TenantCall } from '../../flow.ts'
import { SANDBOX } from '../../lake/tenant-layout.ts'
import { productOfInput, qualified } from '../../manifest/context.ts'
import type { Input, ManifestSet } from '../../manifest/manifest-set.ts'
import { QualityBlocked } from '../../materializer/prepare.ts'
import { type ClearClasses, decideRead, stricter } from '../../policy/classification.ts'
import { type ClassifiedColumn, isSensitive, type MaskingRules, masksFor } from '../../policy/masking.ts'
import { withRaised } from '../../policy/raised.ts'
import type { CheckResult } from '../../quality/check-result.ts'
import { decide, scoreOf } from '../../quality/verdict.ts'
import { findConnectionByName } from '../../registry/connections.ts'
import type { Materialization } from '../../registry/materializations.ts'
import { findProductsByName, type Product } from '../../registry/products.ts'
import { blockingColumns } from '../../registry/raised-classes.ts'
import { rawClasses } from '../../registry/raw-classes.ts'
import type { Queryable } from '../../registry/sql.ts'
import { deployedVersions, findVersion } from '../../registry/versions.ts'
import { OnceEach } from '../rights/once-each.ts'
import { mayReadRaw } from '../rights/raw-rights.ts'
import type { ProductsDeps } from './deps.ts'

/** What somebody may see of a product, and of the raw columns that it is made of. */
export interface Sight {
  readonly columns: readonly ClassifiedColumn[]
  readonly clear: ClearClasses
  /** By raw column, the classes that hide it. */
  readonly hidden: ReadonlyMap<string, readonly string[]>
  readonly rules: MaskingRules
}

export interface KeptQuality {
  readonly checks: readonly CheckResult[]
  readonly by_dimension: unknown
}

/** Of a check from before it was kept what checks look at, nobody knows: it may be anything. */
export function seesCheck({ columns, clear, hidden, rules }: Sight, { reads }: Pick<CheckResult, 'reads'>): boolean {
  if (clear === 'all') return true
  if (reads?.classes?.some((name) => isSensitive(name, rules) && !clear.has(name)) === true) return false
  const masked = new Set(masksFor(columns, clear, rules).map(({ column }) => column.toLowerCase()))
  if (reads === null || reads === undefined) return masked.size === 0 && hidden.size === 0
  const isHidden = (raw: string) => hidden.get(raw)?.some((name) => !clear.has(name)) ?? false
  return !reads.output.some((name) => masked.has(name.toLowerCase())) && !reads.raw.some(isHidden)
}

/** Whether there is no check, of whatever columns, that is hidden from them. */
export function seesEverything({ columns, clear, hidden, rules }: Sight): boolean {
  return clear === 'all' || (masksFor(columns, clear, rules).length === 0 && hidden.size === 0)
}

/** The materialization as who has that sight is told of it. */
export function shownQuality<Shown extends Pick<Materialization, 'quality' | 'qualityScore' | 'counts'>>(
  sight: Sight,
  materialization: Shown,
): Shown {
  const kept = materialization.quality as KeptQuality | null
  if (kept === null) return materialization
  const checks = kept.checks.filter((check) => seesCheck(sight, check))
  const score = scoreOf(checks)
  const { quarantined, ...counts } = materialization.counts
  const isAsideSeen = seesAside(sight, kept)
  return {
    ...materialization,
    quality: { checks, by_dimension: score.byDimension },
    qualityScore: score.overall,
    counts: { ...counts, ...(isAsideSeen && quarantined !== undefined ? { quarantined } : {}) },
  }
}

/** Whether somebody may know which rows were put aside: whatever came of the checks that could do it. */
export function seesAside(sight: Sight, { checks }: Pick<KeptQuality, 'checks'>): boolean {
  return checks.filter(({ onError }) => onError === 'quarantine').every((check) => seesCheck(sight, check))
}

/** @param only the raw columns that are asked about; absent: all */
export async function hiddenRawColumns(
  db: Queryable,
  tenant: string,
  rules: MaskingRules,
  only?: readonly string[],
): Promise<Sight['hidden']> {
  const classes = await rawClasses(db, tenant, only)
  return new Map(
    [...classes].flatMap(([column, names]) => {
      const hiding = names.filter((name) => isSensitive(name, rules))
      return hiding.length === 0 ? [] : [[column, hiding] as const]
    }),
  )
}

/**
 * Of all that is hidden in the tenant, what decides whether these checks are seen: a run asks for each epoch, and a tenant may
 * have thousands of products that hide something else.
 */
export async function hiddenFromChecks(
  db: Queryable,
  tenant: string,
  checks: readonly Pick<CheckResult, 'reads'>[],
  rules: MaskingRules,
): Promise<Sight['hidden']> {
  if (checks.some(({ reads }) => reads == null)) return hiddenRawColumns(db, tenant, rules)
  const only = [...new Set(checks.flatMap(({ reads }) => reads?.raw ?? []))]
  return only.length === 0 ? new Map() : hiddenRawColumns(db, tenant, rules, only)
}

/** What everybody may see of these checks of a version that was deployed, members without any grant included: by the classes of today. */
export async function openSightOf(
  db: Queryable,
  product: Pick<Product, 'id' | 'tenant'>,
  version: string,
  checks: readonly Pick<CheckResult, 'reads'>[],
  rules: MaskingRules,
): Promise<Sight> {
  const made = await findVersion<ManifestSet>(db, product.id, version)
  const raised = (await blockingColumns(db, product.id)).get(made?.digest ?? '')
  const columns = withRaised(made?.normalised.output.columns ?? [], raised, rules)
  return { columns, clear: new Set(), hidden: await hiddenFromChecks(db, product.tenant, checks, rules), rules }
}

/**
 * Why checks let nothing be published, as who has that sight is told; null: as it was told.
 * @param kept undefined: what was checked is not known any more
 */
export function blockedText(sight: Sight, kept: Pick<KeptQuality, 'checks'> | undefined): string | null {
  const hidden = kept?.checks.filter((check) => !seesCheck(sight, check))
  if (kept !== undefined && hidden?.length === 0) return null
  const blocking = decide(kept?.checks ?? [])
  const names = blocking.action === 'block' ? blocking.checks : []
  return new QualityBlocked(
    names.filter((name) => !hidden?.some((check) => check.name === name)),
    [],
  ).message
}

type Reader = Pick<TenantCall, 'tenant' | 'principal'>

/** By the caller's grants on the product; who may read all tables that it is made of sees everything anyway. */
export async function sightOf(platform: ProductsDeps, call: Reader, productId: string): Promise<Sight> {
  const hidden = await hiddenRawColumns(platform.pool, call.tenant, platform.rules)
  const sight = await grantedSight(platform, call, productId, hidden)
  const isAll = sight.clear === 'all' || (await mayReadInputs(platform, call, productId))
  return isAll ? { ...sight, clear: 'all' } : sight
}

/** By the grants on the product alone. */
export async function grantedSight(
  platform: ProductsDeps,
  call: Reader,
  productId: string,
  hidden: Sight['hidden'],
): Promise<Sight> {
  const product = await platform.served.find(call.tenant, productId)
  const columns = [...product.columns, ...product.formerColumns]
  const classification = stricter(product.classification, product.snapshotClassification)
  const decision = decideRead(call.principal, { ...product, classification }, product.grants)
  return { columns, clear: decision.allowed ? decision.clearClasses : new Set(), hidden, rules: platform.rules }
}

/**
 * Of each version whose rows there are: what a product keeps may be of one before. Of a product as an input, whoever is
 * shown all of it in clear.
 */
export async function mayReadInputs(
  platform: ProductsDeps,
  call: Reader,
  id: string,
  looked: OnceEach<boolean> = new OnceEach(),
): Promise<boolean> {
  return looked.answer(id, true, () => readsInputsOf(platform, call, id, looked))
}

async function readsInputsOf(
  platform: ProductsDeps,
  call: Reader,
  id: string,
  looked: OnceEach<boolean>,
): Promise<boolean> {
  const { isAdmin, isDeveloper, isViewer, key } = call.principal
  // Application keys are for products: of plain tables they are given nothing, so that none of these read all inputs.
  if (key !== undefined) return false
  const versions = isAdmin || isDeveloper || isViewer ? await deployedVersions<ManifestSet>(platform.pool, id) : []
  const inputs = versions.flatMap(({ normalised }) => normalised.inputs)
  return versions.length > 0 && (await readsAll(platform, call, inputs, looked))
}

/** Whether a member of the tenant may read each of these inputs in clear. */
export async function readsAll(
  platform: ProductsDeps,
  call: Reader,
  inputs: readonly Pick<Input, 'connection' | 'table'>[],
  looked: OnceEach<boolean> = new OnceEach(),
): Promise<boolean> {
  const tables = new Map(
    inputs.map(({ connection, table }) => [JSON.stringify([connection, table]), { connection, table }]),
  )
  for (const { connection: name, table } of tables.values()) {
    if (name === SANDBOX) continue
    const product = productOfInput({ connection: name, table })
    if (product !== null) {
      if (!(await seesProduct(platform, call, product, looked))) return false
      continue
    }
    const connection = await findConnectionByName(platform.pool, call.tenant, name)
    if (connection === null || !(await mayReadRaw(platform, call, connection, qualified(table)))) return false
  }
  return true
}

async function seesProduct(
  platform: ProductsDeps,
  call: Reader,
  { domain, name }: { readonly domain: string; readonly name: string },
  looked: OnceEach<boolean>,
): Promise<boolean> {
  const [product] = await findProductsByName(platform.pool, call.tenant, name, domain)
  if (product === undefined) return false
  const { clear } = await grantedSight(platform, call, product.id, new Map())
  return clear === 'all' || mayReadInputs(platform, call, product.id, looked)
}
