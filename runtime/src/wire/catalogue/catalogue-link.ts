/** One statement's way to the PostgreSQL that has the catalogue: its messages go there and come back as they are. */
import { connect, type Socket } from 'node:net'
import type { Format, ParameterValue } from '../protocol/client-messages.ts'
import { Frames } from '../protocol/frames.ts'
import type { WireColumn } from '../protocol/server-messages.ts'
import { notSupported, WireError } from '../protocol/wire-error.ts'

export interface CatalogueAddress {
  readonly socketPath: string
  readonly database: string
  readonly user: string
  readonly password: string
}

export interface CatalogueLink extends CatalogueAddress {
  /** Keeps the place of the statement for as long as a process of the server is busy with it. */
  hold(ended: Promise<void>): void
}

export interface CatalogueStatement {
  readonly sql: string
  /** Namespaces in their order; null: as the database has it. */
  readonly searchPath: string | null
  readonly parameterOids: readonly number[]
}

export interface CatalogueDescription {
  readonly parameterOids: readonly number[]
  readonly columns: readonly WireColumn[]
}

export interface CatalogueAnswer {
  readonly columns: readonly WireColumn[]
  /** Messages of rows, as they are sent to clients. */
  readonly rows: readonly Buffer[]
}

const MAX_ANSWER_BYTES = 32 * 1024 * 1024
const STATEMENT_MS = 15_000
/** For a process to end of which nobody wants anything: the server ends its statement before. */
const LEAVING_MS = 2 * STATEMENT_MS

export async function describeByCatalogue(
  address: CatalogueLink,
  statement: CatalogueStatement,
  signal: AbortSignal,
): Promise<CatalogueDescription> {
  const seen = await exchange(address, [parse(statement), packet('D', cstring('S')), packet('S')], statement, signal)
  return { parameterOids: seen.parameterOids, columns: seen.columns }
}

export async function askCatalogue(
  address: CatalogueLink,
  statement: CatalogueStatement,
  bound: { readonly values: readonly ParameterValue[]; readonly formats: readonly Format[] },
  signal: AbortSignal,
): Promise<CatalogueAnswer> {
  const execute = packet('E', Buffer.from([0]), int32(0))
  const messages = [
    parse(statement),
    bind(bound.values, bound.formats),
    packet('D', cstring('P')),
    execute,
    packet('S'),
  ]
  const seen = await exchange(address, messages, statement, signal)
  return { columns: seen.columns, rows: seen.rows }
}

interface Seen {
  parameterOids: readonly number[]
  columns: readonly WireColumn[]
  readonly rows: Buffer[]
  error: WireError | null
}

async function exchange(
  address: CatalogueLink,
  messages: readonly Buffer[],
  { searchPath }: CatalogueStatement,
  signal: AbortSignal,
): Promise<Seen> {
  const late = AbortSignal.timeout(STATEMENT_MS)
  const until = AbortSignal.any([signal, late])
  const socket = connect({ path: address.socketPath })
  address.hold(closeOf(socket))
  const { promise: cut, reject } = Promise.withResolvers<never>()
  const abort = (): void => reject(until.reason)
  until.addEventListener('abort', abort, { once: true })
  try {
    until.throwIfAborted()
    const answer = answered(socket, address, searchPath, messages)
    // Where it was cut off, nobody waits for it.
    answer.catch(() => undefined)
    const seen = await Promise.race([answer, cut])
    if (seen.error !== null) throw seen.error
    return seen
  } catch (error) {
    signal.throwIfAborted()
    if (late.aborted) throw new WireError('57014', 'a statement about the catalogue took too long')
    throw error instanceof WireError ? (error.isFatal ? tooLarge() : error) : unavailable()
  } finally {
    until.removeEventListener('abort', abort)
    leave(socket)
  }
}

async function answered(
  socket: Socket,
  address: CatalogueAddress,
  searchPath: string | null,
  messages: readonly Buffer[],
): Promise<Seen> {
  const frames = framesOf(socket)
  socket.write(startup(address, searchPath))
  await logIn(frames, socket, address)
  socket.write(Buffer.concat(messages))
  return answerIn(frames)
}

/** Our end is closed, which ends what its process is at; that it has ended is told by its closing of the other end. */
function leave(socket: Socket): void {
  socket.removeAllListeners('readable')
  socket.on('data', () => undefined)
  socket.end()
  const cut = setTimeout(() => socket.destroy(), LEAVING_MS).unref()
  socket.once('close', () => clearTimeout(cut))
}

function closeOf(socket: Socket): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  socket.on('error', () => undefined)
  socket.once('close', () => resolve())
  return promise
}

type Answer = { readonly type: string; readonly body: Buffer }

