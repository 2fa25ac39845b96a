/**
 * Errors are part of the contract: one class, nine kinds. The runtime decides what to do by `kind` alone.
 *
 * | kind | means | the runtime |
 * |---|---|---|
 * | CONFIG | settings or an endpoint's config are wrong | refuses to start, or refuses the deploy |
 * | TRANSIENT | might work later: a lost connection, a full disk, a time-out | retries with back-off, then 503 |
 * | CONFLICT | what is there is not what the call assumed | computes the call anew |
 * | FENCED | a newer writer has taken over | stops this writer for good |
 * | UNSUPPORTED | the capability was not declared | 501 |
 * | INVALID_DATA | the rows or the request are at fault | 400, or a rejected row |
 * | PERMISSION | the scope, policy or login does not allow it | 403 |
 * | QUOTA | a limit of the tenant or of the store is reached | 409 or 429 |
 * | INTERNAL | a bug | 500 |
 */
export const ERROR_KINDS = [
  'CONFIG',
  'TRANSIENT',
  'CONFLICT',
  'FENCED',
  'UNSUPPORTED',
  'INVALID_DATA',
  'PERMISSION',
  'QUOTA',
  'INTERNAL',
] as const

export type ErrorKind = (typeof ERROR_KINDS)[number]

export interface SluiceErrorOptions {
  /** Stable machine-readable name, snake_case: `filter_not_indexed`. */
  readonly code: string
  /** What to do about it, as one sentence to the person who meets it. */
  readonly remedy?: string
  /** Shown to clients as it stands: never a secret, a row's value, SQL, a file path or another tenant's name. */
  readonly details?: Readonly<Record<string, unknown>>
  /** How long to wait before the same call makes sense again. */
  readonly retryAfterMs?: number
  /** The error underneath. For logs of the process only; it never leaves in an answer. */
  readonly cause?: unknown
}

/**
 * What every hook throws. `message` says what happened and where, in words that a client may read; whatever a driver
 * said goes into `cause`.
 */
export class SluiceError extends Error {
  override readonly name = 'SluiceError'
  readonly kind: ErrorKind
  readonly code: string
  readonly remedy: string | undefined
  readonly details: Readonly<Record<string, unknown>> | undefined
  readonly retryAfterMs: number | undefined

  constructor(kind: ErrorKind, message: string, options: SluiceErrorOptions) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.kind = kind
    this.code = options.code
    this.remedy = options.remedy
    this.details = options.details
    this.retryAfterMs = options.retryAfterMs
  }
}

/**
 * True for a SluiceError of any copy of the SDK (a plugin may bring its own), and of that kind where one is given.
 */
export function isSluiceError(error: unknown, kind?: ErrorKind): error is SluiceError {
  return (
    error instanceof Error &&
    error.name === 'SluiceError' &&
    (kind === undefined || (error as SluiceError).kind === kind)
  )
}

/** The error of a call whose capability the plugin has not declared. */
export function unsupported(capability: string): SluiceError {
  return new SluiceError('UNSUPPORTED', `this store does not support ${capability}`, {
    code: 'unsupported',
    details: { capability },
  })
}
