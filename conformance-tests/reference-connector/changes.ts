/** The source's log as the contract has it: see `ChangeSource`. */
import {
  type AwaitRequest,
  type ChangeEvent,
  type ChangeHealth,
  type ChangeNews,
  type ChangePosition,
  type ChangeSource,
  type ChangeStream,
  type ConnectorHost,
  type PreparedChanges,
  type RefusedStream,
  type Row,
  SluiceError,
} from '@sluice/sdk'
import { csvLine, csvText } from '../csv.ts'
import type { LogEntry, LoggedTable, LoggedTransaction, Place } from './memory-log.ts'
import { stopIfAborted, visibleTables, within } from './session.ts'
import type { SourceSettings } from './settings.ts'

/** Rows of one event. */
const CHUNK_ROWS = 5
const SEQ_DIGITS = 9
/** From this share of the limit on, the source is about to let go. */
const AT_RISK_SHARE = 0.75

export function changesOf(
  settings: SourceSettings,
  host: ConnectorHost,
  untilClosed: (signal: AbortSignal) => AbortSignal,
): ChangeSource {
  const { log } = settings.source
  const inSession = <T>(signal: AbortSignal, run: () => T): Promise<T> =>
    last(
      within(settings, host, untilClosed(signal), async function* () {
        yield run()
      }),
    )
  return {
    refusals: ({ streams, signal }) => inSession(signal, () => judged(settings, streams).refused),
    prepare: ({ capture, streams, anew = false, signal }) =>
      inSession(signal, () => {
        const { told, refused } = judged(settings, streams)
        return preparedBy(log.prepare(capture, told, anew), refused)
      }),
    changes: ({ capture, after, streams, signal }) => {
      const until = untilClosed(signal)
      return within(settings, host, until, async function* () {
        const place = placeAt(settings, capture, after)
        const { head } = log
        for (const event of logged(place, streams, log.after(after.order), head)) {
          stopIfAborted(until)
          yield event
          await host.faultPoint('reference.after-change')
        }
      })
    },
    awaitChanges: (request) => {
      const until = untilClosed(request.signal)
      return last(within(settings, host, until, () => newsAfter(settings, host, { ...request, signal: until })))
    },
    ack: ({ capture, position, signal }) =>
      inSession(signal, () => {
        const place = log.place(capture)
        if (place?.lineage !== position.lineage || place.isLost || position.order > log.head) throw positionLost()
        log.ack(capture, position.order)
      }),
    health: ({ capture, saved, signal }) => inSession(signal, () => healthOf(settings, capture, saved)),
    release: ({ capture, signal }) => inSession(signal, () => log.release(capture)),
  }
}

/** The one thing that a session gives. */
async function last<T>(given: AsyncIterable<T>): Promise<T> {
  for await (const found of given) return found
  throw new Error('a session gave nothing')
}

/** Looks whenever the log has grown, and once more when the time is over. */
async function* newsAfter(
  settings: SourceSettings,
  host: ConnectorHost,
  { capture, after, streams, waitMs, signal }: AwaitRequest,
): AsyncGenerator<ChangeNews> {
  const { log } = settings.source
  const { promise: ended, resolve: end } = Promise.withResolvers<'ended'>()
  const stop = host.clock.every(waitMs, () => end('ended'))
  const leave = () => end('ended')
  signal.addEventListener('abort', leave)
  try {
    for (let isOver = false; ; ) {
      stopIfAborted(signal)
      const place = placeAt(settings, capture, after)
      const { head } = log
      if (log.after(after.order).some((transaction) => toldOf(place, streams, transaction).length > 0)) {
        yield { kind: 'changed' }
        return
      }
      if (isOver) {
        yield { kind: 'quiet', position: { lineage: place.lineage, order: head } }
        return
      }
      isOver = (await Promise.race([ended, log.news()])) === 'ended'
    }
  } finally {
    stop()
    signal.removeEventListener('abort', leave)
  }
}

