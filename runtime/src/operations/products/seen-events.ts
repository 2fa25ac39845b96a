/** Events as the caller may know them now: what they count was written by the classes of their time. */

import type { CloudEvent } from '../../events/envelope.ts'
import type { TenantCall } from '../../flow.ts'
import { findEpoch } from '../../registry/materializations.ts'
import type { ProductsDeps } from './deps.ts'
import { type KeptQuality, seesCheck, seesEverything, shownQuality, sightOf } from './visible-quality.ts'

const OF_CHECKS: ReadonlySet<string> = new Set(['sluice.materialization.committed', 'sluice.quality.checked'])

/** Of a product that the caller may read: without what came of checks whose columns he may not see. */
export async function seenEvent(platform: ProductsDeps, call: TenantCall, event: CloudEvent): Promise<CloudEvent> {
  const { type, subject, data } = event
  const { epoch } = data
  if (call.principal.isAdmin || subject === undefined || !OF_CHECKS.has(type) || typeof epoch !== 'number') return event
  const sight = await sightOf(platform, call, subject)
  if (seesEverything(sight)) return event
  const made = await findEpoch(platform.pool, subject, epoch)
  const checks = (made?.quality as KeptQuality | null | undefined)?.checks ?? []
  if (made !== null && checks.every((check) => seesCheck(sight, check))) return event
  const shown = made && shownQuality(sight, made)
  const told = { score: shown?.qualityScore ?? null, quarantined: shown?.counts['quarantined'] }
  const own = Object.entries(told).filter(([name]) => name in data)
  return { ...event, data: { ...data, ...Object.fromEntries(own) } }
}
