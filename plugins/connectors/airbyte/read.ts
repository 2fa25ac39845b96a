/** Streams one table: all that the connector brings, or what is new by its own position. */
import { type Column, type ConnectorHost, type ReadEvent, type ReadRequest, SluiceError } from '@sluice/sdk'
import { type Catalog, type Stream, shapeOf } from './catalog.ts'
import { answerInvalid, requestInvalid, stopIfAborted } from './failure.ts'
import { CONFIG_FILE, messagesOf } from './program.ts'
import { RowWriter } from './row-writer.ts'
import type { AirbyteSource } from './settings.ts'
import { countOf, positionOf, progressOf, stateOf } from './state.ts'

const CHUNK_CHARACTERS = 256 * 1024
const CATALOG_FILE = 'catalog.json'
const STATE_FILE = 'state.json'

type Host = Pick<ConnectorHost, 'programs' | 'logger'>

export async function* readStream(
  source: AirbyteSource,
  host: Host,
  { streams }: Catalog,
  request: ReadRequest,
): AsyncGenerator<ReadEvent> {
  const { mode, signal, state } = request
  stopIfAborted(signal)
  const stream = streams.find(({ schema, name }) => schema === request.schema && name === request.table)
  if (stream === undefined) throw requestInvalid('there is no such table')
  const isIncremental = mode === 'incremental'
  if (mode !== 'full' && (!isIncremental || !stream.isIncremental))
    throw new SluiceError('UNSUPPORTED', 'the connector does not read this table by that mode', {
      code: 'unsupported',
      remedy: 'Use mode: full in inputs.yaml.',
    })
  const { columns, primaryKey } = projection(stream, request)
  const shape = shapeOf(columns, primaryKey)
  const progress = isIncremental ? progressOf(state, shape) : { position: null, whole: false }
  const messages = messagesOf(
    source,
    host,
    {
      words: [
        'read',
        '--config',
        { file: CONFIG_FILE },
        '--catalog',
        { file: CATALOG_FILE },
        ...stateWords(progress.position),
      ],
      files: {
        [CATALOG_FILE]: JSON.stringify(configured(stream, request, primaryKey)),
        ...(progress.position === null ? {} : { [STATE_FILE]: `[${progress.position}]` }),
      },
    },
    signal,
  )
  // Nothing keeps a key from coming twice: what the connector promises is that nothing is missing.
  yield {
    ...{ kind: 'schema', schema: { columns, primaryKey }, repeats: true },
    ...(progress.whole ? { whole: true } : {}),
    ...(request.marked === undefined ? {} : { marks: true }),
  }
  const writer = new RowWriter(
    stream.columns.map(({ name }) => name),
    columns,
    request,
    primaryKey,
  )
  const reading = new Reading(stream, isIncremental, progress.position)
  let rows = 0
  let lines: string[] = []
  let characters = 0
  for await (const message of messages) {
    if (message.type !== 'record') {
      reading.hear(message)
      continue
    }
    reading.count(message.stream, message.namespace)
    const { line, rejects } = writer.write(message.data, message.line)
    if (line !== null) {
      rows += 1
      lines.push(line)
      characters += line.length
    }
    if (rejects.length > 0 || characters >= CHUNK_CHARACTERS) {
      if (lines.length > 0) yield { kind: 'csv', chunk: csvOf(lines) }
      lines = []
      characters = 0
      yield* rejects
    }
    stopIfAborted(signal)
  }
  stopIfAborted(signal)
  reading.end()
  if (lines.length > 0) yield { kind: 'csv', chunk: csvOf(lines) }
  if (writer.unnamed > 0)
    host.logger.warn('records have fields that the catalogue of the connector does not name; they are not carried', {
      fields: writer.unnamed,
    })
  const next = stateOf(shape, reading.position)
  const isSame = state !== null && JSON.stringify(next.value) === JSON.stringify(state.value)
  yield { kind: 'state', state: isSame ? state : next, rows }
}

/** What is heard beside the records, and whether it fits them. */
class Reading {
  readonly #stream: Stream
  readonly #isIncremental: boolean
  #status: string | null = null
  #since = 0
  position: string | null

  constructor(stream: Stream, isIncremental: boolean, position: string | null) {
    this.#stream = stream
    this.#isIncremental = isIncremental
    this.position = position
  }

  count(stream: string, namespace: string | null): void {
    if (stream !== this.#stream.name || namespace !== this.#stream.namespace)
      throw answerInvalid('a record is of a stream that is not read')
    this.#since += 1
  }

  hear(
    message: { readonly type: string } & Partial<{ state: Readonly<Record<string, unknown>>; status: string }>,
  ): void {
    if (message.type === 'status') this.#status = message.status ?? null
    else if (message.type !== 'state' || message.state === undefined)
      throw answerInvalid('it answers what it was not asked')
    else {
      const count = countOf(message.state)
      if (count !== null && count !== this.#since)
        throw answerInvalid('it says to have sent another number of records than have come')
      this.#since = 0
      // Of a read in full it is of no use: the next one begins anew.
      if (this.#isIncremental) this.position = positionOf(message.state, this.#stream.name)
    }
  }

  /** It has ended as if all were well. */
  end(): void {
    if (this.#status === null || this.#status === 'COMPLETE') return
    throw answerInvalid('it ended before the stream was complete')
  }
}

function stateWords(position: string | null) {
  return position === null ? [] : ['--state', { file: STATE_FILE }]
}

/** The catalogue that it is to read by: this stream alone. */
function configured({ said, cursor }: Stream, { mode, cursorColumn }: ReadRequest, primaryKey: readonly string[]) {
  const isIncremental = mode === 'incremental'
  const cursorField = cursor.length > 0 ? cursor : cursorColumn === null ? [] : [cursorColumn]
  return {
    streams: [
      {
        stream: said,
        sync_mode: isIncremental ? 'incremental' : 'full_refresh',
        destination_sync_mode: isIncremental ? 'append_dedup' : 'overwrite',
        cursor_field: cursorField,
        primary_key: primaryKey.map((name) => [name]),
      },
    ],
  }
}

function projection(
  stream: Stream,
  request: ReadRequest,
): { columns: readonly Column[]; primaryKey: readonly string[] } {
  const names = request.columns.length > 0 ? request.columns : stream.columns.map(({ name }) => name)
  const chosen = names.map((name) => stream.columns.find((column) => column.name === name))
  const others = [...request.primaryKey, ...(request.cursorColumn === null ? [] : [request.cursorColumn])]
  const isThere = (name: string) => stream.columns.some((column) => column.name === name)
  if (chosen.includes(undefined) || !others.every(isThere))
    throw requestInvalid('a column that was asked for is not there')
  if (request.primaryKey.some((name) => !names.includes(name)))
    throw requestInvalid('the key names a column that is not read')
  const key = request.primaryKey.length > 0 ? request.primaryKey : stream.primaryKey
  const primaryKey = key.filter((name) => names.includes(name))
  const columns = chosen.flatMap((column) =>
    column === undefined
      ? []
      : [{ name: column.name, type: column.type, nullable: column.nullable && !primaryKey.includes(column.name) }],
  )
  return { columns, primaryKey }
}

const csvOf = (lines: readonly string[]) => Buffer.from(`${lines.join('\n')}\n`)
