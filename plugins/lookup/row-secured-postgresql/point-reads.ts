/**
 * Point reads of one tenant that are under way together, as one statement. A read that comes alone goes at once; one
 * that comes while others of its kind are being answered waits for them and goes with whoever else has come.
 */
import { originalError, wasEnded } from './driver-errors.ts'
import type { TextRow } from './one-sync.ts'

/** Statements of one kind that are under way at a time; a further read waits for one of them. */
const MAX_UNDER_WAY = 3

/** Another statement goes beside the first only when it carries this many keys: few wait more cheaply. */
const WORTH_ANOTHER = 8

/** Keys in one statement. */
const MAX_KEYS = 100

export interface PointAnswer {
  /** The dataset's line. */
  readonly dataset: TextRow | undefined
  /** The row; null where there is none. */
  readonly body: string | null
}

/** Reads the rows of the keys; the answers in their order. */
export type ReadKeys = (keys: readonly string[]) => Promise<readonly PointAnswer[]>

/** A read of one key, told once how it ended. */
export interface PointRead {
  readonly key: string
  resolve(answer: PointAnswer): void
  reject(error: unknown): void
}

interface Waiting {
  readonly one: PointRead
  readonly read: ReadKeys
}

interface Group {
  underWay: number
  readonly waiting: Waiting[]
}

export class PointReads {
  readonly #groups = new Map<string, Group>()

  /** All reads of a group are of one tenant, table, projection and policy: any one's `read` serves them all. */
  ask(name: string, one: PointRead, read: ReadKeys): void {
    const group = this.#group(name)
    group.waiting.push({ one, read })
    if (isTime(group)) this.#next(name, group)
  }

  #group(name: string): Group {
    const known = this.#groups.get(name)
    if (known) return known
    const group: Group = { underWay: 0, waiting: [] }
    this.#groups.set(name, group)
    return group
  }

  #next(name: string, group: Group): void {
    if (!isTime(group)) return
    const batch = group.waiting.splice(0, MAX_KEYS)
    const [first] = batch
    if (!first) {
      this.#groups.delete(name)
      return
    }
    group.underWay += 1
    const done = () => {
      group.underWay -= 1
      this.#next(name, group)
    }
    void answer(first.read, batch).then(done)
  }
}

function isTime({ underWay, waiting }: Group): boolean {
  return underWay === 0 || (underWay < MAX_UNDER_WAY && waiting.length >= WORTH_ANOTHER)
}

/**
 * Never throws. What fails together is tried one by one, so that nobody pays for another's key; what the server has ended is
 * not tried here again, where others queue behind it.
 */
async function answer(read: ReadKeys, batch: readonly Waiting[]): Promise<void> {
  try {
    const answers = await read(batch.map(({ one }) => one.key))
    for (const [index, { one }] of batch.entries()) one.resolve(answers[index] ?? { dataset: undefined, body: null })
  } catch (error) {
    if (batch.length === 1 || wasEnded(originalError(error))) for (const { one } of batch) one.reject(error)
    else await Promise.all(batch.map((waiting) => answer(waiting.read, [waiting])))
  }
}
