/** Mistakes of connectors, by somebody who had read the contract and none of the checks. */
import {
  type ChangeEvent,
  type ConnectorState,
  isSluiceError,
  type ReadEvent,
  rowsOf,
  SluiceError,
  type TableSchema,
} from '@sluice/sdk'
import { keyText } from '../compare.ts'
import { csvLine } from '../csv.ts'
import { asking, type ConnectorSaboteur, counted, readingRows, saboteur } from './wrap.ts'
import { cells, linesOf, ofLog, telling, tellingRows } from './wrap-log.ts'

export const unseenConnectorSaboteurs: readonly ConnectorSaboteur[] = [
  saboteur('goes on behind the last time, rounded up to its millisecond', ['C24', 'C25'], (connector) => ({
    async *read(request) {
      let last: string | null = null
      let at = -1
      for await (const event of connector.read(request)) {
        if (event.kind === 'schema') at = event.schema.columns.findIndex(({ name }) => name === request.cursorColumn)
        if (event.kind === 'batch' && at >= 0) {
          for (const row of rowsOf(event.batch)) {
            const time = row[at]
            if (typeof time === 'string' && (last === null || time > last)) last = time
          }
        }
        const isMoved = event.kind === 'state' && last !== null && typeof event.state.value['from'] === 'string'
        if (!isMoved || event.kind !== 'state') yield event
        else yield { ...event, state: { ...event.state, value: { ...event.state.value, from: justAfter(last ?? '') } } }
      }
    },
  })),
  saboteur('gives columns as the table has them, not as they were asked for', ['C10', 'C66'], (connector, { source }) =>
    asking(connector, (request) => {
      const own = source.table(request.table)?.table.columns.map(({ name }) => name) ?? []
      const isKnown = request.columns.every((name) => own.includes(name))
      return { ...request, columns: isKnown ? own.filter((name) => request.columns.includes(name)) : request.columns }
    }),
  ),
  saboteur('counts rows that it has rejected', ['C67'], (connector) => ({
    async *read(request) {
      let rejected = 0
      for await (const event of connector.read(request)) {
        if (event.kind === 'reject' && event.carried !== true) rejected += 1
        yield event.kind === 'state' ? { ...event, rows: event.rows + rejected } : event
        if (event.kind === 'state') rejected = 0
      }
    },
  })),
  ofLog(
    'tells the value of a change that it rejects',
    ['C71'],
    telling((event) =>
      event.kind === 'reject' ? [{ ...event, reason: `${event.reason}: "${event.raw ?? ''}"` }] : [event],
    ),
  ),
  saboteur('names its address with the password when it is turned away', ['C5'], (connector, settings) => ({
    async *read(request) {
      try {
        yield* connector.read(request)
      } catch (error) {
        if (!isSluiceError(error) || !/^source_(busy|login)/.test(error.code)) throw error
        const { host, port, user, password } = settings
        const address = `memory://${user}:${encodeURIComponent(password)}@${host}:${port}`
        throw new SluiceError(error.kind, `${error.message} at ${address}`, {
          code: error.code,
          ...(error.remedy === undefined ? {} : { remedy: error.remedy }),
        })
      }
    },
  })),
  saboteur('cuts texts behind 65,535 characters', ['C68'], (connector) =>
    readingRows(connector, (rows) =>
      rows.map((row) => row.map((value) => (typeof value === 'string' ? value.slice(0, 65_535) : value))),
    ),
  ),
  saboteur('finds no tables that are empty', ['C6'], (connector, { source }) => ({
    async discover(page, signal) {
      const found = await connector.discover(page, signal)
      return { ...found, tables: found.tables.filter(({ name }) => (source.table(name)?.rows.size ?? 0) > 0) }
    },
  })),
  saboteur('knows the columns of a table from its first read on', ['C26'], (connector) => {
    const known = new Map<string, readonly string[]>()
    return {
      async *read(request) {
        const columns = request.columns.length > 0 ? request.columns : (known.get(request.table) ?? [])
        for await (const event of connector.read({ ...request, columns })) {
          const names = event.kind === 'schema' ? event.schema.columns.map(({ name }) => name) : null
          if (names !== null && request.columns.length === 0) known.set(request.table, names)
          yield event
        }
      },
    }
  }),
  saboteur('leaves rows out that go while it reads', ['C38'], (connector, { source }) =>
    counted({
      async *read(request) {
        let schema: TableSchema | null = null
        for await (const event of connector.read(request)) {
          if (event.kind === 'schema') schema = event.schema
          const stored = source.table(request.table)
          if (event.kind !== 'batch' || stored === undefined || schema === null) yield event
          else yield present(event, schema, stored)
        }
      },
    }),
  ),
  saboteur('ends a read that was cancelled with the state of a whole one', ['C33'], (connector) => ({
    async *read(request) {
      let given = 0
      try {
        for await (const event of connector.read(request)) {
          if (event.kind === 'batch') given += event.batch.rowCount
          if (event.kind === 'state') given = 0
          yield event
        }
      } catch (error) {
        if (!isSluiceError(error) || error.code !== 'aborted') throw error
        let state: ConnectorState | null = null
        for await (const event of connector.read({ ...request, signal: new AbortController().signal })) {
          if (event.kind === 'state') state = event.state
        }
        if (state !== null) yield { kind: 'state', state, rows: given }
      }
    },
  })),
  ofLog('names of a former key the columns that have changed', ['C44'], (source) => ({
    async *changes(request) {
      const schemas = new Map<number, TableSchema>()
      for await (const event of source.changes(request)) {
        if (event.kind === 'schema') schemas.set(event.stream, event.schema)
        yield event.kind === 'rows' ? withChangedParts(event, schemas.get(event.stream)) : event
      }
    },
  })),
  ofLog(
    'tells the rows that are gone behind those that are there',
    ['C41', 'C44', 'C46'],
    telling((event) => {
      if (event.kind !== 'rows') return [event]
      const lines = linesOf(event)
      const sorted = [...lines.filter(([op]) => op === 'u'), ...lines.filter(([op]) => op !== 'u')]
      return [{ ...event, chunk: Buffer.from(sorted.map(csvLine).join('')) }]
    }),
  ),
]

