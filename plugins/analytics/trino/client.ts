/** Statements to Trino: bounded in time and rows, cancelled there when their caller goes away. */
import { setTimeout as sleep } from 'node:timers/promises'
import { SluiceError } from '@sluice/sdk'
import { exactPage, loginOf, send, type TrinoColumn, type TrinoPage, type TrinoRequest } from './protocol.ts'
import type { TrinoSettings } from './settings.ts'

export interface Statement {
  readonly sql: string
  readonly maxRows: number
  readonly timeoutMs: number
  readonly signal?: AbortSignal
}

export type TrinoRow = readonly unknown[]

export interface TrinoResult {
  readonly columns: readonly TrinoColumn[]
  readonly rows: readonly TrinoRow[]
}

type Login = Pick<TrinoRequest, 'headers' | 'ca' | 'maxBytes'>

type Parse = (text: string) => TrinoPage

interface Asked extends Pick<Statement, 'sql' | 'maxRows'> {
  readonly parse: Parse
}

/** Or else Trino rounds what is finer than milliseconds, and takes its host's zone for a statement's. */
const TIMES = { 'X-Trino-Client-Capabilities': 'PARAMETRIC_DATETIME', 'X-Trino-Time-Zone': 'UTC' }
/** Trino makes pages of about a megabyte; a row is in one page, whatever its size. */
const MAX_PAGE_BYTES = 16 * 1024 * 1024

const CANCEL_MS = 10_000
const BUSY_PAUSE_MS = 100

export class TrinoClient {
  readonly #settings: TrinoSettings

  constructor(settings: TrinoSettings) {
    this.#settings = settings
  }

  /** Throws TRANSIENT `deadline_exceeded`, `aborted` and `store_failed`; what Trino said is in the cause. */
  async rows({ maxRows, ...statement }: Statement): Promise<readonly TrinoRow[]> {
    const rows: TrinoRow[] = []
    for await (const page of this.pages({ ...statement, maxRows })) rows.push(...page)
    return rows
  }

  /** As `rows`, page by page: one is asked for when the one before has been taken. Leaving early cancels the statement. */
  async *pages(statement: Statement): AsyncGenerator<readonly TrinoRow[]> {
    for await (const { data } of this.#answers(statement, parsed)) if (data !== undefined && data.length > 0) yield data
  }

  /**
   * As `pages`, with the columns: at least one page, also of a statement without rows. A number that JavaScript cannot
   * hold is its text.
   */
  async *results(statement: Statement): AsyncGenerator<TrinoResult> {
    for await (const { columns, data = [] } of this.#answers(statement, exactPage)) {
      if (columns !== undefined) yield { columns, rows: data }
    }
  }

  /** By no statement: those would push others out of what Trino remembers. Throws a plain Error. */
  async ping(signal: AbortSignal): Promise<void> {
    const url = `${this.#settings.url}/v1/info`
    const { status, text } = await send({ ...(await this.#login()), method: 'GET', url, signal })
    if (status !== 200 || (JSON.parse(text) as { starting?: boolean }).starting === true) {
      throw new Error(`Trino is not ready: ${status}`)
    }
  }

  async *#answers({ sql, maxRows, timeoutMs, signal }: Statement, parse: Parse): AsyncGenerator<TrinoPage> {
    const deadline = AbortSignal.timeout(timeoutMs)
    const ended = signal === undefined ? deadline : AbortSignal.any([deadline, signal])
    try {
      ended.throwIfAborted()
      yield* this.#carryOut(await this.#login(), { sql, maxRows, parse }, ended)
    } catch (error) {
      throw failure(ended, deadline, error)
    }
  }

  async *#carryOut(login: Login, { sql, maxRows, parse }: Asked, signal: AbortSignal): AsyncGenerator<TrinoPage> {
    let page: TrinoPage | null = null
    let count = 0
    let isDone = false
    try {
      const url = `${this.#settings.url}/v1/statement`
      page = await pageOf({ ...login, method: 'POST', url, body: sql, signal }, parse)
      for (;;) {
        if (page.error) throw new TrinoFailure(page.error)
        count += page.data?.length ?? 0
        if (count > maxRows) throw new TrinoFailure(TOO_MANY_ROWS)
        yield page
        if (page.nextUri === undefined) break
        page = await pageOf({ ...login, method: 'GET', url: this.#own(page.nextUri), signal }, parse)
      }
      isDone = true
    } finally {
      // Without a first answer nothing names the statement: Trino gives it up when nobody asks for it.
      if (!isDone && page?.nextUri !== undefined) await cancel(login, this.#own(page.nextUri))
    }
  }

  async #login(): Promise<Login> {
    const { headers, ...login } = await loginOf(this.#settings)
    return { ...login, headers: { ...headers, ...TIMES }, maxBytes: MAX_PAGE_BYTES }
  }

  /** The token goes to the configured server only, whatever address an answer names. */
  #own(nextUri: string): string {
    const { pathname, search } = new URL(nextUri)
    return `${this.#settings.url}${pathname}${search}`
  }
}

const TOO_MANY_ROWS = { errorName: 'TOO_MANY_ROWS', message: 'more rows than the statement may give' }

/** By Trino's name of it: `TABLE_NOT_FOUND`. What its message says is for the log. */
export class TrinoFailure extends Error {
  readonly code: string
  /** `USER_ERROR`, `INSUFFICIENT_RESOURCES`, …; absent where Trino did not say. */
  readonly type?: string
  readonly location?: { readonly lineNumber: number; readonly columnNumber: number }

  constructor({ errorName, message, errorType, errorLocation }: NonNullable<TrinoPage['error']>) {
    super(message)
    this.code = errorName
    if (errorType !== undefined) this.type = errorType
    if (errorLocation) this.location = errorLocation
  }
}

const parsed: Parse = (text) => JSON.parse(text) as TrinoPage

/** A server that is busy says so, and is asked again until the signal ends it. */
async function pageOf(request: TrinoRequest, parse: Parse): Promise<TrinoPage> {
  for (;;) {
    const { status, text } = await send(request)
    if (status === 200) return parse(text)
    if (status !== 502 && status !== 503 && status !== 504) {
      throw new TrinoFailure({ errorName: `HTTP_${status}`, message: text.slice(0, 500) })
    }
    await sleep(BUSY_PAUSE_MS, undefined, { signal: request.signal })
  }
}

async function cancel(login: Login, url: string): Promise<void> {
  await send({ ...login, method: 'DELETE', url, signal: AbortSignal.timeout(CANCEL_MS) }).catch(() => undefined)
}

function failure(ended: AbortSignal, deadline: AbortSignal, cause: unknown): SluiceError {
  if (deadline.aborted) {
    return new SluiceError('TRANSIENT', 'the statement took longer than it may', { code: 'deadline_exceeded', cause })
  }
  if (ended.aborted) return new SluiceError('TRANSIENT', 'the call was ended by its caller', { code: 'aborted', cause })
  return new SluiceError('TRANSIENT', 'the analytics store did not carry out the statement', {
    code: 'store_failed',
    remedy: 'Check that Trino is up, reachable and lets this runtime in; its own log says more.',
    cause,
  })
}
