/** Connectors that tell their password, in every place that they give something back; estimates that are none. */
import {
  type ChangeEvent,
  type ChangePosition,
  type Connector,
  type ConnectorState,
  type DiscoveredTable,
  isSluiceError,
  type ReadEvent,
  SluiceError,
} from '@sluice/sdk'
import { type ConnectorSaboteur, reading, saboteur } from './wrap.ts'
import { ofLog, telling } from './wrap-log.ts'

type Parts = ConstructorParameters<typeof SluiceError>[2]
type Tell = (connector: Connector, password: string) => Partial<Connector>

/** What a read throws, thrown with more in it. */
const throwing =
  (more: (parts: Parts, password: string) => Parts): Tell =>
  (connector, password) => ({
    async *read(request) {
      try {
        yield* connector.read(request)
      } catch (error) {
        if (!isSluiceError(error)) throw error
        const { kind, message, code, remedy, details } = error
        const parts = { code, ...(remedy ? { remedy } : {}), ...(details ? { details } : {}) } as Parts
        throw new SluiceError(kind, message, more(parts, password))
      }
    },
  })

const listing =
  (change: (table: DiscoveredTable, password: string) => DiscoveredTable): Tell =>
  (connector, password) => ({
    async discover(page, signal) {
      const found = await connector.discover(page, signal)
      return { ...found, tables: found.tables.map((table) => change(table, password)) }
    },
  })

const stating =
  (change: (state: ConnectorState, password: string) => ConnectorState): Tell =>
  (connector, password) =>
    reading(connector, (event) =>
      event.kind === 'state' ? [{ ...event, state: change(event.state, password) }] : [event],
    )

/** By where the password stands. */
const PLACES: Readonly<Record<string, Tell>> = {
  'the version of the server': (connector, password) => ({
    check: async (signal) => ({ ...(await connector.check(signal)), serverVersion: `1.0 (${password})` }),
  }),
  'a remedy of a check': (connector, password) => ({
    async check(signal) {
      const report = await connector.check(signal)
      return { ...report, steps: report.steps.map((step) => (step.ok ? step : { ...step, remedy: `not ${password}` })) }
    },
  }),
  'the source type of a column': listing((table, password) => ({
    ...table,
    columns: table.columns.map((column) => ({ ...column, sourceType: `${column.sourceType} ${password}` })),
  })),
  'where a list goes on': (connector, password) => ({
    async discover({ after, limit }, signal) {
      const known = after?.replace(`:${password}`, '') ?? null
      const found = await connector.discover({ after: known, limit }, signal)
      return { ...found, next: found.next === null ? null : `${found.next}:${password}` }
    },
  }),
  'a name of a field of a state': stating((state, password) => ({
    ...state,
    value: { ...state.value, [password]: true },
  })),
  'the details of an error': throwing((parts, password) => ({ ...parts, details: { login: [password] } }) as Parts),
  'the cause of a cause': throwing((parts, password) => ({
    ...parts,
    cause: new Error('the driver has failed', { cause: new Error(`no login with ${password}`) }),
  })),
  'a part of a URL': throwing((parts, password) => ({
    ...parts,
    remedy: `Look at memory://reader:${encodeURIComponent(password)}@host.`,
  })),
  'the reason of a reject': (connector, password) =>
    reading(connector, (event): readonly ReadEvent[] =>
      event.kind === 'schema' ? [event, { kind: 'reject', reason: `no row for ${password}`, column: null }] : [event],
    ),
}

const at = (position: ChangePosition, password: string) => ({ ...position, lineage: `${position.lineage}:${password}` })
const from = (position: ChangePosition, password: string) => ({
  ...position,
  lineage: position.lineage.replace(`:${password}`, ''),
})

const eventPlaces: Readonly<Record<string, (event: ChangeEvent, password: string) => ChangeEvent>> = {
  'the reason of a reject of the log': (event, password) =>
    event.kind === 'reject' ? { ...event, reason: `${event.reason} ${password}` } : event,
  'a name of a column of the log': (event, password) =>
    event.kind === 'schema'
      ? {
          ...event,
          schema: { ...event.schema, columns: event.schema.columns.map((one) => ({ ...one, sourceType: password })) },
        }
      : event,
}

export const toldSaboteurs: readonly ConnectorSaboteur[] = [
  ...Object.entries(PLACES).map(([place, tell]) =>
    saboteur(`tells its password in ${place}`, ['C5'], (connector, { password }) => tell(connector, password)),
  ),
  ...Object.entries(eventPlaces).map(([place, tell]) =>
    ofLog(`tells its password in ${place}`, ['C5'], (source, settings) =>
      telling((event) => [tell(event, settings.password)])(source, settings),
    ),
  ),
  // Its lineage stands in every position, in and out.
  ofLog('keeps its password in every position of the log', ['C5', 'C55'], (source, { password }) => ({
    async prepare(request) {
      const prepared = await source.prepare(request)
      return { ...prepared, position: at(prepared.position, password) }
    },
    async *changes(request) {
      for await (const event of source.changes({ ...request, after: from(request.after, password) }))
        yield event.kind === 'checkpoint' ? { ...event, position: at(event.position, password) } : event
    },
    async awaitChanges(request) {
      const news = await source.awaitChanges?.({ ...request, after: from(request.after, password) })
      return news?.kind === 'quiet' ? { ...news, position: at(news.position, password) } : { kind: 'changed' }
    },
    ack: (request) => source.ack({ ...request, position: from(request.position, password) }),
    health: (request) => source.health({ ...request, saved: request.saved && from(request.saved, password) }),
  })),
  ofLog('tells its password in what an incarnation is called', ['C5'], (source, { password }) => ({
    async prepare(request) {
      const prepared = await source.prepare(request)
      const incarnations = prepared.incarnations ?? []
      return {
        ...prepared,
        incarnations: incarnations.map((one) => ({ ...one, incarnation: `${one.incarnation}${password}` })),
      }
    },
  })),
  ofLog('tells its password in why a table is refused', ['C5', 'C59'], (source, { password }) => ({
    async refusals(request) {
      const refused = (await source.refusals?.(request)) ?? []
      return refused.map((one) => ({ ...one, reason: `${one.reason}, as ${password}` }))
    },
  })),
  ofLog('tells its password in how the log is', ['C5', 'C61'], (source, { password }) => ({
    async health(request) {
      const health = await source.health(request)
      return { ...health, message: `${health.message} for ${password}` }
    },
  })),
  ofLog('tells its password where a position is lost', ['C5', 'C53'], (source, { password }) => ({
    async *changes(request) {
      try {
        yield* source.changes(request)
      } catch (error) {
        if (!isSluiceError(error)) throw error
        throw new SluiceError(error.kind, `${error.message} (${password})`, { code: error.code })
      }
    },
  })),
  saboteur(
    'tells its password as the label of a metric',
    ['C5', 'C10'],
    () => ({}),
    (plugin) => ({
      ...plugin,
      open(settings, host) {
        host.metrics.count('sessions', 1, { login: `${settings.user}:${settings.password}` })
        return plugin.open(settings, host)
      },
    }),
  ),
  ...[-5, Number.NaN, 2.5, Number.MAX_VALUE, 1e12].flatMap((wrong) => [
    saboteur(`discovers ${wrong} rows`, ['C79'], (connector) =>
      listing((table) => ({ ...table, estimatedRows: wrong }))(connector, ''),
    ),
    saboteur(`says before a read that ${wrong} rows will come`, ['C79'], (connector) =>
      reading(connector, (event) => (event.kind === 'estimate' ? [{ ...event, rows: wrong }] : [event])),
    ),
  ]),
]
