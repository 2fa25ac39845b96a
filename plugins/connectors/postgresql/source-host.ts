/** A host for connectors under test: real time, loopback only, and everything that is said to it kept. */
import { randomBytes } from 'node:crypto'
import { type ConnectorHost, type Logger, type ReadEvent, type Row, SluiceError, type TableSchema } from '@sluice/sdk'

export interface SourceHost extends ConnectorHost {
  /** Every log line and metric as JSON, to look for secrets in. */
  readonly heard: string[]
}

export interface SourceHostOptions {
  /** Names that resolve to 127.0.0.1, besides itself. */
  readonly names?: readonly string[]
  readonly allowsCleartextPassword?: boolean
  readonly faultPoint?: (name: string) => Promise<void>
}

export function sourceHost(options: SourceHostOptions = {}): SourceHost {
  const heard: string[] = []
  const hear = (...said: readonly unknown[]) => void heard.push(JSON.stringify(said))
  const logger: Logger = { debug: hear, info: hear, warn: hear, error: hear }
  return {
    heard,
    logger,
    metrics: { count: hear, observe: hear },
    clock: {
      nowMs: () => Date.now(),
      every: (everyMs, run) => {
        // As a runtime's: a read that nobody ends keeps no process.
        const timer = setInterval(() => void run(), everyMs).unref()
        return () => clearInterval(timer)
      },
    },
    randomBytes: (count) => randomBytes(count),
    faultPoint: options.faultPoint ?? (async () => undefined),
    network: {
      resolve: async (host) => {
        if (host === '127.0.0.1' || host === 'localhost' || options.names?.includes(host)) {
          return { address: '127.0.0.1', family: 4 }
        }
        throw new SluiceError('PERMISSION', `connections to ${host} are not allowed`, {
          code: 'address_refused',
          remedy: 'Name a host that the network policy allows.',
        })
      },
      allowsCleartextPassword: () => options.allowsCleartextPassword ?? false,
    },
  }
}

/** A read, gathered: its rows as texts, in the order they came. */
export interface Gathered {
  readonly schema: TableSchema
  readonly whole: boolean
  readonly rows: readonly Row[]
  readonly rejects: readonly Extract<ReadEvent, { kind: 'reject' }>[]
  readonly last: Extract<ReadEvent, { kind: 'state' }>
  readonly kinds: readonly ReadEvent['kind'][]
}

export async function gather(events: AsyncIterable<ReadEvent>): Promise<Gathered> {
  const all: ReadEvent[] = []
  for await (const event of events) all.push(event)
  const schema = all.find((event) => event.kind === 'schema')
  const last = all.at(-1)
  if (!schema || last?.kind !== 'state') throw new Error('a read starts with a schema and ends with a state')
  const csv = Buffer.concat(all.flatMap((event) => (event.kind === 'csv' ? [event.chunk] : []))).toString('utf8')
  return {
    schema: schema.schema,
    whole: schema.whole === true,
    rows: parseCsv(csv),
    rejects: all.filter((event) => event.kind === 'reject'),
    last,
    kinds: all.map((event) => event.kind),
  }
}

/** The shared CSV, strictly: every value quoted, null empty, LF after every row. */
export function parseCsv(text: string): readonly (readonly (string | null)[])[] {
  const rows: (string | null)[][] = []
  let row: (string | null)[] = []
  const cell = /(?:"((?:[^"]|"")*)")?([,\n])/y
  while (cell.lastIndex < text.length) {
    const at = cell.lastIndex
    const match = cell.exec(text)
    if (!match) throw new Error(`no CSV at character ${at}`)
    row.push(match[1]?.replaceAll('""', '"') ?? null)
    if (match[2] === '\n') {
      rows.push(row)
      row = []
    }
  }
  if (row.length > 0) throw new Error('the last row has no end')
  return rows
}
