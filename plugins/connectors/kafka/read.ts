/** Streams one topic: all that it holds, or what came since a state; up to where it ends when the read begins. */
import { type Column, type ReadEvent, type ReadRequest, SluiceError } from '@sluice/sdk'
import type { ClusterClient, PartitionRange, ReadPlace } from './cluster.ts'
import { allColumns, valueColumns } from './columns.ts'
import { type Decoder, decoderOf, readersOf } from './decoder.ts'
import { changedMeanwhile, requestInvalid, stopIfAborted } from './failure.ts'
import { Newest } from './newest.ts'
import { recordsIn } from './partition-records.ts'
import type { Registry } from './registry/schemas.ts'
import { rowKeys } from './row-key.ts'
import { RowWriter } from './row-writer.ts'
import type { KafkaSource } from './settings.ts'
import {
  expectRoom,
  isFoundOut,
  keptColumns,
  type Loss,
  type Progress,
  parseState,
  progressOf,
  readPlaces,
  stateOf,
} from './state.ts'
import type { NamedType, TopicTable } from './topic-settings.ts'
import type { TopicPlaces } from './wire/answers.ts'

/** The one schema that tables stand in. */
export const SCHEMA = 'kafka'
const CHUNK_CHARACTERS = 256 * 1024

interface Reading {
  readonly table: TopicTable
  readonly decoder: Decoder
  readonly topic: TopicPlaces
  readonly ranges: readonly PartitionRange[]
  readonly progress: Progress
  readonly values: readonly NamedType[]
  readonly columns: readonly Column[]
  readonly primaryKey: readonly string[]
  /** Of the batches that were read last; until then of those of the state. */
  readonly epochs: Map<number, number>
}

export async function* readTopic(
  source: KafkaSource,
  client: ClusterClient,
  registry: Registry | null,
  request: ReadRequest,
): AsyncGenerator<ReadEvent> {
  const { mode, signal, state } = request
  stopIfAborted(signal)
  if (mode !== 'full' && mode !== 'incremental')
    throw new SluiceError('UNSUPPORTED', 'topics are not read by that mode', {
      code: 'unsupported',
      remedy: 'Use full or incremental.',
    })
  const reading = await begin(source, client, registry, request)
  const { table, columns, primaryKey, progress, topic, ranges, values, epochs } = reading
  yield {
    ...{ kind: 'schema', schema: { columns, primaryKey } },
    ...(progress.whole === null ? {} : { whole: true }),
    ...(request.marked === undefined ? {} : { marks: true }),
    // Nothing keeps a producer from writing what a table calls its key more than once.
    ...(table.mode === 'append' ? { repeats: true } : {}),
  }
  for (const loss of progress.lost) yield lossEvent(table, loss)
  let count = 0
  const newest = table.mode === 'upsert' ? await newestOf(reading, client, signal) : null
  for await (const event of rowsOf(reading, newest, client, request)) {
    if (event.kind === 'rows') {
      count += event.count
      yield { kind: 'csv', chunk: event.chunk }
    } else yield event
    stopIfAborted(signal)
  }
  const next = stateOf(table, topic.id, ranges, values, epochs)
  const isSame =
    state !== null && JSON.stringify(next) === JSON.stringify({ version: state.version, value: state.value })
  yield { kind: 'state', state: isSame ? state : next, rows: count }
}

async function begin(
  source: KafkaSource,
  client: ClusterClient,
  registry: Registry | null,
  request: ReadRequest,
): Promise<Reading> {
  const { signal } = request
  if (request.schema !== SCHEMA) throw requestInvalid('there is no such schema')
  const table = source.tableOf(request.table)
  if (table === null) throw requestInvalid('the connection names no such topic')
  const state = request.mode === 'incremental' ? parseState(request.state) : null
  const topic = await client.topic(request.table, signal)
  const ranges = await client.ranges(topic, signal)
  const isOfTopic = state !== null && state.topic === topic.id && state.next.length <= ranges.length
  const places = isOfTopic ? readPlaces(state) : []
  const progress = progressOf(state, table, topic.id, ranges, await client.isCut(topic, places, signal))
  // Behind the ends: what records are written by was registered before them.
  const readers = await readersOf(table, registry, signal)
  const found = await valueColumns(table, topic, ranges, client, signal, readers)
  const values = isFoundOut(table) && progress.whole === null ? keptColumns(state, found) : found
  expectRoom(table, topic.id, ranges, values)
  const epochs = epochsBefore(progress, places)
  const decoder = decoderOf(table, registry, readers, signal)
  return { table, decoder, topic, ranges, progress, values, epochs, ...projection(table, values, request) }
}

