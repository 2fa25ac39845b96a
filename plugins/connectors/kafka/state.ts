/** How far each partition was read, and of which topic: committed with the rows by whoever reads. */
import { createHash } from 'node:crypto'
import { type ConnectorState, isLogicalType, SluiceError } from '@sluice/sdk'
import type { PartitionRange, ReadPlace } from './cluster.ts'
import { tooMuch, topicReplaced } from './failure.ts'
import type { NamedType, TopicTable } from './topic-settings.ts'

const STATE_VERSION = 1
/** Grows where an upsert is read otherwise under the same settings. */
const SHAPE_VERSION = 2
const NO_EPOCH = -1
/** Larger than those of clusters that have lived long. */
const LARGE_EPOCH = 99_999
const MAX_STATE_BYTES = 60 * 1024

interface StateValue {
  /** Which topic: one that is made anew under its name has another. */
  readonly topic: string
  readonly mode: TopicTable['mode']
  /** Of what an upsert is read by: with another all is read again. */
  readonly shape: string
  /** Of each partition, by its number: the offset after the last record that was read. */
  readonly next: readonly number[]
  /** Of each partition: in which epoch of its leader the batch right before that offset was written; -1: it is not known. */
  readonly epochs: readonly number[]
  /** Where nobody has named them: what was found out, so that a later sample gives no column another type. */
  readonly columns?: readonly (readonly [string, string])[]
}

export interface SpanToRead {
  readonly partition: number
  readonly from: number
  readonly to: number
}

/** Records that were gone before they were read. */
export interface Loss {
  readonly partition: number
  readonly from: number
  readonly to: number
}

export interface Progress {
  readonly spans: readonly SpanToRead[]
  readonly lost: readonly Loss[]
  /** Null: it goes on from the state. Else why it cannot, so that every row comes. */
  readonly whole: string | null
}

/** Throws CONFIG `source_state_unknown`. */
export function parseState(state: ConnectorState | null): StateValue | null {
  if (state === null) return null
  const { topic, mode, shape, next, epochs = [], columns } = state.value as Partial<StateValue>
  const isOffset = (one: unknown): one is number => Number.isSafeInteger(one) && (one as number) >= 0
  const isKnown =
    state.version === STATE_VERSION &&
    typeof topic === 'string' &&
    (mode === 'append' || mode === 'upsert') &&
    typeof shape === 'string' &&
    Array.isArray(next) &&
    next.every(isOffset) &&
    Array.isArray(epochs) &&
    epochs.every((one) => one === NO_EPOCH || isOffset(one)) &&
    (columns === undefined || (Array.isArray(columns) && columns.every(isNamedType)))
  if (!isKnown)
    throw new SluiceError('CONFIG', 'the saved position was not written by this version', {
      code: 'source_state_unknown',
      remedy: 'Read the table once in full.',
    })
  return { topic, mode, shape, next, epochs, ...(columns === undefined ? {} : { columns }) }
}

function isNamedType(one: unknown): one is readonly [string, string] {
  return Array.isArray(one) && typeof one[0] === 'string' && typeof one[1] === 'string' && isLogicalType(one[1])
}

/** Where a log that was cut off and has gone on since is found out by. */
export function readPlaces({ next, epochs }: StateValue): readonly ReadPlace[] {
  return next.flatMap((offset, partition) => {
    const epoch = epochs[partition] ?? NO_EPOCH
    return epoch === NO_EPOCH ? [] : [{ partition, offset, epoch }]
  })
}

/** Whether records have to show which columns there are. */
export function isFoundOut({ columns, avro, subjects }: TopicTable): boolean {
  return columns === null && avro === null && subjects.value === null
}

/** Columns keep the types by which they were read; others come behind them. */
export function keptColumns(state: StateValue | null, found: readonly NamedType[]): readonly NamedType[] {
  const kept = (state?.columns ?? []).map(([name, type]) => ({ name, type }) as NamedType)
  return [...kept, ...found.filter(({ name }) => !kept.some((column) => column.name === name))]
}

