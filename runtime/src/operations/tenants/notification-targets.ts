/** Where a tenant's people want to be told of incidents. See docs/decisions/0127-notifications.md. */
import { randomBytes } from 'node:crypto'
import { SluiceError } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import { placeOf } from '../../events/post-json.ts'
import type { TenantCall } from '../../flow.ts'
import { forgetJob } from '../../jobs/claims.ts'
import { isActor } from '../../registry/actor.ts'
import { NOTIFICATIONS_JOB } from '../../registry/incidents.ts'
import {
  createTarget,
  findTarget,
  listTargets,
  type NotificationTarget,
  removeTarget,
  type TargetKind,
} from '../../registry/notification-targets.ts'
import type { Page, PageRequest } from '../../registry/paging.ts'
import { audited } from '../audit.ts'
import type { Keep } from '../keep.ts'
import { notFound } from '../not-found.ts'
import { requireDeveloper } from '../permissions.ts'
import type { TenantsDeps } from './deps.ts'

export interface TargetRequest {
  readonly kind: TargetKind
  readonly name: string
  readonly url: string
}

export interface MadeTarget {
  readonly target: NotificationTarget
  /** Of a webhook: what bodies are signed with. Null where there is none, or it was shown before. */
  readonly signingKey: string | null
}

/** Throws PERMISSION `address_refused`, INVALID_DATA `invalid_notification_target`, CONFLICT `too_many_notification_targets`. */
export async function makeTarget(
  platform: TenantsDeps,
  call: TenantCall,
  { kind, name, url }: TargetRequest,
  keep: Keep<MadeTarget>,
): Promise<MadeTarget> {
  requireDeveloper(call.principal)
  const { host } = await placeOf(url, platform.connectorHost.network, call.signal)
  const signingKey = kind === 'webhook' ? `whsec_${randomBytes(32).toString('base64')}` : null
  return inTransaction(platform.pool, async (tx) => {
    const wanted = { tenant: call.tenant, kind, name, host, secret: { url, signingKey }, maker: call.principal }
    const target = await createTarget(tx, platform.masters, wanted)
    if (target === null) {
      throw new SluiceError('CONFLICT', 'the tenant has as many targets of notifications as it may', {
        code: 'too_many_notification_targets',
        remedy: 'Remove targets that nobody listens at any more.',
      })
    }
    const about = { type: 'notification_target', id: target.id }
    await audited(tx, call, call.tenant, 'notification_target.create', about, { kind, name, host })
    await keep(tx, { target, signingKey: null })
    return { target, signingKey }
  })
}

export function targetsOf(
  platform: TenantsDeps,
  call: TenantCall,
  page: PageRequest,
): Promise<Page<NotificationTarget>> {
  requireDeveloper(call.principal)
  return listTargets(platform.pool, call.tenant, page)
}

/** For its maker and administrators. Throws PERMISSION `notification_owner_required`. */
export async function dropTarget(platform: TenantsDeps, call: TenantCall, id: string): Promise<void> {
  requireDeveloper(call.principal)
  const target = await findTarget(platform.pool, call.tenant, id)
  if (target === null) throw notFound('notification_target')
  if (!call.principal.isAdmin && !isActor(call.principal, target.createdBy)) {
    throw new SluiceError('PERMISSION', 'only its maker removes a target of notifications', {
      code: 'notification_owner_required',
      remedy: 'Ask whoever made it, or an administrator.',
    })
  }
  await inTransaction(platform.pool, async (tx) => {
    await removeTarget(tx, id)
    await forgetJob(tx, { kind: NOTIFICATIONS_JOB, key: id })
    await audited(tx, call, call.tenant, 'notification_target.delete', { type: 'notification_target', id })
  })
}
