/**
 * Looks at the statements that engines outside carry out. They ask what somebody may when a statement is planned, and never
 * again while its rows are fetched: what goes on is judged anew here, by the token's end and by the rights of now, and is ended
 * where it would be refused. What statements use of the processors goes to their tenants' accounts.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ComputeStatement, ComputeStatements, Logger, StatementTable } from '@sluice/sdk'
import type { Principal } from '../../flow.ts'
import { tenantOfCatalog } from '../../lake/tenant-layout.ts'
import { forgetStatements, noteStatementCpu, takeWatch } from '../../registry/engine-statements.ts'
import { findTenant } from '../../registry/tenants.ts'
import type { CatalogDeps } from './deps.ts'
import { callOf } from './engine-policy.ts'
import { tableAccess } from './table-access.ts'

/** What an engine's words for a person mean. */
export interface StatementLogins {
  /** Null where the user is nobody that the issuer has named. */
  personOf(user: string): Principal | null
  /** In milliseconds since 1970. */
  tokenEndOf(login: string | null): number
}

/** By the name that what its statements use is counted under. */
export interface WatchedEngine {
  readonly name: string
  readonly statements: ComputeStatements
}

export interface StatementWatchOptions {
  readonly engines: readonly WatchedEngine[]
  /** Null: no engine asks this runtime who may read what, and nothing is ended. */
  readonly logins: StatementLogins | null
  readonly logger: Logger
  /** Between two looks of all runtimes together; default 2 s. */
  readonly everyMs?: number
}

const TOKEN_ENDED = 'the token that it began with has ended'
const EVERY_MS = 2_000
/** Between two looks at those that have ended, for what they have used in all. */
const ENDED_EVERY_MS = 10_000
const ANSWER_MS = 20_000
/** An engine may keep its last hundred statements for ever: those that ended so long ago were charged for. */
const SETTLED_MS = 60 * 60_000
const FORGOTTEN_MS = 24 * SETTLED_MS
const MOST_KNOWN = 20_000

export class StatementWatch {
  readonly #platform: CatalogDeps
  readonly #options: StatementWatchOptions
  readonly #stop = new AbortController()
  /** What a statement reads stays the same. */
  readonly #tables = new Map<string, readonly StatementTable[]>()
  /** Ended, and charged for in full. */
  readonly #settled = new Set<string>()
  #loop: Promise<void> | null = null
  #endedMs = 0
  #isFailing = false

  constructor(platform: CatalogDeps, options: StatementWatchOptions) {
    this.#platform = platform
    this.#options = options
  }

  start(): void {
    this.#loop = this.#run()
  }

