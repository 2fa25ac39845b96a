import { SluiceError } from '@sluice/sdk'

/** A product has endpoints of types that no configured store serves: their plugin was there when it was deployed. */
export function storeMissing(types: readonly string[]): SluiceError {
  return new SluiceError('CONFIG', `no store is configured for ${types.join(' and ')} endpoints`, {
    code: 'store_missing',
    remedy:
      'Let the operator name the plugin under plugins, and its driver under serving, and start again; or deploy a version without the endpoint.',
  })
}
