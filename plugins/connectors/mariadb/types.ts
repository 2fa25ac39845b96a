/**
 * How each type is carried: its logical type, how its bytes become a cell, and what is asked for in its place. A value that the
 * logical type cannot hold is never bent into one that it can: it costs its row, or is left out of it by name.
 */
import type { LogicalType } from '@sluice/sdk'
import { reference } from './sql.ts'

/** `text` is as the server writes it; what of it cannot be carried is judged cell by cell. */
export type CellKind = 'text' | 'bytes' | 'bit' | 'date' | 'datetime' | 'instant'

/** A column as the catalog has it. */
export interface SourceType {
  /** `DATA_TYPE`, in lower case: `bigint`. */
  readonly name: string
  /** `COLUMN_TYPE`, as it was declared: `bigint(20) unsigned zerofill`. */
  readonly declared: string
  readonly precision: number | null
  readonly scale: number | null
  /** A text that is checked to be JSON, as MariaDB has it. */
  readonly isJson: boolean
}

export interface Carriage {
  readonly type: LogicalType
  readonly kind: CellKind
  /** SQL for the value, given the column's name; absent: the column. */
  readonly express?: (column: string) => string
}

const TEXT: Carriage = { type: 'string', kind: 'text' }
const BYTES: Carriage = { type: 'binary', kind: 'bytes' }
/** The server writes six digits of a float, and as many of a double as were declared; of a product it writes all. */
const asProduct = (column: string): string => `${reference(column)} * 1e0`
/** Without the zeros before it. */
const asSum = (column: string): string => `${reference(column)} + 0`

const BY_NAME: Readonly<Record<string, Carriage>> = {
  date: { type: 'date', kind: 'date' },
  datetime: { type: 'timestamp', kind: 'datetime' },
  // Of the session's zone, which is UTC.
  timestamp: { type: 'timestamptz', kind: 'instant' },
  float: { type: 'float', kind: 'text', express: asProduct },
  double: { type: 'double', kind: 'text', express: asProduct },
  year: { type: 'integer', kind: 'text' },
  uuid: { type: 'uuid', kind: 'text' },
  json: { type: 'json', kind: 'text' },
  ...named(TEXT, [
    'char',
    'varchar',
    'tinytext',
    'text',
    'mediumtext',
    'longtext',
    'enum',
    'set',
    'time',
    'inet4',
    'inet6',
  ]),
  ...named(BYTES, ['binary', 'varbinary', 'tinyblob', 'blob', 'mediumblob', 'longblob', 'vector']),
  ...named(BYTES, ['geometry', 'point', 'linestring', 'polygon', 'multipoint', 'multilinestring', 'multipolygon']),
  ...named(BYTES, ['geometrycollection', 'geomcollection']),
}

/** The logical type that holds all values, signed and unsigned. */
const INTEGERS: Readonly<Record<string, readonly [LogicalType, LogicalType]>> = {
  tinyint: ['integer', 'integer'],
  smallint: ['integer', 'integer'],
  mediumint: ['integer', 'integer'],
  int: ['integer', 'long'],
  bigint: ['long', 'decimal(20,0)'],
}

const MAX_DIGITS = 38

export function carriageOf(source: SourceType): Carriage {
  const express = / zerofill/.test(source.declared) ? { express: asSum } : {}
  const integer = INTEGERS[source.name]
  if (integer) return { type: integer[/ unsigned/.test(source.declared) ? 1 : 0], kind: 'text', ...express }
  if (source.name === 'decimal') return { ...decimalCarriage(source), ...express }
  if (source.name === 'bit') return source.precision === 1 ? { type: 'boolean', kind: 'bit' } : BYTES
  if (source.isJson) return { type: 'json', kind: 'text' }
  // What is not known has a text of its own.
  return BY_NAME[source.name] ?? { ...TEXT, express: (column) => `CAST(${reference(column)} AS CHAR)` }
}

/** SQL for the column as it is read. */
export function expressed(name: string, { express }: Carriage): string {
  return express?.(name) ?? reference(name)
}

/** Declared with up to 65 digits; what does not fit is exact as text. */
function decimalCarriage({ precision, scale }: SourceType): Carriage {
  if (precision === null || scale === null || precision > MAX_DIGITS) return TEXT
  return { type: `decimal(${precision},${scale})`, kind: 'text' }
}

function named(carriage: Carriage, names: readonly string[]): Readonly<Record<string, Carriage>> {
  return Object.fromEntries(names.map((name) => [name, carriage]))
}
