/** Service passwords of tools that speak to PostgreSQL. See docs/decisions/0208-service-passwords.md. */
import { SluiceError } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import type { Level, Principal, TenantCall } from '../../flow.ts'
import { stricter } from '../../policy/classification.ts'
import { actorOf } from '../../registry/actor.ts'
import { newId } from '../../registry/ids.ts'
import type { Page, PageRequest } from '../../registry/paging.ts'
import { newPassword, verifierOf } from '../../registry/scram-verifiers.ts'
import {
  createServicePassword,
  listServicePasswords,
  MOST_OF_A_TENANT,
  removeServicePassword,
  type ServicePasswordRecord,
} from '../../registry/service-passwords.ts'
import { audited } from '../audit.ts'
import type { Keep } from '../keep.ts'
import { notFound } from '../not-found.ts'
import { requireAdmin, requireDeveloper } from '../permissions.ts'
import type { TenantsDeps } from './deps.ts'

export interface ServicePasswordRequest {
  readonly name: string
  /** Without a leading slash. */
  readonly group: string
  /** Null: what the maker's token claims, if it claims any. */
  readonly clearance: Level | null
  /** Null: until it is deleted. */
  readonly expiresInDays: number | null
}

export interface MadePassword {
  readonly record: ServicePasswordRecord
  /** The password itself. Null where it was shown before. */
  readonly password: string | null
}

const DAY_MS = 24 * 60 * 60 * 1000

/**
 * For administrators: whoever binds a password to a group gives away what that group may read. What is kept for a repetition
 * of the request does not have the password. Throws PERMISSION `clearance_too_wide`, CONFLICT `too_many_service_passwords`.
 */
export async function makeServicePassword(
  platform: TenantsDeps,
  call: TenantCall,
  request: ServicePasswordRequest,
  keep: Keep<MadePassword>,
): Promise<MadePassword> {
  const { principal, tenant } = call
  requireAdmin(principal)
  const { name, group, expiresInDays } = request
  const clearance = clearanceWithin(principal, request.clearance)
  const expiresAt = expiresInDays === null ? null : new Date(Date.now() + expiresInDays * DAY_MS)
  const [id, password] = [newId('svp'), newPassword()]
  const verifier = await verifierOf(password)
  return inTransaction(platform.pool, async (tx) => {
    const wanted = { id, tenant, name, group, clearance, verifier, expiresAt, createdBy: actorOf(principal) }
    const record = await createServicePassword(tx, wanted)
    if (record === null) throw tooMany()
    const details = { name, group, clearance, expires_at: expiresAt?.toISOString() ?? null }
    await audited(tx, call, tenant, 'service_password.create', { type: 'service_password', id }, details)
    await keep(tx, { record, password: null })
    return { record, password }
  })
}

/** Of the whole tenant, newest first; for its developers. */
export function listPasswords(
  platform: TenantsDeps,
  call: TenantCall,
  page: PageRequest,
): Promise<Page<ServicePasswordRecord>> {
  requireDeveloper(call.principal)
  return listServicePasswords(platform.pool, call.tenant, page)
}

/** By any developer of the tenant: a password that has leaked must not wait for an administrator. */
export async function deletePassword(platform: TenantsDeps, call: TenantCall, id: string): Promise<void> {
  requireDeveloper(call.principal)
  await inTransaction(platform.pool, async (tx) => {
    const removed = await removeServicePassword(tx, call.tenant, id)
    if (removed === null) throw notFound('service_password')
    const details = { name: removed.name, group: removed.group, made_by: removed.createdBy.subject }
    await audited(tx, call, call.tenant, 'service_password.delete', { type: 'service_password', id }, details)
  })
}

/** A token that asked for less than its bearer has makes passwords that have no more. */
function clearanceWithin({ claimedClearance: most }: Principal, wanted: Level | null): Level | null {
  if (most === null || wanted === null) return wanted ?? most
  if (stricter(most, wanted) === most) return wanted
  throw new SluiceError('PERMISSION', `the clearance ${wanted} is wider than your own, ${most}`, {
    code: 'clearance_too_wide',
    remedy: `Ask for ${most} or less, or use a token that does not claim less.`,
  })
}

function tooMany(): SluiceError {
  return new SluiceError('CONFLICT', `the tenant has as many service passwords as it may: ${MOST_OF_A_TENANT}`, {
    code: 'too_many_service_passwords',
    remedy: 'Delete service passwords that are no longer used.',
  })
}
