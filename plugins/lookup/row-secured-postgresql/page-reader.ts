/** Runs pages: point reads on the pipelined connections, everything else on connections of its own. */
import { type Clock, type ReadBatch, type ReadPlan, SluiceError } from '@sluice/sdk'
import { type DatasetKey, keyValues, STORE_SCHEMA } from './datasets.ts'
import { isConnectionLoss, sqlState, storeError } from './driver-errors.ts'
import type { TextRow } from './one-sync.ts'
import { decodePage, notMaterialized, type Page, pageStatement, type Statement } from './page-query.ts'
import { Parameters } from './predicates.ts'
import type { Sessions } from './sessions.ts'

export type Lane = 'fast' | 'slow'

/** Names of tables that are remembered; each is checked by every statement that uses it. */
const MAX_REMEMBERED = 20_000

const RESOLVE = `select relation from ${STORE_SCHEMA}.datasets
  where tenant_id = $1 and domain = $2 and product = $3 and variant = $4 and endpoint = $5`

type PageParts = Omit<Page, 'relation'>

export class PageReader {
  readonly #sessions: Sessions
  readonly #clock: Clock
  readonly #relations = new Map<string, string>()

  constructor(sessions: Sessions, clock: Clock) {
    this.#sessions = sessions
    this.#clock = clock
  }

  /** `describe` binds its values to the parameters it is given; it is called again where the table has moved. */
  async read(
    key: DatasetKey,
    plan: Pick<ReadPlan, 'timeoutMs' | 'signal'>,
    lane: Lane,
    describe: (parameters: Parameters) => PageParts,
  ): Promise<ReadBatch> {
    const ended = new AbortController()
    const abort = () => ended.abort()
    const stopTimer = this.#clock.every(plan.timeoutMs, abort)
    plan.signal.addEventListener('abort', abort, { once: true })
    if (plan.signal.aborted) abort()
    try {
      const work = this.#read(key, plan.timeoutMs, ended.signal, lane, describe)
      return await untilAborted(ended.signal, plan.signal, work)
    } finally {
      stopTimer()
      plan.signal.removeEventListener('abort', abort)
    }
  }

  async #read(
    key: DatasetKey,
    timeoutMs: number,
    signal: AbortSignal,
    lane: Lane,
    describe: (parameters: Parameters) => PageParts,
  ): Promise<ReadBatch> {
    for (const fresh of [false, true]) {
      const relation = await this.#relation(key, fresh, signal, timeoutMs)
      const parameters = new Parameters()
      const page = { ...describe(parameters), relation }
      const batch = await this.#page(page, pageStatement(page, parameters), lane, signal, timeoutMs)
      if (batch !== null) return batch
    }
    throw notMaterialized(key)
  }

  async #page(
    page: Page,
    statement: Statement,
    lane: Lane,
    signal: AbortSignal,
    timeoutMs: number,
  ): Promise<ReadBatch | null> {
    try {
      return decodePage(page, await this.#run(page.key.tenant, statement, lane, signal, timeoutMs))
    } catch (error) {
      // The parent goes when nobody has rows in it: what is provisioned and unwritten may have none.
      if (sqlState(causeOf(error)) === '42P01') return null
      throw error
    }
  }

  async #relation(key: DatasetKey, fresh: boolean, signal: AbortSignal, timeoutMs: number): Promise<string> {
    const name = JSON.stringify(keyValues(key))
    const known = fresh ? undefined : this.#relations.get(name)
    if (known !== undefined) return known
    const relation = await this.#resolve(key, signal, timeoutMs)
    if (this.#relations.size >= MAX_REMEMBERED) this.#relations.clear()
    this.#relations.set(name, relation)
    return relation
  }

  async #resolve(key: DatasetKey, signal: AbortSignal, timeoutMs: number): Promise<string> {
    try {
      const values = keyValues(key)
      const rows = await this.#run(key.tenant, { text: RESOLVE, values }, 'fast', signal, timeoutMs)
      const relation = rows[0]?.[0]
      if (relation) return relation
    } catch (error) {
      if (!['42P01', '3F000'].includes(sqlState(causeOf(error)) ?? '')) throw error
    }
    throw notMaterialized(key)
  }

  async #run(
    tenant: string,
    statement: Statement,
    lane: Lane,
    signal: AbortSignal,
    timeoutMs: number,
  ): Promise<readonly TextRow[]> {
    if (lane === 'fast') {
      try {
        return await this.#sessions.fast.read(tenant, statement.text, statement.values)
      } catch (error) {
        // What takes long is read again where nobody queues behind it; so is what may be longer lived than a lane.
        if (sqlState(error) !== '57014' || signal.aborted) throw storeError(error, 'a read')
      }
    }
    return await this.#runAlone(tenant, statement, signal, timeoutMs)
  }

  async #runAlone(
    tenant: string,
    statement: Statement,
    signal: AbortSignal,
    timeoutMs: number,
  ): Promise<readonly TextRow[]> {
    const run = async () =>
      await this.#sessions.transaction(
        'reader',
        tenant,
        'a read',
        async (client) => {
          await client.query(`select set_config('statement_timeout', $1, true)`, [String(Math.ceil(timeoutMs))])
          const result = await client.query<(string | null)[]>({
            text: statement.text,
            values: [...statement.values],
            rowMode: 'array',
          })
          return result.rows as readonly TextRow[]
        },
        signal,
      )
    try {
      return await run()
    } catch (error) {
      if (signal.aborted || !isConnectionLoss(causeOf(error))) throw error
      return await run()
    }
  }
}

function causeOf(error: unknown): unknown {
  return error instanceof SluiceError ? (error.cause ?? error) : error
}

/** The caller is answered when the signal fires, whatever the server still does. */
async function untilAborted<T>(signal: AbortSignal, caller: AbortSignal, work: Promise<T>): Promise<T> {
  let answer: (() => void) | undefined
  const aborted = new Promise<never>((_, reject) => {
    answer = () => reject(caller.aborted ? calledOff(caller) : deadlineExceeded())
    if (signal.aborted) answer()
    else signal.addEventListener('abort', answer, { once: true })
  })
  try {
    return await Promise.race([work, aborted])
  } finally {
    if (answer) signal.removeEventListener('abort', answer)
    // Whichever of the two comes second has nobody waiting for it.
    work.catch(() => {})
    aborted.catch(() => {})
  }
}

function calledOff(signal: AbortSignal): SluiceError {
  return new SluiceError('TRANSIENT', 'the read was called off', { code: 'aborted', cause: signal.reason })
}

function deadlineExceeded(): SluiceError {
  return new SluiceError('TRANSIENT', 'the read did not end within its time-out', {
    code: 'deadline_exceeded',
    remedy: 'Ask for fewer rows, or allow more time.',
  })
}
