/** Requests that a reader of topics makes, each in one version, and what their answers say. */
import { type WireReader, WireWriter } from './bytes.ts'

export interface Api<Question, Answer> {
  readonly name: string
  readonly key: number
  readonly version: number
  /** Since when a request has tagged fields at its head. */
  readonly isFlexible: boolean
  write(question: Question): Buffer
  read(from: WireReader): Answer
}

export interface BrokerPlace {
  readonly id: number
  readonly host: string
  readonly port: number
}

export interface PartitionPlace {
  readonly partition: number
  readonly leader: number
}

export interface TopicPlaces {
  readonly error: number
  readonly name: string
  readonly id: string
  readonly isInternal: boolean
  readonly partitions: readonly PartitionPlace[]
}

export interface Metadata {
  readonly brokers: readonly BrokerPlace[]
  readonly clusterId: string
  readonly topics: readonly TopicPlaces[]
}

const NO_ID = '0'.repeat(32)

/** Of topics by name; null: of all that the login may see. */
export const METADATA: Api<readonly string[] | null, Metadata> = {
  ...{ name: 'Metadata', key: 3, version: 12, isFlexible: true },
  write: (names) => {
    const to = new WireWriter()
    if (names === null) to.uvarint(0)
    else to.compactArray(names, (name) => to.uuid(NO_ID).compactString(name).noTags())
    // No topic is made by asking for it.
    return to.int8(0).int8(0).noTags().done()
  },
  read: (from) => {
    from.int32()
    const brokers = from.compactArray(() => {
      const broker = { id: from.int32(), host: from.compactString(), port: from.int32() }
      from.compactNullableString()
      from.tags()
      return broker
    })
    const clusterId = from.compactNullableString() ?? ''
    from.int32()
    const topics = from.compactArray(() => {
      const error = from.int16()
      const name = from.compactNullableString() ?? ''
      const id = from.uuid()
      const isInternal = from.int8() !== 0
      const partitions = from.compactArray(() => placeOf(from))
      from.int32()
      from.tags()
      return {
        error,
        name,
        id,
        isInternal,
        partitions: partitions.sort((one, other) => one.partition - other.partition),
      }
    })
    return { brokers, clusterId, topics }
  },
}

function placeOf(from: WireReader): PartitionPlace {
  from.int16()
  const place = { partition: from.int32(), leader: from.int32() }
  from.int32()
  for (let lists = 0; lists < 3; lists += 1) from.compactArray(() => from.int32())
  from.tags()
  return place
}

export interface OffsetsQuestion {
  readonly topic: string
  readonly partitions: readonly number[]
  /** The end: what follows the last record of a transaction that has come to its end. */
  readonly which: 'first' | 'end'
}

export interface PartitionOffset {
  readonly partition: number
  readonly error: number
  readonly offset: number
}

const TIMESTAMPS = { first: -2, end: -1 } as const
const [READ_UNCOMMITTED, READ_COMMITTED] = [0, 1]

export const OFFSETS: Api<OffsetsQuestion, readonly PartitionOffset[]> = {
  ...{ name: 'ListOffsets', key: 2, version: 7, isFlexible: true },
  write: ({ topic, partitions, which }) =>
    ofTopic(new WireWriter().int32(-1).int8(READ_COMMITTED), topic, partitions, (to, partition) =>
      to.int32(partition).int32(-1).int64(TIMESTAMPS[which]),
    ),
  read: (from) =>
    partitionsIn(from, () => {
      const [partition, error] = [from.int32(), from.int16()]
      from.bigint64()
      const offset = from.int64()
      from.int32()
      return { partition, error, offset }
    }),
}

export interface EpochEndsQuestion {
  readonly topic: string
  readonly partitions: readonly { readonly partition: number; readonly epoch: number }[]
}

/** Of epochs of leaders: the offset that the log goes on from by later ones; the end where there are none. */
export const EPOCH_ENDS: Api<EpochEndsQuestion, readonly PartitionOffset[]> = {
  ...{ name: 'OffsetForLeaderEpoch', key: 23, version: 4, isFlexible: true },
  write: ({ topic, partitions }) =>
    ofTopic(new WireWriter().int32(-1), topic, partitions, (to, { partition, epoch }) =>
      to.int32(partition).int32(-1).int32(epoch),
    ),
  read: (from) =>
    partitionsIn(from, () => {
      const [error, partition] = [from.int16(), from.int32()]
      from.int32()
      const offset = from.int64()
      // Less than 0: a log that knows of no epochs, and so says nothing against any offset.
      return { partition, error, offset: offset < 0 ? Number.MAX_SAFE_INTEGER : offset }
    }),
}

