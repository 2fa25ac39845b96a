/** What a child says of its source, looked at before it is believed. Everything here throws `BrokenAnswer`. */

import { WALL_NAMES, type Wall, type WallName } from '@sluice/engine'
import type { WireError } from '@sluice/engine/wire-error'
import {
  CHECK_STEPS,
  type CheckReport,
  type CheckStep,
  type ConnectorState,
  type DiscoveredColumn,
  type DiscoveredTable,
  ERROR_KINDS,
  isLogicalType,
  type LogicalType,
  type ProgramRequest,
  type ReadEvent,
  SluiceError,
} from '@sluice/sdk'
import type { SourceQuestion } from './source-protocol.ts'

/** The child broke the protocol, or the connector its contract. Says what, without a value. */
export class BrokenAnswer extends Error {
  override readonly name = 'BrokenAnswer'
}

type RejectEvent = Extract<ReadEvent, { kind: 'reject' }>
export type Fields = Readonly<Record<string, unknown>>

const MAX_NAME_CHARS = 1024
const MAX_TEXT_CHARS = 2000
const MAX_COLUMNS = 20_000
/** An index of PostgreSQL has no more. */
const MAX_KEY_COLUMNS = 32
const MAX_STATE_CHARS = 64 * 1024
const MAX_DETAILS_CHARS = 64 * 1024
const MAX_HOST_CHARS = 253
const CODE = /^[a-z][a-z0-9_]{0,63}$/
const KINDS = ['table', 'view', 'materialized_view', 'foreign_table', 'partitioned_table'] as const

export function fieldsOf(value: unknown, what: string): Fields {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields
  throw new BrokenAnswer(`${what} is no object`)
}

export function checkedTable(value: unknown): DiscoveredTable {
  const table = fieldsOf(value, 'a table')
  const kind = KINDS.find((known) => known === table['kind'])
  if (kind === undefined) throw new BrokenAnswer('a table is of no known kind')
  return {
    schema: nameIn(table, 'schema'),
    name: nameIn(table, 'name'),
    kind,
    estimatedRows: table['estimatedRows'] === null ? null : numberIn(table, 'estimatedRows'),
    primaryKey: namesIn(table, 'primaryKey'),
    columns: listIn(table, 'columns').map(checkedColumn),
    suggestedCursor: table['suggestedCursor'] === null ? null : nameIn(table, 'suggestedCursor'),
  }
}

function checkedColumn(value: unknown): DiscoveredColumn {
  const column = fieldsOf(value, 'a column')
  return { ...plainColumn(column), sourceType: textIn(column, 'sourceType', MAX_NAME_CHARS) }
}

export function plainColumn(column: Fields): { name: string; type: LogicalType; nullable: boolean } {
  const type = textIn(column, 'type', MAX_NAME_CHARS)
  if (!isLogicalType(type)) throw new BrokenAnswer('a column is of no logical type')
  return { name: nameIn(column, 'name'), type, nullable: booleanIn(column, 'nullable') }
}

export function checkedReport(value: unknown): CheckReport {
  const report = fieldsOf(value, 'a report')
  const version = report['serverVersion']
  return {
    ok: booleanIn(report, 'ok'),
    steps: listIn(report, 'steps', CHECK_STEPS.length).map(checkedStep),
    latencyMs: numberIn(report, 'latencyMs'),
    ...(version === undefined ? {} : { serverVersion: textIn(report, 'serverVersion', MAX_NAME_CHARS) }),
  }
}

function checkedStep(value: unknown): CheckStep {
  const step = fieldsOf(value, 'a step')
  const name = CHECK_STEPS.find((known) => known === step['name'])
  if (name === undefined) throw new BrokenAnswer('a step has no known name')
  return {
    name,
    ok: booleanIn(step, 'ok'),
    message: textIn(step, 'message'),
    ...(step['remedy'] === undefined ? {} : { remedy: textIn(step, 'remedy') }),
  }
}