/** Of partitions that nothing is read of, what the state says stays true. */
function epochsBefore({ spans }: Progress, places: readonly ReadPlace[]): Map<number, number> {
  const isThere = ({ partition, offset }: ReadPlace) =>
    spans.some((span) => span.partition === partition && span.from === offset && span.to === offset)
  return new Map(places.filter(isThere).map(({ partition, epoch }) => [partition, epoch]))
}

function projection(table: TopicTable, values: readonly NamedType[], request: ReadRequest) {
  const all = allColumns(table, values)
  const names = request.columns.length > 0 ? request.columns : all.map(({ name }) => name)
  const isThere = (name: string) => all.some((column) => column.name === name)
  const others = [...request.primaryKey, ...(request.cursorColumn === null ? [] : [request.cursorColumn])]
  if (![...names, ...others].every(isThere)) throw requestInvalid('a column that was asked for is not there')
  if (request.primaryKey.some((name) => !names.includes(name)))
    throw requestInvalid('the key names a column that is not read')
  const key = request.primaryKey.length > 0 ? request.primaryKey : table.primaryKey
  const primaryKey = key.filter((name) => names.includes(name))
  const columns = names.flatMap((name) => all.find((column) => column.name === name) ?? [])
  return {
    primaryKey,
    columns: columns.map((column) => ({ ...column, nullable: column.nullable && !primaryKey.includes(column.name) })),
  }
}

/** A broker that lets go of records before they are read is told as one that cannot be carried. */
function lossEvent({ name }: TopicTable, { partition, from, to }: Loss): ReadEvent {
  return {
    ...{ kind: 'reject', column: null, reason: 'records were deleted by the topic’s retention before they were read' },
    raw: `${name}/${partition}/${from}: lost up to offset ${to - 1}`,
  }
}

async function newestOf(
  { table, decoder, values, topic, progress }: Reading,
  client: ClusterClient,
  signal: AbortSignal,
): Promise<Newest> {
  const newest = new Newest(rowKeys(table, values, decoder))
  for (const { partition, from, to } of progress.spans) {
    const span = { topic: topic.name, topicId: topic.id, partition, from, to }
    for await (const records of recordsIn(span, client, signal))
      for (const record of records) {
        const coming = decoder.prepare(record, 'key')
        if (coming !== null) await coming
        newest.add(record, partition)
      }
  }
  return newest
}

type TopicEvent =
  | { readonly kind: 'rows'; readonly chunk: Uint8Array; readonly count: number }
  | Extract<ReadEvent, { kind: 'reject' }>

async function* rowsOf(
  { table, decoder, topic, progress, values, columns, epochs }: Reading,
  newest: Newest | null,
  client: ClusterClient,
  request: ReadRequest,
): AsyncGenerator<TopicEvent> {
  const { signal } = request
  const writer = new RowWriter(table, values, columns, request, decoder)
  let lines: string[] = []
  let characters = 0
  let seen = 0
  const flushed = (): TopicEvent => {
    const event = { kind: 'rows', chunk: Buffer.from(`${lines.join('\n')}\n`), count: lines.length } as const
    lines = []
    characters = 0
    return event
  }
  for (const { partition, from, to } of progress.spans) {
    const span = { topic: topic.name, topicId: topic.id, partition, from, to }
    for await (const records of recordsIn(span, client, signal, epochs)) {
      for (const record of records) {
        const coming = decoder.prepare(record, 'all')
        if (coming !== null) await coming
        if (newest !== null && !newest.isShown(record, partition)) continue
        if (record.key !== null) seen += 1
        const { line, rejects } = writer.write(record, partition)
        if (lines.length > 0 && rejects.length > 0) yield flushed()
        if (line !== null) {
          lines.push(line)
          characters += line.length
        }
        yield* rejects
        if (characters >= CHUNK_CHARACTERS) yield flushed()
      }
    }
  }
  // Compaction may take a record between the two times that it is looked for, where a newer one of its key has come.
  if (newest !== null && seen !== newest.rows) throw changedMeanwhile(table.name, 'was compacted')
  if (lines.length > 0) yield flushed()
}
