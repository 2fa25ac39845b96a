/** A row as JSON text: what lies in the store is what a client gets. */
import { type Column, type LogicalType, type Row, toJsonValue, typeName, type Value } from '@sluice/sdk'

/** The columns that a stored value holds, in its order. */
export type Layout = readonly Pick<Column, 'name' | 'type'>[]

export function rowJson(layout: Layout, cells: Row): string {
  return `{${layout.map(({ name, type }, index) => `${JSON.stringify(name)}:${cellJson(cells[index] ?? null, type)}`).join(',')}}`
}

/** As `toJsonValue` writes it, but with the sign of a negative zero, and JSON documents to the letter. */
function cellJson(value: Value, type: LogicalType): string {
  if (type === 'json' && typeof value === 'string') return value
  return Object.is(value, -0) ? '-0' : JSON.stringify(toJsonValue(value, type))
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
