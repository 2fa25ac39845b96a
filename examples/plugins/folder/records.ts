/** The records of a file, one after the other, as texts by column; memory is bounded by the longest of them. */
import type { FileHandle } from 'node:fs/promises'
import { SluiceError, type TableSchema } from '@sluice/sdk'

/** A text for each column, null where there is no value; `raw` is the record as it stands there. */
export interface FileRecord {
  readonly cells: readonly (string | null)[]
  readonly raw: string
}

const PIECE_BYTES = 64 << 10
const MAX_RECORD_CHARACTERS = 16 << 20

async function* pieces(file: FileHandle): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const buffer = Buffer.alloc(PIECE_BYTES)
  for (let position = 0; ; ) {
    const { bytesRead } = await file.read(buffer, 0, PIECE_BYTES, position)
    position += bytesRead
    const text = decodedBy(decoder, buffer.subarray(0, bytesRead), bytesRead > 0)
    if (text !== '') yield text
    if (bytesRead === 0) return
  }
}

function decodedBy(decoder: InstanceType<typeof TextDecoder>, bytes: Uint8Array, stream: boolean): string {
  try {
    return decoder.decode(bytes, { stream })
  } catch (error) {
    throw unreadable('it is not UTF-8', error)
  }
}

export function recordsOf(file: FileHandle, format: 'csv' | 'jsonl', schema: TableSchema): AsyncGenerator<FileRecord> {
  return format === 'csv' ? csvRecords(file, schema) : jsonRecords(file, schema)
}

/** RFC 4180 with a header; what is empty and not quoted is no value. */
async function* csvRecords(file: FileHandle, schema: TableSchema): AsyncGenerator<FileRecord> {
  let places: readonly number[] | null = null
  for await (const raw of csvLines(file)) {
    const cells = csvCells(raw)
    if (places === null) {
      places = schema.columns.map(({ name }) => cells.indexOf(name))
      if (places.includes(-1)) throw unreadable('its header lacks a column of the schema')
    } else yield { cells: places.map((place) => cells[place] ?? null), raw }
  }
  if (places === null) throw unreadable('it has no header')
}

/** Lines as they are, but for those that end within quotes, which go on. */
async function* csvLines(file: FileHandle): AsyncGenerator<string> {
  let line = ''
  let isQuoted = false
  for await (const piece of pieces(file)) {
    let from = 0
    for (let at = 0; at < piece.length; at += 1) {
      if (piece[at] === '"') isQuoted = !isQuoted
      if (piece[at] !== '\n' || isQuoted) continue
      yield line + piece.slice(from, at)
      line = ''
      from = at + 1
    }
    line = bounded(line + piece.slice(from))
  }
  if (line !== '') yield line
}

function csvCells(line: string): readonly (string | null)[] {
  const cells: (string | null)[] = []
  const cell = /(?:"((?:[^"]|"")*)"|([^",]*?))(,|\r?$)/y
  for (let separator: string | undefined = ','; separator === ','; ) {
    const match = cell.exec(line)
    if (match === null) throw unreadable('a quote stands where none may')
    cells.push(match[1]?.replaceAll('""', '"') ?? (match[2] === '' ? null : (match[2] ?? null)))
    separator = match[3]
  }
  return cells
}

/** An object a line. A number counts as it is written, so that none is rounded on the way. */
async function* jsonRecords(file: FileHandle, { columns }: TableSchema): AsyncGenerator<FileRecord> {
  for await (const raw of textLines(file)) {
    if (raw.trim() === '') continue
    const [plain, exact] = [objectOf(raw), objectOf(raw, numberAsWritten)]
    const cells = columns.map(({ name, type }) => {
      const value = plain[name]
      if (value === undefined || value === null) return null
      return type === 'json' ? JSON.stringify(value) : textOf(exact[name])
    })
    yield { cells, raw }
  }
}

async function* textLines(file: FileHandle): AsyncGenerator<string> {
  let rest = ''
  for await (const piece of pieces(file)) {
    const lines = (rest + piece).split('\n')
    rest = bounded(lines.pop() ?? '')
    yield* lines
  }
  if (rest !== '') yield rest
}

type Reviver = (key: string, value: unknown, context: { readonly source?: string }) => unknown

const numberAsWritten: Reviver = (_, value, { source }) => (typeof value === 'number' ? (source ?? value) : value)

function objectOf(line: string, reviver?: Reviver): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(line, reviver as Parameters<typeof JSON.parse>[1])
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value }
  } catch (error) {
    throw unreadable('a line is not JSON', error)
  }
  throw unreadable('a line is no object')
}

function textOf(value: unknown): string {
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

function bounded(text: string): string {
  if (text.length <= MAX_RECORD_CHARACTERS) return text
  throw unreadable(`a record has more than ${MAX_RECORD_CHARACTERS} characters`)
}

function unreadable(why: string, cause?: unknown): SluiceError {
  return new SluiceError('INVALID_DATA', `the file cannot be read: ${why}`, {
    code: 'source_file_invalid',
    remedy: 'Correct the file at the source.',
    cause,
  })
}
