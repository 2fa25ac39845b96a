/** Runs a schedule against a store beside a model of what it should hold; after every step the two are compared. */
import { type ChangeSet, isSluiceError, type Receipt, type Row, SluiceError } from '@sluice/sdk'
import { CheckFailure } from '../check.ts'
import { describeDifference, differenceOf } from '../compare.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset, Look, PreparedWrite } from '../dataset.ts'
import { Random } from '../random.ts'
import { changed, rowsOf, SIMPLE } from '../shapes.ts'
import type { Act, Schedule, Step } from './schedule.ts'

/** How long a second writer may take while the first stands still: it may have to wait for its lock. */
const HOLD_MS = 8
const MAX_SKEW_MS = 2 * 3_600_000
const DAY_MS = 86_400_000

/** What came of a run: how often each misfortune really happened. */
export type Happened = Partial<Record<Act, number>>

/** In a dataset of its own. Throws a CheckFailure where the store and the model part. Leaves nothing in the store. */
export async function runSchedule(context: CheckContext, name: string, schedule: Schedule): Promise<Happened> {
  return onStage(context, name, (dataset) => tellSchedule(context, dataset, schedule))
}

/** A dataset for as long as something is done with it; whatever came of it, nothing of it is left. */
export async function onStage<T>(
  context: CheckContext,
  name: string,
  run: (dataset: Dataset) => Promise<T>,
): Promise<T> {
  const dataset = await context.dataset(SIMPLE, { product: 'simulated', tenant: name })
  try {
    return await run(dataset)
  } finally {
    await calmed(context)
    await context.release(dataset)
  }
}

/** Beginning from six rows, whatever the dataset held before: schedules may be told one after the other. */
export async function tellSchedule(context: CheckContext, dataset: Dataset, { steps }: Schedule): Promise<Happened> {
  try {
    const run = new ScheduleRun(context, dataset)
    await run.begin()
    for (const step of steps) await run.take(step)
    return run.happened
  } finally {
    await calmed(context)
  }
}

async function calmed(context: CheckContext): Promise<void> {
  context.host.atEachPoint(null)
  context.host.calm()
  context.clock.skewMs = 0
  if (context.host.crashed) await context.reopen()
}

class ScheduleRun {
  readonly happened: Happened = {}
  readonly #context: CheckContext
  readonly #dataset: Dataset

  constructor(context: CheckContext, dataset: Dataset) {
    this.#context = context
    this.#dataset = dataset
  }

  /** Six rows take the place of whatever former schedules have left; those are then not asked for any more. */
  async begin(): Promise<void> {
    const { candidates } = this.#dataset
    const write = await this.#dataset.prepare({ mode: 'full', upserts: rowsOf(SIMPLE, 1, 6, new Random(1)) })
    this.expectOutcome(BEGINNING, await this.attempt(write), 'applied')
    this.#dataset.taken(write)
    await this.#compare(BEGINNING)
    candidates.splice(0, candidates.length, ...write.content.values())
  }

  async take(step: Step): Promise<void> {
    const write = await this.#writeOf(step)
    try {
      const count = (await ACTIONS[step.act](this, step, write)) ? 1 : 0
      this.happened[step.act] = (this.happened[step.act] ?? 0) + count
    } catch (error) {
      if (!isSluiceError(error)) throw error
      throw this.broken(step, `a call that had to be done threw ${error.kind} ${error.code}`, error)
    }
    await this.#compare(step)
  }

  get context(): CheckContext {
    return this.#context
  }

  get dataset(): Dataset {
    return this.#dataset
  }

  async #writeOf({ mode, changes, additions, deletes, seed }: Step): Promise<PreparedWrite> {
    const random = new Random(seed)
    const rows = random.shuffled([...this.#dataset.content.values()])
    const renamed = rows.slice(0, changes).map((row) => changed(SIMPLE, row, { name: `n${random.integer(0, 99)}` }))
    const removed = mode === 'delta' ? rows.slice(4, 4 + deletes) : []
    // Within one set a key occurs once.
    const taken = new Set([...renamed, ...removed].map(([id]) => id))
    const added = rowsOf(SIMPLE, random.integer(100, 900), additions, random).filter(([id]) => !taken.has(id ?? null))
    return this.#dataset.prepare({ mode, upserts: [...renamed, ...added], deletes: removed })
  }

  /** Gives the write to the store; a SluiceError is an outcome, anything else is the store's fault. */
  async attempt({ changes, commit }: PreparedWrite, store = this.#context.store): Promise<Receipt | SluiceError> {
    return store.write(this.#dataset.target, changes, commit).catch((error: unknown) => {
      if (isSluiceError(error)) return error
      throw new CheckFailure(
        { ...BROKEN, what: `a write threw something other than a SluiceError: ${String(error)}`, where: 'store.write' },
        error,
      )
    })
  }

