/** What pgoutput (protocol version 1) says, from its bytes. Every length is checked: the server may be anybody's. */

/** A value as text, null, or one that is as it was. */
export type Cell = Buffer | null | 'unchanged'
export type Tuple = readonly Cell[]

export interface LoggedColumn {
  readonly name: string
  readonly typeOid: number
  readonly modifier: number
}

export type LogMessage =
  | { readonly kind: 'begin'; readonly commitLsn: bigint; readonly timeUs: bigint }
  | { readonly kind: 'commit'; readonly endLsn: bigint; readonly timeUs: bigint }
  | {
      readonly kind: 'relation'
      readonly oid: number
      readonly schema: string
      readonly table: string
      readonly columns: readonly LoggedColumn[]
    }
  | { readonly kind: 'insert'; readonly oid: number; readonly row: Tuple }
  | {
      readonly kind: 'update'
      readonly oid: number
      readonly old: Tuple | null
      readonly isFull: boolean
      readonly row: Tuple
    }
  | { readonly kind: 'delete'; readonly oid: number; readonly old: Tuple }
  | { readonly kind: 'truncate'; readonly oids: readonly number[] }
  | { readonly kind: 'other' }

const MAX_COLUMNS = 1664

class Reader {
  at = 1
  readonly #body: Buffer

  constructor(body: Buffer) {
    this.#body = body
  }

  byte(): string {
    return String.fromCharCode(this.#body.readUInt8(this.#step(1)))
  }

  skip(count: number): void {
    this.#step(count)
  }

  u16(): number {
    return this.#body.readUInt16BE(this.#step(2))
  }

  u32(): number {
    return this.#body.readUInt32BE(this.#step(4))
  }

  i32(): number {
    return this.#body.readInt32BE(this.#step(4))
  }

  u64(): bigint {
    return this.#body.readBigUInt64BE(this.#step(8))
  }

  text(): string {
    const end = this.#body.indexOf(0, this.at)
    if (end < 0) throw garbled()
    const text = this.#body.toString('utf8', this.at, end)
    this.at = end + 1
    return text
  }

  bytes(count: number): Buffer {
    const from = this.#step(count)
    return this.#body.subarray(from, from + count)
  }

  tuple(): Tuple {
    const count = this.u16()
    if (count > MAX_COLUMNS) throw garbled()
    const cells: Cell[] = []
    for (let index = 0; index < count; index += 1) cells.push(this.#cell())
    return cells
  }

  #cell(): Cell {
    switch (this.byte()) {
      case 'n':
        return null
      case 'u':
        return 'unchanged'
      case 't':
        return this.bytes(this.u32())
      default:
        throw garbled()
    }
  }

  #step(count: number): number {
    const from = this.at
    if (from + count > this.#body.length) throw garbled()
    this.at = from + count
    return from
  }
}

export function decode(body: Buffer): LogMessage {
  const reader = new Reader(body)
  switch (String.fromCharCode(body[0] ?? 0)) {
    case 'B':
      return { kind: 'begin', commitLsn: reader.u64(), timeUs: reader.u64() }
    case 'C':
      reader.skip(1 + 8)
      return { kind: 'commit', endLsn: reader.u64(), timeUs: reader.u64() }
    case 'R':
      return relation(reader)
    case 'I':
      return { kind: 'insert', oid: reader.u32(), row: rowAfter(reader, reader.byte()) }
    case 'U':
      return update(reader)
    case 'D':
      return { kind: 'delete', oid: reader.u32(), old: oldAfter(reader, reader.byte()) }
    case 'T':
      return truncate(reader)
    default:
      // Types, origins and messages of other programs.
      return { kind: 'other' }
  }
}

function relation(reader: Reader): LogMessage {
  const oid = reader.u32()
  const schema = reader.text() || 'pg_catalog'
  const table = reader.text()
  reader.skip(1)
  const count = reader.u16()
  if (count > MAX_COLUMNS) throw garbled()
  const columns: LoggedColumn[] = []
  for (let index = 0; index < count; index += 1) {
    reader.skip(1)
    columns.push({ name: reader.text(), typeOid: reader.u32(), modifier: reader.i32() })
  }
  return { kind: 'relation', oid, schema, table, columns }
}

function update(reader: Reader): LogMessage {
  const oid = reader.u32()
  const mark = reader.byte()
  if (mark === 'N') return { kind: 'update', oid, old: null, isFull: false, row: reader.tuple() }
  const old = oldAfter(reader, mark)
  return { kind: 'update', oid, old, isFull: mark === 'O', row: rowAfter(reader, reader.byte()) }
}

function rowAfter(reader: Reader, mark: string): Tuple {
  if (mark !== 'N') throw garbled()
  return reader.tuple()
}

function oldAfter(reader: Reader, mark: string): Tuple {
  if (mark !== 'K' && mark !== 'O') throw garbled()
  return reader.tuple()
}

function truncate(reader: Reader): LogMessage {
  const count = reader.u32()
  reader.skip(1)
  const oids: number[] = []
  for (let index = 0; index < count; index += 1) oids.push(reader.u32())
  return { kind: 'truncate', oids }
}

export function garbled(): Error {
  return new Error('the server sent a change that cannot be understood')
}
