/** What may go wrong with any server, in our own words, and what stays of an error of somebody else's. */
import { type ErrorKind, isSluiceError, SluiceError } from '@sluice/sdk'
import { OutOfTime } from './deadline.ts'
import { TlsFailure } from './line.ts'

export interface Meaning {
  readonly kind: ErrorKind
  readonly code: string
  /** Follows "<where>: ". */
  readonly what: string
  readonly remedy: string
}

/** The server asked for the password in a form that this line must not carry. */
export class PasswordWithheld extends Error {
  override readonly name = 'PasswordWithheld'
  readonly reason: 'unprotected' | 'none_given'

  constructor(reason: PasswordWithheld['reason']) {
    super(`password withheld: ${reason}`)
    this.reason = reason
  }
}

export const UNREACHABLE = {
  kind: 'TRANSIENT',
  code: 'source_unreachable',
  what: 'the server cannot be reached',
  remedy: 'Check host and port, that the server listens there, and the firewalls between.',
} as const satisfies Meaning

export const LOST = {
  kind: 'TRANSIENT',
  code: 'source_lost',
  what: 'the server closed the connection in the middle of the work',
  remedy: 'Try again; if it keeps happening, look into the log of the source server and of proxies before it.',
} as const satisfies Meaning

export const TIMED_OUT = {
  kind: 'TRANSIENT',
  code: 'source_timeout',
  what: 'the server did not answer in time',
  remedy: 'Try again when the source is less busy, or raise connect_timeout_s or statement_timeout_s.',
} as const satisfies Meaning

export const CHANGED = {
  kind: 'TRANSIENT',
  code: 'source_changed',
  what: 'the table was altered while it was about to be read',
  remedy: 'Try again: the next read sees the new columns.',
} as const satisfies Meaning

export const BUSY = {
  kind: 'TRANSIENT',
  code: 'source_busy',
  what: 'the server takes no more connections, or is starting or stopping',
  remedy: 'Try again later; raise max_connections at the source, or keep connections for this login.',
} as const satisfies Meaning

export const DEFECT = {
  kind: 'INTERNAL',
  code: 'connector_defect',
  what: 'the connector itself failed',
  remedy: 'Report it with the log of this process.',
} as const satisfies Meaning

const TLS: Readonly<Record<TlsFailure['reason'], Pick<Meaning, 'what' | 'remedy'>>> = {
  refused: {
    what: 'the server does not take encrypted connections',
    remedy: 'Turn TLS on at the server, or, if the network in between is trusted, set ssl_mode to disable or prefer.',
  },
  untrusted: {
    what: "the server's certificate is not signed by a trusted authority",
    remedy: "Give the authority's certificate as ssl_root_cert.",
  },
  wrong_name: {
    what: "the server's certificate is made out to another name",
    remedy: 'Use the host name that stands in the certificate, or ssl_mode verify-ca with ssl_root_cert.',
  },
  expired: {
    what: "the server's certificate is not valid at this time",
    remedy: 'Renew the certificate at the server, and check the clocks.',
  },
  handshake: {
    what: 'the TLS handshake failed',
    remedy: 'Check that a server of this kind answers at this port and that it takes TLS 1.2 or newer.',
  },
}

/** What a fault point threw: no failure of the source, so it passes on as it is. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted'
}

/** What the line itself says, by the words of the system; null where it was something else. */
export function lineMeaning(error: unknown): Meaning | null {
  if (error instanceof OutOfTime) return TIMED_OUT
  if (error instanceof TlsFailure) return { kind: 'CONFIG', code: `source_tls_${error.reason}`, ...TLS[error.reason] }
  const { code } = (error ?? {}) as { code?: unknown }
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return { ...UNREACHABLE, what: 'the host name cannot be resolved' }
  if (code === 'ECONNREFUSED') return { ...UNREACHABLE, what: 'nothing listens at this host and port' }
  if (code === 'EHOSTUNREACH' || code === 'ENETUNREACH' || code === 'ETIMEDOUT') return UNREACHABLE
  return null
}

export function aborted(reason: unknown): SluiceError {
  if (isSluiceError(reason)) return reason
  return new SluiceError('TRANSIENT', 'the read of the source was stopped', {
    code: 'aborted',
    remedy: 'Nothing is wrong with the source: start it again.',
    cause: bare(reason),
  })
}

/** Keeps the class and the code of an error, not its text: a logged cause must hold no values. */
export function bare(error: unknown): Error {
  const { name, code } = (error ?? {}) as { name?: unknown; code?: unknown }
  return new Error(`${typeof name === 'string' ? name : 'error'}${typeof code === 'string' ? ` ${code}` : ''}`)
}

export function connectorClosed(): SluiceError {
  return new SluiceError('TRANSIENT', 'the connector was closed', {
    code: 'connector_closed',
    remedy: 'Open the connection again.',
  })
}

export function momentLost(cause: unknown): SluiceError {
  return new SluiceError('CONFLICT', 'the source does not show this table as it was when the first of them was read', {
    code: 'source_moment_lost',
    remedy: 'Read the tables again; each may be read as of its own moment.',
    cause,
  })
}
