/** What S3 servers answer, in words that say what to do. What they wrote themselves stays in the cause. */
import { type CheckStep, isSluiceError, SluiceError } from '@sluice/sdk'

const codeOf = (error: unknown): string => String((error as { readonly code?: unknown } | null)?.code ?? '')

export function isMissing(error: unknown): boolean {
  return ['NoSuchKey', 'NotFound'].includes(codeOf(error))
}

const OF_THE_KEY = [
  'InvalidAccessKeyId',
  'SignatureDoesNotMatch',
  'ExpiredToken',
  'InvalidToken',
  'RequestTimeTooSkewed',
  'AuthorizationHeaderMalformed',
]

export function bucketFailure(error: unknown): SluiceError {
  if (isSluiceError(error)) return error
  const code = codeOf(error)
  if (OF_THE_KEY.includes(code)) {
    return new SluiceError('PERMISSION', 'the server does not accept the access key', {
      code: 'source_login_refused',
      remedy: 'Correct access_key, secret_key and region; the clocks of both machines must agree, too.',
      cause: error,
    })
  }
  if (code === 'AccessDenied') {
    return new SluiceError('PERMISSION', 'the access key may not do that in the bucket', {
      code: 'source_permission_denied',
      remedy: 'Let it list the bucket and read its objects (s3:ListBucket, s3:GetObject).',
      cause: error,
    })
  }
  if (code === 'NoSuchBucket' || code === 'PermanentRedirect') {
    return new SluiceError('INVALID_DATA', 'the bucket is not there', {
      code: 'source_folder_not_found',
      remedy: 'Correct bucket, endpoint and region.',
      cause: error,
    })
  }
  return new SluiceError('TRANSIENT', 'the server of the bucket does not answer as it should', {
    code: 'source_unreachable',
    remedy: 'Check endpoint, and that the server is up; it is tried again.',
    cause: error,
  })
}

/** At which step of a check that stops. */
export function stepOf(error: unknown): CheckStep['name'] {
  return ['AccessDenied', 'NoSuchBucket', 'PermanentRedirect'].includes(codeOf(error)) ? 'privileges' : 'auth'
}
