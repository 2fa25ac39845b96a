/** A connector whose code runs in processes of its own, behind walls; to the runtime it is a connector like any. */
import {
  type ChangeSource,
  type CheckReport,
  type CheckStep,
  type ColumnBatch,
  type Connector,
  type ConnectorState,
  type DiscoveredTable,
  type DiscoverPage,
  isSluiceError,
  type ReadEvent,
  type ReadRequest,
  type SluiceError,
} from '@sluice/sdk'
import { BrokenAnswer, checkedEvent, checkedReport, checkedTable } from './source-answers.ts'
import { lineFailure } from './source-failure.ts'
import type { SourcePlaces } from './source-places.ts'
import type { SourceCall } from './source-protocol.ts'
import type { Part, SourceSession } from './source-session.ts'
import { walledChanges } from './walled-changes.ts'

/** Rows whose CSV was made where they came from; `columns` is empty. */
export interface EncodedBatch extends ColumnBatch {
  readonly csv: Uint8Array
}

export function isEncoded(batch: ColumnBatch): batch is EncodedBatch {
  return 'csv' in batch
}

export interface CallLimits {
  /** Of a check, and of a page of discover. */
  readonly callMs: number
  /** Of one table. */
  readonly readMs: number
}

export class WalledConnector implements Connector {
  readonly #start: (signal: AbortSignal, timeoutMs: number) => Promise<SourceSession>
  readonly #places: SourcePlaces
  readonly #limits: CallLimits
  readonly #sessions = new Set<SourceSession>()
  readonly #closed = new AbortController()
  #idle: SourceSession | null = null
  /** Absent where its plugin does not name the mode `cdc`. */
  readonly changes?: ChangeSource

  /** `start` opens the connector in a process of its own. */
  constructor(
    start: (signal: AbortSignal, timeoutMs: number) => Promise<SourceSession>,
    places: SourcePlaces,
    limits: CallLimits,
    options: { readonly readsChanges?: boolean } = {},
  ) {
    this.#start = start
    this.#places = places
    this.#limits = limits
    if (options.readsChanges === true) {
      this.changes = walledChanges((call, kind, signal) => this.#call(call, this.#limits[kind], signal))
    }
  }

  async check(signal: AbortSignal): Promise<CheckReport> {
    let report: CheckReport | null = null
    const startedMs = performance.now()
    try {
      for await (const part of this.#call({ method: 'check' }, this.#limits.callMs, signal)) {
        report = checkedReport(partOf(part))
      }
      if (report === null) throw new BrokenAnswer('a check without a report')
      return report
    } catch (error) {
      const failure = lineFailure(error)
      if (signal.aborted || !isSluiceError(failure)) throw failure
      return failedReport(failure, this.#places, performance.now() - startedMs)
    }
  }

  async discover(
    page: { readonly after: string | null; readonly limit: number },
    signal: AbortSignal,
  ): Promise<DiscoverPage> {
    const tables: DiscoveredTable[] = []
    const parts = this.#call({ method: 'discover', ...page }, this.#limits.callMs, signal)
    for (;;) {
      const { value, done } = await parts.next()
      if (done) return { tables, next: value }
      tables.push(await believed(parts, () => checkedTable(partOf(value))))
      if (tables.length > page.limit) throw await brokenOff(parts, new BrokenAnswer('more tables than were asked for'))
    }
  }

  async *read({ signal, ...request }: ReadRequest): AsyncGenerator<ReadEvent> {
    for await (const part of this.#call({ method: 'read', request }, this.#limits.readMs, signal)) {
      if (part.type === 'csv') yield { kind: 'csv', chunk: part.bytes }
      else if (part.type === 'batch') yield { kind: 'batch', batch: encoded(part) }
      else yield eventOf(part.part)
    }
  }

  async ack(table: { readonly schema: string; readonly table: string }, state: ConnectorState): Promise<void> {
    const { signal } = new AbortController()
    for await (const _ of this.#call({ method: 'ack', ...table, state }, this.#limits.callMs, signal)) {
      // Nothing comes of it.
    }
  }

  async close(): Promise<void> {
    this.#closed.abort()
    await Promise.all([...this.#sessions].map((session) => session.close()))
  }

  /** Calls at the same time have a process each. */
  async *#call(call: SourceCall, timeoutMs: number, caller: AbortSignal): AsyncGenerator<Part, string | null> {
    const signal = AbortSignal.any([caller, this.#closed.signal])
    const startedMs = performance.now()
    const session = await this.#take(signal, timeoutMs)
    try {
      const leftMs = Math.max(1, timeoutMs - (performance.now() - startedMs))
      return yield* session.call(call, leftMs, signal)
    } finally {
      await this.#giveBack(session)
    }
  }

  async #take(signal: AbortSignal, timeoutMs: number): Promise<SourceSession> {
    signal.throwIfAborted()
    const idle = this.#idle
    this.#idle = null
    if (idle?.usable) return idle
    const session = await this.#start(signal, timeoutMs)
    this.#sessions.add(session)
    return session
  }

  async #giveBack(session: SourceSession): Promise<void> {
    if (session.usable && this.#idle === null && !this.#closed.signal.aborted) {
      this.#idle = session
      return
    }
    this.#sessions.delete(session)
    await session.close()
  }
}

function partOf(part: Part): unknown {
  if (part.type === 'part') return part.part
  throw new BrokenAnswer('rows that nobody asked for')
}

function eventOf(part: unknown): ReadEvent {
  try {
    return checkedEvent(part)
  } catch (error) {
    throw lineFailure(error)
  }
}

async function believed<T>(parts: AsyncGenerator<Part, string | null>, check: () => T): Promise<T> {
  try {
    return check()
  } catch (error) {
    throw await brokenOff(parts, error)
  }
}

/** Ends the call; gives what is to be thrown. */
async function brokenOff(parts: AsyncGenerator<Part, string | null>, error: unknown): Promise<unknown> {
  await parts.return(null)
  return lineFailure(error)
}

function encoded({ rowCount, bytes }: Extract<Part, { type: 'batch' }>): EncodedBatch {
  return { rowCount, columns: [], csv: bytes }
}

/** What the runtime has seen for itself of a check whose process did not come to report. */
function failedReport(failure: SluiceError, places: SourcePlaces, latencyMs: number): CheckReport {
  const done = (name: CheckStep['name'], message: string): CheckStep => ({ name, ok: true, message })
  const before = [
    ...(places.isResolved ? [done('dns', 'the host resolves, and connections to it are allowed')] : []),
    ...(places.isReached ? [done('tcp', 'the port accepts connections')] : []),
  ]
  const name = places.isReached ? 'auth' : places.isResolved ? 'tcp' : 'dns'
  const remedy = failure.remedy ?? 'Check the settings of this connection.'
  return {
    ok: false,
    steps: [...before, { name, ok: false, message: failure.message, remedy }],
    latencyMs: Math.round(latencyMs),
  }
}
