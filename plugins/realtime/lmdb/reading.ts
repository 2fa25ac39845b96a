/** The read path: two look-ups, no waiting, and the text goes out as it lies there. */
import {
  checkReadPlan,
  type Host,
  notMaterialized,
  type ReadBatch,
  type ReadPlan,
  SluiceError,
  type Target,
} from '@sluice/sdk'
import { batchOf, checkKeyColumns, isAllowed } from '../keyed-values/answer.ts'
import type { RealtimeConfig } from '../keyed-values/endpoint.ts'
import { capabilities } from './config.ts'
import type { Environment } from './environment.ts'
import { physicalKey, prefixOf } from './keys.ts'
import { factsOf, type Marker } from './markers.ts'
import { type Version, visibleVersion } from './versions.ts'
import { markerOf } from './writing.ts'

export function read(environment: Environment, host: Host, target: Target<RealtimeConfig>, plan: ReadPlan): ReadBatch {
  const prefix = prefixOf(target)
  checkReadPlan(plan, capabilities)
  const marker = markerOf(environment, prefix)
  checkKeyColumns(factsOf(marker).template, plan)
  if (plan.signal.aborted) throw new SluiceError('TRANSIENT', 'the read was ended by its caller', { code: 'aborted' })
  if (plan.timeoutMs <= 0)
    throw new SluiceError('TRANSIENT', 'the read has no time left', { code: 'deadline_exceeded' })
  const { applied } = marker
  const { endsAtMs } = factsOf(marker)
  if (applied === null || endsAtMs === null) throw notMaterialized()
  const remainingMs = endsAtMs - host.clock.nowMs()
  const version = marker.policy === null || remainingMs <= 0 ? undefined : lookUp(environment, prefix, marker, plan)
  const found = version && isAllowed(marker.layouts, version, plan) ? version : undefined
  const ttlRemainingS = Math.max(0, Math.floor(remainingMs / 1000))
  return { ...batchOf(marker.layouts, found, plan), epoch: applied.epoch, ttlRemainingS }
}

function lookUp({ entries }: Environment, prefix: string, marker: Marker, plan: ReadPlan): Version | undefined {
  const key = physicalKey(prefix, plan.key ?? '')
  if (factsOf(marker).isKeyedByIdentity) {
    const record = entries.getBinaryFast(key)
    return record && visibleVersion(record, marker)
  }
  // Identities begin with `v`, so these two bounds hold all of them; the last one that counts is the answer.
  for (const { value } of entries.getRange({ start: [key, 'w'], end: [key, 'u'], reverse: true })) {
    const version = visibleVersion(value, marker)
    if (version && version.value !== null) return version
  }
  return undefined
}
