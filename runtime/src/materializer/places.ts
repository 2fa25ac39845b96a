/**
 * The two places that a store has for a copy. Rows that the place in service cannot take are written to the other one, while
 * reads go on by what is there, and come into service in one step. To the store they are two variants of the product: it needs
 * to know nothing of places.
 */
import type { ServingPlugin, ServingStore, Target, Variant } from '@sluice/sdk'
import type { Place } from '../registry/endpoint-states.ts'

/** No policy gives a variant that name: those are `clear`, `masked`, and `masked_` with eight hexadecimal digits. */
const SECOND = '_second'

export const PLACES: readonly Place[] = ['first', 'second']

export function otherPlace(place: Place): Place {
  return place === 'first' ? 'second' : 'first'
}

/** By what name the store knows the variant there. */
export function nameInStore(variant: Variant, place: Place): Variant {
  return place === 'first' ? variant : `${variant}${SECOND}`
}

/** False of stores that read the lake's own tables: those find them by the variant's name, and keep nothing to be put elsewhere. */
export function hasPlaces({ capabilities }: ServingPlugin): boolean {
  return capabilities.commit !== 'lake'
}

/** What is not there needs no writing. */
export async function dropIfThere(store: ServingStore, target: Target): Promise<void> {
  const { steps } = await store.drop(target, 'plan')
  if (steps.length > 0) await store.drop(target, 'apply')
}
