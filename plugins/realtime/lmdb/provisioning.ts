import { isDeepStrictEqual } from 'node:util'
import { type Target, tenantOf } from '@sluice/sdk'
import type { RealtimeConfig } from '../keyed-values/endpoint.ts'
import { isRekeyed, layoutOf, provisionSteps } from '../keyed-values/shape.ts'
import type { Environment } from './environment.ts'
import { prefixOf } from './keys.ts'
import { emptyMarker, type Marker } from './markers.ts'

export async function applyProvision(environment: Environment, target: Target<RealtimeConfig>): Promise<void> {
  const prefix = prefixOf(target)
  const { schema, config } = target
  const marker = environment.markers.get(prefix)
  if (!marker) return environment.markers.create(prefix, emptyMarker(tenantOf(target.scope), schema, config))
  if (provisionSteps(marker, target).length === 0) return
  await environment.markers.update(prefix, (current) => {
    const layout = layoutOf(schema, config)
    const isKnown = current.layouts.some((known) => isDeepStrictEqual(known, layout))
    const grown = { ...current, schema, config, layouts: isKnown ? current.layouts : [...current.layouts, layout] }
    return isRekeyed(current, target) || current.isExpired ? forgotten(grown) : grown
  })
}

/** As if nothing had been written, but for the token: no former value counts, and the same epoch may come again. */
function forgotten(marker: Marker): Marker {
  return { ...marker, applied: null, floor: marker.nextWrite, isExpired: false, hasGarbage: true }
}
