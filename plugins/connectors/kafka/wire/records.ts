/** Batches of records, as logs of Kafka hold them since 0.11. */
import { BrokenAnswer, WireReader } from './bytes.ts'
import { crc32c } from './crc32c.ts'
import { unpacked } from './unpack.ts'

export interface RecordHeader {
  readonly name: string
  readonly value: Buffer | null
}

export interface KafkaRecord {
  readonly offset: number
  /** Since 1970, as its producer or the broker says, which may be any number of 64 bits; less than 0: nobody has said. */
  readonly timestampMs: bigint
  readonly key: Buffer | null
  /** Null: a tombstone. */
  readonly value: Buffer | null
  readonly headers: readonly RecordHeader[]
}

export interface RecordBatch {
  readonly firstOffset: number
  readonly lastOffset: number
  /** Of the leader that took it: logs that differ have different ones. */
  readonly leaderEpoch: number
  readonly producerId: bigint
  readonly isTransactional: boolean
  /** Of a control batch, which has no records of anybody; else null. */
  readonly marker: 'abort' | 'other' | null
  /** Made when they are asked for: a batch of an aborted transaction is not unpacked. */
  records(): Iterable<KafkaRecord>
}

const HEAD_BYTES = 12
/** From the sum on; what stands before it is not summed. */
const MAGIC = 2
const LEAST_BATCH_BYTES = 49
const [CODEC_BITS, TRANSACTIONAL, CONTROL, LOG_APPEND_TIME] = [7, 16, 32, 8]
const ABORT = 0

/** Throws BrokenAnswer. The last of them may be cut off, and is left out then. */
export function* batchesOf(bytes: Buffer): Generator<RecordBatch> {
  const from = new WireReader(bytes)
  while (from.left > HEAD_BYTES) {
    const firstOffset = from.int64()
    const length = from.int32()
    if (length < LEAST_BATCH_BYTES) throw new BrokenAnswer('a batch of records is shorter than its own head')
    if (length > from.left) return
    yield batchOf(firstOffset, new WireReader(from.take(length)))
  }
}

function batchOf(firstOffset: number, from: WireReader): RecordBatch {
  const leaderEpoch = from.int32()
  if (from.int8() !== MAGIC) throw new BrokenAnswer('a batch of records is of a version before 0.11, which is not read')
  const sum = from.uint32()
  if (crc32c(from.bytes.subarray(from.at)) !== sum) throw new BrokenAnswer('a batch of records is damaged')
  const attributes = from.int16()
  const lastDelta = from.int32()
  if (lastDelta < 0) throw new BrokenAnswer('a batch of records ends before it begins')
  const firstTimestamp = from.bigint64()
  const maxTimestamp = from.bigint64()
  const producerId = from.bigint64()
  from.take(6)
  const count = from.int32()
  const body = from.take(from.left)
  const records = () =>
    recordsOf(body, attributes & CODEC_BITS, count, {
      firstOffset,
      lastDelta,
      firstTimestamp,
      timestamp: (attributes & LOG_APPEND_TIME) === 0 ? null : maxTimestamp,
    })
  return {
    firstOffset,
    lastOffset: firstOffset + lastDelta,
    leaderEpoch,
    producerId,
    isTransactional: (attributes & TRANSACTIONAL) !== 0,
    marker: (attributes & CONTROL) === 0 ? null : markerOf(records()),
    records,
  }
}

interface Base {
  readonly firstOffset: number
  readonly lastDelta: number
  readonly firstTimestamp: bigint
  /** Of all records, where the broker stamps them. */
  readonly timestamp: bigint | null
}

function* recordsOf(body: Buffer, codec: number, count: number, base: Base): Generator<KafkaRecord> {
  const all = new WireReader(unpacked(codec, body))
  if (count < 0 || count > all.left) throw new BrokenAnswer('a batch of records announces more than it has')
  let former = -1
  for (let at = 0; at < count; at += 1) {
    const from = new WireReader(all.take(all.varint()))
    from.int8()
    const timestampMs = BigInt.asIntN(64, base.firstTimestamp + from.varlong())
    const delta = from.varint()
    if (delta <= former || delta > base.lastDelta) throw new BrokenAnswer('offsets of records do not grow')
    former = delta
    const key = nullableBytes(from)
    const value = nullableBytes(from)
    const headers = headersOf(from)
    yield { offset: base.firstOffset + delta, timestampMs: base.timestamp ?? timestampMs, key, value, headers }
  }
}

function nullableBytes(from: WireReader): Buffer | null {
  const length = from.varint()
  return length < 0 ? null : from.take(length)
}

function headersOf(from: WireReader): readonly RecordHeader[] {
  const count = from.varint()
  if (count < 0 || count > from.left) throw new BrokenAnswer('a record announces more headers than it has')
  return Array.from({ length: count }, () => ({
    name: from.take(from.varint()).toString('utf8'),
    value: nullableBytes(from),
  }))
}

/** The key of its one record says what it is: a version, then a type. */
function markerOf(records: Iterable<KafkaRecord>): 'abort' | 'other' {
  for (const { key } of records)
    return key !== null && key.length >= 4 && key.readInt16BE(2) === ABORT ? 'abort' : 'other'
  return 'other'
}
