/** Defective variants of the reference connector: the same plugin, with one promise broken. */
import {
  batchFromRows,
  type Connector,
  isSluiceError,
  type ReadEvent,
  type ReadRequest,
  type Row,
  rowsOf,
  SluiceError,
} from '@sluice/sdk'
import reference from '../reference-connector/index.ts'
import { contractConnectors } from './contract.ts'
import { leavingSaboteurs } from './leaving.ts'
import { logPlaceSaboteurs } from './log-places.ts'
import { logRowSaboteurs } from './log-rows.ts'
import { outsideConnectors } from './outside.ts'
import { toldSaboteurs } from './told.ts'
import { laterConnectorSaboteurs, unseenConnectorSaboteurs } from './unseen.ts'
import { valueSaboteurs } from './values.ts'
import { asking, type ConnectorSaboteur, counted, type Plugin, reading, readingRows, saboteur } from './wrap.ts'

export type { ConnectorSaboteur } from './wrap.ts'

const LEAKED = { count: 0 }
const SENT = new WeakMap<object, Map<string, ReadRequest['state']>>()

export const CONNECTOR_SABOTEURS: readonly ConnectorSaboteur[] = [
  ...valueSaboteurs,
  ...logRowSaboteurs,
  ...logPlaceSaboteurs,
  ...contractConnectors,
  ...unseenConnectorSaboteurs,
  ...laterConnectorSaboteurs,
  ...toldSaboteurs,
  ...leavingSaboteurs,
  ...outsideConnectors,
  saboteur(
    'does not call its password a secret',
    ['C1'],
    () => ({}),
    (plugin) => ({
      ...plugin,
      settingsSchema: {
        ...plugin.settingsSchema,
        properties: { ...plugin.settingsSchema.properties, password: { type: 'string', description: 'Its password.' } },
      },
    }),
  ),
  saboteur(
    'takes unknown settings',
    ['C1'],
    () => ({}),
    (plugin) => ({
      ...plugin,
      settingsSchema: { ...plugin.settingsSchema, additionalProperties: true },
      open: ({ source, host, port, user, password, verify }, out) =>
        reference.open({ source, host, port, user, password, verify }, out),
    }),
  ),
  saboteur('says that all is well without a step', ['C2', 'C3'], () => ({
    check: async () => ({ ok: true, steps: [], latencyMs: 0 }),
  })),
  saboteur('takes its steps in another order', ['C2', 'C3'], (connector) => ({
    async check(signal) {
      const report = await connector.check(signal)
      return { ...report, steps: report.steps.toReversed() }
    },
  })),
  saboteur('gives no remedies', ['C3'], (connector) => ({
    async check(signal) {
      const report = await connector.check(signal)
      return { ...report, steps: report.steps.map(({ remedy: _, ...step }) => step) }
    },
  })),
  saboteur('throws where a step should say what is wrong', ['C3'], (connector) => ({
    async check(signal) {
      const report = await connector.check(signal)
      if (report.ok) return report
      throw new SluiceError('TRANSIENT', 'the check failed', { code: 'check_failed' })
    },
  })),
  saboteur('goes on after a step that failed', ['C3'], (connector) => ({
    async check(signal) {
      const report = await connector.check(signal)
      return report.ok
        ? report
        : { ...report, steps: [...report.steps, { name: 'privileges', ok: true, message: 'assumed' }] }
    },
  })),
  saboteur('leaves a mark at the source when it checks', ['C4'], (connector, { source }) => ({
    async check(signal) {
      source.create({ name: 'sluice_was_here', columns: [], primaryKey: [], hidden: true })
      return connector.check(signal)
    },
  })),
  saboteur('notes at the source what was acknowledged', ['C4', 'C30'], (connector, { source }) => ({
    async ack(about, state) {
      source.create({ name: 'sluice_positions', columns: [], primaryKey: [], hidden: true })
      await connector.ack(about, state)
    },
    async close() {
      source.create({ name: 'sluice_positions', columns: [], primaryKey: [], hidden: true })
      await connector.close()
    },
  })),
  saboteur('tells the password in its messages', ['C5'], (connector, { password }) => ({
    async check(signal) {
      const report = await connector.check(signal)
      return { ...report, steps: report.steps.map((step) => ({ ...step, message: `${step.message} (${password})` })) }
    },
  })),
  saboteur(
    'logs its settings',
    ['C5'],
    () => ({}),
    (plugin) => ({
      ...plugin,
      async open({ source, ...settings }, host) {
        host.logger.info('connecting', settings)
        return plugin.open({ source, ...settings }, host)
      },
    }),
  ),
  saboteur('lists tables in the order of the day', ['C6'], (connector) => ({
    async discover(page, signal) {
      const found = await connector.discover(page, signal)
      return { ...found, tables: page.limit > 2 && page.limit < 10 ? found.tables.toReversed() : found.tables }
    },
  })),
  saboteur('repeats the last table of the former page', ['C6'], (connector) => {
    let last: Awaited<ReturnType<Connector['discover']>>['tables'] = []
    return {
      async discover(page, signal) {
        const found = await connector.discover(page, signal)
        const tables =
          page.after === null || page.limit < 2 ? found.tables : [...last, ...found.tables].slice(0, page.limit)
        last = found.tables.slice(-1)
        return { ...found, tables }
      },
    }
  }),
  saboteur('forgets tables after the first page', ['C6'], (connector) => ({
    async discover(page, signal) {
      return { ...(await connector.discover(page, signal)), next: null }
    },
  })),
  saboteur('lists what the login may not read', ['C7'], (connector, { source }) => ({
    async discover(page, signal) {
      const found = await connector.discover(page, signal)
      const known = found.tables.map(({ name }) => name)
      const more = source.tables.filter(({ name, hidden }) => hidden && !known.includes(name))
      const [like] = found.tables
      return {
        ...found,
        tables: like
          ? [...found.tables, ...more.map(({ name }) => ({ ...like, name }))].slice(0, page.limit)
          : found.tables,
      }
    },
  })),
  saboteur('calls every column a string', ['C8'], (connector) =>
    reading(connector, (event) =>
      event.kind === 'schema'
        ? [
            {
              ...event,
              schema: {
                ...event.schema,
                columns: event.schema.columns.map((column) => ({ ...column, type: 'string' as const })),
              },
            },
          ]
        : [event],
    ),
  ),
  saboteur('reads numbers as doubles', ['C8', 'C10'], (connector) =>
    readingRows(connector, (rows) =>
      rows.map((row) => row.map((cell) => (typeof cell === 'bigint' ? Number(cell) : cell))),
    ),
  ),
  saboteur('takes the time for the key', ['C9'], (connector) =>
    reading(connector, (event) =>
      event.kind === 'schema' ? [{ ...event, schema: { ...event.schema, primaryKey: ['at'] } }] : [event],
    ),
  ),
  saboteur('discovers no keys', ['C9'], (connector) => ({
    async discover(page, signal) {
      const found = await connector.discover(page, signal)
      return { ...found, tables: found.tables.map((table) => ({ ...table, primaryKey: [] })) }
    },
  })),
  saboteur('loses the last row of each batch', ['C10', 'C13'], (connector) =>
    counted(readingRows(connector, (rows) => rows.slice(0, -1))),
  ),
  saboteur('keeps what the source has removed', ['C10'], (connector) => {
    const seen = new Map<string, Row>()
    return counted({
      async *read(request) {
        const full = request.mode === 'full' && request.columns.length === 0
        const given = new Set<string>()
        for await (const event of connector.read(request)) {
          if (event.kind === 'batch' && full)
            for (const row of rowsOf(event.batch)) given.add(`${request.table}/${row[0]}`)
          if (event.kind === 'batch' && full)
            for (const row of rowsOf(event.batch)) seen.set(`${request.table}/${row[0]}`, row)
          const left = [...seen]
            .filter(([key]) => key.startsWith(`${request.table}/`) && !given.has(key))
            .map(([, row]) => row)
          if (event.kind === 'state' && full && left.length > 0)
            yield { kind: 'batch', batch: batchFromRows(left, left[0]?.length ?? 0) }
          yield event
        }
      },
    })
  }),
  saboteur('changes the schema from read to read', ['C11'], (connector) => {
    return reading(connector, (event) => {
      if (event.kind !== 'schema') return [event]
      LEAKED.count += 1
      const isOther = LEAKED.count % 2 === 0
      const columns = event.schema.columns.map((column) => ({ ...column, nullable: isOther || column.nullable }))
      return [{ ...event, schema: { ...event.schema, columns } }]
    })
  }),
  saboteur('takes a table that is not there for an empty one', ['C12', 'C23'], (connector) => ({
    async *read(request) {
      try {
        yield* connector.read(request)
      } catch (error) {
        if (!isSluiceError(error, 'INVALID_DATA')) throw error
        yield { kind: 'schema', schema: { columns: [], primaryKey: [] } }
        yield { kind: 'state', state: { version: 1, value: {} }, rows: 0 }
      }
    },
  })),
  saboteur('calls a wrong catalog a source that is down', ['C12'], (connector) => ({
    async *read(request) {
      try {
        yield* connector.read(request)
      } catch (error) {
        throw isSluiceError(error, 'INVALID_DATA')
          ? new SluiceError('TRANSIENT', 'try again', { code: 'later' })
          : error
      }
    },
  })),
  saboteur('tells the schema last', ['C13'], (connector) => ({
    async *read(request) {
      const events = await Array.fromAsync(connector.read(request))
      yield* [...events.slice(1, -1), ...events.slice(0, 1), ...events.slice(-1)]
    },
  })),
  saboteur('ends without a state where there are rows left', ['C14', 'C13'], (connector) =>
    reading(connector, (event, request) =>
      event.kind === 'state' && request.state === null && event.rows < 5 ? [] : [event],
    ),
  ),
  saboteur('gives a state before the rows that it speaks of', ['C15'], (connector) => ({
    async *read(request) {
      const events = await Array.fromAsync(connector.read(request))
      const last = events.at(-1)
      const [schema, ...rest] = events
      if (!schema || last?.kind !== 'state' || request.mode === 'full') return yield* events
      yield schema
      yield { ...last, rows: 0 }
      yield* rest.filter(({ kind }) => kind !== 'state')
      yield last
    },
  })),
  saboteur('reads everything again from every state', ['C16', 'C18'], (connector) =>
    asking(connector, (request) => ({ ...request, state: null })),
  ),
  saboteur('counts rejected and repeated rows', ['C17'], (connector) =>
    reading(connector, (event) => (event.kind === 'state' ? [{ ...event, rows: event.rows + 1 }] : [event])),
  ),
  saboteur('makes a new state where nothing was new', ['C18', 'C20'], (connector) => {
    let reads = 0
    return reading(connector, (event, request) => {
      if (event.kind !== 'state' || request.state === null) return [event]
      reads += 1
      return [{ ...event, state: { ...event.state, value: { ...event.state.value, read: Math.random() + reads } } }]
    })
  }),
  saboteur('leaves an empty state behind an empty table', ['C19'], (connector) =>
    reading(connector, (event) =>
      event.kind === 'state' && event.rows === 0 ? [{ ...event, state: { version: 1, value: {} } }] : [event],
    ),
  ),
  saboteur('begins anew from a state that is ahead', ['C20'], (connector) =>
    asking(connector, (request) =>
      String(request.state?.value['from'] ?? '') > '2900' ? { ...request, state: null } : request,
    ),
  ),
  saboteur('keeps dates in its state', ['C21'], (connector) =>
    reading(connector, (event) =>
      event.kind === 'state'
        ? [{ ...event, state: { ...event.state, value: { ...event.state.value, readAt: new Date(0) } } }]
        : [event],
    ),
  ),
  saboteur('guesses at states of other versions', ['C21'], (connector) =>
    asking(connector, (request) =>
      request.state === null || typeof request.state.value['upTo'] === 'number'
        ? { ...request, state: request.state && { ...request.state, version: 1 } }
        : { ...request, state: null },
    ),
  ),
  saboteur('remembers what it has sent, and not what was committed', ['C22', 'C29'], (connector, { source }) => {
    const sent = SENT.get(source) ?? new Map<string, ReadRequest['state']>()
    SENT.set(source, sent)
    return {
      async *read(request) {
        const state = request.state && (sent.get(request.table) ?? request.state)
        for await (const event of connector.read({ ...request, state })) {
          if (event.kind === 'batch' && state)
            sent.set(request.table, { ...state, value: { ...state.value, upTo: Number.MAX_SAFE_INTEGER } })
          yield event
        }
      },
    }
  }),
  saboteur('fails all tables with one', ['C23'], (connector) => {
    let isBroken = false
    return {
      async *read(request) {
        try {
          for await (const event of connector.read(request)) {
            if (isBroken) throw new SluiceError('TRANSIENT', 'the connection is broken', { code: 'broken' })
            yield event
            await new Promise(setImmediate)
          }
        } catch (error) {
          isBroken = true
          throw error
        }
      },
    }
  }),
  saboteur('goes on strictly after the last time', ['C24'], (connector) =>
    asking(connector, (request) => {
      const from = request.state?.value['from']
      if (typeof from !== 'string') return request
      const after = new Date(Date.parse(from) + 60_001).toISOString().replace('Z', '000Z')
      return {
        ...request,
        state: request.state && { ...request.state, value: { ...request.state.value, from: after } },
      }
    }),
  ),
  saboteur('leaves out rows without a time', ['C25'], (connector) =>
    counted(
      readingRows(connector, (rows, request) =>
        request.cursorColumn === null || request.state === null ? rows : rows.filter((row) => row[1] !== null),
      ),
    ),
  ),
  saboteur('tells the columns as they first were', ['C26'], (connector) => {
    const first = new Map<string, Extract<ReadEvent, { kind: 'schema' }>>()
    return reading(connector, (event, { table, columns }) => {
      if (event.kind !== 'schema' || columns.length > 0) return [event]
      const known = first.get(table) ?? event
      first.set(table, known)
      return [known]
    })
  }),
  saboteur('drops rows that it cannot carry', ['C27'], (connector) =>
    reading(connector, (event) => (event.kind === 'reject' ? [] : [event])),
  ),
  saboteur('gives the first change of a row', ['C28'], (connector) => {
    const first = new Map<string, Row>()
    return readingRows(connector, (rows, request) =>
      request.state === null
        ? rows
        : rows.map((row) => {
            const key = `${request.table}/${row[0]}`
            const known = first.get(key) ?? row.with(2, 'first')
            first.set(key, known)
            return known
          }),
    )
  }),
  saboteur('tries again for ever where it is turned away', ['C31'], (connector, { source }) => ({
    async *read(request) {
      if (source.refusesLogins) throw new SluiceError('INTERNAL', 'gave up after many tries', { code: 'gave_up' })
      yield* connector.read(request)
    },
  })),
  saboteur('keeps a session for each read that is left off', ['C32', 'C33'], (connector, { source }) => ({
    async *read(request) {
      source.sessions += 1
      for await (const event of connector.read(request)) yield event
      source.sessions -= 1
    },
  })),
  saboteur('gives all rows in one batch', ['C32'], (connector) => ({
    async *read(request) {
      const events = await Array.fromAsync(connector.read(request))
      const rows = events.flatMap((event) => (event.kind === 'batch' ? [...rowsOf(event.batch)] : []))
      const many = rows.length >= 400 ? Array.from({ length: 30 }, () => rows).flat() : rows
      const width = rows[0]?.length ?? 0
      yield* events.slice(0, 1)
      if (rows.length > 0) yield { kind: 'batch', batch: batchFromRows(many, width) }
      const last = events.at(-1)
      yield* events.filter(({ kind }) => kind === 'reject')
      if (last?.kind === 'state') yield { ...last, rows: many.length }
    },
  })),
  saboteur('reads on though nobody waits', ['C33'], (connector) =>
    asking(connector, (request) => ({ ...request, signal: new AbortController().signal })),
  ),
  saboteur('goes by its own clock', ['C34'], (connector) => ({
    read: (request) =>
      reading(connector, (event, { state }) => {
        const isAhead = event.kind === 'state' && state !== null && event.rows > 0
        return isAhead
          ? [{ ...event, state: { ...event.state, value: { ...event.state.value, upTo: Number.MAX_SAFE_INTEGER } } }]
          : [event]
      }).read?.(request) ?? connector.read(request),
  })),
]

/** The connector that does nothing and says that all went well. */
export const nullConnectorPlugin: Plugin = {
  ...reference,
  name: 'nothing',
  async open() {
    return {
      check: async () => ({ ok: true, steps: [], latencyMs: 0 }),
      discover: async () => ({ tables: [], next: null }),
      async *read() {
        yield { kind: 'schema', schema: { columns: [], primaryKey: [] } }
        yield { kind: 'state', state: { version: 1, value: {} }, rows: 0 }
      },
      async ack() {},
      async close() {},
    }
  },
}
