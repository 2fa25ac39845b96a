/** A default of a schema, which JSON has, as the bytes that a writer would have written for it. */
import { MAX_RECORD_BYTES } from '../records.ts'
import type { AvroNode, Primitive, RecordNode } from './schema.ts'

const MAX_DEPTH = 32
const MAX_PARTS = 100_000
const LEAST_LONG = -(2n ** 63n)
const MOST_LONG = 2n ** 63n - 1n
const LEAST_INT = -(2n ** 31n)
const MOST_INT = 2n ** 31n - 1n

/** The schema has no such value. */
export class BadDefault extends Error {
  override readonly name = 'BadDefault'
}

/** Throws BadDefault. */
export function defaultBytes(node: AvroNode, value: unknown): Buffer {
  const to = new Written()
  write(node, value, to, 0)
  return Buffer.concat(to.chunks)
}

class Written {
  readonly chunks: Buffer[] = []
  #bytes = 0
  #parts = 0

  push(chunk: Buffer): void {
    this.#bytes += chunk.length
    if (this.#bytes > MAX_RECORD_BYTES) throw new BadDefault()
    this.chunks.push(chunk)
  }

  whole(value: bigint): void {
    const bytes: number[] = []
    let rest = BigInt.asUintN(64, (value << 1n) ^ (value >> 63n))
    for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128)
    this.push(Buffer.from([...bytes, Number(rest)]))
  }

  count(): void {
    this.#parts += 1
    if (this.#parts > MAX_PARTS) throw new BadDefault()
  }
}

function write(node: AvroNode, value: unknown, to: Written, depth: number): void {
  to.count()
  if (depth > MAX_DEPTH) throw new BadDefault()
  switch (node.kind) {
    case 'record':
      writeRecord(node, value, to, depth)
      break
    case 'array': {
      const items = Array.isArray(value) ? value : refuse()
      if (items.length > 0) to.whole(BigInt(items.length))
      for (const item of items) write(node.items, item, to, depth + 1)
      to.whole(0n)
      break
    }
    case 'map': {
      const entries = Object.entries(objectOf(value))
      if (entries.length > 0) to.whole(BigInt(entries.length))
      for (const [name, item] of entries) {
        writeBytes(Buffer.from(name), to)
        write(node.items, item, to, depth + 1)
      }
      to.whole(0n)
      break
    }
    case 'union':
      writeUnion(node.branches, value, to, depth)
      break
    case 'enum': {
      const place = node.symbols.indexOf(String(value))
      to.whole(place < 0 ? refuse() : BigInt(place))
      break
    }
    case 'fixed': {
      const bytes = bytesOf(value)
      to.push(bytes.length === node.size ? bytes : refuse())
      break
    }
    default:
      writePrimitive(node.kind, value, to)
  }
}

function writeRecord(node: RecordNode, value: unknown, to: Written, depth: number): void {
  const members = objectOf(value)
  for (const { name, node: field, fallback } of node.fields) {
    const found = Object.hasOwn(members, name) ? members[name] : fallback
    if (found === undefined) throw new BadDefault()
    write(field, found, to, depth + 1)
  }
}

/** Of the first branch that has it, which older versions of Avro ask for as the very first. */
function writeUnion(branches: readonly AvroNode[], value: unknown, to: Written, depth: number): void {
  for (const [place, branch] of branches.entries()) {
    const before = to.chunks.length
    try {
      to.whole(BigInt(place))
      write(branch, value, to, depth + 1)
      return
    } catch (error) {
      if (!(error instanceof BadDefault)) throw error
      to.chunks.length = before
      to.count()
    }
  }
  refuse()
}

function writePrimitive(kind: Primitive['kind'], value: unknown, to: Written): void {
  switch (kind) {
    case 'null':
      if (value !== null) refuse()
      break
    case 'boolean':
      to.push(typeof value === 'boolean' ? Buffer.from([value ? 1 : 0]) : refuse())
      break
    case 'int':
    case 'long': {
      const isWhole = typeof value === 'bigint' || (typeof value === 'number' && Number.isSafeInteger(value))
      const whole = isWhole ? BigInt(value) : refuse()
      const [least, most] = kind === 'int' ? [LEAST_INT, MOST_INT] : [LEAST_LONG, MOST_LONG]
      to.whole(whole >= least && whole <= most ? whole : refuse())
      break
    }
    case 'float':
    case 'double': {
      const number = typeof value === 'number' || typeof value === 'bigint' ? Number(value) : refuse()
      const bytes = Buffer.alloc(kind === 'float' ? 4 : 8)
      if (kind === 'float') bytes.writeFloatLE(number)
      else bytes.writeDoubleLE(number)
      to.push(bytes)
      break
    }
    case 'string':
      writeBytes(Buffer.from(typeof value === 'string' ? value : refuse()), to)
      break
    case 'bytes':
      writeBytes(bytesOf(value), to)
  }
}

function writeBytes(bytes: Buffer, to: Written): void {
  to.whole(BigInt(bytes.length))
  to.push(bytes)
}

/** JSON has each byte as the character of its number. */
function bytesOf(value: unknown): Buffer {
  if (typeof value !== 'string' || /[^\0-\xff]/.test(value)) return refuse()
  return Buffer.from(value, 'latin1')
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return refuse()
  return value as Record<string, unknown>
}

function refuse(): never {
  throw new BadDefault()
}