async function* framesOf(socket: Socket): AsyncGenerator<Answer> {
  const frames = new Frames(() => MAX_ANSWER_BYTES)
  // It is left open by the reader: its end is the end of the process at the other side.
  for await (const chunk of socket.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    frames.push(chunk)
    for (let frame = frames.next(); frame !== null; frame = frames.next()) yield frame
  }
  throw unavailable()
}

const unavailable = (): WireError =>
  new WireError('58000', 'the catalogue cannot be asked just now', { hint: 'Try again.' })

const tooLarge = (): WireError => new WireError('54000', 'the answer about the catalogue is too large')

async function logIn(frames: AsyncGenerator<Answer>, socket: Socket, { password }: CatalogueAddress): Promise<void> {
  for (;;) {
    const { type, body } = await next(frames)
    if (type === 'E') throw errorIn(body)
    if (type === 'R' && body.readInt32BE() === 3) socket.write(packet('p', cstring(password)))
    if (type === 'Z') return
  }
}

async function next(frames: AsyncGenerator<Answer>): Promise<Answer> {
  const { value } = await frames.next()
  return value as Answer
}

async function answerIn(frames: AsyncGenerator<Answer>): Promise<Seen> {
  const seen: Seen = { parameterOids: [], columns: [], rows: [], error: null }
  let bytes = 0
  for (;;) {
    const { type, body } = await next(frames)
    if (type === 'Z') return seen
    if (type === 'E') seen.error = errorIn(body)
    if (type === 't') seen.parameterOids = oidsIn(body)
    if (type === 'T') seen.columns = columnsIn(body)
    if (type !== 'D') continue
    bytes += body.length
    if (bytes > MAX_ANSWER_BYTES) throw tooLarge()
    seen.rows.push(packet('D', body))
  }
}

function oidsIn(body: Buffer): readonly number[] {
  return Array.from({ length: body.readUInt16BE() }, (_, at) => body.readUInt32BE(2 + at * 4))
}

function columnsIn(body: Buffer): readonly WireColumn[] {
  let at = 2
  return Array.from({ length: body.readUInt16BE() }, () => {
    const end = body.indexOf(0, at)
    const name = body.toString('utf8', at, end)
    const column = {
      name,
      oid: body.readUInt32BE(end + 7),
      size: body.readInt16BE(end + 11),
      modifier: body.readInt32BE(end + 13),
    }
    at = end + 19
    return column
  })
}

/** What a PostgreSQL says of a statement is about the statement; only its code and words are told. */
function errorIn(body: Buffer): WireError {
  const fields = new Map<string, string>()
  for (let at = 0; at < body.length && body[at] !== 0; ) {
    const end = body.indexOf(0, at)
    fields.set(String.fromCharCode(body[at] as number), body.toString('utf8', at + 1, end))
    at = end + 1
  }
  const [state = 'XX000', said = 'the catalogue refused the statement'] = [fields.get('C'), fields.get('M')]
  if (state === '42501') {
    return notSupported(
      'one statement cannot be about the catalogue and about rows of products, nor ask for what nobody is told here',
      'Ask for each by itself.',
    )
  }
  if (state === '53200') return new WireError(state, 'a statement about the catalogue takes more memory than it may')
  if (/^(?:28|3D|53|57P|58|XX)/.test(state)) return unavailable()
  const hint = fields.get('H')
  return new WireError(state, said, hint === undefined ? {} : { hint })
}

function startup({ user, database }: CatalogueAddress, searchPath: string | null): Buffer {
  const path = searchPath === null ? [] : ['search_path', searchPath]
  const settings = ['user', user, 'database', database, 'client_encoding', 'UTF8', ...path].map(cstring)
  const body = Buffer.concat([int32(0x30000), ...settings, Buffer.from([0])])
  return Buffer.concat([int32(body.length + 4), body])
}

function parse({ sql, parameterOids }: CatalogueStatement): Buffer {
  return packet('P', Buffer.from([0]), cstring(sql), int16(parameterOids.length), ...parameterOids.map(int32))
}

function bind(values: readonly ParameterValue[], formats: readonly Format[]): Buffer {
  return packet(
    'B',
    Buffer.from([0, 0]),
    int16(values.length),
    ...values.map(({ format }) => int16(format)),
    int16(values.length),
    ...values.flatMap(({ bytes }) => (bytes === null ? [int32(-1)] : [int32(bytes.length), bytes])),
    int16(formats.length),
    ...formats.map(int16),
  )
}

function packet(type: string, ...parts: readonly Buffer[]): Buffer {
  const body = Buffer.concat(parts)
  return Buffer.concat([Buffer.from(type), int32(body.length + 4), body])
}

const cstring = (text: string): Buffer => Buffer.from(`${text}\0`)

function int16(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(2)
  bytes.writeUInt16BE(value)
  return bytes
}

function int32(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4)
  bytes.writeInt32BE(value | 0)
  return bytes
}
