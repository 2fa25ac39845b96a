/** The steps of a check, in their order, each with a deadline and with what it found. */
import type { CHECK_STEPS, CheckStep, Clock, SluiceError } from '@sluice/sdk'
import { within } from './deadline.ts'
import { aborted } from './failure.ts'
import type { Line, Protection } from './line.ts'

export type StepName = (typeof CHECK_STEPS)[number]

/** A step that found something wrong without anything having failed. */
export class Wanting extends Error {
  readonly remedy: string

  constructor(message: string, remedy: string) {
    super(message)
    this.remedy = remedy
  }
}

export class CheckSteps {
  readonly done: CheckStep[] = []
  readonly #clock: Clock
  readonly #signal: AbortSignal
  readonly #timeoutMs: number
  readonly #failed: (error: unknown, name: StepName) => SluiceError

  constructor(
    clock: Clock,
    signal: AbortSignal,
    timeoutMs: number,
    failed: (error: unknown, name: StepName) => SluiceError,
  ) {
    this.#clock = clock
    this.#signal = signal
    this.#timeoutMs = timeoutMs
    this.#failed = failed
  }

  /** What the work gives; null where it failed, which the step then says. An abort by the caller is thrown. */
  async step<T>(
    name: StepName,
    work: (hurry: AbortSignal) => Promise<T>,
    done: (result: T) => string,
  ): Promise<T | null> {
    try {
      const result = await within(this.#clock, this.#signal, this.#timeoutMs, work)
      this.done.push({ name, ok: true, message: done(result) })
      return result
    } catch (error) {
      if (this.#signal.aborted) throw aborted(this.#signal.reason)
      const failure = error instanceof Wanting ? error : this.#failed(error, name)
      this.done.push({ name, ok: false, message: failure.message, remedy: remedyOf(failure) })
      return null
    }
  }
}

function remedyOf(failure: Wanting | SluiceError): string {
  return failure.remedy ?? 'Check the settings of this connection.'
}

export function tlsMessage({ protection }: Line): string {
  return TLS_MESSAGES[protection]
}

const TLS_MESSAGES: Readonly<Record<Protection, string>> = {
  none: 'the connection is not encrypted',
  encrypted: "the connection is encrypted; the server's identity is not verified",
  verified: "the connection is encrypted and the server's certificate is verified",
}