/** Throws CONFIG `source_topic_replaced` where an append cannot go on: reading it whole would take away what was read. */
export function progressOf(
  state: StateValue | null,
  table: TopicTable,
  topicId: string,
  ranges: readonly PartitionRange[],
  isCut = false,
): Progress {
  const all = ranges.map(({ partition, first, end }) => ({ partition, from: first, to: end }))
  if (state === null) return { spans: all, lost: [], whole: null }
  const replaced = replacement(state, topicId, ranges) ?? (isCut ? 'has lost to an election what was read of it' : null)
  if (table.mode === 'append') {
    if (replaced !== null) throw topicReplaced(table.name, replaced)
    if (state.mode !== 'append') return { spans: all, lost: [], whole: 'it was read by upsert' }
    return fromState(state, ranges)
  }
  const isOther = state.mode !== 'upsert' || state.shape !== shapeOf(table)
  const why = replaced ?? (isOther ? 'it is read otherwise than before' : null)
  if (why !== null) return { spans: all, lost: [], whole: why }
  const progress = fromState(state, ranges)
  // What was lost may have been the newest of a key, or have deleted it.
  return progress.lost.length === 0
    ? progress
    : { spans: all, lost: [], whole: 'it has lost records that were not read' }
}

function replacement(state: StateValue, topicId: string, ranges: readonly PartitionRange[]): string | null {
  if (state.topic !== topicId) return 'was deleted and made anew'
  if (state.next.length > ranges.length) return 'has fewer partitions than it had'
  const isBehind = ranges.some(({ partition, end }) => (state.next[partition] ?? 0) > end)
  return isBehind ? 'ends before what was read of it' : null
}

function fromState(state: StateValue, ranges: readonly PartitionRange[]): Progress {
  const lost: Loss[] = []
  const spans = ranges.map(({ partition, first, end }) => {
    const next = state.next[partition] ?? 0
    if (next < first) lost.push({ partition, from: next, to: first })
    return { partition, from: Math.max(next, first), to: end }
  })
  return { spans, lost, whole: null }
}

/** Throws QUOTA where what is kept once a read has ended would be too large. */
export function expectRoom(
  table: TopicTable,
  topicId: string,
  ranges: readonly PartitionRange[],
  values: readonly NamedType[],
): void {
  stateOf(table, topicId, ranges, values, new Map(ranges.map(({ partition }) => [partition, LARGE_EPOCH])))
}

/** @param epochs of partitions of which something was read */
export function stateOf(
  table: TopicTable,
  topicId: string,
  ranges: readonly PartitionRange[],
  values: readonly NamedType[],
  epochs: ReadonlyMap<number, number> = new Map(),
): ConnectorState {
  const isFound = isFoundOut(table)
  const value = {
    ...{ topic: topicId, mode: table.mode, shape: shapeOf(table), next: ranges.map(({ end }) => end) },
    epochs: ranges.map(({ partition }) => epochs.get(partition) ?? NO_EPOCH),
    ...(isFound ? { columns: values.map(({ name, type }) => [name, type]) } : {}),
  }
  if (Buffer.byteLength(JSON.stringify(value)) > MAX_STATE_BYTES)
    throw tooMuch(
      'the topic has too many partitions, or too many fields that nobody has named',
      'List under columns those that are to be read; topics have at most some 4000 partitions.',
    )
  return { version: STATE_VERSION, value }
}

function shapeOf({ columns, primaryKey, format, keyFormat, avro, subjects, metadata }: TopicTable): string {
  const about = [
    SHAPE_VERSION,
    columns,
    primaryKey,
    format,
    keyFormat,
    avro?.text ?? null,
    avro?.schemaId ?? null,
    metadata,
    ...(subjects.value === null && subjects.key === null ? [] : [subjects.value, subjects.key]),
  ]
  return createHash('sha256').update(JSON.stringify(about)).digest('base64').slice(0, 16)
}
