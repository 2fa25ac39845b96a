/** Messages of clients, parsed: what follows works with values. Throws 08P01 for what is none. */
import type { Frame } from './frames.ts'
import { protocolViolation } from './wire-error.ts'

export type Format = 0 | 1

export type ClientMessage =
  | { readonly kind: 'query'; readonly sql: string }
  | { readonly kind: 'parse'; readonly name: string; readonly sql: string; readonly parameterOids: readonly number[] }
  | BindMessage
  | { readonly kind: 'describe' | 'close'; readonly what: 'statement' | 'portal'; readonly name: string }
  | { readonly kind: 'execute'; readonly portal: string; readonly maxRows: number }
  | { readonly kind: 'sync' | 'flush' | 'terminate' }
  | { readonly kind: 'password'; readonly password: string }

export interface BindMessage {
  readonly kind: 'bind'
  readonly portal: string
  readonly statement: string
  readonly values: readonly ParameterValue[]
  /** None: all text; one: all like it. */
  readonly resultFormats: readonly Format[]
}

export interface ParameterValue {
  readonly format: Format
  /** Null for SQL's null. */
  readonly bytes: Buffer | null
}

const SSL_REQUEST = 80_877_103
const GSSENC_REQUEST = 80_877_104
const CANCEL_REQUEST = 80_877_102
const PROTOCOL_MAJOR = 3
const MAX_SETTINGS = 100

export type StartMessage =
  | { readonly kind: 'ssl' | 'gssenc' }
  | { readonly kind: 'cancel'; readonly processId: number; readonly secret: Buffer }
  | { readonly kind: 'startup'; readonly minor: number; readonly settings: ReadonlyMap<string, string> }

export function parseStart({ body }: Frame): StartMessage {
  const reader = new BodyReader(body)
  const version = reader.int32()
  if (version === SSL_REQUEST || version === GSSENC_REQUEST) {
    reader.end()
    return { kind: version === SSL_REQUEST ? 'ssl' : 'gssenc' }
  }
  if (version === CANCEL_REQUEST) return { kind: 'cancel', processId: reader.int32(), secret: reader.rest() }
  if (version >> 16 !== PROTOCOL_MAJOR) throw protocolViolation('this server speaks version 3 of the protocol')
  const settings = new Map<string, string>()
  for (let name = reader.text(); name !== ''; name = reader.text()) {
    if (settings.size >= MAX_SETTINGS) throw protocolViolation('the start holds too many settings')
    settings.set(name, reader.text())
  }
  reader.end()
  return { kind: 'startup', minor: version & 0xffff, settings }
}

export function parseMessage({ type, body }: Frame): ClientMessage {
  const reader = new BodyReader(body)
  const message = messageOf(type, reader)
  reader.end()
  return message
}

/** What a client that was asked for a proof sends first, with the mechanism that it has chosen. */
export interface SaslStart {
  readonly mechanism: string
  readonly text: string
}

/** As long as PostgreSQL itself takes them. */
const MAX_SASL_BYTES = 1024

export function parseSaslStart(frame: Frame): SaslStart {
  const reader = saslReader(frame)
  const mechanism = reader.text()
  const length = reader.int32()
  if (length < 0) throw protocolViolation('a SASL exchange begins with a message of the client')
  const text = reader.utf8(length)
  reader.end()
  return { mechanism, text }
}

export function parseSaslAnswer(frame: Frame): string {
  return saslReader(frame).utf8(frame.body.length)
}

function saslReader({ type, body }: Frame): BodyReader {
  if (type !== 'p') throw protocolViolation('a SASL message was expected')
  if (body.length > MAX_SASL_BYTES) throw protocolViolation(`a SASL message is longer than ${MAX_SASL_BYTES} bytes`)
  return new BodyReader(body)
}

function messageOf(type: string, reader: BodyReader): ClientMessage {
  switch (type) {
    case 'Q':
      return { kind: 'query', sql: reader.text() }
    case 'P':
      return {
        kind: 'parse',
        name: reader.text(),
        sql: reader.text(),
        parameterOids: reader.list(() => reader.int32() >>> 0),
      }
    case 'B':
      return bindOf(reader)
    case 'D':
    case 'C':
      return { kind: type === 'D' ? 'describe' : 'close', what: whatOf(reader.byte()), name: reader.text() }
    case 'E':
      return { kind: 'execute', portal: reader.text(), maxRows: Math.max(0, reader.int32()) }
    case 'S':
      return { kind: 'sync' }
    case 'H':
      return { kind: 'flush' }
    case 'X':
      return { kind: 'terminate' }
    case 'p':
      return { kind: 'password', password: reader.text() }
    default:
      throw protocolViolation('a message has a type that this server does not know')
  }
}

function bindOf(reader: BodyReader): BindMessage {
  const portal = reader.text()
  const statement = reader.text()
  const formats = reader.list(() => formatOf(reader.int16()))
  const bytes = reader.list(() => {
    const length = reader.int32()
    return length === -1 ? null : reader.bytes(length)
  })
  if (formats.length > 1 && formats.length !== bytes.length) {
    throw protocolViolation('a bind message has another number of formats than of parameters')
  }
  const values = bytes.map((value, at) => ({ format: formats[formats.length === 1 ? 0 : at] ?? 0, bytes: value }))
  return { kind: 'bind', portal, statement, values, resultFormats: reader.list(() => formatOf(reader.int16())) }
}

function formatOf(code: number): Format {
  if (code === 0 || code === 1) return code
  throw protocolViolation('a format is neither text nor binary')
}

function whatOf(letter: number): 'statement' | 'portal' {
  if (letter === 0x53) return 'statement'
  if (letter === 0x50) return 'portal'
  throw protocolViolation('a message is about neither a statement nor a portal')
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Reads forward; what is missing or left over is no message. */
class BodyReader {
  readonly #body: Buffer
  #at = 0

  constructor(body: Buffer) {
    this.#body = body
  }

  byte(): number {
    return this.bytes(1)[0] as number
  }

  int16(): number {
    return this.bytes(2).readInt16BE()
  }

  int32(): number {
    return this.bytes(4).readInt32BE()
  }

  bytes(length: number): Buffer {
    if (length < 0 || this.#at + length > this.#body.length) throw protocolViolation('a message ends too early')
    this.#at += length
    return this.#body.subarray(this.#at - length, this.#at)
  }

  rest(): Buffer {
    return this.bytes(this.#body.length - this.#at)
  }

  /** Up to a zero byte. */
  text(): string {
    const end = this.#body.indexOf(0, this.#at)
    if (end < 0) throw protocolViolation('a text of a message has no end')
    const text = this.utf8(end - this.#at)
    this.#at += 1
    return text
  }

  utf8(length: number): string {
    const bytes = this.bytes(length)
    try {
      return utf8.decode(bytes)
    } catch {
      throw protocolViolation('a text of a message is not UTF-8')
    }
  }

  /** Its number of items stands before them. */
  list<Item>(item: () => Item): readonly Item[] {
    const count = this.int16() & 0xffff
    const items: Item[] = []
    for (let read = 0; read < count; read += 1) items.push(item())
    return items
  }

  end(): void {
    if (this.#at !== this.#body.length) throw protocolViolation('a message is longer than what it holds')
  }
}
