import { SluiceError } from '@sluice/sdk'

/** Of what a request for a training set says, and no schema can. */
export function invalidSet(message: string, remedy: string): SluiceError {
  return new SluiceError('INVALID_DATA', message, { code: 'training_set_invalid', remedy })
}
