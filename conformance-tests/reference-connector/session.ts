/** One session at the source, from the name of its host to what it may see. */
import {
  type CHECK_STEPS,
  type CheckReport,
  type CheckStep,
  type ConnectorHost,
  isSluiceError,
  SluiceError,
} from '@sluice/sdk'
import type { SourceTable } from '../connector-fixture.ts'
import { isLogin, PORT, type SourceSettings } from './settings.ts'

type StepName = (typeof CHECK_STEPS)[number]

/** The steps in their order; each throws what keeps it from being taken. */
const STEPS: readonly (readonly [
  StepName,
  string,
  (settings: SourceSettings, host: ConnectorHost, signal: AbortSignal) => unknown,
])[] = [
  ['dns', 'the name resolves', ({ host: name, port }, host, signal) => host.network.resolve(name, port, signal)],
  [
    'tcp',
    'the port accepts connections',
    ({ source, port }) =>
      port === PORT && source.isUp
        ? null
        : refused(
            'TRANSIENT',
            'source_unreachable',
            'nobody answers at this port',
            'Check that the source runs, and its port.',
          ),
  ],
  [
    'tls',
    'the source need not prove who it is',
    ({ verify }) =>
      verify
        ? refused(
            'CONFIG',
            'source_not_verified',
            'the source cannot prove who it is',
            'Set verify to false, or give the source a certificate.',
          )
        : null,
  ],
  ['auth', 'the login is let in', (settings) => admit(settings)],
  [
    'privileges',
    'there are tables that the login may read',
    (settings) =>
      visibleTables(settings).length > 0 || settings.user !== 'sees_nothing'
        ? null
        : refused('PERMISSION', 'source_permission', 'the login may read nothing', 'Let an owner grant it a table.'),
  ],
]

function refused(kind: 'TRANSIENT' | 'CONFIG' | 'PERMISSION', code: string, message: string, remedy: string): never {
  throw new SluiceError(kind, message, { code, remedy })
}

function admit(settings: SourceSettings): void {
  if (settings.source.refusesLogins)
    refused('TRANSIENT', 'source_busy', 'the source lets nobody in for now', 'Wait, or ask less often.')
  if (!isLogin(settings))
    refused('CONFIG', 'source_login_refused', 'the source refuses the login', 'Check user and password.')
}

/** Tables that the login may read, by name. */
export function visibleTables({ source, user }: SourceSettings): readonly SourceTable[] {
  return user === 'reader' ? source.tables.filter(({ hidden }) => !hidden) : []
}

export async function checkSource(
  settings: SourceSettings,
  host: ConnectorHost,
  signal: AbortSignal,
): Promise<CheckReport> {
  const startedMs = host.clock.nowMs()
  const steps: CheckStep[] = []
  for (const [name, message, take] of STEPS) {
    try {
      stopIfAborted(signal)
      await take(settings, host, signal)
      await answered(settings, signal)
      steps.push({ name, ok: true, message })
    } catch (error) {
      if (!isSluiceError(error) || signal.aborted) throw error
      steps.push({ name, ok: false, message: error.message, remedy: error.remedy ?? 'Check the settings.' })
      break
    }
  }
  return { ok: steps.every(({ ok }) => ok), steps, latencyMs: Math.max(0, host.clock.nowMs() - startedMs) }
}

/** Runs within a session, which ends with it however it ends. */
export async function* within<T>(
  settings: SourceSettings,
  host: ConnectorHost,
  signal: AbortSignal,
  run: () => AsyncIterable<T>,
): AsyncGenerator<T> {
  stopIfAborted(signal)
  for (const [, , take] of STEPS) await take(settings, host, signal)
  settings.source.sessions += 1
  try {
    await answered(settings, signal)
    yield* run()
  } finally {
    settings.source.sessions -= 1
  }
}

/** Once the source answers, or the caller has left. */
async function answered({ source }: SourceSettings, signal: AbortSignal): Promise<void> {
  if (source.stalled === null) return
  const { promise: left, resolve: leave } = Promise.withResolvers<void>()
  const onAbort = () => leave()
  signal.addEventListener('abort', onAbort)
  if (!signal.aborted) await Promise.race([source.stalled(), left])
  signal.removeEventListener('abort', onAbort)
  stopIfAborted(signal)
}

export function stopIfAborted(signal: AbortSignal): void {
  if (signal.aborted) throw new SluiceError('TRANSIENT', 'the read was ended by its caller', { code: 'aborted' })
}
