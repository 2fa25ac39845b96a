/** A client's connection: whole messages one way, bytes the other, and neither kept beyond a limit. */
import type { Socket } from 'node:net'
import { type SecureContext, TLSSocket } from 'node:tls'
import { type Frame, Frames } from '../protocol/frames.ts'
import { protocolViolation, WireError } from '../protocol/wire-error.ts'

const FLUSH_BYTES = 64 * 1024

export interface StreamLimits {
  /** Of one message, as it is now. */
  maxMessageBytes(): number
  /** Until a client takes what it is sent. */
  readonly writeMs: number
}

export class ClientStream {
  #socket: Socket
  readonly #limits: StreamLimits
  readonly #frames: Frames
  #isEnded = false
  #wake: (() => void) | null = null
  /** Takes our own handlers off again, and no one else's: others count the connection by its end. */
  #leave: () => void = () => undefined
  #out: Buffer[] = []
  #outBytes = 0
  /** Called once, when the client is gone. */
  onEnd: () => void = () => undefined

  constructor(socket: Socket, limits: StreamLimits) {
    this.#socket = socket
    this.#limits = limits
    this.#frames = new Frames(() => limits.maxMessageBytes())
    socket.setNoDelay(true)
    this.#listen(socket)
  }

  get isSecure(): boolean {
    return this.#socket instanceof TLSSocket
  }

  get remoteAddress(): string {
    return this.#socket.remoteAddress ?? ''
  }

  get isEnded(): boolean {
    return this.#isEnded
  }

  /**
   * Null where the client is gone, or `interrupt` was called. Rejects with `late`, or 57P05, after that long without a whole
   * message.
   */
  async next(kind: 'start' | 'message', withinMs: number, late = '57P05'): Promise<Frame | null> {
    const untilMs = performance.now() + withinMs
    for (;;) {
      const frame = kind === 'start' ? this.#frames.nextOfStart() : this.#frames.next()
      if (frame !== null) return frame
      if (this.#isEnded) return null
      this.#socket.resume()
      const leftMs = untilMs - performance.now()
      if (leftMs <= 0) throw new WireError(late, 'the connection was idle for too long', { isFatal: true })
      await this.#more(leftMs)
    }
  }

  /** What comes next is under TLS. Throws 08P01 where the client has sent more already: that would be taken for protected. */
  async startTls(context: SecureContext, withinMs: number): Promise<void> {
    if (this.#frames.bufferedBytes > 0) throw protocolViolation('something was sent before TLS was agreed on')
    const plain = this.#socket
    this.#leave()
    plain.on('error', () => plain.destroy())
    plain.pause()
    plain.write('S')
    const secure = new TLSSocket(plain, { isServer: true, secureContext: context, requestCert: false })
    this.#socket = secure
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const late = setTimeout(() => reject(new Error('TLS was not agreed on in time')), withinMs)
    secure.once('secure', () => resolve())
    secure.once('close', () => reject(new Error('the client is gone')))
    secure.on('error', reject)
    try {
      await promise
    } catch (error) {
      secure.destroy()
      plain.destroy()
      throw error
    } finally {
      clearTimeout(late)
    }
    this.#listen(secure)
  }

  /** Sent with what comes. For what is small, and not of a number that others choose. */
  queue(bytes: Buffer): void {
    this.#out.push(bytes)
    this.#outBytes += bytes.length
  }

  /** Sent with what comes, or at the latest by `flush`. */
  write(bytes: Buffer): Promise<void> | undefined {
    this.queue(bytes)
    return this.#outBytes >= FLUSH_BYTES ? this.flush() : undefined
  }

  /** Fulfilled when the client has taken nearly all. Rejects where it is gone, or takes nothing for too long. */
  async flush(): Promise<void> {
    if (this.#outBytes === 0) return
    const [first] = this.#out
    const bytes = first !== undefined && this.#out.length === 1 ? first : Buffer.concat(this.#out)
    this.#out = []
    this.#outBytes = 0
    if (this.#isEnded || !this.#socket.writable) throw gone()
    if (this.#socket.write(bytes)) return
    await this.#drained()
  }

  /** What waits for a message waits no more. */
  interrupt(): void {
    this.#isEnded = true
    this.#wake?.()
  }

  /** Sends what is left, then closes; a client that takes nothing is cut off. */
  end(last?: Buffer): void {
    if (last !== undefined) this.#out.push(last)
    const bytes = Buffer.concat(this.#out)
    this.#out = []
    this.#isEnded = true
    if (this.#socket.writable) this.#socket.end(bytes)
    const socket = this.#socket
    socket.resume()
    const cut = setTimeout(() => socket.destroy(), 2_000).unref()
    socket.once('close', () => clearTimeout(cut))
  }

  destroy(): void {
    this.#socket.destroy()
  }

  #listen(socket: Socket): void {
    const taken = (chunk: Buffer): void => {
      if (this.#isEnded) return
      this.#frames.push(chunk)
      // Nothing more is read before what is there has been worked on.
      if (this.#frames.bufferedBytes > this.#limits.maxMessageBytes()) socket.pause()
      this.#wake?.()
    }
    const ended = (): void => {
      if (this.#socket !== socket) return
      const isFirst = !this.#isEnded
      this.#isEnded = true
      this.#wake?.()
      if (isFirst) this.onEnd()
    }
    const failed = (): void => void socket.destroy()
    socket.on('data', taken).on('end', ended).on('close', ended).on('error', failed)
    this.#leave = () => socket.off('data', taken).off('end', ended).off('close', ended).off('error', failed)
  }

  async #more(withinMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, Math.min(withinMs, 2 ** 31 - 1))
    this.#wake = resolve
    await promise
    this.#wake = null
    clearTimeout(timer)
  }

  async #drained(): Promise<void> {
    const socket = this.#socket
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const late = setTimeout(() => {
      socket.destroy()
      reject(gone())
    }, this.#limits.writeMs)
    const closed = (): void => reject(gone())
    socket.once('drain', resolve)
    socket.once('close', closed)
    try {
      await promise
    } finally {
      clearTimeout(late)
      socket.off('drain', resolve)
      socket.off('close', closed)
    }
  }
}

function gone(): WireError {
  return new WireError('08006', 'the client is gone', { isFatal: true })
}
