/** Takes away what counts no more: replaced values, writes that came to nothing, expired and dropped datasets. */
import type { Host } from '@sluice/sdk'
import { type Connections, keysBeginningWith, runForKeys } from './connections.ts'
import { placeKey } from './keys.ts'
import { factsOf, type Marker, type Markers } from './markers.ts'
import type { Visibility } from './records.ts'
import { COMPACT } from './scripts.ts'

export const SWEEP_EVERY_MS = 60_000

/** A dataset is looked through no more often than this: it takes a look at every key of the server. */
const SWEEP_DATASET_EVERY_MS = 600_000

export interface SweepParts {
  readonly connections: Connections
  readonly markers: Markers
  readonly host: Host
  readonly checkOpen: () => void
}

/** One round over all datasets. Any number of processes may do it at any time, beside writers and readers. */
export async function sweep(parts: SweepParts): Promise<void> {
  for (const prefix of await parts.markers.prefixes()) {
    parts.checkOpen()
    const marker = await parts.markers.stored(prefix)
    if (marker === undefined) await parts.markers.delist(prefix)
    else if (marker.isDropped) await finishDrop(parts, prefix, marker)
    else await sweepDataset(parts, prefix, marker)
  }
}

async function sweepDataset(parts: SweepParts, prefix: string, seen: Marker): Promise<void> {
  const nowMs = parts.host.clock.nowMs()
  if (!isDue(seen, nowMs)) return
  let taken: Marker | undefined
  await parts.markers.update(prefix, (marker) => {
    taken = undefined
    if (marker === undefined || marker.isDropped || !isDue(marker, nowMs)) return marker
    // From here on no value of an expired dataset counts, and the next write must bring all of them.
    const expired = hasExpired(marker, nowMs) ? { floor: marker.nextWrite, isExpired: true } : {}
    taken = { ...marker, ...expired, hasGarbage: false, sweptAtMs: nowMs }
    return taken
  })
  if (taken !== undefined) await compact(parts, prefix, taken)
}

function isDue(marker: Marker, nowMs: number): boolean {
  return hasExpired(marker, nowMs) || (marker.hasGarbage && nowMs - marker.sweptAtMs >= SWEEP_DATASET_EVERY_MS)
}

function hasExpired(marker: Marker, nowMs: number): boolean {
  return !marker.isExpired && (factsOf(marker).endsAtMs ?? Number.POSITIVE_INFINITY) <= nowMs
}

/** Removes the values, then the marker; where it was interrupted the next call or sweep goes on. */
export async function finishDrop(parts: SweepParts, prefix: string, dropped: Marker): Promise<void> {
  const { nextWrite } = dropped
  // A dataset of the same name that is made meanwhile begins above this number, so its values stay.
  await compact(parts, prefix, { committed: nextWrite - 1, floor: nextWrite, aborted: [] })
  await parts.markers.update(prefix, (marker) => (marker?.isDropped ? undefined : marker))
  await parts.markers.delist(prefix)
}

async function compact(parts: SweepParts, prefix: string, { committed, floor, aborted }: Visibility): Promise<void> {
  const { connections, checkOpen } = parts
  for (const text of [prefix, placeKey(prefix, '')]) {
    for await (const keys of keysBeginningWith(connections, text)) {
      checkOpen()
      await runForKeys(connections, COMPACT, keys, [committed, floor, aborted.join(',')])
    }
  }
}
