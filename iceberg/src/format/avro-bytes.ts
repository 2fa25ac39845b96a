const MAX_DEPTH = 64

/** Of one record, which is read at a stretch: statistics of tens of thousands of columns fit in. */
const MAX_VALUES_OF_RECORD = 500_000

/** What one file may cost, however small it is when it is packed. */
export class AvroBudget {
  #left: number
  #leftOfRecord = MAX_VALUES_OF_RECORD

  constructor(values: number) {
    this.#left = values
  }

  beginRecord(): void {
    this.#leftOfRecord = MAX_VALUES_OF_RECORD
  }

  spend(values: number): void {
    this.#left -= values
    this.#leftOfRecord -= values
    if (this.#left < 0 || this.#leftOfRecord < 0) throw new Error('the Avro file holds more values than it may')
  }
}

/** Reads from bytes that somebody else has written, and never past their end. */
export class AvroBytes {
  readonly #bytes: Buffer
  readonly #budget: AvroBudget
  #at: number
  #depth = 0

  constructor(bytes: Buffer, budget: AvroBudget, at = 0) {
    this.#bytes = bytes
    this.#budget = budget
    this.#at = at
  }

  get at(): number {
    return this.#at
  }

  byte(): number {
    const byte = this.#bytes[this.#at]
    if (byte === undefined) throw cutOff()
    this.#at += 1
    return byte
  }

  /** A view, not a copy. */
  take(count: number): Buffer {
    const end = this.#at + count
    if (count < 0 || end > this.#bytes.length) throw cutOff()
    const taken = this.#bytes.subarray(this.#at, end)
    this.#at = end
    return taken
  }

  bytes(): Buffer {
    return this.take(this.#count())
  }

  /** A zigzag integer of up to ten bytes; beyond 53 bits as bigint. */
  long(): number | bigint {
    let value = 0
    for (let shift = 1, place = 1; place <= 5; place += 1, shift *= 128) {
      const byte = this.byte()
      value += (byte & 127) * shift
      if (byte < 128) return value % 2 === 0 ? value / 2 : -(value + 1) / 2
    }
    return this.#longer(BigInt(value))
  }

  #longer(first: bigint): bigint {
    let value = first
    for (let place = 5; place < 10; place += 1) {
      const byte = this.byte()
      value |= BigInt(byte & 127) << BigInt(7 * place)
      if (byte < 128) return (value >> 1n) ^ -(value & 1n)
    }
    throw new Error('the Avro file has a broken number')
  }

  /** A length; none is longer than what is left. */
  #count(): number {
    const count = Number(this.long())
    if (!(count >= 0 && count <= this.#bytes.length - this.#at)) throw cutOff()
    return count
  }

  /** The items of a list: each takes some bytes, so that there are no more than what they are read from. */
  eachItem(read: () => void): void {
    for (;;) {
      let left = Number(this.long())
      if (left === 0) return
      // With the size of the block behind it.
      if (left < 0) {
        left = -left
        this.long()
      }
      for (; left > 0; left -= 1) {
        const before = this.#at
        this.#budget.spend(1)
        read()
        if (this.#at === before) throw new Error('an Avro list has items without bytes')
      }
    }
  }

  /** @param values that it is made of */
  within<Result>(values: number, read: () => Result): Result {
    if (++this.#depth > MAX_DEPTH) throw new Error('an Avro value is nested too deeply')
    this.#budget.spend(1 + values)
    const result = read()
    this.#depth -= 1
    return result
  }
}

function cutOff(): Error {
  return new Error('an Avro value is cut off')
}
