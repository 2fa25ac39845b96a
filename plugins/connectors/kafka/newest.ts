/** Which record of each key is the newest, of all that a read goes through. */
import { tooMuch } from './failure.ts'
import type { RowKey } from './row-key.ts'
import type { KafkaRecord } from './wire/records.ts'

/** Some 200 bytes each. */
const MAX_KEYS = 1_000_000

interface Standing {
  readonly partition: number
  readonly offset: number
  readonly timestampMs: bigint
  readonly isGone: boolean
}

export class Newest {
  readonly #keyOf: RowKey
  readonly #maxKeys: number
  readonly #standings = new Map<string, Standing>()

  constructor(keyOf: RowKey, maxKeys: number = MAX_KEYS) {
    this.#keyOf = keyOf
    this.#maxKeys = maxKeys
  }

  /** In one partition the later offset is the newer record; where a key lies in several, the later time is. */
  add({ key, offset, timestampMs, value }: KafkaRecord, partition: number): void {
    if (key === null) return
    const id = this.#keyOf(key)
    const known = this.#standings.get(id)
    if (known !== undefined && known.partition !== partition) {
      const isOlder =
        timestampMs < known.timestampMs || (timestampMs === known.timestampMs && partition < known.partition)
      if (isOlder) return
    }
    if (known === undefined && this.#standings.size >= this.#maxKeys)
      throw tooMuch(
        `more than ${this.#maxKeys} keys changed since the last read, or are in the topic`,
        'Sync more often; a topic with more keys is read by append.',
      )
    this.#standings.set(id, { partition, offset, timestampMs, isGone: value === null })
  }

  /** Records without a key are nobody's newest, and told as such. */
  isShown({ key, offset, value }: KafkaRecord, partition: number): boolean {
    if (key === null) return true
    const known = this.#standings.get(this.#keyOf(key))
    return value !== null && known?.partition === partition && known.offset === offset
  }

  /** How many keys have a row. */
  get rows(): number {
    let count = 0
    for (const { isGone } of this.#standings.values()) if (!isGone) count += 1
    return count
  }
}
