/** Kafka's own encoding: numbers of fixed length, the most significant byte first, and varints; what is announced and not there is told. */

/** The server does not keep the protocol; `what` never holds a value of its own. */
export class BrokenAnswer extends Error {
  override readonly name = 'BrokenAnswer'
}

const cutOff = () => new BrokenAnswer('an answer is cut off')

export class WireReader {
  readonly bytes: Buffer
  at: number

  constructor(bytes: Buffer, at = 0) {
    this.bytes = bytes
    this.at = at
  }

  get left(): number {
    return this.bytes.length - this.at
  }

  /** Of the same memory. */
  take(length: number): Buffer {
    if (!(length >= 0 && length <= this.left)) throw cutOff()
    const from = this.at
    this.at += length
    return this.bytes.subarray(from, this.at)
  }

  int8(): number {
    return this.take(1).readInt8()
  }

  int16(): number {
    return this.take(2).readInt16BE()
  }

  int32(): number {
    return this.take(4).readInt32BE()
  }

  uint32(): number {
    return this.take(4).readUInt32BE()
  }

  /** Offsets and lengths of time: beyond 2^53 there are none. */
  int64(): number {
    const value = Number(this.bigint64())
    if (!Number.isSafeInteger(value)) throw new BrokenAnswer('a number is larger than any offset')
    return value
  }

  bigint64(): bigint {
    return this.take(8).readBigInt64BE()
  }

  /** Of 32 bits. */
  uvarint(): number {
    let value = 0
    let scale = 1
    for (let count = 0; count < 5; count += 1) {
      const byte = this.bytes[this.at]
      if (byte === undefined) throw cutOff()
      this.at += 1
      value += (byte & 127) * scale
      if (byte < 128 && value <= 0xffff_ffff) return value
      scale *= 128
    }
    throw cutOff()
  }

  varint(): number {
    const value = this.uvarint()
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2
  }

  /** Of 64 bits. */
  varlong(): bigint {
    let bits = 0n
    for (let count = 0; count < 10; count += 1) {
      const byte = this.bytes[this.at]
      if (byte === undefined) throw cutOff()
      this.at += 1
      bits |= BigInt(byte & 127) << BigInt(7 * count)
      if (byte < 128) return BigInt.asIntN(64, (bits >> 1n) ^ -(bits & 1n))
    }
    throw cutOff()
  }

  uuid(): string {
    return this.take(16).toString('hex')
  }

  string(): string {
    return this.take(this.int16()).toString('utf8')
  }

  nullableString(): string | null {
    const length = this.int16()
    return length < 0 ? null : this.take(length).toString('utf8')
  }

  compactString(): string {
    return this.compactNullableString() ?? ''
  }

  compactNullableString(): string | null {
    const length = this.uvarint()
    return length === 0 ? null : this.take(length - 1).toString('utf8')
  }

  compactNullableBytes(): Buffer | null {
    const length = this.uvarint()
    return length === 0 ? null : this.take(length - 1)
  }

  /** Every item has a byte, so that a count beyond what is left is none. */
  compactArray<T>(item: () => T): T[] {
    return this.#items(this.uvarint() - 1, item)
  }

  array<T>(item: () => T): T[] {
    return this.#items(this.int32(), item)
  }

  #items<T>(count: number, item: () => T): T[] {
    if (count > this.left) throw cutOff()
    const items: T[] = []
    for (let at = 0; at < count; at += 1) items.push(item())
    return items
  }

  /** Fields that later versions add: they are passed over. */
  tags(): void {
    for (let count = this.uvarint(); count > 0; count -= 1) {
      this.uvarint()
      this.take(this.uvarint())
    }
  }
}

export class WireWriter {
  readonly #parts: Buffer[] = []

  int8(value: number): this {
    return this.raw(Buffer.from([value & 255]))
  }

  int16(value: number): this {
    const part = Buffer.alloc(2)
    part.writeInt16BE(value)
    return this.raw(part)
  }

  int32(value: number): this {
    const part = Buffer.alloc(4)
    part.writeInt32BE(value)
    return this.raw(part)
  }

  int64(value: number): this {
    const part = Buffer.alloc(8)
    part.writeBigInt64BE(BigInt(value))
    return this.raw(part)
  }

  uvarint(value: number): this {
    const bytes: number[] = []
    let rest = value
    for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128)
    bytes.push(rest)
    return this.raw(Buffer.from(bytes))
  }

  uuid(hex: string): this {
    return this.raw(Buffer.from(hex, 'hex'))
  }

  string(text: string): this {
    const part = Buffer.from(text, 'utf8')
    return this.int16(part.length).raw(part)
  }

  bytes(part: Buffer): this {
    return this.int32(part.length).raw(part)
  }

  compactString(text: string): this {
    const part = Buffer.from(text, 'utf8')
    return this.uvarint(part.length + 1).raw(part)
  }

  compactArray<T>(items: readonly T[], item: (value: T) => void): this {
    this.uvarint(items.length + 1)
    for (const value of items) item(value)
    return this
  }

  noTags(): this {
    return this.uvarint(0)
  }

  raw(part: Buffer): this {
    this.#parts.push(part)
    return this
  }

  done(): Buffer {
    return Buffer.concat(this.#parts)
  }
}
