/** Connectors that are wrong about what a log tells of rows. */
import type { ChangeEvent, Connector } from '@sluice/sdk'
import { csvLine } from '../csv.ts'
import { type ConnectorSaboteur, type Plugin, saboteur } from './wrap.ts'
import { type Cells, cells, linesOf, ofLog, telling, tellingRows } from './wrap-log.ts'

const withoutChanges = ({ changes: _, ...connector }: Connector): Connector => connector

/** The plugin with another `open`, and other modes. */
function opened(modes: Plugin['capabilities']['modes'], change: (connector: Connector) => Connector) {
  return (plugin: Plugin): Plugin => ({
    ...plugin,
    capabilities: { modes },
    open: async (settings, host) => change(await plugin.open(settings, host)),
  })
}

export const logRowSaboteurs: readonly ConnectorSaboteur[] = [
  saboteur(
    'names the mode cdc and has no changes',
    ['C40'],
    () => ({}),
    opened(['full', 'incremental', 'cdc'], withoutChanges),
  ),
  saboteur(
    'has changes of which it does not speak',
    ['C40'],
    () => ({}),
    opened(['full', 'incremental'], (one) => one),
  ),
  saboteur(
    'reads by any mode',
    ['C40'],
    (connector) => ({
      read: (request) =>
        connector.read({ ...request, mode: request.mode === ('cdc' as never) ? 'full' : request.mode }),
    }),
    opened(['full', 'incremental'], withoutChanges),
  ),
  ofLog(
    'tells the rows of a log without their columns',
    ['C41'],
    telling((event) => (event.kind === 'schema' ? [] : [event])),
  ),
  ofLog(
    'counts the rows of a log wrongly',
    ['C41'],
    telling((event) => (event.kind === 'rows' ? [{ ...event, rows: event.rows + 1 }] : [event])),
  ),
  ofLog('ends a log where a row was last', ['C41'], (source) => ({
    async *changes(request) {
      let kept: ChangeEvent[] = []
      for await (const event of source.changes(request)) {
        if (event.kind !== 'checkpoint') {
          yield* kept
          kept = []
          yield event
        } else kept.push(event)
      }
    },
  })),
  ofLog(
    'numbers the rows of a log by their event',
    ['C41'],
    tellingRows(([op = null, seq = '', ...rest]) => [[op, (seq ?? '').slice(0, 15), ...rest]]),
  ),
  ofLog(
    'tells of a row that is gone what it was',
    ['C41'],
    tellingRows((row) => [row[0] === 'd' ? row.with(6, 'what it was') : row]),
  ),
  ofLog('begins its log when it is read first', ['C42'], (source) => ({
    async *changes(request) {
      const isFirst = !BEGUN.has(request.capture)
      BEGUN.add(request.capture)
      for await (const event of source.changes(request)) if (!isFirst || event.kind === 'checkpoint') yield event
    },
  })),
  ofLog('tells of each row its last state alone', ['C43'], (source) => ({
    async *changes(request) {
      const events = await Array.fromAsync(source.changes(request))
      const last = new Map<string, string>()
      const keyOf = (stream: number, row: Cells) => `${stream} ${row[4]}`
      for (const event of events)
        if (event.kind === 'rows') for (const row of linesOf(event)) last.set(keyOf(event.stream, row), row[1] ?? '')
      for (const event of events) {
        if (event.kind !== 'rows') yield event
        else {
          const rows = linesOf(event).filter((row) => last.get(keyOf(event.stream, row)) === row[1])
          if (rows.length > 0) yield { ...event, rows: rows.length, chunk: Buffer.from(rows.map(csvLine).join('')) }
        }
      }
    },
  })),
  ofLog(
    'does not tell which rows are gone',
    ['C43', 'C44'],
    tellingRows((row) => (row[0] === 'd' ? [] : [row.with(3, null)])),
  ),
  ofLog(
    'takes a new key for a new row',
    ['C44'],
    tellingRows((row) => [row.with(3, null)]),
  ),
  ofLog(
    'joins the columns of a former key',
    ['C44'],
    tellingRows((row) => {
      const from = row[3] == null ? null : (JSON.parse(row[3]) as string[])
      return [from === null || from.length < 2 ? row : row.with(3, JSON.stringify(from.join(':').split(':')))]
    }),
  ),
  ofLog(
    'does not tell that a table was emptied',
    ['C45'],
    telling((event) => (event.kind === 'truncate' ? [] : [event])),
  ),
  ofLog(
    'empties all tables with one',
    ['C45'],
    telling((event, { streams }) =>
      event.kind === 'truncate' ? streams.map((_, stream) => ({ ...event, stream })) : [event],
    ),
  ),
  ofLog(
    'tells null for what its log leaves out',
    ['C46'],
    tellingRows((row) => [row.with(2, null)]),
  ),
  ofLog(
    'takes an empty text of its log for null',
    ['C47'],
    cells((text) => (text === '' ? null : String(text ?? '') || null)),
  ),
  ofLog(
    'rounds long decimals of its log to what a double holds',
    ['C47'],
    cells((text) =>
      typeof text === 'string' && /^-?\d{20,}(\.\d+)?$/.test(text)
        ? Number(text).toFixed(text.split('.')[1]?.length ?? 0)
        : (text as string | null),
    ),
  ),
  ofLog(
    'tells all columns of its log as texts',
    ['C47'],
    telling((event) =>
      event.kind === 'schema'
        ? [{ ...event, schema: { ...event.schema, columns: event.schema.columns.map(asJson) } }]
        : [event],
    ),
  ),
  ofLog(
    'drops what its log cannot carry',
    ['C48'],
    telling((event) => (event.kind === 'reject' ? [] : [event])),
  ),
  ofLog(
    'rejects without a key',
    ['C48'],
    telling((event) => {
      if (event.kind !== 'reject') return [event]
      const { key: _, ...rest } = event
      return [rest]
    }),
  ),
  ofLog(
    'loses one change of fifty',
    ['C62'],
    tellingRows((row) => {
      TOLD.count += 1
      return TOLD.count % 50 === 0 ? [] : [row]
    }),
  ),
  ofLog('gives the rows of a log at once', ['C63'], (source) => ({
    async *changes(request) {
      let held: RowsEvent[] = []
      for await (const event of source.changes(request)) {
        if (held[0] !== undefined && (event.kind !== 'rows' || held[0].stream !== event.stream)) {
          yield atOnce(held, held[0])
          held = []
        }
        if (event.kind === 'rows') held.push(event)
        else yield event
      }
    },
  })),
]

type RowsEvent = Extract<ChangeEvent, { kind: 'rows' }>

function atOnce(events: readonly RowsEvent[], first: RowsEvent): RowsEvent {
  const rows = events.reduce((sum, event) => sum + event.rows, 0)
  return { ...first, chunk: Buffer.concat(events.map(({ chunk }) => chunk)), rows }
}

/** How many changes were told. */
const TOLD = { count: 0 }
const BEGUN = new Set<string>()

function asJson<T extends { readonly type: string }>(column: T): T {
  return column.type === 'string' ? { ...column, type: 'json' } : column
}
