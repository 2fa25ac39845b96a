/** Messages to clients, as bytes. */
import type { Format } from './client-messages.ts'
import type { WireError } from './wire-error.ts'

export interface WireColumn {
  readonly name: string
  readonly oid: number
  /** Bytes that a value takes; -1: it depends. */
  readonly size: number
  /** -1: none. */
  readonly modifier: number
}

export type TransactionState = 'I' | 'T' | 'E'

const SELECTED_BYTES = 4

function message(type: string, ...parts: readonly Buffer[]): Buffer {
  const length = parts.reduce((sum, part) => sum + part.length, SELECTED_BYTES)
  const head = Buffer.allocUnsafe(5)
  head.write(type, 'latin1')
  head.writeInt32BE(length, 1)
  return Buffer.concat([head, ...parts])
}

function int16(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(2)
  bytes.writeUInt16BE(value & 0xffff)
  return bytes
}

function int32(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4)
  bytes.writeInt32BE(value | 0)
  return bytes
}

/** A zero byte would end it early. */
const text = (value: string): Buffer => Buffer.from(`${value.replaceAll('\0', '')}\0`)

export const authenticationCleartext = (): Buffer => message('R', int32(3))
export const authenticationSaslContinue = (challenge: string): Buffer => message('R', int32(11), Buffer.from(challenge))
export const authenticationSaslFinal = (answer: string): Buffer => message('R', int32(12), Buffer.from(answer))
export const authenticationOk = (): Buffer => message('R', int32(0))
export const parameterStatus = (name: string, value: string): Buffer => message('S', text(name), text(value))
export const backendKey = (processId: number, secret: Buffer): Buffer => message('K', int32(processId), secret)
export const readyForQuery = (state: TransactionState): Buffer => message('Z', Buffer.from(state))
export const parseComplete = (): Buffer => message('1')
export const bindComplete = (): Buffer => message('2')
export const closeComplete = (): Buffer => message('3')
export const noData = (): Buffer => message('n')
export const portalSuspended = (): Buffer => message('s')
export const emptyQuery = (): Buffer => message('I')
export const commandComplete = (tag: string): Buffer => message('C', text(tag))
export const copyData = (bytes: Buffer): Buffer => message('d', bytes)
export const copyDone = (): Buffer => message('c')

/** Mechanisms in the order of our liking. */
export function authenticationSasl(mechanisms: readonly string[]): Buffer {
  return message('R', int32(10), ...mechanisms.map(text), Buffer.from([0]))
}

/** The format of all, and of each. */
export function copyOut(columns: number, format: Format): Buffer {
  return message('H', Buffer.from([format]), int16(columns), ...Array.from({ length: columns }, () => int16(format)))
}

/** What a client is told that asks for a newer minor version than there is here. */
export function negotiateProtocol(unknown: readonly string[]): Buffer {
  return message('v', int32(0x30000), int32(unknown.length), ...unknown.map(text))
}

export function parameterDescription(oids: readonly number[]): Buffer {
  return message('t', int16(oids.length), ...oids.map(int32))
}

export function rowDescription(columns: readonly WireColumn[], formats: readonly Format[]): Buffer {
  const fields = columns.flatMap(({ name, oid, size, modifier }, at) => [
    text(name),
    int32(0),
    int16(0),
    int32(oid),
    int16(size),
    int32(modifier),
    int16(formatAt(formats, at)),
  ])
  return message('T', int16(columns.length), ...fields)
}

/** As Bind has them: none is text for all, one is for all. */
export function formatAt(formats: readonly Format[], at: number): Format {
  return formats[formats.length === 1 ? 0 : at] ?? 0
}

const NULL_LENGTH = Buffer.from([255, 255, 255, 255])

/** Null for SQL's null. */
export function dataRow(cells: readonly (Buffer | null)[]): Buffer {
  let length = 7
  for (const cell of cells) length += 4 + (cell?.length ?? 0)
  const bytes = Buffer.allocUnsafe(length)
  bytes[0] = 0x44
  bytes.writeInt32BE(length - 1, 1)
  bytes.writeUInt16BE(cells.length, 5)
  let at = 7
  for (const cell of cells) {
    if (cell === null) {
      NULL_LENGTH.copy(bytes, at)
      at += 4
      continue
    }
    bytes.writeInt32BE(cell.length, at)
    cell.copy(bytes, at + 4)
    at += 4 + cell.length
  }
  return bytes
}

export function errorResponse({ sqlState, message: what, hint, code, isFatal, routine }: WireError): Buffer {
  const severity = isFatal ? 'FATAL' : 'ERROR'
  const fields: readonly (readonly [string, string | undefined])[] = [
    ['S', severity],
    ['V', severity],
    ['C', sqlState],
    ['M', what],
    ['D', code === undefined ? undefined : `code: ${code}`],
    ['H', hint],
    ['R', routine],
  ]
  const parts = fields.flatMap(([letter, value]) => (value === undefined ? [] : [Buffer.from(letter), text(value)]))
  return message('E', ...parts, Buffer.from([0]))
}
