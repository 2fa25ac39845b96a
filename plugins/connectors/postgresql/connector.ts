import type { Connector, ConnectorHost, ReadRequest } from '@sluice/sdk'
import { connectorClosed } from '../server/failure.ts'
import { checkSource } from './check.ts'
import { discoverTables } from './discover.ts'
import { KeptSession } from './kept-session.ts'
import { changeSource } from './log/source.ts'
import { Moment } from './moment.ts'
import { readTable } from './read.ts'
import type { Way } from './session.ts'
import type { Source } from './settings.ts'

export function createConnector(source: Source, host: ConnectorHost): Connector {
  const closed = new AbortController()
  const moment = source.oneMoment ? new Moment() : null
  const way: Way = { source, host, sessions: new Set(), kept: new KeptSession(host.clock), moment }
  const untilClosed = (signal: AbortSignal) => AbortSignal.any([signal, closed.signal])
  return {
    check: async (signal) => checkSource(way, untilClosed(signal)),
    discover: async (page, signal) => discoverTables(way, page, untilClosed(signal)),
    read: (request: ReadRequest) => readTable(way, { ...request, signal: untilClosed(request.signal) }),
    // For reads nothing is kept at the source: no slot and no place, so there is nothing to let go of.
    ack: async () => undefined,
    changes: changeSource(way, untilClosed),
    close: async () => {
      closed.abort(connectorClosed())
      await Promise.all([...way.sessions].map((session) => session.close()))
    },
  }
}
