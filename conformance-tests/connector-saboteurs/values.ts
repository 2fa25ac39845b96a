/** Connectors that are wrong about values that are rare, about what is written while they read, and where they begin anew. */
import type { Connector, ReadEvent, ReadRequest, Value } from '@sluice/sdk'
import { type ConnectorSaboteur, reading, readingRows, saboteur } from './wrap.ts'

const cells = (connector: Connector, change: (value: Value) => Value) =>
  readingRows(connector, (rows) => rows.map((row) => row.map((value) => change(value))))

export const valueSaboteurs: readonly ConnectorSaboteur[] = [
  saboteur('rounds long decimals to what a double holds', ['C35', 'C36'], (connector) =>
    cells(connector, (value) =>
      typeof value === 'string' && /^-?\d{20,}(\.\d+)?$/.test(value)
        ? Number(value).toFixed(value.split('.')[1]?.length ?? 0)
        : value,
    ),
  ),
  saboteur('takes an empty text for null', ['C36'], (connector) =>
    cells(connector, (value) => (value === '' ? null : value)),
  ),
  saboteur('joins the columns of a key without telling them apart', ['C37'], (connector) =>
    readingRows(connector, (rows, { primaryKey }) =>
      primaryKey.length < 2 ? rows : [...new Map(rows.map((row) => [row.slice(0, 2).join(':'), row])).values()],
    ),
  ),
  saboteur('looks at the source again for every batch', ['C38'], (connector) => ({
    read: (request) => rereading(connector, request),
  })),
  saboteur('does not say that it begins anew', ['C39'], (connector) =>
    reading(connector, (event) => (event.kind === 'schema' ? [{ kind: 'schema', schema: event.schema }] : [event])),
  ),
  saboteur('forgets the marks of rows once it goes on', ['C65'], (connector) =>
    readingRows(connector, (rows, { state, marked }) =>
      state === null || marked === undefined ? rows : rows.map((row) => [...row.slice(0, -1), null]),
    ),
  ),
  saboteur('marks every row of a batch that has one', ['C65'], (connector) =>
    readingRows(connector, (rows, { marked }) => {
      const mark = rows.map((row) => row.at(-1)).find((one) => typeof one === 'string')
      return marked === undefined || mark === undefined ? rows : rows.map((row) => [...row.slice(0, -1), mark])
    }),
  ),
  saboteur('gives marks that nobody has asked for', ['C65'], (connector) => ({
    read: (request) => connector.read({ ...request, marked: request.marked ?? ['amount'] }),
  })),
  saboteur('rejects nothing once it goes on', ['C27'], (connector) =>
    reading(connector, (event, { mode }) => (event.kind === 'reject' && mode === 'incremental' ? [] : [event])),
  ),
  saboteur('keeps its password in the state', ['C5'], (connector, { password }) =>
    reading(connector, (event) =>
      event.kind === 'state'
        ? [{ ...event, state: { ...event.state, value: { ...event.state.value, login: password } } }]
        : [event],
    ),
  ),
  saboteur('leaves out the step at which its login is let in', ['C2'], (connector) => ({
    async check(signal) {
      const report = await connector.check(signal)
      return { ...report, steps: report.steps.filter(({ name }) => name !== 'auth') }
    },
  })),
  saboteur('throws what its driver throws where a list is cancelled', ['C33'], (connector) => ({
    async discover(page, signal) {
      signal.throwIfAborted()
      return connector.discover(page, signal)
    },
  })),
  saboteur('keeps its login in the state, as a header has it', ['C5'], (connector, { user, password }) =>
    reading(connector, (event) => {
      if (event.kind !== 'state') return [event]
      const header = Buffer.from(`${user}:${password}`).toString('base64')
      return [{ ...event, state: { ...event.state, value: { ...event.state.value, header } } }]
    }),
  ),
  saboteur('gives columns in the order of the table', ['C66'], (connector, { source }) => ({
    read: (request) => {
      const all = source.table(request.table)?.table.columns.map(({ name }) => name) ?? []
      return connector.read({ ...request, columns: all.filter((name) => request.columns.includes(name)) })
    },
  })),
  saboteur('discovers the first column of a key', ['C66'], (connector) => ({
    async discover(page, signal) {
      const { tables, next } = await connector.discover(page, signal)
      return { tables: tables.map((table) => ({ ...table, primaryKey: table.primaryKey.slice(0, 1) })), next }
    },
  })),
  saboteur('suggests a column of the key as a cursor', ['C66'], (connector) => ({
    async discover(page, signal) {
      const { tables, next } = await connector.discover(page, signal)
      return { tables: tables.map((table) => ({ ...table, suggestedCursor: table.primaryKey[0] ?? null })), next }
    },
  })),
  saboteur('reads times by the zone of the machine', ['C64'], (connector) =>
    cells(connector, (value) =>
      typeof value === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]+$/.test(value)
        ? `${new Date(value).toISOString().slice(0, 19)}${value.slice(19)}`
        : value,
    ),
  ),
  saboteur('takes a day for the one of its local midnight', ['C64'], (connector) =>
    cells(connector, (value) => {
      if (typeof value !== 'string' || !/^\d{4}-\d\d-\d\d$/.test(value)) return value
      return new Date(`${value}T00:00:00`).toISOString().slice(0, 10)
    }),
  ),
]

/** Each batch from a read of its own, so that what was written meanwhile moves the rows that are still to come. */
async function* rereading(connector: Connector, request: ReadRequest): AsyncGenerator<ReadEvent> {
  for (let given = 0; ; given += 1) {
    let batches = 0
    let last: ReadEvent | null = null
    let found: ReadEvent | null = null
    for await (const event of connector.read(request)) {
      if (given === 0 && batches === 0 && event.kind !== 'batch' && event.kind !== 'state') yield event
      if (event.kind === 'batch' && batches++ === given) found = event
      if (event.kind === 'state') last = event
    }
    if (found !== null) yield found
    else {
      if (last !== null) yield last
      return
    }
  }
}
