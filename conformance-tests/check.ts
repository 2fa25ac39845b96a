import type { Capabilities } from '@sluice/sdk'
import { type ErrorKind, isSluiceError, type SluiceError } from '@sluice/sdk'
import type { CheckContext, Fixture } from './context.ts'
import type { Requirement } from './requirements.ts'
import type { Schedule } from './simulation/schedule.ts'

/** How much to run: `core` in seconds, `full` in a minute or two, `hard` as long as it takes. */
export const LEVELS = ['core', 'full', 'hard'] as const

export type Level = (typeof LEVELS)[number]

/**
 * One promise of the contract, and how to find out whether a store keeps it. A check asserts its own precondition, so
 * that it cannot pass on a store that does nothing.
 */
export interface Check {
  /** Stable; never given to another check. */
  readonly id: number
  readonly name: string
  /** Other names by which it is found. */
  readonly aliases?: readonly string[]
  readonly level: Level
  /**
   * What the store must have declared. Where one is absent the check runs inverted: using it must throw UNSUPPORTED
   * and leave no effect.
   */
  readonly requires?: readonly Requirement[]
  /** Whether the check has anything to say about a store of this shape; in words where it has not. */
  notFor?(capabilities: Capabilities): string | null
  /** What the fixture would have to name for the check to try anything; in words where it does not. */
  lacks?(fixture: Fixture): string | null
  run(context: CheckContext): Promise<void>
}

export interface FailureParts {
  readonly what: string
  readonly where: string
  readonly why: string
  readonly remedy: string
  /** What should have come, where `what` does not say it. */
  readonly expected?: string
  /** What came in its place. */
  readonly came?: string
  /** The command that runs the check again. */
  readonly replay?: string
  /** What was done to the store, where it was a schedule: `--replay` does it again. */
  readonly schedule?: Schedule
}

/** A broken promise, in words for the store's author. */
export class CheckFailure extends Error {
  override readonly name = 'CheckFailure'
  readonly parts: FailureParts

  constructor(parts: FailureParts, cause?: unknown) {
    super([parts.what, ...failureParts(parts)].join('\n'), cause === undefined ? undefined : { cause })
    this.parts = parts
  }
}

/** The parts beside `what`, a line each. */
export function failureParts(parts: Partial<FailureParts>): readonly string[] {
  const { expected, came, where, why, remedy, replay } = parts
  return Object.entries({ expected, came, where, why, remedy, replay }).flatMap(([name, text]) =>
    text === undefined ? [] : [`  ${`${name}:`.padEnd(9)} ${text}`],
  )
}

/** Throws the failure unless the condition holds. */
export function expect(condition: boolean, parts: () => FailureParts): asserts condition {
  if (!condition) throw new CheckFailure(parts())
}

/** Of a check that has found nothing to try its promise on. */
export function vacuous(what: string, remedy = 'Look first at the checks of writing and reading.'): FailureParts {
  return { what, where: 'the check’s own precondition', why: 'nothing would be proven', remedy }
}

export interface Refusal {
  readonly kind: ErrorKind
  /** One of these, where the contract names the code. */
  readonly codes?: readonly string[]
  /** What was tried, as a subject: `a filter on a masked column`. */
  readonly tried: string
  readonly where: string
  readonly why: string
}

/** Runs what must be refused, and returns the error. */
export async function expectRefusal(refusal: Refusal, run: () => Promise<unknown>): Promise<SluiceError> {
  const outcome = await run().then(
    () => null,
    (error: unknown) => error ?? new Error('nothing was thrown'),
  )
  // It says by itself what is wrong.
  if (outcome instanceof CheckFailure) throw outcome
  const code = refusal.codes?.join(' or ')
  const wanted = code ? `${refusal.kind} ${code}` : refusal.kind
  if (isSluiceError(outcome, refusal.kind) && (refusal.codes?.includes(outcome.code) ?? true)) return outcome
  throw new CheckFailure(
    {
      what: `${refusal.tried} ${outcome === null ? 'was accepted' : `threw ${nameOf(outcome)} instead of ${wanted}`}`,
      expected: `a SluiceError of kind ${wanted}`,
      came: outcome === null ? 'no error' : nameOf(outcome),
      where: refusal.where,
      why: refusal.why,
      remedy: `Throw a SluiceError of kind ${wanted}.`,
    },
    outcome ?? undefined,
  )
}

/** What the plugin advises is meant for tenants; whoever writes the plugin is told whose advice it is. */
export function remedyOfCall({ remedy }: { readonly remedy?: string | undefined }): string {
  const own = remedy === undefined ? '' : ` The plugin itself advises: ${remedy}`
  return `Find out what the hook refused, by the stack or with --only; nothing in the call is wrong.${own}`
}

/** A failure that says also what was expected, and how to see it again. */
export function completed(parts: Partial<FailureParts> & Pick<FailureParts, 'what'>, check: string, replay?: string) {
  const { what, expected = check.replaceAll('-', ' '), ...rest } = parts
  return { what, expected, ...rest, ...(replay === undefined ? {} : { replay }) }
}

/** An error that came out of a check and is no broken promise that it looked for. */
export function foreignParts(error: Error | string): Omit<FailureParts, 'expected'> {
  const text = typeof error === 'string' ? error : `${error.name}: ${error.message}`
  return {
    what: `the check was ended by an error that is no SluiceError: ${text}`,
    came: text,
    where: 'a hook of the plugin, or its fixture; the stack says which',
    why: 'the runtime can tell neither whose fault such an error is nor whether to try again',
    remedy: 'Wrap what drivers throw in a SluiceError, with the original as cause; correct the fixture where it threw.',
  }
}

function nameOf(error: unknown): string {
  return isSluiceError(error) ? `${error.kind} ${error.code}` : `an error that is no SluiceError (${String(error)})`
}