function judged(settings: SourceSettings, streams: readonly ChangeStream[]) {
  const told: LoggedTable[] = []
  const refused: RefusedStream[] = []
  for (const { schema, table, primaryKey } of streams) {
    const isVisible = schema === 'memory' && visibleTables(settings).some(({ name }) => name === table)
    const stored = isVisible ? settings.source.table(table) : undefined
    const refuse = (code: string, reason: string, remedy: string) =>
      refused.push({ schema, table, code, reason, remedy })
    if (stored === undefined) refuse('source_table_missing', 'there is no such table', 'Discover the tables again.')
    else if (!stored.isTold)
      refuse('changes_no_identity', 'its rows that are gone are not named', 'Let its owner give it an identity.')
    else if (stored.table.primaryKey.length === 0 || primaryKey.join() !== stored.table.primaryKey.join())
      refuse('changes_other_key', 'rows are not found by this key', 'Name the primary key of the table.')
    else told.push(stored)
  }
  return { told, refused }
}

function preparedBy({ lineage, acked, streams }: Place, refused: readonly RefusedStream[]): PreparedChanges {
  return {
    position: { lineage, order: acked },
    refused,
    incarnations: [...streams.values()].map(({ since, of }) => ({
      schema: 'memory',
      table: of.table.name,
      incarnation: `${of.id}.${of.rereads}.${since}`,
    })),
  }
}

function positionLost(): SluiceError {
  return new SluiceError('CONFLICT', 'the log of changes cannot be read on from there', {
    code: 'position_lost',
    remedy: 'Read the tables whole, with the log begun anew.',
  })
}

/** Throws `position_lost`. */
function placeAt({ source: { log } }: SourceSettings, capture: string, { lineage, order }: ChangePosition): Place {
  const place = log.place(capture)
  if (place?.lineage !== lineage || place.isLost || order < place.acked || order > log.head) throw positionLost()
  return place
}

function* logged(
  place: Place,
  streams: readonly ChangeStream[],
  transactions: readonly LoggedTransaction[],
  head: string,
): Generator<ChangeEvent> {
  const shapes = new Map<number, number>()
  let sourceTime: string | null = null
  const checkpoint = (order: string): ChangeEvent => ({
    kind: 'checkpoint',
    position: { lineage: place.lineage, order },
    sourceTime,
  })
  for (const transaction of transactions) {
    sourceTime = transaction.at
    const told = toldOf(place, streams, transaction)
    yield* eventsOf(told, streams, shapes)
    if (told.length > 0) yield checkpoint(transaction.order)
  }
  yield checkpoint(head)
}

/** What a transaction has done to these streams. */
function toldOf(
  place: Place,
  streams: readonly ChangeStream[],
  { order, entries }: LoggedTransaction,
): readonly Told[] {
  return entries.flatMap((entry, index) => {
    const since = place.streams.get(entry.of.table.name)?.since
    const stream = streams.findIndex(({ table }) => table === entry.of.table.name)
    const seq = `${order}.${String(index).padStart(SEQ_DIGITS, '0')}`
    return since !== undefined && order > since && stream >= 0 ? [{ entry, stream, seq }] : []
  })
}

interface Told {
  readonly entry: LogEntry
  readonly stream: number
  readonly seq: string
}

function* eventsOf(
  told: readonly Told[],
  streams: readonly ChangeStream[],
  shapes: Map<number, number>,
): Generator<ChangeEvent> {
  let lines: string[] = []
  let ofStream = -1
  const isMarked = (stream: number) => streams[stream]?.marks === true
  const flush = function* (): Generator<ChangeEvent> {
    if (lines.length === 0) return
    yield { kind: 'rows', stream: ofStream, chunk: Buffer.from(lines.join('')), rows: lines.length }
    lines = []
  }
  for (const { entry, stream, seq } of told) {
    const { of } = entry
    const isOtherShape = shapes.get(stream) !== of.shape
    const isApart = entry.kind !== 'row' || isOtherShape || stream !== ofStream || lines.length >= CHUNK_ROWS
    if (isApart) yield* flush()
    if (isOtherShape || entry.kind === 'altered') {
      shapes.set(stream, of.shape)
      const schema = { columns: of.table.columns, primaryKey: streams[stream]?.primaryKey ?? [] }
      const mustReread = entry.kind === 'altered' && entry.mustReread
      const marks = isMarked(stream)
      yield { kind: 'schema', stream, schema, ...(mustReread ? { mustReread } : {}), ...(marks ? { marks } : {}) }
    }
    if (entry.kind === 'truncate') yield { kind: 'truncate', stream, seq }
    if (entry.kind === 'unfit') yield rejectOf(entry, stream, seq)
    if (entry.kind !== 'row') continue
    ofStream = stream
    if (entry.unfit === undefined) {
      lines.push(lineOf(entry, seq, isMarked(stream)))
      continue
    }
    // A reject that is carried follows its row.
    if (isMarked(stream)) lines.push(lineOf(entry, seq, true))
    yield* flush()
    yield rejectOfRow(entry, entry.unfit, { stream, seq, isCarried: isMarked(stream) })
  }
  yield* flush()
}