/** The second part, of other kinds; the last one tries a check that was made for the first. */
export const laterConnectorSaboteurs: readonly ConnectorSaboteur[] = [
  ofLog('empties a table at the end of its transaction', ['C45'], (source) => ({
    async *changes(request) {
      let late: ChangeEvent[] = []
      for await (const event of source.changes(request)) {
        if (event.kind === 'truncate') {
          late.push(event)
          continue
        }
        if (event.kind === 'checkpoint') {
          yield* late
          late = []
        }
        yield event
      }
    },
  })),
  ofLog(
    'leaves out of a row with another key what is unchanged, and does not say so',
    ['C46'],
    tellingRows((row) => [
      row[3] == null ? row : [row[0] ?? null, row[1] ?? null, null, row[3] ?? null, ...row.slice(4)],
    ]),
  ),
  saboteur('finds that every column may be null', ['C69'], (connector) => ({
    async discover(page, signal) {
      const found = await connector.discover(page, signal)
      const open = (table: (typeof found.tables)[number]) => ({
        ...table,
        columns: table.columns.map((column) => ({ ...column, nullable: true })),
      })
      return { ...found, tables: found.tables.map(open) }
    },
  })),
  saboteur('reads a table of another case where there is none of that name', ['C70'], (connector, { source }) => ({
    read(request) {
      const name = source.tables.find(({ name }) => name.toLowerCase() === request.table.toLowerCase())?.name
      return connector.read({
        ...request,
        table: source.table(request.table) ? request.table : (name ?? request.table),
      })
    },
  })),
  ofLog(
    'cuts texts of its log behind 65,535 characters',
    ['C72'],
    cells((text) => (text === null ? null : String(text).slice(0, 65_535))),
  ),
]

function justAfter(time: string): string {
  const isZoned = time.endsWith('Z')
  const ms = Date.parse(isZoned ? time : `${time}Z`) + 1
  const text = new Date(ms).toISOString().replace('Z', '000')
  return isZoned ? `${text}Z` : text
}

function present(
  event: Extract<ReadEvent, { kind: 'batch' }>,
  { columns, primaryKey }: TableSchema,
  stored: { readonly table: { readonly primaryKey: readonly string[] }; readonly rows: ReadonlyMap<string, unknown> },
): ReadEvent {
  if (primaryKey.length === 0 || primaryKey.join() !== stored.table.primaryKey.join()) return event
  const there = [...rowsOf(event.batch)].map((row) =>
    stored.rows.has(keyText({ columns, primaryKey }, row.slice(0, columns.length))),
  )
  const kept = event.batch.columns.map((cells) => cells.filter((_, index) => there[index]))
  return { ...event, batch: { rowCount: there.filter(Boolean).length, columns: kept } }
}

/** `[former]` without the parts that are as they were. */
function withChangedParts(event: Extract<ChangeEvent, { kind: 'rows' }>, schema: TableSchema | undefined): ChangeEvent {
  if (schema === undefined) return event
  const lines = linesOf(event).map((line) => {
    const from = line[3]
    if (from === null || from === undefined) return line
    const now = schema.primaryKey.map(
      (name) => line[4 + schema.columns.findIndex((column) => column.name === name)] ?? null,
    )
    const parts = (JSON.parse(from) as readonly (string | null)[]).filter((text, index) => text !== now[index])
    return [...line.slice(0, 3), JSON.stringify(parts), ...line.slice(4)]
  })
  return { ...event, chunk: Buffer.from(lines.map(csvLine).join('')) }
}
