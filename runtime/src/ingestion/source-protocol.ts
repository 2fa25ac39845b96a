/**
 * What the runtime and the process that reads a source say to each other, over one stream of frames:
 * `u32 length of what follows | u8 type | payload`. Payloads are JSON, or bytes of rows. Whoever speaks for the source
 * may have been taken over by it, so that the runtime reads frames of bounded size only, and believes none of them.
 */

import type { Wall, WallName } from '@sluice/engine'
import type { WireError } from '@sluice/engine/wire-error'
import type { ChangePosition, ChangeStream, ProgramRequest, ReadRequest } from '@sluice/sdk'

/** In the child. */
export const CHANNEL_FD = 3
/** In the child: sockets that the runtime has connected come over it. */
export const DESCRIPTOR_FD = 4

export const FRAME = { json: 0, csv: 1, batch: 2 } as const
export type FrameType = (typeof FRAME)[keyof typeof FRAME]

export const HEADER_BYTES = 5
/** Of a batch: how many rows its CSV has. */
export const ROW_COUNT_BYTES = 4
/** A table of ten thousand columns fits. */
export const MAX_JSON_BYTES = 2 * 1024 * 1024
export const MAX_ROWS_BYTES = 64 * 1024 * 1024
/** A child that says nothing for longer than the runtime waits has been frozen by what it reads. */
export const ALIVE_EVERY_MS = 500

/** Sent once, first: the child shuts itself in, and opens the connector with these settings. */
export interface OpenMessage {
  readonly kind: 'open'
  /** URL of the plugin's module; among those that the child has loaded. */
  readonly module: string
  readonly settings: Readonly<Record<string, unknown>>
  readonly memoryBytes: number
  readonly userId: number | null
  /** Without these it opens nothing. */
  readonly neededWalls: readonly WallName[]
  /** Folders of code that may still be loaded. */
  readonly codeFolders: readonly string[]
  /** Folders of the machine that the connection may read under. */
  readonly readFolders: readonly string[]
}

export type WireReadRequest = Omit<ReadRequest, 'signal'>

export type SourceCall =
  | { readonly method: 'check' }
  | { readonly method: 'discover'; readonly after: string | null; readonly limit: number }
  | { readonly method: 'read'; readonly request: WireReadRequest }
  | { readonly method: 'ack'; readonly schema: string; readonly table: string; readonly state: unknown }
  | { readonly method: 'close' }
  | ChangeCall

/** Of a connector that reads a log. */
export type ChangeCall =
  | { readonly method: 'changes.judges' }
  | { readonly method: 'changes.refusals'; readonly capture?: string; readonly streams: readonly ChangeStream[] }
  | {
      readonly method: 'changes.prepare'
      readonly capture: string
      readonly streams: readonly ChangeStream[]
      readonly anew: boolean
    }
  | {
      readonly method: 'changes.read'
      readonly capture: string
      readonly after: ChangePosition
      readonly streams: readonly ChangeStream[]
    }
  | {
      readonly method: 'changes.await'
      readonly capture: string
      readonly after: ChangePosition
      readonly streams: readonly ChangeStream[]
      readonly waitMs: number
    }
  | { readonly method: 'changes.ack'; readonly capture: string; readonly position: ChangePosition }
  | { readonly method: 'changes.health'; readonly capture: string; readonly saved: ChangePosition | null }
  | { readonly method: 'changes.release'; readonly capture: string }

/** Among the parts of `changes.read`, beside its events: whose rows follow, and how many have come of them. */
export type ChangeRowsPart =
  | { readonly kind: 'stream'; readonly stream: number }
  | { readonly kind: 'count'; readonly rows: number }

export type ToSourceChild =
  | OpenMessage
  /** One at a time. */
  | { readonly kind: 'call'; readonly call: SourceCall }
  | { readonly kind: 'abort' }
  | { readonly kind: 'answer'; readonly id: number; readonly value: unknown }
  | { readonly kind: 'refusal'; readonly id: number; readonly error: WireError }
  /** A connection that the program has made lies in its gate's line. */
  | { readonly kind: 'knock'; readonly program: number }

/** What the child wants of the runtime; answered by `answer` or `refusal`. */
export type SourceQuestion =
  | { readonly what: 'resolve'; readonly host: string; readonly port: number }
  /** Answered by 0 once the socket lies in the descriptor line, else by the system's error number. */
  | { readonly what: 'connect'; readonly address: string; readonly port: number }
  | { readonly what: 'fault-point'; readonly name: string }
  /** Answered by its number once two descriptors lie in the line: its output, and its gate's line. */
  | { readonly what: 'program'; readonly request: ProgramRequest }
  /** Answered once it has ended. */
  | { readonly what: 'program-end'; readonly program: number }
  | { readonly what: 'program-stop'; readonly program: number }

export interface ResolvedAddress {
  readonly address: string
  readonly family: 4 | 6
  readonly allowsCleartextPassword: boolean
}

