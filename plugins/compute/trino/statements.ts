/**
 * Statements that Trino carries out, whoever sent them: who logged in, what they have used, which tables they read, and an
 * end to them. By Trino's interface for its operators: its SQL tells neither the login nor the tables.
 */
import { loginOf, send, type TrinoAnswer, type TrinoSettings } from '@sluice/analytics/trino/statements'
import type { ComputeStatement, ComputeStatements, StatementTable } from '@sluice/sdk'
import { isOwnTable } from './policy.ts'

/** Statements whose rows somebody may be fetching. */
const AT_WORK = ['RUNNING', 'FINISHING']
const MAX_BYTES = 64 * 1024 * 1024

type Login = Pick<TrinoSettings, 'url' | 'token_file' | 'user' | 'ca_file'>

/** All of it throws plain Errors where Trino does not answer as it should: what they say is for the log. */
export class TrinoStatements implements ComputeStatements {
  readonly #login: Login

  constructor(login: Login) {
    this.#login = login
  }

  get server(): string {
    return this.#login.url
  }

  async atWork(signal: AbortSignal): Promise<readonly ComputeStatement[]> {
    const lists = await Promise.all(AT_WORK.map((state) => this.#list(`?state=${state}`, signal)))
    return lists.flat()
  }

  /** Those that have ended, too, for as long as Trino keeps them: `query.min-expire-age`. */
  all(signal: AbortSignal): Promise<readonly ComputeStatement[]> {
    return this.#list('', signal)
  }

  /** None before Trino has planned it, and where it knows no such statement any more. */
  async tables(id: string, signal: AbortSignal): Promise<readonly StatementTable[]> {
    const { status, text } = await this.#send('GET', `${pathOf(id)}?pruned=true`, undefined, signal)
    if (status === 404 || status === 410) return []
    const { referencedTables } = answerOf({ status, text }) as { readonly referencedTables?: readonly StatementTable[] }
    return (referencedTables ?? []).map(({ catalog, schema, table }) => {
      const own = isOwnTable(catalog, schema) ? ({ isOwn: true } as const) : {}
      return { catalog, schema, table, ...own }
    })
  }

  /** One that has ended stays as it is. @param why for whoever fetches its rows */
  async end(id: string, why: string, signal: AbortSignal): Promise<void> {
    const { status } = await this.#send('PUT', `${pathOf(id)}/killed`, why, signal)
    if (status >= 300 && ![404, 409, 410].includes(status)) throw new Error(`ending a statement was answered ${status}`)
  }

  async #list(query: string, signal: AbortSignal): Promise<readonly ComputeStatement[]> {
    return (answerOf(await this.#send('GET', `/v1/query${query}`, undefined, signal)) as readonly Listed[]).map(
      statementOf,
    )
  }

  async #send(
    method: 'GET' | 'PUT',
    path: string,
    body: string | undefined,
    signal: AbortSignal,
  ): Promise<TrinoAnswer> {
    const login = await loginOf(this.#login)
    return send({ ...login, method, url: `${this.#login.url}${path}`, body, maxBytes: MAX_BYTES, signal })
  }
}

const pathOf = (id: string): string => `/v1/query/${encodeURIComponent(id)}`

function answerOf({ status, text }: TrinoAnswer): unknown {
  if (status === 200) return JSON.parse(text)
  throw new Error(`Trino answered ${status} where it is asked for statements`)
}

/** As Trino lists it. */
interface Listed {
  readonly queryId: string
  readonly session: { readonly user: string; readonly principal?: string }
  readonly queryStats: { readonly totalCpuTime: string; readonly endTime?: string }
}

function statementOf({ queryId, session, queryStats }: Listed): ComputeStatement {
  const endedAtMs = queryStats.endTime === undefined ? null : Date.parse(queryStats.endTime)
  const { user, principal = null } = session
  return { id: queryId, user, login: principal, cpuS: secondsOf(queryStats.totalCpuTime), endedAtMs }
}

const SECONDS: Readonly<Record<string, number>> = { ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1, m: 60, h: 3600, d: 86_400 }

/** `1.50m`: Trino's way to write how long something takes; 0 for what is not one. */
export function secondsOf(text: string): number {
  const [, value, unit] = /^(\d+(?:\.\d+)?)(ns|us|ms|s|m|h|d)$/.exec(text) ?? []
  return value === undefined || unit === undefined ? 0 : Number(value) * (SECONDS[unit] as number)
}
