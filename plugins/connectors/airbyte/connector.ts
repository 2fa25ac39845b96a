/** What the runtime asks of a program of others: each call is one run of it. */
import type { Connector, ConnectorHost, DiscoverPage } from '@sluice/sdk'
import { type Catalog, catalogOf, tableOf } from './catalog.ts'
import { checked } from './check.ts'
import { answerInvalid, requestInvalid } from './failure.ts'
import { CONFIG_FILE, messagesOf } from './program.ts'
import { readStream } from './read.ts'
import type { AirbyteSource } from './settings.ts'

const AFTER = 'after:'

export function createConnector(source: AirbyteSource, host: ConnectorHost): Connector {
  const closed = new AbortController()
  const untilClosed = (signal: AbortSignal) => AbortSignal.any([signal, closed.signal])
  // Of this connector, which is open for one run at most: what a page and a read after it say is one.
  let known: Catalog | null = null
  const catalog = async (signal: AbortSignal): Promise<Catalog> => {
    known ??= await discovered(source, host, signal)
    return known
  }
  return {
    check: (signal) => checked(source, host, untilClosed(signal)),
    discover: async ({ after, limit }, signal) => {
      if (after === null) known = null
      return page(await catalog(untilClosed(signal)), after, limit)
    },
    read: async function* (request) {
      const signal = untilClosed(request.signal)
      yield* readStream(source, host, await catalog(signal), { ...request, signal })
    },
    // Its position is kept by the runtime, with the rows: nobody else is told.
    ack: async () => undefined,
    close: async () => closed.abort(),
  }
}

async function discovered(source: AirbyteSource, host: ConnectorHost, signal: AbortSignal): Promise<Catalog> {
  let catalog: Catalog | null = null
  const words = ['discover', '--config', { file: CONFIG_FILE }]
  for await (const message of messagesOf(source, host, { words }, signal)) {
    if (message.type === 'catalog') catalog = catalogOf(message.streams)
    else if (message.type !== 'state' && message.type !== 'status')
      throw answerInvalid('it answers what it was not asked')
  }
  if (catalog === null) throw answerInvalid('it names no tables')
  if (catalog.refused > 0)
    host.logger.warn(
      'streams of the connector are not offered: their names or columns are none that a table can have',
      {
        streams: catalog.refused,
      },
    )
  return catalog
}

function page({ streams }: Catalog, after: string | null, limit: number): DiscoverPage {
  if (after !== null && !after.startsWith(AFTER))
    throw requestInvalid('the position in the list is none of this connector')
  const tables = streams.map((stream) => ({ key: `${stream.schema}.${stream.name}`, stream }))
  const left = tables.filter(({ key }) => after === null || key > after.slice(AFTER.length))
  const shown = left.slice(0, limit)
  const next = left.length > shown.length ? `${AFTER}${shown.at(-1)?.key}` : null
  return { tables: shown.map(({ stream }) => tableOf(stream)), next }
}
