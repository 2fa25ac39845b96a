import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { SluiceError } from '@sluice/sdk'
import type { Context } from 'koa'
import type { Call, IdempotencyClaim, Principal } from '../flow.ts'
import type { Cors } from './cors.ts'
import type { Timed } from './deadlines.ts'
import { refuse } from './problem.ts'

const REQUEST_ID = /^[\w.~:/+=@-]{1,128}$/
/** Of version 00, which ends after its flags, or of a later one, which may have more behind them. */
const TRACEPARENT =
  /^(?:00(?=.{53}$)|(?!00|ff)[0-9a-f]{2})-((?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16})-([0-9a-f]{2})(?=-|$)/
/** A handler that does not heed its signal gets this long before the client is answered without it. */
const GRACE_MS = 2_000
/** Until a client reads on; then the connection is given up. */
const WRITE_IDLE_MS = 30_000
/**
 * So many times as long for what holds nothing but its bytes. The kernel keeps megabytes of a connection, and says that it has
 * room again when a third of them is read: of who reads 40 KB a second nothing is seen for more than half a minute.
 */
const PATIENT_TIMES = 10
const NOTHING = (): void => {}
const NEVER = (): boolean => false

/**
 * One request and its answer. It is the Call that handlers see; the signal, which few handlers need, is made
 * when it is first asked for.
 */
export class Exchange implements Call, Timed {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly requestId: string
  readonly startedAtMs = performance.now()
  path = '/'
  routePath = ''
  /** Of the route: what stands in its challenge besides. */
  challenge: string | null = null
  principal: Principal | null = null
  tenant: string | null = null
  namedTenant: string | null = null
  params: unknown = undefined
  query: unknown = undefined
  body: unknown = undefined
  idempotencyKey: string | null = null
  idempotency: IdempotencyClaim | null = null
  mediaType: string | null = null
  /** Made where Koa is asked something. */
  context: Context | null = null
  /** Null where no pages of others may call. */
  cors: Cors | null = null
  /** Whether the answer may be compressed, as far as its route decides. */
  mayCompress = false
  /** Whether it is to be, as far as the client says. Asked of long answers alone. */
  likesGzip: () => boolean = NEVER
  rateHeaders: readonly string[] | null = null
  /** Of its tenant's turns among others. */
  weight = 1
  /** Of the answer's body, where it was sent whole. */
  answerBytes = 0
  /** What gives back the places that this request takes until it ends. */
  readonly places: (() => void)[] = []
  /** Of the route: until the answer begins, and then for each of its chunks. */
  timeoutMs = 30_000
  deadlineMs = Number.POSITIVE_INFINITY
  /** How long a client may take nothing of what it is sent. */
  writeIdleMs = WRITE_IDLE_MS
  /** Whether its bytes keep others of its tenant waiting. */
  isInTheWay: () => boolean = NEVER
  /** Called where a whole answer of so many bytes is there, and lies in memory until its client has taken it. */
  onMade: (bytes: number) => void = NOTHING
  /** The deadline passed before the answer began. */
  isLate = false
  isLive = false
  /** Of a live one, by `performance.now`: nobody goes on reading under a token that has ended. */
  tokenEndsAtMs = Number.POSITIVE_INFINITY
  /** What may be answered late, in place of a handler that never settles. */
  onLate: (exchange: Exchange) => void = NOTHING
  /** At its last deadline the answer was still behind another of its connection. */
  #waitedBehind = false
  /** How often its time to be taken begins anew. */
  #timesLeft = 0
  #abort: AbortController | null = null
  #aborted: unknown = undefined

  constructor(request: IncomingMessage, response: ServerResponse) {
    this.request = request
    this.response = response
    const given = request.headers['x-request-id']
    this.requestId = typeof given === 'string' && REQUEST_ID.test(given) ? given : randomUUID()
  }

