/** Products: registered and described by manifests. Deploying is in `deploy.ts`. */
import type { Scan } from '@sluice/iceberg'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import validVersion from 'semver/functions/valid.js'
import { inTransaction } from '../../database/pools.ts'
import type { TenantCall } from '../../flow.ts'
import { type ManifestContext, servingTypesOf } from '../../manifest/context.ts'
import type { Input, ManifestSet } from '../../manifest/manifest-set.ts'
import { nameRefusal, nameSuggestion } from '../../manifest/names.ts'
import type { ParsedManifests } from '../../manifest/parse-manifests.ts'
import { rawTable } from '../../materializer/inputs.ts'
import { productPaused } from '../../materializer/pauses.ts'
import { lacksValues } from '../../materializer/raw-summary.ts'
import { isInScope, seesPreviews } from '../../policy/classification.ts'
import { actorOf } from '../../registry/actor.ts'
import { type Connection, findConnectionByName, isOfSource } from '../../registry/connections.ts'
import { requireStays } from '../../registry/deletions.ts'
import { newId } from '../../registry/ids.ts'
import {
  createProduct,
  type Product,
  type ProductChange,
  pauseOf,
  setPause,
  updateProduct,
} from '../../registry/products.ts'
import { enqueueRun, queuedRunOf, type Run } from '../../registry/runs.ts'
import type { Transaction } from '../../registry/sql.ts'
import { reserveRoom } from '../../registry/tenants.ts'
import { saveDraft } from '../../registry/versions.ts'
import { audited } from '../audit.ts'
import type { Keep } from '../keep.ts'
import { notFound } from '../not-found.ts'
import { requireDeveloper } from '../permissions.ts'
import { findByReference } from '../served/find-by-reference.ts'
import { NO_PRODUCT, productHidden, unambiguous } from '../served/served-product.ts'
import type { ProductsDeps } from './deps.ts'
import { type RightOne, settleOutdated } from './outdated-registry.ts'
import { checksInService } from './shared-checks.ts'

export interface NewProductRequest {
  readonly name: string
  readonly domain: string
  readonly archetype: Product['archetype']
  readonly description: string
}

export async function registerProduct(
  platform: ProductsDeps,
  call: TenantCall,
  request: NewProductRequest,
  keep: Keep<Product>,
): Promise<Product> {
  requireDeveloper(call.principal)
  checkName(request.name, 'name')
  checkName(request.domain, 'namespace')
  return inTransaction(platform.pool, async (tx) => {
    const product = await createProduct(tx, {
      tenant: call.tenant,
      domain: request.domain,
      name: request.name,
      archetype: request.archetype,
      description: request.description,
      createdBy: actorOf(call.principal),
    })
    await audited(tx, call, call.tenant, 'product.create', { type: 'product', id: product.id })
    await keep(tx, product)
    return product
  })
}

/** Changes what the product says of itself; the manifests of the next deployment say it anew. */
export async function changeProduct(
  platform: ProductsDeps,
  call: TenantCall,
  reference: string,
  change: Pick<ProductChange, 'description' | 'archetype'>,
): Promise<Product> {
  requireDeveloper(call.principal)
  const product = await productOf(platform, call, reference)
  return inTransaction(platform.pool, async (tx) => {
    const changed = await updateProduct(tx, call.tenant, product.id, change)
    if (!changed) throw notFound('product')
    await audited(tx, call, call.tenant, 'product.update', { type: 'product', id: product.id })
    return changed
  })
}

/** By the rule of manifests: what can be registered can be deployed. */
function checkName(name: string, what: 'name' | 'namespace'): void {
  const refusal = nameRefusal(name, what)
  if (refusal === null) return
  const suggestion = nameSuggestion(name)
  throw new SluiceError('INVALID_DATA', `the ${what} ${refusal}`, {
    code: 'invalid_name',
    remedy: suggestion === null ? 'Choose another name.' : `Write ${suggestion}.`,
  })
}

/** No preview: what is done with one is done by its product. Throws `product_not_found`, CONFLICT `ambiguous_product`. */
export async function productOf(platform: ProductsDeps, call: TenantCall, reference: string): Promise<Product> {
  const product = await productOrPreview(platform, call, reference)
  if (product.previewOf !== null) throw productHidden()
  return product
}

/** As `productOf`, for what is told of a product: of a preview to those for whom there are previews. */
export async function productOrPreview(platform: ProductsDeps, call: TenantCall, reference: string): Promise<Product> {
  const product = await unambiguous(call, findByReference(platform.pool, call.tenant, reference))
  if (!isInScope(call.principal, product.id)) throw productHidden()
  if (product.previewOf !== null && !seesPreviews(call.principal)) throw productHidden()
  return product
}

