import type { Connector, ConnectorHost, ReadRequest } from '@sluice/sdk'
import { connectorClosed } from '../server/failure.ts'
import type { Source } from '../server/settings.ts'
import { checkSource } from './check.ts'
import { discoverTables } from './discover.ts'
import { Moment } from './moment.ts'
import { readTable } from './read.ts'
import type { Way } from './session.ts'

export function createConnector(source: Source, host: ConnectorHost): Connector {
  const closed = new AbortController()
  const way: Way = { source, host, sessions: new Set(), moment: source.oneMoment ? new Moment() : null }
  const untilClosed = (signal: AbortSignal) => AbortSignal.any([signal, closed.signal])
  return {
    check: async (signal) => checkSource(way, untilClosed(signal)),
    discover: async (page, signal) => discoverTables(way, page, untilClosed(signal)),
    read: (request: ReadRequest) => readTable(way, { ...request, signal: untilClosed(request.signal) }, closed.signal),
    // Nothing is kept at the source that could be let go of.
    ack: async () => undefined,
    close: async () => {
      closed.abort(connectorClosed())
      await Promise.all([...way.sessions].map((session) => session.close()))
    },
  }
}
