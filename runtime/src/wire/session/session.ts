/** A session of a client that was let in: its messages in their order, each answered before the next is looked at. */
import { setImmediate } from 'node:timers/promises'
import type { TenantCall } from '../../flow.ts'
import { databaseNow } from '../../registry/clock.ts'
import { type BindMessage, type ClientMessage, type Format, parseMessage } from '../protocol/client-messages.ts'
import type { Frame } from '../protocol/frames.ts'
import * as say from '../protocol/server-messages.ts'
import { WireError } from '../protocol/wire-error.ts'
import { commandOf, cursorOf, fetchOf, isOfTables } from '../sql/commands.ts'
import { type Statement, statementsOf } from '../sql/words.ts'
import type { Authority } from './authority.ts'
import type { ClientStream } from './client-stream.ts'
import { runCopy } from './copy-out.ts'
import { explained, isFault } from './explained.ts'
import { bytesOf, copied, Kept, type Prepared } from './kept.ts'
import { Portal } from './portal.ts'
import { executePlan, preparationOf, preparedOf } from './preparing.ts'
import type { Bound, PlanParts, RowPlan, SessionPlanParts } from './row-plan.ts'
import { rowPlan } from './row-plans.ts'
import { runCommand, type SessionState } from './session-commands.ts'
import { sessionPlans } from './session-plans.ts'
import type { Settings } from './settings.ts'
import { showPlan } from './show.ts'
import { Transaction } from './transaction.ts'

export interface SessionParts extends PlanParts {
  readonly stream: ClientStream
  readonly authority: Authority
  readonly settings: Settings
  readonly idleMs: number
  onStatement(outcome: 'answered' | 'refused' | 'failed'): void
  onFault(error: unknown, requestId: string): void
}

const NUMBER_BYTES = 8
/** For the last word to a client, when its session is ended. */
const ENDING_MS = 5_000
/** Longer texts count as one more request: taking them apart takes time of all. */
const LONG_CHARACTERS = 2_000
/** After so many messages others have their turn. */
const TURN_MESSAGES = 64

export class Session {
  readonly #parts: SessionParts & SessionPlanParts
  readonly #transaction = new Transaction()
  readonly #kept = new Kept(() => this.#transaction.depth)
  readonly #state: SessionState
  #running = new AbortController()
  #ending: WireError | null = null
  /** Whether a message is worked on: a cancel is of that, and of nothing that comes later. */
  #isWorking = false
  /** The portal whose rows were begun by a Describe just now, for the Execute that follows. */
  #described: Portal | null = null
  #isSkipping = false
  #requestId = ''

