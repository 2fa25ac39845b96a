/**
 * Delivers notifications: each target is a job, which tells what waits for it in its order. What cannot be delivered is
 * tried ever more seldom, for a day. See docs/decisions/0127-notifications.md.
 */
import { isSluiceError, type NetworkPolicy } from '@sluice/sdk'
import type pg from 'pg'
import type { NextDue } from '../jobs/claims.ts'
import type { JobKind } from '../jobs/worker.ts'
import {
  EXPECTATION_FAILED,
  INPUT_UNEXPECTED,
  NOTIFICATIONS_JOB,
  type Notification,
  nextNotification,
  noteDone,
  STALE,
  WEBHOOK_FAILED,
} from '../registry/incidents.ts'
import type { MasterKeys } from '../registry/master-keys.ts'
import {
  findTarget,
  type NotificationTarget,
  noteTry,
  readTargetSecret,
  type TargetSecret,
} from '../registry/notification-targets.ts'
import { type Post, postJson } from './post-json.ts'
import { signatureHeaders } from './webhook-signature.ts'

const BACK_OFF = { firstMs: 10_000, lastMs: 3_600_000 } as const
/** Of one target; then others have their turn. */
const AT_ONCE = 20

export interface NotifyDeps {
  readonly pool: pg.Pool
  readonly masters: MasterKeys
  readonly network: NetworkPolicy
}

export function notifications(deps: NotifyDeps): JobKind {
  return {
    kind: NOTIFICATIONS_JOB,
    failed: 'a notification could not be delivered; it is tried again',
    backOff: BACK_OFF,
    work: ({ key, tenant }, signal) => deliver(deps, tenant ?? '', key, signal),
  }
}

/** Repeatable: a receiver knows by the id what it was told before. */
export async function deliver(
  { pool, masters, network }: NotifyDeps,
  tenant: string,
  targetId: string,
  signal: AbortSignal,
): Promise<NextDue> {
  const target = await findTarget(pool, tenant, targetId)
  const secret = target && (await readTargetSecret(pool, masters, targetId))
  if (target === null || secret === null) return null
  for (let told = 0; told < AT_ONCE; told += 1) {
    signal.throwIfAborted()
    const next = await nextNotification(pool, targetId)
    if (next === null) return null
    if (!next.isTooLate) {
      await postJson(postOf(target, secret, next, Math.floor(Date.now() / 1000)), network, signal).catch(
        async (error: unknown) => {
          if (isSluiceError(error)) await noteTry(pool, targetId, error.code)
          throw error
        },
      )
      await noteTry(pool, targetId, null)
    }
    await noteDone(pool, next)
  }
  return { from: 'end', ms: 0 }
}

export function postOf(
  { kind }: Pick<NotificationTarget, 'kind'>,
  { url, signingKey }: TargetSecret,
  notification: Notification,
  atS: number,
): Post {
  if (kind === 'slack') return { url, body: JSON.stringify({ text: textOf(notification) }), headers: {} }
  const body = JSON.stringify(messageOf(notification))
  const id = `${notification.incidentId}.${notification.what}`
  return { url, body, headers: signatureHeaders({ id, atS, body }, signingKey ?? '') }
}

function messageOf(notification: Notification) {
  const { incidentId, what, tenant, kind, subjectId, subjectName, cause, times, runId, openedAt, closedAt } =
    notification
  return {
    type: `sluice.incident.${what}`,
    incident_id: incidentId,
    tenant_id: tenant,
    subject: { kind, id: subjectId, name: subjectName },
    cause,
    times,
    run_id: runId,
    opened_at: openedAt.toISOString(),
    closed_at: closedAt?.toISOString() ?? null,
    message: textOf(notification),
  }
}

/** Names and codes: what a run says in words may speak of rows. */
function textOf({ what, tenant, kind, subjectName, cause, times, openedAt }: Notification): string {
  const of = `${kind === 'product' ? 'The product' : 'The connection'} ${subjectName} of ${tenant}`
  const since = openedAt.toISOString()
  if (cause === STALE) {
    return what === 'opened'
      ? `${of} has rows that are older than its slo.freshness.`
      : `${of} is as fresh again as its slo.freshness wants, after a miss since ${since}.`
  }
  if (cause === WEBHOOK_FAILED) {
    return what === 'opened'
      ? `${of} has a webhook whose receiver does not take its changes: they wait to be delivered again.`
      : `${of} has no webhook any more whose changes wait to be delivered again, since ${since}.`
  }
  if (cause === EXPECTATION_FAILED) {
    return what === 'opened'
      ? `${of} has rows that a product made of it does not expect: sluice quality says which.`
      : `${of} has just the rows again that products made of it expect, since ${since} it had not.`
  }
  if (cause === INPUT_UNEXPECTED) {
    return what === 'opened'
      ? `${of} is made of a product whose rows are not what it expects: sluice quality says which.`
      : `${of} is made of rows again that are what it expects, since ${since} they were not.`
  }
  if (what === 'opened') return `${of} fails: ${cause}.`
  return `${of} does not fail any more: ${cause}, since ${since}, ${times} ${times === 1 ? 'time' : 'times'}.`
}
