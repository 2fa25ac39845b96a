import { SluiceError } from '@sluice/sdk'

/** A product has endpoints of types that no configured store serves: their plugin was there when it was deployed. */
export function storeMissing(types: readonly string[]): SluiceError {
  return new SluiceError('CONFIG', `no store is configured for ${types.join(' and ')} endpoints`, {
    code: 'store_missing',
    remedy:
      'Let the operator name the plugin under plugins, and its driver under serving, and start again; or deploy a version without the endpoint.',
  })
}

/** Rows lie in stores of those types that cannot be dropped now, and would never be. */
export function copiesUnreachable(types: readonly string[]): SluiceError {
  const names = types.join(' and ')
  return new SluiceError('CONFIG', `rows in the ${names} store would stay there for ever: its plugin is not loaded`, {
    code: 'store_missing',
    remedy: `Let the operator name the plugin under plugins, and its driver under serving, start again, and delete then. If the store is gone, or its rows may stay, an administrator sends abandon=${types.join(',')}.`,
  })
}
