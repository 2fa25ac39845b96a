/** How a conversation begins: what the server says of itself, TLS where it was asked for, and the login. */
import { createHash } from 'node:crypto'
import type { Socket } from 'node:net'
import { orAbort } from '../../server/deadline.ts'
import { PasswordWithheld } from '../../server/failure.ts'
import { type Line, type Peer, secured, TlsFailure } from '../../server/line.ts'
import { Fields } from './fields.ts'
import { Garbled, Packets } from './packets.ts'
import { ServerError } from './server-error.ts'

export interface Greeting {
  readonly version: string
  readonly connectionId: number
  readonly nonce: Buffer
  readonly method: string
  /** Whether it says of columns what their types leave out: of a text that it is JSON. */
  readonly tellsFormats: boolean
}

/** A line that is protected as was asked, with the greeting that came over it. */
export interface Greeted {
  readonly line: Line
  readonly packets: Packets
  readonly greeting: Greeting
}

/** How the server asks for the password in a way that this connector does not know. */
export class UnknownMethod extends Error {
  override readonly name = 'UnknownMethod'
}

const CLIENT = {
  mysql: 0x1,
  longFlag: 0x4,
  withDatabase: 0x8,
  protocol41: 0x200,
  tls: 0x800,
  transactions: 0x2000,
  secureConnection: 0x8000,
  pluginAuth: 0x80000,
}
/** Without LOCAL INFILE, by which a server asks for files; without several statements in one. */
const WANTED =
  CLIENT.longFlag |
  CLIENT.withDatabase |
  CLIENT.protocol41 |
  CLIENT.transactions |
  CLIENT.secureConnection |
  CLIENT.pluginAuth
/** Of MariaDB's own. */
const EXTENDED_METADATA = 0x8
const NEEDED = CLIENT.protocol41 | CLIENT.secureConnection | CLIENT.pluginAuth
/** Of what is sent; a client of ours never sends more than a statement. */
const MAX_PACKET_BYTES = 1 << 24
/** utf8mb4_general_ci, which every server has that this connector reads. */
const COLLATION = 45
const NONCE_BYTES = 20

/** Destroys the socket when it throws. */
export async function greeted(socket: Socket, address: string, peer: Peer, signal: AbortSignal): Promise<Greeted> {
  try {
    const packets = new Packets(socket)
    const { greeting, capabilities } = parseGreeting(await orAbort(signal, packets.next()))
    if (peer.sslMode === 'disable') return { line: { socket, address, protection: 'none' }, packets, greeting }
    if ((capabilities & CLIENT.tls) === 0) {
      if (peer.sslMode === 'prefer') return { line: { socket, address, protection: 'none' }, packets, greeting }
      throw new TlsFailure('refused')
    }
    packets.send(opening(WANTED | CLIENT.tls, greeting))
    const sequence = packets.leave()
    const line = await secured(socket, address, peer, signal)
    return { line, packets: new Packets(line.socket).continueFrom(sequence), greeting }
  } catch (error) {
    socket.destroy()
    throw error
  }
}

export interface Login {
  readonly user: string
  readonly database: string
  readonly password: string | null
  /** Whether the password itself may be sent over this line. */
  readonly sendsPassword: boolean
}

/** Throws the server's error where it lets nobody in. */
export async function logIn({ line, packets, greeting }: Greeted, login: Login): Promise<void> {
  const capabilities = WANTED | (line.protection === 'none' ? 0 : CLIENT.tls)
  let method = KNOWN.has(greeting.method) ? greeting.method : 'mysql_native_password'
  const first = answerTo(method, greeting.nonce, login)
  packets.send(
    Buffer.concat([
      opening(capabilities, greeting),
      Buffer.from(`${login.user}\0`),
      Buffer.from([first.length]),
      first,
      Buffer.from(`${login.database}\0${method}\0`),
    ]),
  )
  // A server asks twice at most: by another method, and for the password itself.
  for (let turn = 0; turn < 4; turn += 1) {
    const answer = await packets.next()
    if (answer[0] === 0x00) return
    if (answer[0] === 0xff) throw ServerError.of(answer)
    if (answer[0] === 0xfe && answer.length > 1) {
      const fields = new Fields(answer, 1)
      method = fields.text()
      packets.send(answerTo(method, fields.bytes(fields.left).subarray(0, NONCE_BYTES), login))
    } else if (answer[0] === 0x01 && method === 'caching_sha2_password') {
      if (answer[1] === 0x04) packets.send(inClear(login))
      else if (answer[1] !== 0x03) throw new Garbled('a login goes on in an unknown way')
    } else {
      throw new Garbled('a login goes on in an unknown way')
    }
  }
  throw new Garbled('a login that does not end')
}

