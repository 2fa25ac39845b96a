/** Lines that a program writes, as messages of the protocol. Whoever wrote them may mean ill: each is looked at before it is believed. */
import { parseJsonAsWritten } from '@sluice/sdk'
import { answerInvalid, type FailureType } from './failure.ts'

export type Fields = Readonly<Record<string, unknown>>

export type Message =
  | {
      readonly type: 'record'
      readonly stream: string
      readonly namespace: string | null
      readonly data: unknown
      readonly line: string
    }
  | { readonly type: 'state'; readonly state: Fields }
  | { readonly type: 'status'; readonly stream: string; readonly status: string }
  | { readonly type: 'error'; readonly failure: FailureType }
  | { readonly type: 'catalog'; readonly streams: readonly unknown[] }
  | { readonly type: 'spec'; readonly schema: Fields }
  | { readonly type: 'connection'; readonly succeeded: boolean }
  /** It wants another config from now on, which nobody here may write. */
  | { readonly type: 'control' }
  /** What is no news: lines for people, estimates. */
  | { readonly type: 'talk' }

const LF = 10
const MAX_LINE_BYTES = 4 * 1024 * 1024
/** A catalogue is one line. */
const MAX_CATALOG_BYTES = 16 * 1024 * 1024
const TALK = { type: 'talk' } as const

/** Lines without their ends; what does not end with one at last is cut off. Throws INVALID_DATA. */
export class LineSplitter {
  readonly #maxBytes: number
  #parts: Buffer[] = []
  #held = 0

  constructor(expectsCatalog: boolean) {
    this.#maxBytes = expectsCatalog ? MAX_CATALOG_BYTES : MAX_LINE_BYTES
  }

  *take(chunk: Uint8Array): Generator<string> {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length)
    let from = 0
    for (let end = bytes.indexOf(LF); end >= 0; end = bytes.indexOf(LF, from)) {
      yield this.#whole(bytes.subarray(from, end))
      from = end + 1
    }
    this.#hold(bytes.subarray(from))
  }

  /** Throws where a line was begun and not ended. */
  end(): void {
    if (this.#held > 0) throw answerInvalid('its output ends within a line')
  }

  #whole(last: Buffer): string {
    this.#hold(last)
    const line = Buffer.concat(this.#parts).toString('utf8')
    this.#parts = []
    this.#held = 0
    return line
  }

  #hold(part: Buffer): void {
    if (part.length === 0) return
    this.#held += part.length
    if (this.#held > this.#maxBytes) throw answerInvalid(`a line has more than ${this.#maxBytes} bytes`)
    // A copy: what it was cut from is large.
    this.#parts.push(Buffer.from(part))
  }
}

export function fieldsOf(value: unknown): Fields | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : null
}

/** What is no JSON is talk: programs print what they like beside the protocol. Throws INVALID_DATA for a message that is broken. */
export function messageOf(line: string): Message {
  if (!line.startsWith('{')) return TALK
  let parsed: unknown
  try {
    parsed = parseJsonAsWritten(line)
  } catch {
    throw answerInvalid('a line begins as a message and is no JSON')
  }
  const message = fieldsOf(parsed) ?? {}
  const part = (name: string): Fields => {
    const found = fieldsOf(message[name])
    if (found === null) throw answerInvalid(`a message has no ${name}`)
    return found
  }
  switch (message['type']) {
    case 'RECORD':
      return recordOf(part('record'), line)
    case 'STATE':
      return { type: 'state', state: part('state') }
    case 'TRACE':
      return traceOf(part('trace'))
    case 'CATALOG': {
      const { streams } = part('catalog')
      if (!Array.isArray(streams)) throw answerInvalid('a catalogue has no streams')
      return { type: 'catalog', streams }
    }
    case 'SPEC':
      return { type: 'spec', schema: fieldsOf(part('spec')['connectionSpecification']) ?? {} }
    case 'CONNECTION_STATUS':
      return { type: 'connection', succeeded: part('connectionStatus')['status'] === 'SUCCEEDED' }
    case 'CONTROL':
      return { type: 'control' }
    default:
      return TALK
  }
}

function recordOf({ stream, namespace, data }: Fields, line: string): Message {
  if (typeof stream !== 'string' || fieldsOf(data) === null) throw answerInvalid('a record has no stream or no data')
  return { type: 'record', stream, namespace: namespaceOf(namespace), data, line }
}

/** None, null and an empty one are the same. */
export function namespaceOf(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}

function traceOf(trace: Fields): Message {
  if (trace['type'] === 'ERROR') {
    const said = fieldsOf(trace['error'])?.['failure_type']
    return { type: 'error', failure: said === 'config_error' || said === 'transient_error' ? said : 'system_error' }
  }
  if (trace['type'] !== 'STREAM_STATUS') return TALK
  const status = fieldsOf(trace['stream_status'])
  const name = fieldsOf(status?.['stream_descriptor'])?.['name']
  if (typeof name !== 'string' || typeof status?.['status'] !== 'string')
    throw answerInvalid('a status is of no stream')
  return { type: 'status', stream: name, status: status['status'] }
}
