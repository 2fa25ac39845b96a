import type { CheckReport } from '@sluice/sdk'
import { CheckSteps, type StepName, tlsMessage, Wanting } from '../server/check-steps.ts'
import { openTcp } from '../server/line.ts'
import { schemasOf } from './discover.ts'
import { sourceFailure } from './failure.ts'
import { listRelations } from './relation.ts'
import { login, type Session, type Way } from './session.ts'
import { type Greeted, greeted } from './wire/greeting.ts'

const COUNTED = 1000

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
  #session: Session | null = null
  #to: Greeted | null = null

  constructor(way: Way, signal: AbortSignal) {
    this.#way = way
    this.#signal = signal
    const failed = (error: unknown, name: StepName) => sourceFailure(error, subject(name, way))
    this.#steps = new CheckSteps(way.host.clock, signal, way.source.connectTimeoutMs, failed)
  }

  async report(): Promise<CheckReport> {
    const ok = await this.#walk()
    const version = this.#session?.serverVersion
    return {
      ok,
      steps: this.#steps.done,
      latencyMs: this.#latencyMs,
      ...(version === undefined ? {} : { serverVersion: version }),
    }
  }

  async close(): Promise<void> {
    if (this.#session) await this.#session.close()
    else this.#to?.line.socket.destroy()
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
    this.#to = await this.#steps.step(
      'tls',
      (hurry) => greeted(socket, to.address, source, hurry),
      ({ line }) => tlsMessage(line),
    )
    const line = this.#to
    if (!line) return false
    this.#session = await this.#steps.step(
      'auth',
      (hurry) => login(this.#way, line, this.#signal, hurry),
      () => `the server lets the user into the database`,
    )
    const session = this.#session
    if (!session) return false
    return (
      (await this.#steps.step(
        'privileges',
        () => this.#privileges(session),
        (message) => message,
      )) !== null
    )
  }

  /** A login that does not see others' transactions is in order: what it means is said to whom it may concern. */
  async #privileges(session: Session): Promise<string> {
    const before = this.#way.host.clock.nowMs()
    await session.run('DO 0')
    this.#latencyMs = Math.max(0, this.#way.host.clock.nowMs() - before)
    const found = await listRelations(session, { schemas: schemasOf(this.#way), after: null, limit: COUNTED })
    const count = found.filter(({ columns }) => columns.length > 0).length
    if (count === 0) {
      throw new Wanting(
        'the login works, but there is no table or view that it may read',
        'Let an owner run GRANT SELECT on the database or its tables to the login; check "database" and "schemas".',
      )
    }
    const tables =
      count === 1 ? '1 table or view' : `${count}${found.length === COUNTED ? ' or more' : ''} tables and views`
    return `the login may read ${tables}; ${(await session.seesEngine()) ? SEES : SEES_NOT}`
  }
}

const SEES = 'incremental reads see how long transactions have been open'
const SEES_NOT =
  'incremental reads find what is committed within cursor_overlap_s of being written, and partitioned tables are read whole; with GRANT PROCESS neither'

function subject(name: StepName, { source }: Way): string {
  const server = `${source.host} port ${source.port}`
  return name === 'auth' || name === 'privileges' ? `database ${JSON.stringify(source.database)} at ${server}` : server
}