function parseGreeting(packet: Buffer): { readonly greeting: Greeting; readonly capabilities: number } {
  if (packet[0] === 0xff) throw ServerError.of(packet)
  if (packet[0] !== 10) throw new Garbled('a greeting of another protocol')
  const fields = new Fields(packet, 1)
  const version = fields.text().slice(0, 100)
  const connectionId = fields.number(4)
  const begun = Buffer.from(fields.bytes(8))
  fields.bytes(1)
  const low = fields.number(2)
  fields.bytes(3)
  const capabilities = low + fields.number(2) * 0x10000
  if ((capabilities & NEEDED) !== NEEDED) throw new Garbled('a server that is too old')
  const nonceBytes = fields.number(1)
  fields.bytes(6)
  // Where the first bit is not set MariaDB has written more of its own here.
  const more = fields.number(4)
  const tellsFormats = (capabilities & CLIENT.mysql) === 0 && (more & EXTENDED_METADATA) !== 0
  const rest = fields.bytes(Math.max(13, nonceBytes - 8))
  const nonce = Buffer.concat([begun, rest]).subarray(0, NONCE_BYTES)
  return { greeting: { version, connectionId, nonce, method: fields.text(), tellsFormats }, capabilities }
}

function opening(capabilities: number, { tellsFormats }: Greeting): Buffer {
  const start = Buffer.alloc(32)
  start.writeUInt32LE(capabilities | (tellsFormats ? 0 : CLIENT.mysql), 0)
  if (tellsFormats) start.writeUInt32LE(EXTENDED_METADATA, 28)
  start.writeUInt32LE(MAX_PACKET_BYTES, 4)
  start[8] = COLLATION
  return start
}

const KNOWN = new Set(['mysql_native_password', 'caching_sha2_password', 'mysql_clear_password'])

/** By the first two whoever listens learns no more of the password than what a guess can be compared with. */
function answerTo(method: string, nonce: Buffer, login: Login): Buffer {
  if (method === 'mysql_clear_password') return inClear(login)
  if (!KNOWN.has(method)) throw new UnknownMethod('a method of login that is not known')
  if (login.password === null || login.password === '') return Buffer.alloc(0)
  return method === 'mysql_native_password' ? nativeAnswer(login.password, nonce) : sha2Answer(login.password, nonce)
}

function inClear({ password, sendsPassword }: Login): Buffer {
  if (password === null) throw new PasswordWithheld('none_given')
  if (!sendsPassword) throw new PasswordWithheld('unprotected')
  return Buffer.from(`${password}\0`)
}

function nativeAnswer(password: string, nonce: Buffer): Buffer {
  const once = digest('sha1', Buffer.from(password))
  return xor(once, digest('sha1', nonce, digest('sha1', once)))
}

function sha2Answer(password: string, nonce: Buffer): Buffer {
  const once = digest('sha256', Buffer.from(password))
  return xor(once, digest('sha256', digest('sha256', once), nonce))
}

function digest(algorithm: string, ...parts: readonly Buffer[]): Buffer {
  return parts.reduce((hash, part) => hash.update(part), createHash(algorithm)).digest()
}

function xor(left: Buffer, right: Buffer): Buffer {
  return Buffer.from(left.map((byte, index) => byte ^ (right[index] ?? 0)))
}
