/**
 * A connection of its own for very many commands. They go as the bytes that they are, and of each answer no more is read
 * than whether it is one of OK or of nil: a client that keeps a promise for each takes longer over them than the server.
 */
import { connect as connectPlain, type Socket } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import { ReplyError } from 'ioredis'

export interface BulkOptions {
  readonly host: string
  readonly port: number
  readonly db: number
  readonly username?: string
  readonly password?: string
  readonly tls?: ConnectionOptions
  readonly connectTimeout: number
  readonly commandTimeout: number
}

interface Answers {
  nils: number
  /** The last number among them. */
  number: number
  error: Error | null
}

interface Waiting extends Answers {
  /** Answers that have not come. */
  left: number
  readonly resolve: (answers: Answers) => void
  readonly reject: (error: Error) => void
}

/** What an answer begins with, as the protocol says: https://redis.io/docs/latest/develop/reference/protocol-spec/ */
const OK = '+'.charCodeAt(0)
const ERROR = '-'.charCodeAt(0)
const NUMBER = ':'.charCodeAt(0)
const NIL = '$'.charCodeAt(0)
const LINE_FEED = 0x0a
const NO_BYTES = Buffer.alloc(0)

export class BulkConnection {
  readonly #socket: Socket
  readonly #waiting: Waiting[] = []
  /** Of an answer that has not come whole. */
  #rest: Buffer = NO_BYTES
  #end: Error | null = null

  private constructor(socket: Socket, commandTimeout: number) {
    this.#socket = socket
    socket.setNoDelay(true)
    socket.setTimeout(commandTimeout, () => {
      if (this.#waiting.length > 0) socket.destroy(new Error('no answer in time'))
    })
    socket.on('data', (bytes) => this.#read(bytes))
    socket.on('error', (error) => this.#fail(error))
    socket.on('close', () => this.#fail(new Error('the connection was closed')))
  }

  /** Resolves when it is logged in; rejects with what the server or the network says. */
  static async open(options: BulkOptions): Promise<BulkConnection> {
    const { host, port, tls, db, username, password, connectTimeout, commandTimeout } = options
    const socket = tls === undefined ? connectPlain({ host, port }) : connectTls({ ...tls, host, port })
    await connected(socket, tls === undefined ? 'connect' : 'secureConnect', connectTimeout)
    const connection = new BulkConnection(socket, commandTimeout)
    try {
      const login = [username, password].filter((word) => word !== undefined)
      if (password !== undefined) await connection.#ask(commandOf(['AUTH', ...login]), 1)
      if (db !== 0) await connection.#ask(commandOf(['SELECT', String(db)]), 1)
    } catch (error) {
      connection.close()
      throw error
    }
    return connection
  }

  /**
   * Sends so many commands, each of which is answered by OK or by nil, and resolves with the number of nils once all are
   * answered; the bytes may be changed from then on. Rejects with the first error among the answers.
   */
  async send(bytes: Buffer, count: number): Promise<number> {
    return (await this.#ask(bytes, count)).nils
  }

  /** How many replicas have all that was sent here, waiting for so many of them. */
  async wait(replicas: number, timeoutMs: number): Promise<number> {
    return (await this.#ask(commandOf(['WAIT', String(replicas), String(timeoutMs)]), 1)).number
  }

  /** What is not answered rejects. Repeatable. */
  close(): void {
    this.#socket.destroy()
  }

  #ask(bytes: Buffer, count: number): Promise<Answers> {
    if (this.#end !== null) return Promise.reject(this.#end)
    const { promise, resolve, reject } = Promise.withResolvers<Answers>()
    this.#waiting.push({ left: count, nils: 0, number: 0, error: null, resolve, reject })
    this.#socket.write(bytes)
    return promise
  }

  #read(chunk: Buffer): void {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    let start = 0
    for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, start)) {
      this.#take(bytes, start, end)
      start = end + 1
    }
    this.#rest = bytes.subarray(start)
  }

  /** The answer from `start` to the line's end, without which there is none. */
  #take(bytes: Buffer, start: number, end: number): void {
    const [first] = this.#waiting
    const kind = bytes[start]
    if (first === undefined || (kind !== OK && kind !== NIL && kind !== ERROR && kind !== NUMBER)) {
      this.#socket.destroy(new Error('an answer that nobody asked for'))
      return
    }
    if (kind === NIL) first.nils += 1
    if (kind === NUMBER) first.number = Number(bytes.toString('latin1', start + 1, end))
    if (kind === ERROR) first.error ??= new ReplyError(bytes.toString('utf8', start + 1, end).trimEnd())
    first.left -= 1
    if (first.left > 0) return
    this.#waiting.shift()
    if (first.error === null) first.resolve(first)
    else first.reject(first.error)
  }

  #fail(error: Error): void {
    this.#end ??= error
    for (const { reject } of this.#waiting.splice(0)) reject(this.#end)
  }
}

async function connected(socket: Socket, event: string, timeoutMs: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const timer = setTimeout(() => reject(new Error('no connection in time')), timeoutMs)
  socket.once(event, resolve).on('error', reject)
  try {
    await promise
  } catch (error) {
    socket.destroy()
    throw error
  } finally {
    clearTimeout(timer)
  }
}

function commandOf(words: readonly string[]): Buffer {
  return Buffer.from(
    `*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join('')}`,
  )
}
