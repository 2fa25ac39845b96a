/**
 * Whether stores still have the copies that are about to be read, asked beside the reads as far as that can be: one question
 * at a time for each copy, and none that a silent store makes others wait for.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ServingStore, Target } from '@sluice/sdk'
import { confirmLoss, type ExpectedEpoch, lossOf, type StoreReviewDeps } from '../../materializer/store-review.ts'
import type { CopyLoss, EndpointState } from '../../registry/endpoint-states.ts'

/** For a store to say which epoch it has: a look into memory, or at one row. */
const MAX_ANSWER_MS = 1_000
/** An answer that has not come by then will not come any more, and is asked for anew. */
const GIVEN_UP_MS = 30_000

interface Question {
  readonly epoch: number
  readonly sinceMs: number
  /** True where rows of the copy are nobody's to read. */
  readonly answer: Promise<boolean>
}

export interface CopyChecksDeps extends Omit<StoreReviewDeps, 'plugins'> {
  /** Told where a loss has become known after those who asked had gone on. */
  onLateLoss(): void
}

export class CopyChecks {
  readonly #deps: CopyChecksDeps
  readonly #asked = new Map<string, Question>()
  /** Stores that owe an answer, each with how many; nobody waits for those. */
  readonly #silent = new Map<ServingStore, number>()

  constructor(deps: CopyChecksDeps) {
    this.#deps = deps
  }

  /** Rows of another epoch, or of another installation, are nobody's to read. Never rejects. */
  async isLost(state: EndpointState, expected: ExpectedEpoch, store: ServingStore, target: Target): Promise<boolean> {
    const key = JSON.stringify([state.productId, state.endpoint, state.variant, state.place])
    const asked = this.#asked.get(key)
    const isUnderWay = asked?.epoch === expected.epoch && performance.now() - asked.sinceMs < GIVEN_UP_MS
    const question = isUnderWay ? asked : this.#ask(key, state, expected, store, target)
    // A store that does not answer says so itself when it is read, and holds up no read of another.
    if (this.#silent.has(store)) return false
    const enough = new AbortController()
    // Ended by the answer, which is what is waited for.
    const tooLate = sleep(MAX_ANSWER_MS, null, { signal: enough.signal, ref: false }).catch(() => null)
    const found = await Promise.race([question.answer, tooLate])
    enough.abort()
    if (found === null) this.#waitsNoMore(question, store)
    return found === true
  }

  #ask(key: string, state: EndpointState, expected: ExpectedEpoch, store: ServingStore, target: Target): Question {
    const { epoch } = expected
    const question: Question = {
      epoch,
      sinceMs: performance.now(),
      answer: this.#answer(state, expected, store, target).finally(() => {
        if (this.#asked.get(key) === question) this.#asked.delete(key)
      }),
    }
    this.#asked.set(key, question)
    if (this.#silent.has(store)) this.#tellLate(question)
    return question
  }

  async #answer(state: EndpointState, expected: ExpectedEpoch, store: ServingStore, target: Target): Promise<boolean> {
    let found: CopyLoss | null = null
    const look = async () => {
      // A store that fails says so itself when it is read.
      found = await lossOf(this.#deps.pool, state.productId, store, target, expected).catch(() => null)
      return found
    }
    if ((await look()) === null) return false
    // A registry that cannot note it now makes the rows no better; the next look notes it.
    const isNoted = await confirmLoss(this.#deps, state, expected.epoch, look).then(
      (loss) => loss !== null,
      () => true,
    )
    // Of a copy that is just being written from nothing there are no rows to be wrong about.
    return isNoted || ((found as CopyLoss | null) ?? 'emptied') !== 'emptied'
  }

  #waitsNoMore(question: Question, store: ServingStore): void {
    this.#silent.set(store, (this.#silent.get(store) ?? 0) + 1)
    this.#tellLate(question)
    const over = () => {
      const others = (this.#silent.get(store) ?? 1) - 1
      if (others > 0) this.#silent.set(store, others)
      else this.#silent.delete(store)
    }
    const givenUp = sleep(GIVEN_UP_MS, undefined, { ref: false })
    void Promise.race([question.answer, givenUp]).then(over)
  }

  #tellLate(question: Question): void {
    void question.answer.then((isLost) => {
      if (isLost) this.#deps.onLateLoss()
    })
  }
}
