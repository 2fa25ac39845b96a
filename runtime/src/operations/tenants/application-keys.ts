/** Keys of applications. See docs/decisions/0078-application-keys.md. */
import { SluiceError } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import type { KeyOperation, TenantCall } from '../../flow.ts'
import {
  type ApplicationKeyRecord,
  createApplicationKey,
  listApplicationKeys,
  removeApplicationKey,
  removeKeysOf,
} from '../../registry/application-keys.ts'
import { newKey } from '../../registry/key-tokens.ts'
import type { Page, PageRequest } from '../../registry/paging.ts'
import { audited } from '../audit.ts'
import type { Keep } from '../keep.ts'
import { requireDeveloper } from '../permissions.ts'
import { productOf } from '../products/products.ts'
import { subjectOf } from '../rights/grant-subject.ts'
import type { TenantsDeps } from './deps.ts'

export interface ApplicationKeyRequest {
  readonly name: string
  /** References; null: all that its maker may read. */
  readonly products: readonly string[] | null
  readonly operations: readonly KeyOperation[]
  readonly unmask: readonly string[]
  readonly expiresInDays: number
}

export interface MadeKey {
  readonly key: ApplicationKeyRecord
  /** The key itself. Null where it was shown before. */
  readonly token: string | null
}

const DAY_MS = 24 * 60 * 60 * 1000

/**
 * For developers of the tenant. What is kept for a repetition of the request does not have the key itself. Throws
 * PERMISSION `key_needs_member` to administrators, who are of no tenant, `product_not_found`, CONFLICT
 * `too_many_application_keys`.
 */
export async function makeApplicationKey(
  platform: TenantsDeps,
  call: TenantCall,
  request: ApplicationKeyRequest,
  keep: Keep<MadeKey>,
): Promise<MadeKey> {
  const { principal, tenant } = call
  requireDeveloper(principal)
  if (principal.tenant === null) throw needsMember()
  const products = request.products === null ? null : await idsOf(platform, call, request.products)
  const { id, token, secretHash } = newKey()
  const { name, operations, unmask } = request
  const expiresAt = new Date(Date.now() + request.expiresInDays * DAY_MS)
  return inTransaction(platform.pool, async (tx) => {
    const wanted = { id, tenant, name, secretHash, products, operations, unmask, expiresAt, maker: principal }
    const key = await createApplicationKey(tx, wanted)
    if (key === null) throw tooMany()
    const details = { name, products, operations, unmask, expires_at: expiresAt.toISOString() }
    await audited(tx, call, tenant, 'application_key.create', { type: 'application_key', id }, details)
    await keep(tx, { key, token: null })
    return { key, token }
  })
}

/** Of the whole tenant, newest first; for its developers. */
export function listKeys(
  platform: TenantsDeps,
  call: TenantCall,
  page: PageRequest,
): Promise<Page<ApplicationKeyRecord>> {
  requireDeveloper(call.principal)
  return listApplicationKeys(platform.pool, call.tenant, page)
}

/** By any developer of the tenant: a key that has leaked must not wait for whoever made it. */
export async function revokeKey(platform: TenantsDeps, call: TenantCall, id: string): Promise<void> {
  requireDeveloper(call.principal)
  await inTransaction(platform.pool, async (tx) => {
    const removed = await removeApplicationKey(tx, call.tenant, id)
    if (removed === null) throw noSuchKey()
    const details = { name: removed.name, made_by: removed.createdBy.subject }
    await audited(tx, call, call.tenant, 'application_key.revoke', { type: 'application_key', id }, details)
  })
}

/** All that one person made: for somebody who leaves. Returns their ids. */
export async function revokeKeysOf(
  platform: TenantsDeps,
  call: TenantCall,
  user: string,
  issuer: string | undefined,
): Promise<readonly string[]> {
  requireDeveloper(call.principal)
  const { issuer: identity } = subjectOf(platform, call, { subject: { user }, issuer })
  return inTransaction(platform.pool, async (tx) => {
    const ids = await removeKeysOf(tx, call.tenant, { issuer: identity as string, subject: user })
    for (const id of ids) {
      const object = { type: 'application_key', id }
      await audited(tx, call, call.tenant, 'application_key.revoke', object, { made_by: user })
    }
    return ids
  })
}

async function idsOf(
  platform: TenantsDeps,
  call: TenantCall,
  references: readonly string[],
): Promise<readonly string[]> {
  const ids = new Set<string>()
  for (const reference of references) ids.add((await productOf(platform, call, reference)).id)
  return [...ids]
}

function needsMember(): SluiceError {
  return new SluiceError('PERMISSION', 'a key has what its maker has in the tenant, and administrators are of none', {
    code: 'key_needs_member',
    remedy: 'Let a member of svc-developers of the tenant make it.',
  })
}

function tooMany(): SluiceError {
  return new SluiceError('CONFLICT', 'the tenant has as many application keys as it may', {
    code: 'too_many_application_keys',
    remedy: 'Revoke keys that are no longer used.',
  })
}

function noSuchKey(): SluiceError {
  return new SluiceError('INVALID_DATA', 'there is no such application key', {
    code: 'application_key_not_found',
    remedy: 'Check the id; it may be revoked.',
  })
}
