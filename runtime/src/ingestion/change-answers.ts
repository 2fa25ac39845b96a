/** What a child says of a log, looked at before it is believed. Everything here throws `BrokenAnswer`. */
import type {
  ChangeEvent,
  ChangeHealth,
  ChangeNews,
  ChangePosition,
  RefusedStream,
  TableIncarnation,
} from '@sluice/sdk'
import {
  BrokenAnswer,
  countIn,
  type Fields,
  fieldsOf,
  listIn,
  nameIn,
  namesIn,
  plainColumn,
  textIn,
  wholeKey,
} from './source-answers.ts'
import type { ChangeRowsPart } from './source-protocol.ts'

const MAX_POSITION_CHARS = 200
const ASCII = /^[\x20-\x7e]*$/
const CODE = /^[a-z][a-z0-9_]{0,63}$/
const STATES = ['ok', 'at_risk', 'lost'] as const
const MAX_SEQ_CHARS = 1024

export function checkedPosition(value: unknown): ChangePosition {
  const { lineage, order } = fieldsOf(value, 'a position')
  if (!isPlace(lineage) || !isPlace(order) || !ASCII.test(order)) throw new BrokenAnswer('a position is none')
  return { lineage, order }
}

const isPlace = (value: unknown): value is string =>
  typeof value === 'string' && value.length > 0 && value.length <= MAX_POSITION_CHARS

export function checkedRefusal(value: unknown): RefusedStream {
  const refused = fieldsOf(value, 'a refusal')
  const code = textIn(refused, 'code')
  if (!CODE.test(code)) throw new BrokenAnswer('a refusal has no code')
  return {
    schema: nameIn(refused, 'schema'),
    table: nameIn(refused, 'table'),
    code,
    reason: textIn(refused, 'reason'),
    remedy: textIn(refused, 'remedy'),
  }
}

/** Of what `prepare` says of tables, as against a refusal. */
export function isIncarnation(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'incarnation' in value
}

export function checkedIncarnation(value: unknown): TableIncarnation {
  const told = fieldsOf(value, 'a table')
  const { incarnation } = told
  if (!isPlace(incarnation)) throw new BrokenAnswer('an incarnation is none')
  return { schema: nameIn(told, 'schema'), table: nameIn(told, 'table'), incarnation }
}

/** A place that is not before `after` in its history: what was read is not read again. */
export function checkedNews(value: unknown, after: ChangePosition): ChangeNews {
  const news = fieldsOf(value, 'news of a log')
  if (news['kind'] === 'changed') return { kind: 'changed' }
  const position = checkedPosition(news['position'])
  if (news['kind'] !== 'quiet' || position.lineage !== after.lineage || position.order < after.order)
    throw new BrokenAnswer('news of a log are none')
  return { kind: 'quiet', position }
}

export function checkedHealth(value: unknown): ChangeHealth {
  const health = fieldsOf(value, 'health')
  const state = STATES.find((known) => known === health['state'])
  if (state === undefined) throw new BrokenAnswer('health is of no known state')
  const bytes = (name: string) => (health[name] === null ? null : countIn(health, name))
  return {
    state,
    retainedBytes: bytes('retainedBytes'),
    limitBytes: bytes('limitBytes'),
    message: textIn(health, 'message'),
    ...(health['remedy'] === undefined ? {} : { remedy: textIn(health, 'remedy') }),
  }
}

/** An event of a log that is no rows, or what is said of rows. */
export function checkedChange(
  value: unknown,
  streams: number,
): Exclude<ChangeEvent, { kind: 'rows' }> | ChangeRowsPart {
  const event = fieldsOf(value, 'an event')
  switch (event['kind']) {
    case 'stream':
      return { kind: 'stream', stream: streamIn(event, streams) }
    case 'count':
      return { kind: 'count', rows: countIn(event, 'rows') }
    case 'schema':
      return schemaOf(event, streams)
    case 'truncate':
      return { kind: 'truncate', stream: streamIn(event, streams), seq: seqIn(event) }
    case 'reject':
      return rejectOf(event, streams)
    case 'checkpoint':
      return { kind: 'checkpoint', position: checkedPosition(event['position']), sourceTime: timeIn(event) }
    default:
      throw new BrokenAnswer('an event is of no known kind')
  }
}

function schemaOf(event: Fields, streams: number) {
  const schema = fieldsOf(event['schema'], 'a schema')
  const columns = listIn(schema, 'columns').map((column) => plainColumn(fieldsOf(column, 'a column')))
  return {
    kind: 'schema',
    stream: streamIn(event, streams),
    schema: { columns, primaryKey: namesIn(schema, 'primaryKey') },
    ...(event['mustReread'] === true ? { mustReread: true } : {}),
    ...(event['marks'] === true ? { marks: true } : {}),
  } as const
}

function rejectOf(event: Fields, streams: number) {
  const { column, key, raw } = event
  return {
    kind: 'reject',
    stream: streamIn(event, streams),
    seq: seqIn(event),
    reason: textIn(event, 'reason'),
    column: column === null ? null : nameIn(event, 'column'),
    ...(key === undefined ? {} : { key: wholeKey(key) }),
    ...(raw === undefined ? {} : { raw: textIn(event, 'raw') }),
    ...(event['carried'] === true ? { carried: true } : {}),
  } as const
}

function streamIn(event: Fields, streams: number): number {
  const stream = countIn(event, 'stream')
  if (stream < streams) return stream
  throw new BrokenAnswer('an event is of no stream that was asked for')
}

function seqIn({ seq }: Fields): string {
  if (typeof seq === 'string' && seq.length > 0 && seq.length <= MAX_SEQ_CHARS) return seq
  throw new BrokenAnswer('an event has no place in the log')
}

function timeIn({ sourceTime }: Fields): string | null {
  if (sourceTime === null) return null
  if (typeof sourceTime === 'string' && !Number.isNaN(Date.parse(sourceTime))) return sourceTime
  throw new BrokenAnswer('a time is none')
}