  get signal(): AbortSignal {
    if (this.#abort === null) {
      this.#abort = new AbortController()
      if (this.#aborted !== undefined) this.#abort.abort(this.#aborted)
      else if (this.response.destroyed) this.#abort.abort(clientGone())
      else this.response.once('close', () => this.#onClose())
    }
    return this.#abort.signal
  }

  get traceparent(): string | null {
    return traceOf(this.request.headers.traceparent)
  }

  get lastEventId(): string | null {
    const value = this.request.headers['last-event-id']
    return typeof value === 'string' ? value : null
  }

  get authorization(): string | null {
    return this.request.headers.authorization ?? null
  }

  abort(reason: unknown): void {
    if (this.#aborted !== undefined) return
    this.#aborted = reason
    this.#abort?.abort(reason)
  }

  /**
   * Ends an answer that has begun and must not look whole: a body in chunks lacks its end; where the body ends with the
   * connection (HTTP/1.0), that is reset instead of closed.
   */
  cutOff(): void {
    const { httpVersionMajor: major, httpVersionMinor: minor, socket } = this.request
    if (major === 1 && minor === 0) socket.resetAndDestroy()
    this.response.destroy()
  }

  /** The client is given something to take. @param isPatient where it holds nothing but memory until it is taken */
  awaitTaken(isPatient: boolean): void {
    this.deadlineMs = performance.now() + this.writeIdleMs
    this.#timesLeft = isPatient ? PATIENT_TIMES - 1 : 0
  }

  /** By then it ends, whatever there is to come. */
  endBy(deadlineMs: number): void {
    this.deadlineMs = deadlineMs
    this.#timesLeft = 0
    this.#waitedBehind = false
  }

  #endLate(): void {
    const { socket, writableNeedDrain } = this.response
    if (socket === null && !this.response.destroyed) {
      // It waits behind another answer of its connection, whose client may be reading that.
      this.#waitedBehind = true
      this.deadlineMs = performance.now() + this.writeIdleMs
      return
    }
    if (this.#waitedBehind) {
      // Its turn may have come a moment ago.
      this.#waitedBehind = false
      this.deadlineMs = performance.now() + this.writeIdleMs
      return
    }
    if (this.#timesLeft > 0 && !this.isInTheWay()) {
      this.#timesLeft -= 1
      this.deadlineMs = performance.now() + this.writeIdleMs
      return
    }
    const isFirst = this.#aborted === undefined
    this.abort(
      this.isLive && performance.now() >= this.tokenEndsAtMs
        ? tokenEnded()
        : refuse('deadline_exceeded', 'the answer took too long'),
    )
    // A live one whose client takes nothing would never end: its last word waits behind the rest.
    if (!this.isLive || writableNeedDrain) this.cutOff()
    else if (isFirst) this.deadlineMs = performance.now() + GRACE_MS
    else this.response.end()
  }

  /** What is left of an answer, and not taken, is kept no longer than any of its pieces. */
  giveUpUnread(): void {
    const { socket } = this.response
    if (socket === null || socket.destroyed || socket.writableLength === 0) return
    const late = setTimeout(() => this.cutOff(), PATIENT_TIMES * this.writeIdleMs).unref()
    this.response.once('close', () => clearTimeout(late))
  }

  /** Also comes after every whole answer, where nobody is left to tell. */
  #onClose(): void {
    if (!this.response.writableFinished) this.abort(clientGone())
  }

  onDeadline(): void {
    if (this.response.headersSent) {
      this.#endLate()
      return
    }
    if (this.isLate) {
      this.onLate(this)
      return
    }
    this.isLate = true
    this.deadlineMs = performance.now() + GRACE_MS
    this.abort(refuse('deadline_exceeded', 'the request took too long'))
  }
}

function tokenEnded(): SluiceError {
  return refuse('right_ended', 'what was asked for was ended: the token that it began with has ended')
}

function clientGone(): Error {
  return new DOMException('the client has gone away', 'AbortError')
}

/** Of the flags only the first is known to version 00: whether the caller records the trace. */
function traceOf(header: unknown): string | null {
  const found = typeof header === 'string' ? TRACEPARENT.exec(header) : null
  if (found === null) return null
  const [, ids, flags = ''] = found
  return `00-${ids}-0${Number.parseInt(flags, 16) & 1}`
}
