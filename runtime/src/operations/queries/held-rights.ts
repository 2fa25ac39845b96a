/**
 * A statement may go on for minutes, page by page in an engine outside. Whoever asked for it has to hold for all that time what it began
 * under: the token or key, the tenant, and the right to each table that it reads. Where that ends, the statement does.
 */
import type { EngineRun } from '@sluice/engine'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import { isApplicationKey, stricter } from '../../policy/classification.ts'
import { PASSWORD_ISSUER } from '../../policy/identity.ts'
import { presentedKey } from '../../registry/application-keys.ts'
import { goodPasswords } from '../../registry/service-passwords.ts'
import { findTenant } from '../../registry/tenants.ts'
import type { StatementCall, Visible } from './asked-query.ts'
import type { QueriesDeps } from './deps.ts'

const EVERY_MS = 2_000
/** Behind the statement's own time there is nothing left to end. */
const LEFT_OVER_MS = 60_000

export interface HeldFor {
  readonly tables: readonly Pick<Visible, 'name' | 'isStillReadable'>[]
  /** Of the statement. */
  readonly timeoutMs: number
  /** Default 2 s. */
  readonly everyMs?: number
}

/** For what was begun a while ago, before it is answered. Throws PERMISSION `right_ended`. */
export async function requireStillHeld(platform: Pick<QueriesDeps, 'pool'>, call: StatementCall): Promise<void> {
  const why = await reasonToEnd(platform, call, [])
  if (why !== null) throw rightEnded(why)
}

export class HeldRights {
  readonly #platform: Pick<QueriesDeps, 'pool'>
  readonly #call: StatementCall
  readonly #held: HeldFor
  readonly #ended = new AbortController()
  readonly #untilMs: number
  #timer: NodeJS.Timeout | undefined
  #isReleased = false

  constructor(platform: Pick<QueriesDeps, 'pool'>, call: StatementCall, held: HeldFor) {
    this.#platform = platform
    this.#call = call
    this.#held = held
    this.#untilMs = performance.now() + held.timeoutMs + LEFT_OVER_MS
    this.#wait()
  }

  /** The caller's, which ends with the right as well. */
  get signal(): AbortSignal {
    return AbortSignal.any([this.#call.signal, this.#ended.signal])
  }

  /** Nobody reads any more. May be repeated. */
  release(): void {
    this.#isReleased = true
    clearTimeout(this.#timer)
  }

  /** Why the statement was ended, in place of what that led to. */
  explained(error: unknown): unknown {
    return this.#ended.signal.aborted ? this.#ended.signal.reason : error
  }

  /** Throws PERMISSION `right_ended` where it has; not where the caller is gone. */
  throwIfEnded(): void {
    this.#ended.signal.throwIfAborted()
  }

  /** The run, watched over until its output was read. */
  over(run: EngineRun): EngineRun {
    const finished = run.finished.catch((error: unknown) => {
      this.release()
      throw this.explained(error)
    })
    // Whoever reads the output is told there.
    finished.catch(() => undefined)
    return { ...run, output: this.#read(run.output), finished }
  }

  async *#read(output: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    try {
      for await (const chunk of output) {
        this.#ended.signal.throwIfAborted()
        yield chunk
      }
    } catch (error) {
      throw this.explained(error)
    } finally {
      this.release()
    }
  }

  #wait(): void {
    const isOver = this.#isReleased || this.#call.signal.aborted || performance.now() > this.#untilMs
    if (!isOver) this.#timer = setTimeout(() => void this.#look(), this.#held.everyMs ?? EVERY_MS).unref()
  }

  async #look(): Promise<void> {
    try {
      const why = await reasonToEnd(this.#platform, this.#call, this.#held.tables)
      if (why !== null) this.#ended.abort(rightEnded(why))
    } catch (error) {
      // What cannot be judged now goes on, and is judged at the next look.
      if (!isSluiceError(error)) this.#ended.abort(error)
    }
    if (!this.#ended.signal.aborted) this.#wait()
  }
}

async function reasonToEnd(
  { pool }: Pick<QueriesDeps, 'pool'>,
  { principal, tenant }: StatementCall,
  tables: HeldFor['tables'],
): Promise<string | null> {
  if (principal.tokenExpiresAtMs <= Date.now()) return 'the token that it began with has ended'
  if ((await findTenant(pool, tenant))?.status !== 'active') return 'its tenant is not active'
  if (isApplicationKey(principal) && !(await isKeyGood(pool, principal))) {
    return 'the key that it began with is good no more'
  }
  if (
    principal.issuer === PASSWORD_ISSUER &&
    !(await goodPasswords(pool, [principal.subject])).has(principal.subject)
  ) {
    return 'the service password that it began with is good no more'
  }
  for (const { name, isStillReadable } of tables) {
    if (!(await isStillReadable())) return `${name} may not be read by its author any more`
  }
  return null
}

/** It is there, and its maker has no less than when the statement began. */
async function isKeyGood(
  pool: QueriesDeps['pool'],
  { subject, groups, claimedClearance: begun }: StatementCall['principal'],
): Promise<boolean> {
  const key = await presentedKey(pool, subject)
  if (key === null || !groups.every((group) => key.makerGroups.includes(group))) return false
  const { makerClearance: now } = key
  return now === null || now === begun || (begun !== null && stricter(now, begun) === now)
}

function rightEnded(why: string): SluiceError {
  return new SluiceError('PERMISSION', `what was asked for was ended: ${why}`, {
    code: 'right_ended',
    remedy: 'Ask for the right again where it is still needed, then come back with a valid token.',
  })
}

/** What a judgement of rights throws says that there is none; whatever else fails is no judgement. */
export async function isPermitted(judge: () => Promise<unknown>): Promise<boolean> {
  try {
    await judge()
    return true
  } catch (error) {
    if (isSluiceError(error) && ['PERMISSION', 'INVALID_DATA', 'CONFLICT'].includes(error.kind)) return false
    throw error
  }
}
