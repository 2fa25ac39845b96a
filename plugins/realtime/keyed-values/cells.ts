/** A row as JSON text: what lies in the store is what a client gets. */
import {
  type Capabilities,
  type Column,
  type LogicalType,
  type Row,
  SluiceError,
  toJsonValue,
  typeName,
  type Value,
} from '@sluice/sdk'

/** The columns that a stored value holds, in its order. */
export type Layout = readonly Pick<Column, 'name' | 'type'>[]

export function rowJson(layout: Layout, cells: Row): string {
  return rowEncoder(layout)(cells)
}

/** As `rowJson`, for many rows of one layout: `indexes` says where in a row the layout's columns are. */
export function rowEncoder(layout: Layout, indexes = layout.map((_, index) => index)): (row: Row) => string {
  const encoders = layout.map(({ type }) => cellEncoder(type))
  const names = layout.map(({ name }, index) => `${index === 0 ? '{' : ','}${JSON.stringify(name)}:`)
  return (row) => {
    let json = ''
    for (let column = 0; column < names.length; column += 1) {
      const value = row[indexes[column] as number] ?? null
      json += names[column] as string
      json += value === null ? 'null' : (encoders[column] as CellEncoder)(value)
    }
    return json === '' ? '{}' : `${json}}`
  }
}

type CellEncoder = (value: NonNullable<Value>) => string

function cellEncoder(type: LogicalType): CellEncoder {
  switch (typeName(type)) {
    case 'boolean':
    case 'integer':
      return (value) => (Object.is(value, -0) ? '-0' : String(value))
    case 'json':
      return (value) => (typeof value === 'string' ? documentText(value) : cellJson(value, type))
    default:
      return (value) => (typeof value === 'string' ? JSON.stringify(value) : cellJson(value, type))
  }
}

/**
 * SQL makes documents that JSON does not know, as `{"a":NaN}`; such a one is a text. In others line breaks are nothing but
 * white space: blanks, as in what the engine writes.
 */
function documentText(value: string): string {
  try {
    JSON.parse(value)
    return value.replace(/[\r\n]/g, ' ')
  } catch {
    return JSON.stringify(value)
  }
}

/** As `toJsonValue` writes it, but with the sign of a negative zero. */
function cellJson(value: NonNullable<Value>, type: LogicalType): string {
  return Object.is(value, -0) ? '-0' : JSON.stringify(toJsonValue(value, type))
}

/** Throws INVALID_DATA `row_too_large`. */
export function checkRowSize(jsonBytes: number, { limits: { maxRowBytes } }: Capabilities): void {
  if (jsonBytes <= maxRowBytes) return
  throw new SluiceError('INVALID_DATA', 'a row is larger than the realtime store keeps', {
    code: 'row_too_large',
    details: { maxRowBytes },
    remedy: 'Leave its large columns out with include_columns.',
  })
}

/** The text of each cell of a row that `rowJson` has made: documents and long numbers keep every digit. */
export function cellTexts(json: string): readonly string[] {
  const texts: string[] = []
  let depth = 0
  let start = 0
  for (let index = 0; index < json.length; index += 1) {
    const character = json[index]
    if (character === '"') index = endOfString(json, index)
    else if (character === '{' || character === '[') depth += 1
    else if (character === ':' && depth === 1) start = index + 1
    if (character === '}' || character === ']') depth -= 1
    const isEnd = (character === ',' && depth === 1) || (character === '}' && depth === 0)
    if (isEnd && start > 0) texts.push(json.slice(start, index))
  }
  return texts
}

function endOfString(json: string, from: number): number {
  let index = from + 1
  while (json[index] !== '"') index += json[index] === '\\' ? 2 : 1
  return index
}

/** The text of a cell back as the value that it was. */
export function cellValue(text: string, type: LogicalType): Value {
  if (text === 'null') return null
  switch (typeName(type)) {
    case 'json':
      return text
    case 'long':
      return BigInt(text.replaceAll('"', ''))
    case 'float':
      return Math.fround(Number(text.replaceAll('"', '')))
    case 'double':
      return Number(text.replaceAll('"', ''))
    case 'binary':
      return Uint8Array.from(Buffer.from(JSON.parse(text) as string, 'base64'))
    default:
      return JSON.parse(text) as Value
  }
}

/** The object with the asked columns, in their order; null for those that the value was stored without. */
export function projectedJson(json: string, layout: Layout, names: readonly string[]): string {
  const texts = cellTexts(json)
  const members = names.map((name) => {
    const index = layout.findIndex((column) => column.name === name)
    return `${JSON.stringify(name)}:${texts[index] ?? 'null'}`
  })
  return `{${members.join(',')}}`
}

export function isWhole(layout: Layout, names: readonly string[]): boolean {
  return names.length === layout.length && names.every((name, index) => layout[index]?.name === name)
}