/** A question about partitions of one topic, to its end; `write` leaves out the tags. */
function ofTopic<P>(
  to: WireWriter,
  topic: string,
  partitions: readonly P[],
  write: (to: WireWriter, partition: P) => WireWriter,
): Buffer {
  to.compactArray([topic], (name) => {
    to.compactString(name).compactArray(partitions, (partition) => write(to, partition).noTags())
    to.noTags()
  })
  return to.noTags().done()
}

/** Its answer. */
function partitionsIn<P>(from: WireReader, read: () => P): readonly P[] {
  from.int32()
  return from
    .compactArray(() => {
      from.compactString()
      const partitions = from.compactArray(() => {
        const partition = read()
        from.tags()
        return partition
      })
      from.tags()
      return partitions
    })
    .flat()
}

export interface FetchQuestion {
  readonly topicId: string
  readonly partition: number
  readonly offset: number
  readonly maxBytes: number
  readonly maxWaitMs: number
  /** Default `committed`: what stands before the first transaction that is open. */
  readonly sees?: 'committed' | 'all'
}

export interface Fetched {
  readonly error: number
  readonly throttleMs: number
  /** As `end` of offsets. */
  readonly end: number
  readonly first: number
  readonly aborted: readonly { readonly producerId: bigint; readonly firstOffset: number }[]
  readonly records: Buffer
}

/** Of one partition, without a session: the broker keeps nothing of us. */
export const FETCH: Api<FetchQuestion, Fetched | null> = {
  ...{ name: 'Fetch', key: 1, version: 13, isFlexible: true },
  write: ({ topicId, partition, offset, maxBytes, maxWaitMs, sees = 'committed' }) => {
    const isolation = sees === 'all' ? READ_UNCOMMITTED : READ_COMMITTED
    const to = new WireWriter().int32(-1).int32(maxWaitMs).int32(1).int32(maxBytes).int8(isolation)
    to.int32(0).int32(-1)
    to.compactArray([topicId], (id) => {
      to.uuid(id).compactArray([partition], (one) =>
        to.int32(one).int32(-1).int64(offset).int32(-1).int64(-1).int32(maxBytes).noTags(),
      )
      to.noTags()
    })
    return to
      .compactArray([], () => undefined)
      .compactString('')
      .noTags()
      .done()
  },
  read: (from) => {
    const throttleMs = from.int32()
    const whole = from.int16()
    from.int32()
    const found = from
      .compactArray(() => {
        from.uuid()
        const partitions = from.compactArray(() => {
          from.int32()
          const error = from.int16()
          from.int64()
          const [end, first] = [from.int64(), from.int64()]
          const aborted = from.compactArray(() => {
            const one = { producerId: from.bigint64(), firstOffset: from.int64() }
            from.tags()
            return one
          })
          from.int32()
          const records = from.compactNullableBytes() ?? Buffer.alloc(0)
          from.tags()
          return { error, throttleMs, end, first, aborted, records }
        })
        from.tags()
        return partitions
      })
      .flat()
    if (whole !== 0) return { error: whole, throttleMs, end: 0, first: 0, aborted: [], records: Buffer.alloc(0) }
    return found[0] ?? null
  },
}

export const VERSIONS: Api<
  null,
  { readonly error: number; readonly apis: ReadonlyMap<number, readonly [number, number]> }
> = {
  ...{ name: 'ApiVersions', key: 18, version: 0, isFlexible: false },
  write: () => Buffer.alloc(0),
  read: (from) => {
    const error = from.int16()
    return { error, apis: new Map(from.array(() => [from.int16(), [from.int16(), from.int16()] as const])) }
  },
}

export const HANDSHAKE: Api<string, { readonly error: number; readonly mechanisms: readonly string[] }> = {
  ...{ name: 'SaslHandshake', key: 17, version: 1, isFlexible: false },
  write: (mechanism) => new WireWriter().string(mechanism).done(),
  read: (from) => ({ error: from.int16(), mechanisms: from.array(() => from.string()) }),
}

export const AUTHENTICATE: Api<
  Buffer,
  { readonly error: number; readonly bytes: Buffer; readonly lifetimeMs: number }
> = {
  ...{ name: 'SaslAuthenticate', key: 36, version: 1, isFlexible: false },
  write: (bytes) => new WireWriter().bytes(bytes).done(),
  read: (from) => {
    const error = from.int16()
    from.nullableString()
    const bytes = from.take(Math.max(0, from.int32()))
    return { error, bytes, lifetimeMs: from.int64() }
  },
}
