/** The read path: marker and value in one round trip. */
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
import type { Connections } from './connections.ts'
import { markerKey, prefixOf } from './keys.ts'
import { factsOf, type Marker, type Markers } from './markers.ts'
import { hasNewer, type Version, visibleVersion } from './records.ts'

/** So often may an epoch be committed between the two halves of one read on a cluster. */
const MAX_LOOKS = 5

export interface ReadParts {
  readonly connections: Connections
  readonly markers: Markers
  readonly host: Host
}

export async function read(parts: ReadParts, target: Target<RealtimeConfig>, plan: ReadPlan): Promise<ReadBatch> {
  const prefix = prefixOf(target)
  checkReadPlan(plan, capabilities)
  if (plan.signal.aborted) throw new SluiceError('TRANSIENT', 'the read was ended by its caller', { code: 'aborted' })
  if (plan.timeoutMs <= 0)
    throw new SluiceError('TRANSIENT', 'the read has no time left', { code: 'deadline_exceeded' })
  const { marker, version } = await look(parts, prefix, plan.key ?? '')
  const { applied } = marker
  const { endsAtMs, template } = factsOf(marker)
  checkKeyColumns(template, plan)
  if (applied === null || endsAtMs === null) throw notMaterialized()
  const remainingMs = endsAtMs - parts.host.clock.nowMs()
  const isThere = version !== undefined && marker.policy !== null && remainingMs > 0
  const found = isThere && isAllowed(marker.layouts, version, plan) ? version : undefined
  const ttlRemainingS = Math.max(0, Math.floor(remainingMs / 1000))
  return { ...batchOf(marker.layouts, found, plan), epoch: applied.epoch, ttlRemainingS }
}

interface Sight {
  readonly marker: Marker
  readonly version: Version | undefined
}

/** One command for both where they are on one server, and so of one instant. */
async function look({ connections, markers }: ReadParts, prefix: string, rendered: string): Promise<Sight> {
  const keys = [markerKey(prefix), prefix + rendered] as const
  const { reads, isCluster } = connections
  if (!isCluster) return sightOf(markers, prefix, await reads.mgetBuffer(...keys))
  let before = await reads.getBuffer(keys[0])
  for (let attempt = 0; attempt < MAX_LOOKS; attempt += 1) {
    const value = await reads.getBuffer(keys[1])
    const sight = sightOf(markers, prefix, [before, value])
    // Writers leave what counted when they began, so only under a newer write may something have been taken away.
    if (sight.version !== undefined && value !== null && !hasNewer(value, sight.marker)) return sight
    const after = await reads.getBuffer(keys[0])
    if (after !== null && before?.equals(after)) return sight
    before = after
  }
  throw new SluiceError('TRANSIENT', 'epochs are committed faster than one can be read', {
    code: 'epoch_moved',
    remedy: 'Ask again.',
  })
}

function sightOf(markers: Markers, prefix: string, [bytes, record]: readonly (Buffer | null | undefined)[]): Sight {
  const marker = bytes ? markers.parse(prefix, bytes) : undefined
  if (marker === undefined || marker.isDropped) throw notMaterialized()
  return { marker, version: record ? visibleVersion(record, marker) : undefined }
}
