/** Connectors of which one call goes on when its caller has left: from the beginning, or once it has begun. */
import { type ChangeSource, type Connector, SluiceError } from '@sluice/sdk'
import { type ConnectorSaboteur, saboteur } from './wrap.ts'
import { ofLog } from './wrap-log.ts'

const forever = () => new AbortController().signal

function looksOnce(signal: AbortSignal): AbortSignal {
  if (signal.aborted) throw new SluiceError('TRANSIENT', 'the caller has left', { code: 'aborted' })
  return forever()
}

const deaf: Readonly<
  Record<string, (connector: Connector, until: (signal: AbortSignal) => AbortSignal) => Partial<Connector>>
> = {
  check: (connector, until) => ({ check: async (signal) => connector.check(until(signal)) }),
  discover: (connector, until) => ({ discover: async (page, signal) => connector.discover(page, until(signal)) }),
  read: (connector, until) => ({
    async *read(request) {
      yield* connector.read({ ...request, signal: until(request.signal) })
    },
  }),
}

type LogCall = Exclude<keyof ChangeSource, 'changes'>
const LOG_CALLS: readonly LogCall[] = ['refusals', 'prepare', 'awaitChanges', 'ack', 'health', 'release']

/** The call of a log, asked with another signal. */
function deafIn(source: ChangeSource, name: LogCall): Partial<ChangeSource> {
  const call = source[name] as ((request: { readonly signal: AbortSignal }) => Promise<unknown>) | undefined
  return {
    [name]: async (request: { readonly signal: AbortSignal }) =>
      call?.({ ...request, signal: looksOnce(request.signal) }),
  } as Partial<ChangeSource>
}

export const leavingSaboteurs: readonly ConnectorSaboteur[] = [
  ...Object.entries(deaf).flatMap(([name, replace]) => [
    saboteur(`goes on with ${name} though nobody waits`, ['C33', 'C80'], (connector) => replace(connector, forever)),
    saboteur(`looks whether somebody waits before ${name} alone`, ['C80'], (connector) =>
      replace(connector, looksOnce),
    ),
  ]),
  ...LOG_CALLS.map((name) =>
    ofLog(`looks whether somebody waits before ${name} of its log alone`, ['C81'], (source) => deafIn(source, name)),
  ),
  ofLog('looks whether somebody waits before it reads its log alone', ['C81'], (source) => ({
    async *changes(request) {
      yield* source.changes({ ...request, signal: looksOnce(request.signal) })
    },
  })),
]