/** The product, or what it would be registered as, with what stands against that. */
export async function productToBe(
  platform: ProductsDeps,
  call: TenantCall,
  reference: string,
): Promise<{ readonly product: Product; readonly found: readonly SluiceError[] }> {
  try {
    return { product: await productOf(platform, call, reference), found: [] }
  } catch (error) {
    const [domain = '', ...rest] = reference.split('.')
    if (!isSluiceError(error) || error.code !== NO_PRODUCT.code || rest.length === 0) throw error
    const name = rest.join('.')
    checkName(name, 'name')
    checkName(domain, 'namespace')
    const found = await inTransaction(platform.pool, (tx) => reserveRoom(tx, call.tenant, 'products')).then(
      () => [],
      (refusal: unknown) => {
        if (isSluiceError(refusal)) return [refusal]
        throw refusal
      },
    )
    return { product: unregistered(call, domain, name), found }
  }
}

function unregistered(call: TenantCall, domain: string, name: string): Product {
  const now = new Date()
  return {
    id: newId('prd'),
    tenant: call.tenant,
    domain,
    name,
    archetype: 'source_aligned',
    description: '',
    classification: 'internal',
    status: 'draft',
    currentVersion: null,
    paused: null,
    previewOf: null,
    previewEndsAt: null,
    createdBy: actorOf(call.principal),
    createdAt: now,
    updatedAt: now,
  }
}

export type AcceptedManifests = Extract<ParsedManifests, { ok: true }>

/** Keeps the draft, or answers every problem of all six files at once. */
export async function uploadManifests(
  platform: ProductsDeps,
  call: TenantCall,
  reference: string,
  texts: Readonly<Partial<Record<string, string>>>,
  keep: Keep<AcceptedManifests>,
): Promise<AcceptedManifests> {
  requireDeveloper(call.principal)
  const product = await productOf(platform, call, reference)
  const parsed = await parseTexts(platform, product, texts)
  if (!parsed.ok) throw manifestsInvalid(parsed)
  await inTransaction(platform.pool, async (tx) => {
    await requireStays(tx, product.id)
    await saveDraft(tx, {
      productId: product.id,
      manifests: texts as Readonly<Record<string, string>>,
      normalised: parsed.manifests,
      digest: parsed.manifests.digest,
      warnings: parsed.warnings,
      uploadedBy: actorOf(call.principal),
    })
    if (product.status === 'draft') await updateProduct(tx, call.tenant, product.id, { status: 'ready' })
    await audited(tx, call, call.tenant, 'product.manifests', { type: 'product', id: product.id })
    await keep(tx, parsed)
  })
  return parsed
}

/** @param known of manifests that were read before: with these checks of other products, and what sources have */
export async function parseTexts(
  platform: ProductsDeps,
  product: Product,
  texts: Readonly<Partial<Record<string, string>>>,
  known: Pick<ManifestContext, 'connections' | 'sharedChecks'> = {},
): Promise<ParsedManifests> {
  const context: ManifestContext = {
    product: { name: product.name, domain: product.domain },
    servingTypes: servingTypesOf(platform.plugins.servingTypes().map(({ plugin }) => plugin)),
    dashboards: platform.dashboards,
    distributed: platform.distributed !== null,
    leastScheduleMs: platform.config.limits.schedule_interval_ms,
    sensitiveClasses: platform.rules.sensitive,
    ...known,
  }
  const parsed = await platform.parsing.parse(product.tenant, texts, context)
  const uses = (parsed.ok ? parsed.manifests.quality.uses : parsed.uses) ?? []
  if (known.sharedChecks !== undefined || uses.length === 0) return parsed
  const sharedChecks = await checksInService(platform.pool, product.tenant, uses)
  return platform.parsing.parse(product.tenant, texts, { ...context, sharedChecks })
}

export function manifestsInvalid(parsed: Extract<ParsedManifests, { ok: false }>): SluiceError {
  const count = parsed.problems.length
  return new SluiceError('INVALID_DATA', `the manifests have ${count} problem${count === 1 ? '' : 's'}`, {
    code: 'manifests_invalid',
    remedy: 'Correct what errors[] names; each entry has its file, line and column.',
    details: { errors: parsed.problems, warnings: parsed.warnings },
  })
}

