import { createHash } from 'node:crypto'
import { SluiceError } from './errors.ts'

/**
 * Which object is the scope of which tenant. One table for the whole process, whatever copies of this package are
 * loaded in it: a plugin that brings its own still knows the scopes that the runtime made.
 */
const TENANTS_KEY = Symbol.for('@sluice/sdk/tenant-scopes')
const shared = globalThis as { [TENANTS_KEY]?: WeakMap<object, string> }
const tenants = (shared[TENANTS_KEY] ??= new WeakMap())

/**
 * Proof that the runtime has decided on whose behalf a hook runs. There is no way to read or write without one, and
 * only the runtime makes them: a plugin receives a scope and passes it on.
 */
export class TenantScope {
  private constructor(tenant: string) {
    tenants.set(this, tenant)
    Object.freeze(this)
  }

  get tenant(): string {
    return tenantOf(this)
  }

  /** False for look-alikes: an object that was not made by `open` holds no tenant. */
  static is(value: unknown): value is TenantScope {
    return typeof value === 'object' && value !== null && tenants.has(value)
  }

  /** For the runtime and the conformance suite alone: see `openTenantScope`. */
  static open(tenant: string): TenantScope {
    if (!isTenantId(tenant)) {
      throw new SluiceError('PERMISSION', 'there is no tenant scope without a valid tenant id', {
        code: 'tenant_scope_missing',
        remedy: 'Pass the tenant of the verified principal.',
      })
    }
    return new TenantScope(tenant)
  }
}

/** Up to 255 printable characters; platform slugs are narrower, but a store must not rely on it. */
function isTenantId(tenant: unknown): tenant is string {
  return typeof tenant === 'string' && tenant.length > 0 && tenant.length <= 255 && !/\p{Cc}/u.test(tenant)
}

/** Makes the scope of a tenant that the caller has verified. Plugins must not call it. */
export function openTenantScope(tenant: string): TenantScope {
  return TenantScope.open(tenant)
}

/** The tenant of a genuine scope; throws PERMISSION `tenant_scope_missing` for anything else. */
export function tenantOf(scope: TenantScope): string {
  const tenant = typeof scope === 'object' && scope !== null ? tenants.get(scope) : undefined
  if (tenant !== undefined) return tenant
  throw new SluiceError('PERMISSION', 'there is no data without a tenant scope', { code: 'tenant_scope_missing' })
}

/** Which copy of a product: `clear`, or a masked twin (`masked`, or `masked_<id>` for a subset of classes). */
export type Variant = string

export const CLEAR: Variant = 'clear'

/** PostgreSQL truncates identifiers silently after 63 bytes, so names are made to fit before they reach a store. */
const MAX_IDENTIFIER_BYTES = 63

/**
 * `name`, or, where it has more than `maxBytes` bytes of UTF-8, its beginning with a hash of the whole: two long
 * names never become one. Deterministic.
 */
export function physicalName(name: string, maxBytes: number = MAX_IDENTIFIER_BYTES): string {
  if (Buffer.byteLength(name) <= maxBytes) return name
  const hash = createHash('sha256').update(name).digest('hex').slice(0, 12)
  let head = ''
  for (const character of name) {
    if (Buffer.byteLength(head + character) > maxBytes - 14) break
    head += character
  }
  return `${head}__${hash}`
}

/** The table of a product's variant: `{product}` for clear, `{product}__{variant}` for a twin. */
export function variantTable(product: string, variant: Variant): string {
  return variant === CLEAR ? product : `${product}__${variant}`
}

export interface DatasetName {
  readonly tenant: string
  readonly domain: string
  readonly product: string
  readonly variant: Variant
}

/** Structured and timeseries stores: schema = {domain}, table = {product}. */
export function structuredName(dataset: DatasetName): { readonly schema: string; readonly table: string } {
  return {
    schema: physicalName(dataset.domain),
    table: physicalName(variantTable(dataset.product, dataset.variant)),
  }
}

/** Cache stores: the prefix `{tenant}:{domain}:{product}:` that every key of the dataset begins with. */
export function cachePrefix(dataset: DatasetName): string {
  const product = variantTable(dataset.product, dataset.variant)
  return `${[dataset.tenant, dataset.domain, product].map(escapeKeyPart).join(':')}:`
}

/** Percent-encodes what could be taken for structure (`%`, `:`, control characters), so no part leaves its place. */
export function escapeKeyPart(text: string): string {
  return text.replace(/[%:\p{Cc}]/gu, percentEncode)
}

/** The bytes of its UTF-8, each as `%` and two digits. */
export function percentEncode(character: string): string {
  return [...Buffer.from(character)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('')
}
