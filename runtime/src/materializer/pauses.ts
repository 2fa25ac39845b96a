/** Why a product is not made anew, in words. */
import { SluiceError } from '@sluice/sdk'
import type { Pause } from '../registry/products.ts'

export const SETTLE =
  'Say which one is right: POST /api/v1/products/{id}/resume?right=lake (or registry), or sluice product resume --right.'

/** What a paused product answers to whoever would make it anew. */
export function productPaused(pause: Pause): SluiceError {
  return new SluiceError('CONFLICT', pauseText(pause), {
    code: 'product_paused',
    remedy:
      pause.reason === 'registry_outdated'
        ? SETTLE
        : 'Resume the product with POST /api/v1/products/{id}/resume or sluice product resume, or deploy a version.',
  })
}

/** In words, for plans, runs and answers. */
export function pauseText({ reason, version, since }: Pause): string {
  if (reason === 'registry_outdated') {
    return `the lake has an epoch of version ${version} of ${since} that the registry does not know`
  }
  return `materialization is paused since the rollback to version ${version} at ${since}`
}
