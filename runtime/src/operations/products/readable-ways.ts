/** What the caller can do with a product now: its columns as he is shown them, and the ways to read it that are open to him. */
import { isSluiceError, type KeyTemplate, parseKeyTemplate, SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { findVersion } from '../../registry/versions.ts'
import { accessTo, type ReadAccess, type ServedProduct, servedTarget } from '../served/served-product.ts'
import type { ProductsDeps } from './deps.ts'
import { type DescribedProduct, describe } from './product-schema.ts'
import { productOf } from './products.ts'
import { type Readings, readingsOf } from './readings.ts'
import { shownColumns } from './shown-columns.ts'

export interface ReadableWays {
  readonly described: DescribedProduct
  /** Without those whose store is not there, or has nothing for this caller. */
  readonly readings: Readings
  /** Types of endpoints that are open: those of `readings`, and others that plugins serve. */
  readonly endpoints: ReadonlySet<string>
  /** Of the realtime endpoint, where there is one. */
  readonly keyTemplate: KeyTemplate | null
}

/**
 * By the version in service, whether its rows are there yet or not. For whoever may read them: a public product has readers without a group, too. Throws as the reads of the product do: `product_not_found`,
 * PERMISSION `product_forbidden`; and CONFLICT `not_deployed`.
 */
export async function readableWays(platform: ProductsDeps, call: TenantCall, reference: string): Promise<ReadableWays> {
  const product = await productOf(platform, call, reference)
  const served = await platform.served.find(call.tenant, product.id)
  const access = accessTo(served, call.principal, platform.rules, (variant) => served.variants.has(variant))
  const { currentVersion } = product
  const live =
    currentVersion === null ? null : await findVersion<ManifestSet>(platform.pool, product.id, currentVersion)
  if (live === null) throw notDeployed(product)
  const { domain: namespace, name, description } = product
  const told = { namespace, name, description, current_version: currentVersion }
  const schema = shownColumns(live.normalised, access)
  const declared = live.normalised.serving.endpoints
  const endpoints = declared.filter(({ type }) => isOpen(served, type, access))
  const described = describe({ ...told, schema, endpoints })
  // Why a way is closed is told of those that the store has nothing of, too.
  const { closed } = readingsOf(describe({ ...told, schema, endpoints: declared }).schema)
  return {
    described,
    readings: { ...readingsOf(described.schema), closed },
    endpoints: new Set(endpoints.map(({ type }) => type)),
    keyTemplate: keyTemplateOf(endpoints.find(({ type }) => type === 'realtime')?.config),
  }
}

function keyTemplateOf(config: Readonly<Record<string, unknown>> | undefined): KeyTemplate | null {
  const template = parseKeyTemplate(String(config?.['key_template'] ?? ''))
  return 'problem' in template ? null : template
}

/** By what the reads themselves say. A store that has the rows later is open. */
function isOpen(served: ServedProduct, type: string, access: ReadAccess): boolean {
  try {
    servedTarget(served, type, access)
    return true
  } catch (error) {
    if (!isSluiceError(error)) throw error
    return !['column_masked', 'store_missing', 'endpoint_not_declared'].includes(error.code ?? '')
  }
}

function notDeployed({ domain, name }: { readonly domain: string; readonly name: string }): SluiceError {
  return new SluiceError('CONFLICT', `${domain}.${name} is not in service: it has no columns yet`, {
    code: 'not_deployed',
    remedy: 'Deploy a version first.',
  })
}
