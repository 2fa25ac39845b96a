/** Wraps the reference connector, with one promise broken. */
import {
  batchFromRows,
  type Connector,
  type ConnectorPlugin,
  type ReadEvent,
  type ReadRequest,
  type Row,
  rowsOf,
} from '@sluice/sdk'
import reference, { type SourceSettings } from '../reference-connector/index.ts'

export interface ConnectorSaboteur {
  /** What it does wrong. */
  readonly name: string
  /** The checks that have to catch it. */
  readonly caughtBy: readonly string[]
  readonly plugin: ConnectorPlugin<SourceSettings>
}

export type Plugin = ConnectorSaboteur['plugin']

export function saboteur(
  name: string,
  caughtBy: readonly string[],
  replace: (connector: Connector, settings: SourceSettings) => Partial<Connector>,
  change: (plugin: Plugin) => Plugin = (plugin) => plugin,
): ConnectorSaboteur {
  const plugin: Plugin = {
    ...reference,
    async open(settings, host) {
      const connector = await reference.open(settings, host)
      return { ...connector, ...replace(connector, settings) }
    },
  }
  return { name, caughtBy, plugin: change(plugin) }
}

/** The read with each of its events changed, into none or several. */
export function reading(
  connector: Connector,
  change: (event: ReadEvent, request: ReadRequest) => readonly ReadEvent[],
): Partial<Connector> {
  return {
    async *read(request) {
      for await (const event of connector.read(request)) yield* change(event, request)
    },
  }
}

export function readingRows(
  connector: Connector,
  change: (rows: readonly Row[], request: ReadRequest) => readonly Row[],
): Partial<Connector> {
  return reading(connector, (event, request) =>
    event.kind === 'batch'
      ? [{ ...event, batch: batchFromRows(change([...rowsOf(event.batch)], request), event.batch.columns.length) }]
      : [event],
  )
}

export function asking(connector: Connector, change: (request: ReadRequest) => ReadRequest): Partial<Connector> {
  return { read: (request) => connector.read(change(request)) }
}

/** Counts of the states as they would be for the rows that are left. */
export function counted(connector: Partial<Connector>): Partial<Connector> {
  return {
    ...connector,
    async *read(request) {
      let rows = 0
      for await (const event of connector.read?.(request) ?? []) {
        if (event.kind === 'batch') rows += event.batch.rowCount
        yield event.kind === 'state' ? { ...event, rows } : event
        if (event.kind === 'state') rows = 0
      }
    },
  }
}