/** An event of a read that is no rows. */
export function checkedEvent(value: unknown): ReadEvent {
  const event = fieldsOf(value, 'an event')
  switch (event['kind']) {
    case 'schema':
      return schemaEvent(event)
    case 'estimate':
      return { kind: 'estimate', rows: event['rows'] === null ? null : numberIn(event, 'rows') }
    case 'reject':
      return rejectEvent(event)
    case 'state':
      return { kind: 'state', state: checkedState(event['state']), rows: countIn(event, 'rows') }
    default:
      throw new BrokenAnswer('an event is of no known kind')
  }
}

function schemaEvent(event: Fields): ReadEvent {
  const schema = fieldsOf(event['schema'], 'a schema')
  const columns = listIn(schema, 'columns').map((column) => plainColumn(fieldsOf(column, 'a column')))
  return {
    kind: 'schema',
    schema: { columns, primaryKey: namesIn(schema, 'primaryKey') },
    ...(event['whole'] === true ? { whole: true } : {}),
    ...(event['marks'] === true ? { marks: true } : {}),
    ...(event['repeats'] === true ? { repeats: true } : {}),
  }
}

function rejectEvent(event: Fields): RejectEvent {
  const { column, key, raw, row, carried } = event
  return {
    kind: 'reject',
    reason: textIn(event, 'reason'),
    column: column === null ? null : nameIn(event, 'column'),
    ...(key === undefined ? {} : { key: checkedKey(key) }),
    ...(raw === undefined ? {} : { raw: textIn(event, 'raw') }),
    ...(row === undefined ? {} : { row: checkedRow(row) }),
    ...(carried === undefined ? {} : { carried: booleanIn(event, 'carried') }),
  }
}

export function checkedKey(value: unknown): NonNullable<RejectEvent['key']> {
  const cut = Object.entries(wholeKey(value)).map(([name, text]) => [name, text?.slice(0, MAX_TEXT_CHARS) ?? null])
  return Object.fromEntries(cut)
}

/** As long as the source has it: a key that was cut would be another row's. */
export function wholeKey(value: unknown): NonNullable<RejectEvent['key']> {
  const entries = Object.entries(fieldsOf(value, 'a key'))
  if (entries.length > MAX_KEY_COLUMNS) throw new BrokenAnswer('a key has too many columns')
  return Object.fromEntries(
    entries.map(([name, text]) => {
      if (text !== null && typeof text !== 'string') throw new BrokenAnswer('a key holds what is no text')
      return [checkedName(name, 'a key'), text]
    }),
  )
}

/** How long it is, whoever keeps it judges. */
function checkedRow(value: unknown): NonNullable<RejectEvent['row']> {
  const entries = Object.entries(fieldsOf(value, 'a row'))
  if (entries.length > MAX_COLUMNS) throw new BrokenAnswer('a row has too many columns')
  for (const [name, text] of entries) {
    checkedName(name, 'a row')
    if (text !== null && typeof text !== 'string') throw new BrokenAnswer('a row holds what is no text')
  }
  return Object.fromEntries(entries) as NonNullable<RejectEvent['row']>
}

function checkedState(value: unknown): ConnectorState {
  const state = fieldsOf(value, 'a state')
  const checked = { version: numberIn(state, 'version'), value: fieldsOf(state['value'], 'a state') }
  if (JSON.stringify(checked).length > MAX_STATE_CHARS) throw new BrokenAnswer('a state is larger than 64 KiB')
  return checked
}

export function checkedQuestion(value: unknown): SourceQuestion {
  const question = fieldsOf(value, 'a question')
  switch (question['what']) {
    case 'resolve':
      return { what: 'resolve', host: textIn(question, 'host', MAX_HOST_CHARS), port: portIn(question) }
    case 'connect':
      return { what: 'connect', address: textIn(question, 'address', MAX_HOST_CHARS), port: portIn(question) }
    case 'fault-point':
      return { what: 'fault-point', name: textIn(question, 'name', MAX_NAME_CHARS) }
    case 'program':
      return { what: 'program', request: checkedProgram(question['request']) }
    case 'program-end':
    case 'program-stop':
      return { what: question['what'], program: countIn(question, 'program') }
    default:
      throw new BrokenAnswer('a question is of no known kind')
  }
}

const MAX_WORDS = 64
const MAX_FILES = 8
const FILE_NAME = /^[a-z][a-z0-9_.-]{0,63}$/

