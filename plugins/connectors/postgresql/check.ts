import type { CheckReport } from '@sluice/sdk'
import { CheckSteps, type StepName, tlsMessage, Wanting } from '../server/check-steps.ts'
import { type Line, openTcp } from '../server/line.ts'
import { sourceFailure } from './failure.ts'
import { protect } from './line.ts'
import { logFacts, missingForLog } from './log/able.ts'
import { countReadable } from './relation.ts'
import { login, type Session, type Way } from './session.ts'

/** See `Connector.check`. */
export async function checkSource(way: Way, signal: AbortSignal): Promise<CheckReport> {
  const run = new CheckRun(way, signal)
  try {
    return await run.report()
  } finally {
    await run.close()
  }
}

class CheckRun {
  readonly #way: Way
  readonly #signal: AbortSignal
  readonly #steps: CheckSteps
  #latencyMs = 0
  #serverVersion: string | null = null
  #session: Session | null = null
  #line: Line | null = null

  constructor(way: Way, signal: AbortSignal) {
    this.#way = way
    this.#signal = signal
    const failed = (error: unknown, name: StepName) => sourceFailure(error, subject(name, way))
    this.#steps = new CheckSteps(way.host.clock, signal, way.source.connectTimeoutMs, failed)
  }

  async report(): Promise<CheckReport> {
    const ok = await this.#walk()
    return {
      ok,
      steps: this.#steps.done,
      latencyMs: this.#latencyMs,
      ...(this.#serverVersion === null ? {} : { serverVersion: this.#serverVersion }),
    }
  }

  async close(): Promise<void> {
    if (this.#session) await this.#session.close()
    else this.#line?.socket.destroy()
  }

  /** Each step hands its find to the next; false after the first that fails. */
  async #walk(): Promise<boolean> {
    const { source, host } = this.#way
    const to = await this.#steps.step(
      'dns',
      (hurry) => host.network.resolve(source.host, source.port, hurry),
      () => `${source.host} resolves, and connections to it are allowed`,
    )
    if (!to) return false
    const socket = await this.#steps.step(
      'tcp',
      (hurry) => openTcp(to, source.port, hurry),
      () => `port ${source.port} accepts connections`,
    )
    if (!socket) return false
    const line = await this.#steps.step('tls', (hurry) => protect(socket, to.address, source, hurry), tlsMessage)
    if (!line) return false
    this.#line = line
    const session = await this.#steps.step(
      'auth',
      (hurry) => login(this.#way, line, this.#signal, hurry),
      () => `the server lets the user into the database`,
    )
    if (!session) return false
    this.#session = session
    const count = await this.#steps.step(
      'privileges',
      () => this.#privileges(session),
      ({ tables, log }) =>
        `the login may read ${tables === 1 ? '1 table or view' : `${tables} tables and views`}; ${log}`,
    )
    return count !== null
  }

  /** A login that reads no log is in order: what the log wants is said to whom it may concern. */
  async #privileges(session: Session): Promise<{ readonly tables: number; readonly log: string }> {
    await session.begin()
    const before = this.#way.host.clock.nowMs()
    const [row] = await session.query<{ readonly version: string }>(
      `SELECT current_setting('server_version') AS version`,
    )
    this.#latencyMs = Math.max(0, this.#way.host.clock.nowMs() - before)
    this.#serverVersion = row?.version ?? null
    const count = await countReadable(session, this.#way.source.schemas)
    if (count > 0) return { tables: count, log: await logMessage(session) }
    throw new Wanting(
      'the login works, but there is no table or view that it may read',
      'Let an owner run GRANT USAGE ON SCHEMA and GRANT SELECT ON TABLE to the login; check the setting "schemas".',
    )
  }
}

async function logMessage(session: Session): Promise<string> {
  const missing = missingForLog(await logFacts(session))
  return missing === null
    ? 'its log of changes can be read, too (mode cdc)'
    : `mode cdc is not possible: ${missing.what}. ${missing.remedy}`
}

function subject(name: StepName, { source }: Way): string {
  const server = `${source.host} port ${source.port}`
  return name === 'auth' || name === 'privileges' ? `database ${JSON.stringify(source.database)} at ${server}` : server
}
