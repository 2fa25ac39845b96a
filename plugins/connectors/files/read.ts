/** Streams one table: all of its files, or those that are new or changed since a state. */
import { type Column, type ReadEvent, type ReadRequest, SluiceError } from '@sluice/sdk'
import { requestInvalid, stopIfAborted } from './failure.ts'
import type { FileStore, OpenFile, SourceFile } from './file-store.ts'
import { RowWriter } from './row-writer.ts'
import { rowsOfFile } from './rows-of-file.ts'
import { type Progress, progressOf, shapeOf, stateOf } from './state.ts'
import type { FoundTable, Kept, Tables } from './tables.ts'

/** The one schema that tables stand in. */
export const SCHEMA = 'files'
const CHUNK_CHARACTERS = 256 * 1024

interface Reading {
  readonly found: FoundTable
  readonly shape: string
  readonly progress: Progress
  readonly columns: readonly Column[]
  readonly primaryKey: readonly string[]
  readonly opened: Map<SourceFile, OpenFile>
}

export async function* readTable(tables: Tables, store: FileStore, request: ReadRequest): AsyncGenerator<ReadEvent> {
  const { mode, signal, state } = request
  stopIfAborted(signal)
  if (mode !== 'full' && mode !== 'incremental')
    throw new SluiceError('UNSUPPORTED', 'files are not read by that mode', {
      code: 'unsupported',
      remedy: 'Use full or incremental.',
    })
  if (request.schema !== SCHEMA) throw requestInvalid('there is no such schema')
  const reading = await tables.look(request.table, signal, (found) => begin(found, store, request))
  const { found, columns, primaryKey, progress, opened } = reading
  try {
    yield {
      ...{ kind: 'schema', schema: { columns, primaryKey }, repeats: true },
      ...(progress.whole ? { whole: true } : {}),
      ...(request.marked === undefined ? {} : { marks: true }),
    }
    let count = 0
    const writer = new RowWriter(found.table, found.columns, columns, request)
    for (const file of progress.unread) {
      const open = opened.get(file) ?? (await store.open(file, signal))
      opened.set(file, open)
      for await (const event of eventsOf(file, open, found, writer, signal)) {
        if (event.kind === 'rows') {
          count += event.count
          yield { kind: 'csv', chunk: event.chunk }
        } else yield event
        stopIfAborted(signal)
      }
      opened.delete(file)
      await open.close()
    }
    const next = stateOf(reading.shape, found.files)
    const isSame =
      state !== null && JSON.stringify(next) === JSON.stringify({ version: state.version, value: state.value })
    yield { kind: 'state', state: isSame ? state : next, rows: count }
  } finally {
    await closeAll(opened)
  }
}

async function begin(found: FoundTable, store: FileStore, request: ReadRequest): Promise<Kept<Reading>> {
  const { columns, primaryKey } = projection(found, request)
  const shape = shapeOf(found, columns, primaryKey)
  const state = request.mode === 'incremental' ? request.state : null
  const progress = progressOf(state, shape, found.files)
  const opened = new Map<SourceFile, OpenFile>()
  const discard = () => closeAll(opened)
  try {
    for (const file of progress.unread.slice(0, store.openedAtOnce))
      opened.set(file, await store.open(file, request.signal))
  } catch (error) {
    await discard()
    throw error
  }
  return { value: { found, shape, progress, columns, primaryKey, opened }, discard }
}

async function closeAll(opened: Map<SourceFile, OpenFile>): Promise<void> {
  const files = [...opened.values()]
  opened.clear()
  for (const file of files) await file.close()
}

function projection({ table, columns }: FoundTable, request: ReadRequest) {
  const names = request.columns.length > 0 ? request.columns : columns.map(({ name }) => name)
  const chosen = names.map((name) => columns.find((column) => column.name === name))
  const others = [...request.primaryKey, ...(request.cursorColumn === null ? [] : [request.cursorColumn])]
  const isThere = (name: string) => columns.some((column) => column.name === name)
  if (chosen.includes(undefined) || !others.every(isThere))
    throw requestInvalid('a column that was asked for is not there')
  if (request.primaryKey.some((name) => !names.includes(name)))
    throw requestInvalid('the key names a column that is not read')
  const key = request.primaryKey.length > 0 ? request.primaryKey : table.primaryKey
  const primaryKey = key.filter((name) => names.includes(name))
  return {
    primaryKey,
    columns: chosen
      .filter((column) => column !== undefined)
      .map((column) => ({ ...column, nullable: column.nullable && !primaryKey.includes(column.name) })),
  }
}

type FileEvent =
  | { readonly kind: 'rows'; readonly chunk: Uint8Array; readonly count: number }
  | Extract<ReadEvent, { kind: 'reject' }>

async function* eventsOf(
  file: SourceFile,
  open: OpenFile,
  { table }: FoundTable,
  writer: RowWriter,
  signal: AbortSignal,
): AsyncGenerator<FileEvent> {
  let lines: string[] = []
  let characters = 0
  let usesHeader = false
  const flushed = (): FileEvent => {
    const event = { kind: 'rows', chunk: Buffer.from(`${lines.join('\n')}\n`), count: lines.length } as const
    lines = []
    characters = 0
    return event
  }
  for await (const { header, rows } of rowsOfFile(table, file, open, writer.wanted, signal)) {
    if (header !== null && !usesHeader) {
      writer.useHeader(header, file.path)
      usesHeader = true
    }
    for (const row of rows) {
      const { line, rejects } = writer.write(row)
      yield* rejects
      if (line === null) continue
      lines.push(line)
      characters += line.length
      if (characters >= CHUNK_CHARACTERS) yield flushed()
    }
  }
  if (lines.length > 0) yield flushed()
}