type LoggedRow = Extract<LogEntry, { kind: 'row' }>

function lineOf({ op, of, row, unchanged, from, unfit }: LoggedRow, seq: string, isMarked: boolean): string {
  const { columns, primaryKey } = of.table
  const cells = columns.map(({ name }, index) => {
    const isTold = op === 'u' ? !unchanged.includes(name) && name !== unfit : primaryKey.includes(name)
    return isTold ? (row[index] ?? null) : null
  })
  const named = unchanged.length === 0 ? null : JSON.stringify(unchanged)
  const mark = unfit === undefined ? null : JSON.stringify([unfit])
  const former = from === null ? null : JSON.stringify(keyTexts(of, from))
  return csvLine([op, seq, named, former, ...cells, ...(isMarked ? [mark] : [])])
}

function keyTexts({ table: { columns, primaryKey } }: LoggedTable, row: Row): readonly (string | null)[] {
  return primaryKey.map((name) => {
    const value = row[columns.findIndex((column) => column.name === name)] ?? null
    return value === null ? null : csvText(value)
  })
}

function rejectOfRow(
  { of, row }: LoggedRow,
  column: string,
  { stream, seq, isCarried }: { readonly stream: number; readonly seq: string; readonly isCarried: boolean },
): ChangeEvent {
  const texts = keyTexts(of, row)
  return {
    kind: 'reject',
    stream,
    seq,
    reason: 'the value fits no type',
    column,
    key: Object.fromEntries(of.table.primaryKey.map((name, index) => [name, texts[index] ?? null])),
    ...(isCarried ? { carried: true } : {}),
  }
}

function rejectOf({ of, key }: Extract<LogEntry, { kind: 'unfit' }>, stream: number, seq: string): ChangeEvent {
  const texts = JSON.parse(key) as readonly string[]
  return {
    kind: 'reject',
    stream,
    seq,
    reason: 'the value fits no type',
    column: of.table.columns[0]?.name ?? null,
    key: Object.fromEntries(of.table.primaryKey.map((name, index) => [name, texts[index] ?? null])),
    raw: 'beyond all types',
  }
}

function healthOf({ source: { log } }: SourceSettings, capture: string, saved: ChangePosition | null): ChangeHealth {
  const place = log.place(capture)
  const { limitBytes } = log
  const sizes = { retainedBytes: place ? log.retainedBytes(capture) : null, limitBytes }
  const isHeld = place !== undefined && !place.isLost
  const isPlaced = isHeld && (saved === null || (saved.lineage === place.lineage && saved.order >= place.acked))
  if (!isPlaced && (place?.isLost || saved !== null)) {
    const remedy = 'Read the tables whole, with the log begun anew.'
    return { state: 'lost', ...sizes, message: 'the log from the saved position on is gone', remedy }
  }
  if (limitBytes !== null && (sizes.retainedBytes ?? 0) > limitBytes * AT_RISK_SHARE) {
    const remedy = 'Let the changes be read more often, or raise the limit of the source.'
    return { state: 'at_risk', ...sizes, message: 'the source will soon let go of what was not read yet', remedy }
  }
  return { state: 'ok', ...sizes, message: place ? 'the log is kept' : 'nothing is kept yet' }
}
