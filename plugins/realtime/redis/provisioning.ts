import { isDeepStrictEqual } from 'node:util'
import type { Target } from '@sluice/sdk'
import type { RealtimeConfig } from '../keyed-values/endpoint.ts'
import { isRekeyed, layoutOf, provisionSteps } from '../keyed-values/shape.ts'
import type { Connections } from './connections.ts'
import { prefixOf } from './keys.ts'
import { emptyMarker, forgotten, type Marker, type Markers } from './markers.ts'

export async function applyProvision(
  connections: Connections,
  markers: Markers,
  target: Target<RealtimeConfig>,
): Promise<void> {
  const prefix = prefixOf(target)
  const nowMs = await serverTimeMs(connections)
  // First the list: what is not on it is not found again when the tenant is removed.
  await markers.enlist(prefix)
  await markers.update(prefix, (marker) => {
    if (marker === undefined || marker.isDropped) {
      return emptyMarker(target.schema, target.config, Math.max(nowMs, marker?.nextWrite ?? 0))
    }
    return provisionSteps(marker, target).length === 0 ? marker : grown(marker, target)
  })
}

function grown(current: Marker, target: Target<RealtimeConfig>): Marker {
  const { schema, config } = target
  const layout = layoutOf(schema, config)
  const isKnown = current.layouts.some((known) => isDeepStrictEqual(known, layout))
  const next = { ...current, schema, config, layouts: isKnown ? current.layouts : [...current.layouts, layout] }
  return isRekeyed(current, target) || current.isExpired ? forgotten(next) : next
}

/**
 * Where a dataset's numbers begin: no earlier dataset of the name can have got so far, since its own began at an earlier
 * time and no write takes less than a millisecond.
 */
async function serverTimeMs({ servers }: Connections): Promise<number> {
  const [server] = servers()
  const [seconds = 0, microseconds = 0] = (await server?.time()) ?? []
  return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000)
}