  constructor(parts: SessionParts) {
    this.#state = {
      transaction: this.#transaction,
      settings: parts.settings,
      closeCursors: (name) => this.#kept.closeCursors(name),
      closeSince: (place) => this.#kept.rollBackTo(place),
      keepSince: (place) => this.#kept.release(place),
      closePortals: () => this.#kept.closePortals(),
      forgetStatements: (name) => this.#kept.forgetStatements(name),
      report: (name) => parts.stream.queue(say.parameterStatus(name, parts.settings.value(name))),
    }
    const own = { database: parts.authority.tenant, now: () => databaseNow(parts.platform.pool) }
    this.#parts = { ...parts, session: sessionPlans(this.#kept, this.#state, own) }
    parts.stream.onEnd = () => this.#running.abort(new WireError('08006', 'the client is gone', { isFatal: true }))
  }

  /** Ends the statement that runs, and nothing where none does. */
  cancel(): void {
    if (this.#isWorking) this.#running.abort(new WireError('57014', 'the statement was cancelled by its client'))
  }

  /** Ends the session, with that as its last word. */
  end(why: WireError): void {
    if (this.#ending !== null) return
    this.#ending = why
    this.#running.abort(why)
    this.#parts.stream.interrupt()
    // A client that takes nothing would keep the session for as long as an answer may wait.
    setTimeout(() => this.#parts.stream.destroy(), ENDING_MS).unref()
  }

  /** Fulfilled when the session is over. */
  async run(): Promise<void> {
    const { stream } = this.#parts
    try {
      await this.#ready()
      for (let turn = 0; ; ) {
        const frame = await this.#nextFrame()
        if (frame === null || this.#ending !== null) break
        const message = parseMessage(frame)
        if (message.kind === 'terminate') break
        await this.#take(message)
        turn = (turn + 1) % TURN_MESSAGES
        if (turn === 0) await setImmediate()
      }
    } catch (error) {
      this.#ending ??= explained(error, this.#requestId)
    } finally {
      this.#closeAll()
      stream.end(this.#ending === null ? undefined : say.errorResponse(this.#ending))
    }
  }

  /** As long as its client allows at most, where that is less than the configuration does. */
  #nextFrame(): Promise<Frame | null> {
    const { stream, idleMs, settings } = this.#parts
    const isInTransaction = this.#transaction.state !== 'I'
    const ownMs = settings.idleMs(isInTransaction) ?? idleMs
    if (ownMs >= idleMs) return stream.next('message', idleMs)
    return stream.next('message', ownMs, isInTransaction ? '25P03' : '57P05')
  }

  async #take(message: ClientMessage): Promise<void> {
    if (message.kind === 'sync') {
      this.#isSkipping = false
      return this.#settled()
    }
    if (message.kind === 'password') throw new WireError('08P01', 'a password was not asked for', { isFatal: true })
    // Until the next Sync, nothing that follows an error is done.
    if (this.#isSkipping) return
    this.#begin()
    try {
      if (message.kind === 'query') await this.#query(message.sql)
      else await this.#extended(message)
    } catch (error) {
      this.#isSkipping = message.kind !== 'query'
      await this.#refuse(error)
    } finally {
      this.#isWorking = false
    }
    if (message.kind === 'query') await this.#settled()
  }

  /** Portals do not outlive their transaction, be it one of a single message. */
  #settled(): Promise<void> {
    this.#described = null
    if (this.#transaction.state === 'I') this.#kept.closePortals()
    this.#transaction.settle()
    return this.#ready()
  }

  async #extended(message: ClientMessage): Promise<void> {
    switch (message.kind) {
      case 'parse':
        await this.#parse(message.name, message.sql, message.parameterOids)
        return this.#send(say.parseComplete())
      case 'bind':
        this.#bind(message)
        return this.#send(say.bindComplete())
      case 'describe':
        return message.what === 'statement' ? this.#describe(message.name) : this.#describePortal(message.name)
      case 'execute':
        return this.#execute(message.portal, message.maxRows)
      case 'close':
        if (message.what === 'statement') this.#kept.closeStatement(message.name)
        else this.#kept.closePortal(message.name)
        return this.#send(say.closeComplete())
      case 'flush':
        return this.#parts.stream.flush()
    }
  }

  /** What ends one message ends no other. */
  #begin(): void {
    this.#isWorking = true
    this.#running = new AbortController()
    this.#requestId = ''
    if (this.#ending !== null) this.#running.abort(this.#ending)
  }

  readonly #admit = async (ended: AbortSignal): Promise<TenantCall> => {
    const call = await this.#parts.authority.call(AbortSignal.any([ended, this.#running.signal]))
    this.#requestId = call.requestId
    return call
  }

  /** Of what is kept. More of its rows are asked for as a statement is: by who may still, and as often as he may. */
  async #columnsOf(portal: Portal): Promise<readonly say.WireColumn[]> {
    this.#kept.checkOpen(portal)
    if (portal.hasBegun && portal !== this.#described) await this.#admit(this.#running.signal)
    this.#described = null
    const columns = await portal.columns(this.#admit)
    this.#kept.checkHeld(portal)
    return columns
  }

  async #query(sql: string): Promise<void> {
    const statements = await this.#statementsIn(sql)
    if (statements.length === 0) await this.#send(say.emptyQuery())
    for (const statement of statements) {
      const done = this.#runCommand(statement)
      if (done !== null) await this.#send(say.commandComplete(done))
      else await this.#runNow(statement)
      this.#parts.onStatement('answered')
    }
  }

  async #statementsIn(sql: string): Promise<readonly Statement[]> {
    if (sql.length > MAX_SQL_CHARACTERS) {
      const what = `the statement is longer than ${MAX_SQL_CHARACTERS} characters`
      throw new WireError('54000', what, { code: 'sql_too_long' })
    }
    if (sql.length > LONG_CHARACTERS) await this.#parts.authority.call(this.#running.signal)
    return statementsOf(sql)
  }

  #runCommand(statement: Statement, values: Bound['values'] = [], declared: readonly number[] = []): string | null {
    const done = runCommand(this.#state, statement)
    if (done !== null) return done
    if (commandOf(statement) === 'prepare') return this.#prepare(statement)
    if (commandOf(statement) !== 'declare') return null
    this.#declare(statement, values, declared)
    return 'DECLARE CURSOR'
  }

  /** A statement of a simple query: its rows, all of them, as text. */
  async #runNow(statement: Statement): Promise<void> {
    if (commandOf(statement) === 'copy') return runCopy(this.#parts, statement, this.#admit)
    if (isOfCursor(statement)) return this.#fetch(statement, true)
    const bound = { values: [], formats: [], timeoutMs: this.#parts.settings.timeoutMs }
    const portal = new Portal(this.#planOf(statement, []), bound)
    try {
      await this.#send(say.rowDescription(await portal.columns(this.#admit), []))
      const rows = await this.#rows(portal, 0)
      await this.#send(say.commandComplete(portal.plan.tag(rows)))
    } finally {
      portal.close()
    }
  }

  /** FETCH, and MOVE, which reads the same rows and sends none. */
  async #fetch(statement: Statement, isTold: boolean): Promise<void> {
    const { name, rows, isNothing } = fetchOf(statement)
    const isSent = commandOf(statement) === 'fetch'
    const cursor = this.#kept.cursor(name)
    const columns = await this.#columnsOf(cursor)
    if (isSent && isTold) await this.#send(say.rowDescription(columns, []))
    const read = isNothing ? 0 : await this.#rows(cursor, rows, isSent)
    await this.#send(say.commandComplete(`${isSent ? 'FETCH' : 'MOVE'} ${read}`))
  }

  async #rows(portal: Portal, maxRows: number, isSent = true): Promise<number> {
    const { signal } = this.#running
    // It may have been begun by an earlier message, whose signal nobody has any more.
    const close = (): void => portal.close()
    signal.addEventListener('abort', close, { once: true })
    let rows = 0
    try {
      for await (const some of portal.read(maxRows)) {
        signal.throwIfAborted()
        rows += some.rows
        if (isSent) await this.#send(some.bytes)
      }
    } finally {
      signal.removeEventListener('abort', close)
    }
    signal.throwIfAborted()
    return rows
  }

  readonly #planOf = (statement: Statement, declared: readonly number[]): RowPlan => {
    const command = commandOf(statement)
    if (command === 'execute') return executePlan(statement, (name) => this.#kept.statement(name))
    if (command !== 'show' || isOfTables(statement.words)) return rowPlan(this.#parts, statement, declared)
    return showPlan(this.#parts, statement)
  }

  async #parse(name: string, sql: string, declared: readonly number[]): Promise<void> {
    const [statement = null, ...others] = await this.#statementsIn(sql)
    if (others.length > 0) throw new WireError('42601', 'a prepared statement holds one statement')
    this.#kept.addStatement(name, preparedOf({ name, sql, statement, declared, isFromSql: false }, this.#planOf))
  }

  #prepare(statement: Statement): string {
    const own = preparationOf(statement)
    const preparing = { ...own, sql: statement.sql, isFromSql: true }
    this.#kept.addStatement(own.name, preparedOf(preparing, this.#planOf))
    return 'PREPARE'
  }

  #bind({ portal: name, statement, values, resultFormats }: BindMessage): void {
    const prepared = this.#kept.statement(statement)
    const { parameters, plan, oids } = prepared
    if (parameters !== values.length) {
      throw new WireError('08P01', `the statement takes ${parameters} parameters, and got ${values.length}`)
    }
    const keptBytes = 2 * name.length + NUMBER_BYTES * resultFormats.length + bytesOf(values)
    const own = copied(values)
    const bound = { values: own, formats: resultFormats, timeoutMs: this.#parts.settings.timeoutMs }
    const portal = plan === null ? null : new Portal(plan, bound, oids)
    this.#kept.addPortal(name, { prepared, portal, values: own, keptBytes })
  }

  async #describe(name: string): Promise<void> {
    const prepared = this.#kept.statement(name)
    if (prepared.plan === null) {
      const cursor = this.#fetched(prepared)
      await this.#send(say.parameterDescription(prepared.toldOids))
      return this.#send(cursor === null ? say.noData() : say.rowDescription(await this.#begun(cursor), []))
    }
    this.#transaction.check()
    const { columns, ...told } = await prepared.plan.describe(await this.#admit(this.#running.signal))
    prepared.oids = columns.map(({ oid }) => oid)
    await this.#send(say.parameterDescription(told.parameterOids))
    await this.#sendColumns(columns, [])
  }

  async #describePortal(name: string): Promise<void> {
    // A cursor that was declared is a portal of its name.
    if (this.#kept.isCursor(name)) return this.#sendColumns(await this.#begun(this.#kept.cursor(name)), [])
    const { portal, prepared } = this.#kept.portal(name)
    const read = portal ?? this.#fetched(prepared)
    if (read === null) return this.#send(say.noData())
    await this.#sendColumns(await this.#begun(read), portal === null ? [] : portal.formats)
  }

  /** Told of before its rows are read. */
  async #begun(portal: Portal): Promise<readonly say.WireColumn[]> {
    const hasBegun = portal.hasBegun
    const columns = await this.#columnsOf(portal)
    if (!hasBegun) this.#described = portal
    return columns
  }

  #sendColumns(columns: readonly say.WireColumn[], formats: readonly Format[]): Promise<void> {
    return this.#send(columns.length === 0 ? say.noData() : say.rowDescription(columns, formats))
  }

  async #execute(name: string, maxRows: number): Promise<void> {
    const { portal, prepared, values } = this.#kept.portal(name)
    const { command, declared } = prepared
    if (portal === null && command === null) return this.#send(say.emptyQuery())
    if (portal === null) return command === null ? undefined : this.#executeCommand(command, values, declared)
    this.#transaction.check()
    await this.#columnsOf(portal)
    const rows = await this.#rows(portal, maxRows)
    this.#parts.onStatement('answered')
    await this.#send(
      maxRows > 0 && rows === maxRows ? say.portalSuspended() : say.commandComplete(portal.plan.tag(rows)),
    )
  }

  async #executeCommand(statement: Statement, values: Bound['values'], declared: readonly number[]): Promise<void> {
    const command = commandOf(statement)
    if (command === 'copy') {
      this.#transaction.check()
      await runCopy(this.#parts, statement, this.#admit)
      return this.#parts.onStatement('answered')
    }
    if (!isOfCursor(statement)) {
      const done = this.#runCommand(statement, values, declared) ?? command.toUpperCase()
      await this.#send(say.commandComplete(done))
      return this.#parts.onStatement('answered')
    }
    this.#transaction.check()
    await this.#fetch(statement, false)
    this.#parts.onStatement('answered')
  }

  #declare(statement: Statement, values: Bound['values'], declared: readonly number[]): void {
    this.#transaction.requireOpen('DECLARE')
    const { name, query } = cursorOf(statement)
    const bound = { values, formats: [], timeoutMs: this.#parts.settings.timeoutMs }
    const keptBytes = 2 * (name.length + query.sql.length + statement.sql.length) + bytesOf(values)
    this.#kept.addCursor(name, new Portal(this.#planOf(query, declared), bound), statement.sql, keptBytes)
  }

  #fetched({ command }: Prepared): Portal | null {
    return command !== null && commandOf(command) === 'fetch' ? this.#kept.cursor(fetchOf(command).name) : null
  }

  #closeAll(): void {
    this.#running.abort(this.#ending ?? new WireError('08006', 'the session is over'))
    this.#kept.closePortals()
    this.#kept.closeCursors(null)
  }

  async #refuse(error: unknown): Promise<void> {
    const { signal } = this.#running
    // What a cancelled statement throws is what it was cancelled with.
    const cause = signal.aborted && signal.reason instanceof WireError ? signal.reason : error
    const told = explained(cause, this.#requestId)
    if (isFault(cause)) this.#parts.onFault(cause, this.#requestId)
    this.#parts.onStatement(isFault(cause) ? 'failed' : 'refused')
    this.#transaction.fail()
    if (told.isFatal) throw told
    await this.#send(say.errorResponse(told))
  }

  async #ready(): Promise<void> {
    await this.#send(say.readyForQuery(this.#transaction.state))
    await this.#parts.stream.flush()
  }

  async #send(bytes: Buffer): Promise<void> {
    await this.#parts.stream.write(bytes)
  }
}

/** As long as other doors take it, before it is taken apart. */
const MAX_SQL_CHARACTERS = 100_000

const isOfCursor = (statement: Statement): boolean => ['fetch', 'move'].includes(commandOf(statement))