  /** Ends what is under way at its next step. */
  async stop(): Promise<void> {
    this.#stop.abort()
    await this.#loop
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop
    const everyMs = this.#options.everyMs ?? EVERY_MS
    while (!signal.aborted) {
      await this.#look(AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]), everyMs).then(
        () => {
          this.#isFailing = false
        },
        (error: unknown) => this.#failed(error),
      )
      // Rejects where it is stopped, and for nothing else.
      await sleep(everyMs, undefined, { signal }).catch(() => undefined)
    }
  }

  #failed(error: unknown): void {
    if (!this.#stop.signal.aborted && !this.#isFailing) {
      const message = error instanceof Error ? error.message : String(error)
      this.#options.logger.warn('statements in an engine outside could not be looked at; it is tried again', {
        error: message,
      })
    }
    this.#isFailing = true
  }

  async #look(signal: AbortSignal, everyMs: number): Promise<void> {
    // Of several loops that wait as long, none waits for another's turn.
    if (!(await takeWatch(this.#platform.pool, everyMs * 0.75))) return
    const isWhole = performance.now() >= this.#endedMs
    for (const engine of this.#options.engines) await this.#lookAt(engine, isWhole, signal)
    if (!isWhole) return
    this.#endedMs = performance.now() + ENDED_EVERY_MS
    await forgetStatements(this.#platform.pool, FORGOTTEN_MS)
  }

  async #lookAt(engine: WatchedEngine, isWhole: boolean, signal: AbortSignal): Promise<void> {
    const { logins } = this.#options
    const { statements } = engine
    const atWork = await statements.atWork(signal)
    if (logins !== null) for (const statement of atWork) await this.#judge(engine, statement, logins, signal)
    await this.#charge(engine, isWhole ? await statements.all(signal) : atWork, signal)
  }

  /** A statement that cannot be judged now goes on, and is judged at the next look. */
  async #judge(
    engine: WatchedEngine,
    statement: ComputeStatement,
    logins: StatementLogins,
    signal: AbortSignal,
  ): Promise<void> {
    const principal = logins.personOf(statement.user)
    // Nobody was let in without a name; the platform's own logins renew their tokens.
    if (principal === null || principal.isAdmin) return
    try {
      const isOver = logins.tokenEndOf(statement.login) <= Date.now()
      const why = isOver ? TOKEN_ENDED : await this.#reasonToEnd(engine, statement, principal, signal)
      if (why === null) return
      await engine.statements.end(statement.id, why, signal)
      const { tenant, subject } = principal
      this.#options.logger.info('a statement in an engine outside was ended', {
        statement: statement.id,
        tenant,
        subject,
        why,
      })
    } catch (error) {
      if (signal.aborted) throw error
      this.#failed(error)
    }
  }

  async #reasonToEnd(
    engine: WatchedEngine,
    statement: ComputeStatement,
    principal: Principal,
    signal: AbortSignal,
  ): Promise<string | null> {
    const { tenant } = principal
    if (tenant === null) return null
    if ((await findTenant(this.#platform.pool, tenant))?.status !== 'active') return 'its tenant is not active'
    const call = callOf({ requestId: statement.id, signal }, principal, tenant)
    for (const table of await this.#tablesOf(engine, statement, signal)) {
      if (table.isOwn) continue
      const access = await tableAccess(this.#platform, call, table)
      if (access === 'none') return 'what it reads may not be read by its user any more'
    }
    return null
  }

  async #tablesOf(
    engine: WatchedEngine,
    { id }: ComputeStatement,
    signal: AbortSignal,
  ): Promise<readonly StatementTable[]> {
    const known = this.#tables.get(id)
    if (known !== undefined) return known
    const tables = await engine.statements.tables(id, signal)
    if (tables.length > 0) remember(() => this.#tables.set(id, tables), this.#tables)
    return tables
  }

  async #charge(engine: WatchedEngine, statements: readonly ComputeStatement[], signal: AbortSignal): Promise<void> {
    const oldestMs = Date.now() - SETTLED_MS
    const due = statements.filter(
      ({ id, cpuS, endedAtMs }) => cpuS > 0 && !this.#settled.has(id) && (endedAtMs === null || endedAtMs > oldestMs),
    )
    const payers = new Map<string, string>()
    for (const statement of due) {
      const tenant = await this.#payerOf(engine, statement, signal)
      if (tenant !== null) payers.set(statement.id, tenant)
    }
    const uses = due.filter(({ id }) => payers.has(id)).map(({ id, cpuS }) => ({ id, seconds: cpuS }))
    for (const { id, seconds } of await noteStatementCpu(this.#platform.pool, uses)) {
      this.#platform.cpu.charge(payers.get(id) as string, engine.name, seconds)
    }
    for (const { id, endedAtMs } of due) {
      if (endedAtMs !== null) remember(() => this.#settled.add(id), this.#settled)
    }
  }

  /** Of a person the own tenant; what the platform asks for is of the tenant whose tables it reads. */
  async #payerOf(engine: WatchedEngine, statement: ComputeStatement, signal: AbortSignal): Promise<string | null> {
    const tenant = this.#options.logins?.personOf(statement.user)?.tenant
    if (tenant) return tenant
    const tables = await this.#tablesOf(engine, statement, signal)
    return tables.map(({ catalog }) => tenantOfCatalog(catalog)).find((one) => one !== null) ?? null
  }
}

/** The oldest go where there are too many. */
function remember(
  add: () => void,
  known: { readonly size: number; keys(): Iterable<string>; delete(id: string): boolean },
) {
  add()
  for (const id of known.keys()) {
    if (known.size <= MOST_KNOWN) return
    known.delete(id)
  }
}