function checkedProgram(value: unknown): ProgramRequest {
  const request = fieldsOf(value, 'a program')
  const files = Object.entries(fieldsOf(request['files'], 'files'))
  if (files.length > MAX_FILES || !files.every(([name, text]) => FILE_NAME.test(name) && typeof text === 'string'))
    throw new BrokenAnswer('the files of a program are none')
  const words = listIn(request, 'words', MAX_WORDS).map((word) => {
    if (typeof word === 'string' && word.length <= MAX_NAME_CHARS && !word.includes('\0')) return word
    const file = nameIn(fieldsOf(word, 'a word'), 'file')
    if (files.some(([name]) => name === file)) return { file }
    throw new BrokenAnswer('a word names a file that is not there')
  })
  return { program: nameIn(request, 'program'), words, files: Object.fromEntries(files) as Record<string, string> }
}

/** Those of the contract that a source may cause: none that ends a worker for good. */
export function checkedError(value: unknown): SluiceError {
  const wire = fieldsOf(value, 'an error') as Fields & Partial<WireError>
  const kind = ERROR_KINDS.find((known) => known === wire.kind)
  if (kind === undefined || !CODE.test(String(wire.code))) throw new BrokenAnswer('an error has no kind or code')
  const { details, remedy, driver } = wire
  const fits = typeof details === 'object' && details !== null && JSON.stringify(details).length <= MAX_DETAILS_CHARS
  return new SluiceError(kind === 'FENCED' ? 'CONFLICT' : kind, textIn(wire, 'message'), {
    code: String(wire.code),
    ...(typeof remedy === 'string' ? { remedy: remedy.slice(0, MAX_TEXT_CHARS) } : {}),
    ...(fits ? { details } : {}),
    ...(typeof driver === 'string' ? { cause: new Error(driver.slice(0, MAX_TEXT_CHARS)) } : {}),
  })
}

/** What a child that holds nothing of a source yet says of its walls. */
export function checkedWalls(value: unknown): readonly Wall[] {
  if (!Array.isArray(value) || value.length > WALL_NAMES.length) throw new BrokenAnswer('walls are no list')
  return value.map((each) => {
    const wall = fieldsOf(each, 'a wall')
    const name = WALL_NAMES.find((known: WallName) => known === wall['name'])
    if (name === undefined) throw new BrokenAnswer('a wall has no known name')
    return wall['up'] === true ? { name, up: true } : { name, up: false, why: textIn(wall, 'why') }
  })
}

export function listIn(fields: Fields, name: string, max = MAX_COLUMNS): readonly unknown[] {
  const value = fields[name]
  if (Array.isArray(value) && value.length <= max) return value
  throw new BrokenAnswer(`${name} is no list, or too long a one`)
}

export function namesIn(fields: Fields, name: string): readonly string[] {
  return listIn(fields, name).map((value) => checkedName(value, name))
}

export function nameIn(fields: Fields, name: string): string {
  return checkedName(fields[name], name)
}

export function checkedName(value: unknown, what: string): string {
  if (typeof value === 'string' && value.length > 0 && value.length <= MAX_NAME_CHARS) return value
  throw new BrokenAnswer(`${what} is no name`)
}

/** Longer ones are cut: they are for people. */
export function textIn(fields: Fields, name: string, max = MAX_TEXT_CHARS): string {
  const value = fields[name]
  if (typeof value === 'string') return value.slice(0, max)
  throw new BrokenAnswer(`${name} is no text`)
}

function numberIn(fields: Fields, name: string): number {
  const value = fields[name]
  if (typeof value === 'number' && Number.isFinite(value)) return value
  throw new BrokenAnswer(`${name} is no number`)
}

export function countIn(fields: Fields, name: string): number {
  const value = numberIn(fields, name)
  if (Number.isSafeInteger(value) && value >= 0) return value
  throw new BrokenAnswer(`${name} is no count`)
}

function portIn(fields: Fields): number {
  const value = countIn(fields, 'port')
  if (value >= 1 && value <= 65_535) return value
  throw new BrokenAnswer('port is no port')
}

function booleanIn(fields: Fields, name: string): boolean {
  const value = fields[name]
  if (typeof value === 'boolean') return value
  throw new BrokenAnswer(`${name} is neither true nor false`)
}
