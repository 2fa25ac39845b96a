/** What a client is told went wrong: a SQLSTATE, and the words and the code of the runtime. */

export interface WireErrorOptions {
  /** What to do about it. */
  readonly hint?: string
  /** The runtime's code. */
  readonly code?: string
  /** Whether the session ends with it. */
  readonly isFatal?: boolean
  /** Of a PostgreSQL, where clients know an error by it. */
  readonly routine?: string
}

export class WireError extends Error {
  readonly sqlState: string
  readonly hint: string | undefined
  readonly code: string | undefined
  readonly isFatal: boolean
  readonly routine: string | undefined

  constructor(sqlState: string, message: string, { hint, code, isFatal = false, routine }: WireErrorOptions = {}) {
    super(message)
    this.name = 'WireError'
    this.sqlState = sqlState
    this.hint = hint
    this.code = code
    this.isFatal = isFatal
    this.routine = routine
  }
}

/** The client and this server do not understand each other any more: the session ends. */
export function protocolViolation(what: string): WireError {
  return new WireError('08P01', what, { isFatal: true })
}

export function notSupported(what: string, hint?: string): WireError {
  return new WireError('0A000', what, hint === undefined ? {} : { hint })
}

export function readOnly(word: string): WireError {
  return new WireError('25006', `cannot execute ${word} here: products are read only`, {
    hint: 'Rows come from connections and from what is pushed; read them with SELECT.',
  })
}