/** Queues a materialization from what the lake has of the inputs. Throws CONFLICT `not_deployed`, `product_paused`, `product_being_deleted`. */
export async function requestMaterialization(
  platform: ProductsDeps,
  call: TenantCall,
  reference: string,
  keep: Keep<Run>,
): Promise<Run> {
  requireDeveloper(call.principal)
  const product = await productOf(platform, call, reference)
  if (product.currentVersion === null) throw notDeployed()
  return inTransaction(platform.pool, async (tx) => {
    await requireStays(tx, product.id)
    const pause = await pauseOf(tx, product.id)
    if (pause !== null) throw productPaused(pause)
    const run = (await queuedRunOf(tx, { productId: product.id })) ?? (await queueMaterialization(tx, call, product))
    await keep(tx, run)
    return run
  })
}

export function notDeployed(): SluiceError {
  return new SluiceError('CONFLICT', 'no version of the product is in service', {
    code: 'not_deployed',
    remedy: 'Deploy a version first.',
  })
}

/** Ends a pause, and queues what was left out. Throws CONFLICT `product_not_paused`, `registry_outdated`, `product_being_deleted`. */
export async function resumeProduct(
  platform: ProductsDeps,
  call: TenantCall,
  reference: string,
  right: RightOne | undefined,
  keep: Keep<Run>,
): Promise<Run> {
  requireDeveloper(call.principal)
  const product = await productOf(platform, call, reference)
  return inTransaction(platform.pool, async (tx) => {
    await requireStays(tx, product.id)
    await settleOutdated(tx, platform, call, product, right)
    if (!(await setPause(tx, product.id, null))) {
      throw new SluiceError('CONFLICT', 'the product is not paused', {
        code: 'product_not_paused',
        remedy: 'Nothing has to be resumed: the product follows its connections.',
      })
    }
    await audited(tx, call, call.tenant, 'product.resume', { type: 'product', id: product.id })
    const run = (await queuedRunOf(tx, { productId: product.id })) ?? (await queueMaterialization(tx, call, product))
    await keep(tx, run)
    return run
  })
}

async function queueMaterialization(tx: Transaction, call: TenantCall, product: Product): Promise<Run> {
  const run = await enqueueRun(tx, {
    tenant: call.tenant,
    kind: 'materialization',
    productId: product.id,
    trigger: 'manual',
    createdBy: actorOf(call.principal),
  })
  await audited(tx, call, call.tenant, 'product.materialize', { type: 'product', id: product.id }, { run: run.id })
  return run
}

/** The inputs' connections by name; throws where one is not the tenant's. */
export async function connectionsOf(
  platform: ProductsDeps,
  tenant: string,
  manifests: ManifestSet,
): Promise<ReadonlyMap<string, Connection>> {
  const names = [...new Set(manifests.inputs.map((input) => input.connection))]
  const entries = await Promise.all(
    names.map(async (name) => [name, await findConnectionByName(platform.pool, tenant, name)] as const),
  )
  return new Map(entries.flatMap(([name, connection]) => (connection ? [[name, connection] as const] : [])))
}

export async function inputsAreInLake(
  platform: ProductsDeps,
  tenant: string,
  manifests: ManifestSet,
): Promise<boolean> {
  for (const input of manifests.inputs) {
    const summary = await summaryInLake(platform, tenant, input)
    if (summary === null || lacksValues(summary, manifests, input)) return false
  }
  return true
}

/** Inputs that the next sync reads whole: their tables were read when no product used all of these columns. */
export async function inputsLackingValues(
  platform: ProductsDeps,
  tenant: string,
  manifests: ManifestSet,
): Promise<readonly Input[]> {
  const lacking: Input[] = []
  for (const input of manifests.inputs) {
    const summary = await summaryInLake(platform, tenant, input)
    if (summary !== null && lacksValues(summary, manifests, input)) lacking.push(input)
  }
  return lacking
}

/** What the raw table's newest snapshot says of itself; null where it was never read from where the connection leads. */
async function summaryInLake(platform: ProductsDeps, tenant: string, input: Input): Promise<Scan['summary'] | null> {
  const table = await platform.lake.load(rawTable(tenant, input.connection, input.table))
  if (table?.snapshotId == null) return null
  const connection = await findConnectionByName(platform.pool, tenant, input.connection)
  const { summary } = await platform.lake.scan(table, {})
  // What anybody may write says nothing of rows that a connection has brought.
  if (connection === null) return {}
  return isOfSource(summary, connection) ? summary : null
}

/** Throws INVALID_DATA where it is no semantic version. */
export function checkVersion(version: string): string {
  if (version.length <= 64 && validVersion(version) === version) return version
  throw new SluiceError('INVALID_DATA', 'the version is no semantic version', {
    code: 'invalid_version',
    remedy: 'Write major.minor.patch, for example 1.0.0.',
  })
}
