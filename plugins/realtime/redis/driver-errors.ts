/** What Redis and its client throw, as the contract's errors. Their text goes into `cause` and nowhere else. */
import { type ErrorKind, isSluiceError, SluiceError } from '@sluice/sdk'
import { fenced } from '../keyed-values/admission.ts'

interface Meaning {
  readonly kind: ErrorKind
  readonly code: string
  readonly message: string
  readonly remedy: string
}

const UNREACHABLE: Meaning = {
  kind: 'TRANSIENT',
  code: 'store_unavailable',
  message: 'the realtime store does not answer',
  remedy: 'Check that the Redis server runs and that its address in the settings is right; the call may be repeated.',
}

const FAILED: Meaning = {
  kind: 'TRANSIENT',
  code: 'store_failed',
  message: 'the realtime store could not do it',
  remedy: 'Look into the log of the Redis server; the call is repeated.',
}

const LOGIN: Meaning = {
  kind: 'CONFIG',
  code: 'login_refused',
  message: 'the realtime store refuses the login',
  remedy: 'Check username and password in the settings of the realtime store.',
}

/** By the first word of the server's error. */
const MEANINGS: Readonly<Record<string, Meaning>> = {
  OOM: {
    kind: 'TRANSIENT',
    code: 'store_exhausted',
    message: 'the realtime store is out of memory',
    remedy: 'Raise maxmemory of the Redis server, or keep fewer columns with include_columns.',
  },
  NOPERM: {
    kind: 'PERMISSION',
    code: 'store_permission',
    message: 'the realtime store’s login may not do this',
    remedy: 'Give the login the commands and keys that the documentation of the Redis driver names.',
  },
  NOAUTH: LOGIN,
  WRONGPASS: LOGIN,
  LOADING: UNREACHABLE,
  READONLY: UNREACHABLE,
  MASTERDOWN: UNREACHABLE,
  CLUSTERDOWN: UNREACHABLE,
  TRYAGAIN: UNREACHABLE,
  BUSY: UNREACHABLE,
  MISCONF: UNREACHABLE,
  WRONGTYPE: {
    kind: 'CONFLICT',
    code: 'name_taken',
    message: 'somebody else has put another kind of value where the realtime store keeps its own',
    remedy: 'Give the store a Redis database of its own.',
  },
}

/** The contract's error for whatever was thrown. */
export function storeError(error: unknown): SluiceError {
  if (isSluiceError(error)) return error
  const text = error instanceof Error ? error.message : ''
  if (text.startsWith('OVERTAKEN')) return fenced()
  const known = [...text.matchAll(/\b[A-Z]{3,}\b/g)].map(([word]) => MEANINGS[word]).find(Boolean)
  const isReply = error instanceof Error && error.name === 'ReplyError'
  const { kind, code, message, remedy } = known ?? (isReply ? FAILED : UNREACHABLE)
  return new SluiceError(kind, message, {
    code,
    remedy,
    cause: error,
    ...(kind === 'TRANSIENT' ? { retryAfterMs: 1000 } : {}),
  })
}