  expectOutcome(step: Pick<Step, 'act' | 'mode'>, outcome: Receipt | SluiceError, wanted: string): void {
    const given = isSluiceError(outcome) ? outcome.kind : outcome.outcome
    if (given !== wanted) throw this.broken(step, `a write that had to be ${wanted} was ${given}`, outcome)
  }

  /** After a write whose end is not known: the store holds the old epoch or the new one, whole. */
  async settle(step: Step, write: PreparedWrite): Promise<void> {
    const { rows: seen, epoch } = await this.#state()
    const isNew = epoch === write.commit.epoch
    if (!isNew && epoch !== this.#dataset.epoch) throw this.broken(step, `the store names epoch ${epoch}`)
    const expected = isNew ? write.content : this.#dataset.content
    const difference = differenceOf(SIMPLE, [...expected.values()], seen)
    if (difference) throw this.broken(step, `epoch ${epoch} holds other rows: ${describeDifference(difference)}`)
    if (isNew) this.#dataset.taken(write)
    if (!step.repeats) return
    const again = await this.attempt(write)
    this.expectOutcome(step, again, isNew ? 'already_applied' : 'applied')
    this.#dataset.taken(write)
  }

  /** All rows and the epoch that is served. */
  async #state(): Promise<{ readonly rows: readonly Row[]; readonly epoch: number }> {
    const { rows, epoch, isWhole } = await this.#dataset.look(this.#dataset.candidates[0] ?? [])
    return { rows: isWhole ? rows : await this.#dataset.see(), epoch }
  }

  async #compare(step: Pick<Step, 'act' | 'mode'>): Promise<void> {
    const { content, epoch, target } = this.#dataset
    const { rows, epoch: named } = await this.#state()
    const difference = differenceOf(SIMPLE, [...content.values()], rows)
    if (difference)
      throw this.broken(step, `the store holds other rows than epoch ${epoch}: ${describeDifference(difference)}`)
    if (named !== epoch) throw this.broken(step, `answers name epoch ${named} instead of ${epoch}`)
    if (!this.#context.capabilities.recover) return
    const recovered = await this.#context.store.recover?.(target)
    if (recovered?.epoch !== epoch)
      throw this.broken(step, `recover names epoch ${recovered?.epoch} instead of ${epoch}`)
  }

  broken({ act, mode }: Pick<Step, 'act' | 'mode'>, what: string, cause?: unknown): CheckFailure {
    return new CheckFailure({ ...BROKEN, what, where: `after ${act} of a ${mode} write` }, cause)
  }
}

/** In the words of a failure; it is part of every schedule, and of none by itself. */
const BEGINNING: Pick<Step, 'act' | 'mode'> = { act: 'write', mode: 'full' }

const BROKEN = {
  why: 'after any misfortune, at any point, the next run ends in the state of an undisturbed one',
  remedy: 'Run the schedule again with --replay, and look at what its last step left behind.',
}

/** What each act does; true where its misfortune really happened. */
const ACTIONS: Readonly<Record<Act, (run: ScheduleRun, step: Step, write: PreparedWrite) => Promise<boolean>>> = {
  async write(run, step, write) {
    run.expectOutcome(step, await run.attempt(write), 'applied')
    run.dataset.taken(write)
    return true
  },

  async duplicate(run, step, write) {
    await ACTIONS.write(run, step, write)
    run.expectOutcome(step, await run.attempt(write), 'already_applied')
    const other = { ...write, changes: { ...write.changes, mode: 'full' as const } }
    run.expectOutcome(step, await run.attempt(other), 'already_applied')
    return true
  },

  async takeover(run, step, write) {
    return ACTIONS.write(run, step, withFence(write, run.dataset.fence + 1n))
  },

  async crash(run, step, write) {
    run.context.host.crashAt(step.point)
    await run.attempt(write)
    const happened = run.context.host.crashed
    run.context.host.calm()
    await run.context.reopen()
    await run.settle(step, write)
    return happened
  },

  async 'disk-full'(run, step, write) {
    const error = new SluiceError('TRANSIENT', 'no space is left on the device', { code: 'disk_full' })
    run.context.host.failAt(step.point, error)
    const outcome = await run.attempt(write)
    run.context.host.calm()
    if (isSluiceError(outcome)) run.expectOutcome(step, outcome, 'TRANSIENT')
    await run.settle(step, write)
    return isSluiceError(outcome)
  },

  async partial(run, step, write) {
    if (run.context.capabilities.commit === 'lake') return ACTIONS.write(run, step, write)
    const outcome = await run.attempt({ ...write, changes: breaking(write.changes) })
    if (!isSluiceError(outcome) && write.changes.upsertCount > 0)
      throw run.broken(step, 'a change set whose stream broke was applied')
    await run.settle(step, write)
    return isSluiceError(outcome)
  },

  async stall(run, step, write) {
    const { context, dataset } = run
    const second = context.knobs.opensTwice === false ? context.store : (await context.second()).store
    const upserts = rowsOf(SIMPLE, 500, 3, new Random(step.seed + 1))
    const newer = await dataset.prepare({ mode: 'full', upserts, commit: { fence: dataset.fence + 1n } })
    const overtaking: Promise<Receipt | SluiceError>[] = []
    let passed = 0
    context.host.atEachPoint(async () => {
      passed += 1
      if (passed - 1 !== step.point) return
      overtaking.push(run.attempt(newer, second))
      await Promise.race([overtaking[0], new Promise((resolve) => setTimeout(resolve, HOLD_MS))])
    })
    const first = await run.attempt(write)
    context.host.atEachPoint(null)
    const [later] = await Promise.all(overtaking)
    const isFirsts = !isSluiceError(first) && first.outcome === 'applied'
    const isLaters = later !== undefined && !isSluiceError(later) && later.outcome === 'applied'
    if (isFirsts === isLaters)
      throw run.broken(step, `of two writers of one epoch ${isFirsts ? 'both' : 'neither'} applied it`)
    dataset.taken(isFirsts ? write : newer)
    // Its token has been seen, whether or not its rows were taken.
    if (later !== undefined) dataset.fence = newer.commit.fence
    return later !== undefined
  },

  async zombie(run, step, write) {
    run.expectOutcome(step, await run.attempt(withFence(write, run.dataset.fence - 1n)), 'FENCED')
    return true
  },

  async reorder(run, step, write) {
    const { epoch } = run.dataset
    const gap = {
      ...write,
      changes: { ...write.changes, mode: 'delta' as const },
      commit: { ...write.commit, epoch: epoch + 3, previousEpoch: epoch + 2 },
    }
    run.expectOutcome(step, await run.attempt(gap), 'CONFLICT')
    if (epoch < 2) return true
    const older = { ...write, commit: { ...write.commit, epoch: epoch - 1, previousEpoch: null } }
    run.expectOutcome(step, await run.attempt(older), 'CONFLICT')
    return true
  },

  async skew(run, step, write) {
    run.context.clock.skewMs = new Random(step.seed).integer(-MAX_SKEW_MS, MAX_SKEW_MS)
    await ACTIONS.write(run, step, write)
    run.context.clock.skewMs = 0
    return true
  },

  async restart(run, step, write) {
    await ACTIONS.write(run, step, write)
    await run.context.reopen()
    return true
  },

  async look(run, step, write) {
    const looks: Promise<Look>[] = []
    const random = new Random(step.seed)
    const asked = [...run.dataset.content.values(), ...write.content.values()]
    run.context.host.atEachPoint(() => {
      if (asked.length > 0) looks.push(run.dataset.look(random.pick(asked)))
    })
    const before = run.dataset.content
    const outcome = await run.attempt(write)
    run.context.host.atEachPoint(null)
    run.expectOutcome(step, outcome, 'applied')
    for (const { rows, epoch, of } of await Promise.all(looks)) {
      const state = epoch === write.commit.epoch ? write.content : before
      const difference = differenceOf(SIMPLE, of(state.values()), rows)
      if (difference && run.context.capabilities.commit !== 'per-key') {
        throw run.broken(
          step,
          `beside the write epoch ${epoch} was read with other rows: ${describeDifference(difference)}`,
        )
      }
    }
    run.dataset.taken(write)
    return looks.length > 0
  },

  async expire(run, step, write) {
    if (run.context.capabilities.ttl === undefined) return ACTIONS.write(run, step, write)
    await ACTIONS.write(run, step, write)
    await run.context.clock.advance(2 * DAY_MS)
    const left = await run.dataset.see()
    if (left.length > 0) throw run.broken(step, `${left.length} rows are there a day after their time has passed`)
    const upserts = rowsOf(SIMPLE, 1, 6, new Random(step.seed))
    const anew = await run.dataset.prepare({ mode: 'full', upserts })
    return ACTIONS.write(run, step, anew)
  },
}

function withFence(write: PreparedWrite, fence: bigint): PreparedWrite {
  return { ...write, commit: { ...write.commit, fence } }
}

/** The set as it comes where the lake stops answering after its first piece. */
function breaking(changes: ChangeSet): ChangeSet {
  return {
    ...changes,
    upserts: () => cut(changes.upserts()),
    upsertsCsv: (columns) => cut(changes.upsertsCsv(columns)),
    upsertsKeyed: (template, columns) => cut(changes.upsertsKeyed(template, columns)),
  }
}

async function* cut<T>(items: AsyncIterable<T>): AsyncGenerator<T> {
  for await (const item of items) {
    yield item
    throw new SluiceError('TRANSIENT', 'the lake could not be read any further', { code: 'lake_read_failed' })
  }
}
