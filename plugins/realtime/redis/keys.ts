/**
 * Where things lie in Redis. A value's key is exactly `{tenant}:{domain}:{product}:{key_values}`. What the store keeps for
 * itself begins with `%` and a letter that is no hexadecimal digit, which no tenant's key does: in those every `%` is
 * followed by two digits.
 */
import { cachePrefix, escapeKeyPart, type Target, type TenantScope, tenantOf } from '@sluice/sdk'

/** The prefixes of all datasets, as a set. */
export const DATASETS_KEY = '%store:datasets'

/** How many evictions of each run of a server are known, as a hash. */
export const EVICTIONS_KEY = '%store:evictions'

/** `{tenant}:{domain}:{product}:`; every key of the dataset begins with it, and no other dataset's does. */
export function prefixOf({ scope, domain, product, variant }: Target): string {
  return cachePrefix({ tenant: tenantOf(scope), domain, product, variant })
}

/** What all prefixes of the tenant's datasets begin with. */
export function tenantPrefix(scope: TenantScope): string {
  return `${escapeKeyPart(tenantOf(scope))}:`
}

export function markerKey(prefix: string): string {
  return `%marker:${prefix}`
}

/** Under which key a row lies, where the row's identity does not tell. */
export function placeKey(prefix: string, identity: string): string {
  return `%place:${prefix}${identity}`
}

/** A glob that matches what begins with the text, and nothing else. */
export function beginningWith(text: string): string {
  return `${text.replace(/[*?[\]\\]/g, '\\$&')}*`
}