/** As the child says it. The runtime takes every one of these for unknown JSON. */
export type FromSourceChild =
  | { readonly kind: 'ready' }
  | { readonly kind: 'walls'; readonly walls: readonly Wall[] }
  | { readonly kind: 'alive' }
  | { readonly kind: 'ask'; readonly id: number; readonly question: SourceQuestion }
  | { readonly kind: 'log'; readonly level: string; readonly message: string; readonly fields: unknown }
  | {
      readonly kind: 'metric'
      readonly type: string
      readonly name: string
      readonly value: number
      readonly labels: unknown
    }
  /** Part of a call's answer: a table of discover, a report of check, an event of read that is no rows. */
  | { readonly kind: 'part'; readonly part: unknown }
  /** The call is over; `next` of discover. */
  | { readonly kind: 'done'; readonly next: string | null }
  | { readonly kind: 'failed'; readonly error: WireError }
  /** Something in the child threw where nobody could catch it: it ends. */
  | { readonly kind: 'broken'; readonly error: WireError }

export function frameHeader(type: FrameType, payloadBytes: number): Buffer {
  const header = Buffer.alloc(HEADER_BYTES)
  header.writeUInt32BE(payloadBytes + 1, 0)
  header.writeUInt8(type, 4)
  return header
}

export function jsonFrame(message: ToSourceChild | FromSourceChild): Buffer {
  const payload = Buffer.from(JSON.stringify(message))
  return Buffer.concat([frameHeader(FRAME.json, payload.length), payload])
}

/** A frame's JSON, or some of a frame's rows as they come: `rowCount` is of a batch's first piece, else 0. */
export type Frame =
  | { readonly type: 'json'; readonly value: unknown }
  | { readonly type: 'csv'; readonly bytes: Uint8Array }
  | { readonly type: 'batch'; readonly bytes: Uint8Array; readonly rowCount: number }

/** What was read is no frame. */
export class BrokenFrame extends Error {
  override readonly name = 'BrokenFrame'
}

/** Takes a stream apart. Holds at most one JSON frame; rows pass through as they come. */
export class FrameReader {
  readonly #maxJsonBytes: number
  readonly #header = Buffer.alloc(HEADER_BYTES + ROW_COUNT_BYTES)
  #headerFill = 0
  #headerNeeds = HEADER_BYTES
  #type: FrameType | null = null
  #left = 0
  #rowCount = 0
  #json = Buffer.alloc(0)
  #jsonFill = 0

  constructor(maxJsonBytes = MAX_JSON_BYTES) {
    this.#maxJsonBytes = maxJsonBytes
  }

  /** The frames that end in, and the rows that lie in, the next bytes of the stream. Throws BrokenFrame. */
  *take(chunk: Uint8Array): Generator<Frame> {
    let at = 0
    while (at < chunk.length || (this.#type !== null && this.#left === 0)) {
      if (this.#type === null) {
        at = this.#takeHeader(chunk, at)
        continue
      }
      const piece = chunk.subarray(at, at + this.#left)
      at += piece.length
      this.#left -= piece.length
      const frame = this.#piece(this.#type, piece)
      if (this.#left === 0) this.#nextFrame()
      if (frame) yield frame
    }
  }

  #takeHeader(chunk: Uint8Array, from: number): number {
    const piece = chunk.subarray(from, from + this.#headerNeeds - this.#headerFill)
    this.#header.set(piece, this.#headerFill)
    this.#headerFill += piece.length
    if (this.#headerFill === this.#headerNeeds) this.#readHeader()
    return from + piece.length
  }

  #readHeader(): void {
    const payload = this.#header.readUInt32BE(0) - 1
    const type = this.#header[4]
    if (type === FRAME.batch && this.#headerNeeds === HEADER_BYTES) {
      this.#headerNeeds += ROW_COUNT_BYTES
      return
    }
    if (type === FRAME.json) this.#begin(type, payload, this.#maxJsonBytes)
    else if (type === FRAME.csv) this.#begin(type, payload, MAX_ROWS_BYTES)
    else if (type === FRAME.batch) {
      this.#rowCount = this.#header.readUInt32BE(HEADER_BYTES)
      this.#begin(type, payload - ROW_COUNT_BYTES, MAX_ROWS_BYTES)
    } else throw new BrokenFrame('a frame of no known type')
  }

  #begin(type: FrameType, bytes: number, maxBytes: number): void {
    if (bytes < 0 || bytes > maxBytes) throw new BrokenFrame('a frame of a size that none may have')
    this.#type = type
    this.#left = bytes
    if (type !== FRAME.json) return
    this.#json = Buffer.alloc(bytes)
    this.#jsonFill = 0
  }

  #piece(type: FrameType, bytes: Uint8Array): Frame | null {
    if (type === FRAME.csv) return { type: 'csv', bytes }
    if (type === FRAME.batch) {
      const rowCount = this.#rowCount
      this.#rowCount = 0
      return { type: 'batch', bytes, rowCount }
    }
    this.#json.set(bytes, this.#jsonFill)
    this.#jsonFill += bytes.length
    if (this.#left > 0) return null
    const text = this.#json.toString('utf8')
    this.#json = Buffer.alloc(0)
    try {
      return { type: 'json', value: JSON.parse(text) }
    } catch (cause) {
      throw new BrokenFrame('a frame that is no JSON', { cause })
    }
  }

  #nextFrame(): void {
    this.#type = null
    this.#headerFill = 0
    this.#headerNeeds = HEADER_BYTES
  }
}
