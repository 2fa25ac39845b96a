/** What stores keep of a product, beyond what the version in service has there. */
import { openTenantScope, SluiceError, type Target } from '@sluice/sdk'
import type pg from 'pg'
import { type OutputManifest, outputSchema } from '../manifest/manifest-set.ts'
import type { PluginSet, ServingType } from '../plugins/plugin-set.ts'
import {
  endpointsEver,
  type FormerEndpoint,
  heldEndpoints,
  type Place,
  variantsEver,
} from '../registry/endpoint-states.ts'
import { deployedProducts, type Product } from '../registry/products.ts'
import type { Queryable } from '../registry/sql.ts'
import { dropIfThere, hasPlaces, nameInStore, PLACES } from './places.ts'
import { copiesUnreachable, storeMissing } from './store-missing.ts'

export interface StoreCopiesDeps {
  readonly pool: pg.Pool
  readonly plugins: PluginSet
}

/**
 * That nothing stays in stores for ever which could be dropped if their plugins were loaded; of the tenant where the product
 * is null. Throws CONFIG `store_missing` unless those stores are `abandoned`; gives the types that are.
 */
export async function requireReachable(
  { tenant, productId }: { readonly tenant: string; readonly productId: string | null },
  abandoned: readonly string[],
  { pool, plugins }: { readonly pool: Queryable; readonly plugins: PluginSet },
): Promise<readonly string[]> {
  const held = await heldEndpoints(pool, tenant, productId)
  const unreachable = held.filter((type) => plugins.serving(type) === undefined)
  const left = unreachable.filter((type) => !abandoned.includes(type))
  if (left.length > 0) throw copiesUnreachable(left)
  return unreachable
}

/**
 * Drops every variant that there ever was at every endpoint that a version has had, in both places, whatever is said to be
 * there; not where no store is loaded: see `requireReachable`.
 */
export async function dropAllCopies(product: Product, deps: StoreCopiesDeps): Promise<void> {
  const variants = await variantsEver(deps.pool, product.id)
  for (const endpoint of await endpointsEver<OutputManifest>(deps.pool, product.id)) {
    if (deps.plugins.serving(endpoint.type) === undefined) continue
    for (const variant of variants) await drop(product, endpoint, variant, deps)
  }
}

/** Drops one variant at one endpoint, which the version in service has no more. Throws CONFIG `store_missing`. */
export async function dropCopy(
  product: Product,
  copy: { readonly endpoint: string; readonly variant: string },
  deps: StoreCopiesDeps,
): Promise<void> {
  const endpoints = await endpointsEver<OutputManifest>(deps.pool, product.id)
  const endpoint = endpoints.find(({ type }) => type === copy.endpoint)
  if (endpoint !== undefined) await drop(product, endpoint, copy.variant, deps)
}

async function drop(
  product: Product,
  endpoint: FormerEndpoint<OutputManifest>,
  variant: string,
  { plugins }: StoreCopiesDeps,
): Promise<void> {
  const serving = plugins.serving(endpoint.type)
  if (!serving) throw storeMissing([endpoint.type])
  await serving.store.drop(copyTarget(product, endpoint, variant, 'first'), 'apply')
  if (hasPlaces(serving.plugin)) await dropIfThere(serving.store, copyTarget(product, endpoint, variant, 'second'))
  await requireGone(product, endpoint, variant, serving)
}

/** Removes all that the stores keep of the tenant. Throws TRANSIENT `copy_remains` where one has not. */
export async function dropTenantCopies(tenant: string, { pool, plugins }: StoreCopiesDeps): Promise<void> {
  const scope = openTenantScope(tenant)
  for (const { store } of plugins.servingTypes()) await store.dropTenant(scope)
  for (const product of await deployedProducts(pool, tenant)) {
    const variants = await variantsEver(pool, product.id)
    for (const endpoint of await endpointsEver<OutputManifest>(pool, product.id)) {
      const serving = plugins.serving(endpoint.type)
      if (serving === undefined) continue
      for (const variant of variants) await requireGone(product, endpoint, variant, serving)
    }
  }
}

async function requireGone(
  product: Product,
  endpoint: FormerEndpoint<OutputManifest>,
  variant: string,
  { plugin, store }: Pick<ServingType, 'plugin' | 'store'>,
): Promise<void> {
  for (const place of hasPlaces(plugin) ? PLACES : (['first'] as const)) {
    const { steps } = await store.drop(copyTarget(product, endpoint, variant, place), 'plan')
    if (steps.length > 0) throw copyRemains(endpoint.type)
  }
}

/** Nobody is told that rows are gone which are there. */
function copyRemains(endpoint: string): SluiceError {
  return new SluiceError('TRANSIENT', `the ${endpoint} store still has the copy that it was asked to remove`, {
    code: 'copy_remains',
    remedy: 'Try again. If it stays, the store’s plugin is at fault: prove it with sluice-conformance.',
  })
}

/** By its name: stores ask for no more of the schema than that the config fits it, as that of the rows in clear does. */
export function copyTarget(
  { tenant, domain, name }: Product,
  { config, output }: FormerEndpoint<OutputManifest>,
  variant: string,
  place: Place,
): Target {
  const schema = outputSchema(output)
  const scope = openTenantScope(tenant)
  return { scope, domain, product: name, variant: nameInStore(variant, place), schema, config }
}
