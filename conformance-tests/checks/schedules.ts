/** Random schedules of writes and misfortunes: whatever happens, the store holds one whole epoch. */
import { type Check, CheckFailure, expect, vacuous } from '../check.ts'
import type { CheckContext } from '../context.ts'
import { Random } from '../random.ts'
import { type Happened, onStage, runSchedule, tellSchedule } from '../simulation/run.ts'
import { ACTS, type Act, everyAct, randomSchedule, type Schedule, scheduleText } from '../simulation/schedule.ts'
import { shrunk } from '../simulation/shrink.ts'

/** How many a level runs, where its store's author says nothing else. */
export const SCHEDULES = { core: 8, full: 24, hard: 5000 } as const
const STEPS = 6

/** So many at once, each with a store of its own: much of a write is waiting for a disk or a server. */
const LANES = { core: 1, full: 2, hard: 4 } as const

/** So many are told in one dataset, one after the other: making a place costs more than writing to it. */
const BATCH = 25

/** Without these having happened nothing would be proven. */
const NEEDED: readonly Act[] = ['write', 'crash', 'zombie', 'reorder', 'stall']

export const scheduleChecks: readonly Check[] = [
  {
    id: 72,
    name: 'random-fault-schedules-hold-invariants',
    level: 'core',
    async run(context) {
      const schedules = [...(context.schedules ?? generated(context))]
      const counts = new Map<Act, number>(ACTS.map((act) => [act, 0]))
      await inLanes(context, batched(schedules, lanesOf(context)), (happened) => {
        for (const [act, times] of Object.entries(happened))
          counts.set(act as Act, (counts.get(act as Act) ?? 0) + times)
      })
      context.measured['schedules'] = schedules.length
      const missing = NEEDED.filter((act) => counts.get(act) === 0)
      expect(missing.length === 0 || context.schedules !== null, () =>
        vacuous(
          `in ${schedules.length} schedules there was no ${missing.join(', no ')}`,
          'Await host.faultPoint between the steps of a write.',
        ),
      )
    },
  },
]

/** The longest level has so many that they may be of any length. */
function* generated(context: CheckContext): Generator<Schedule> {
  const count = context.knobs.schedules?.[context.level] ?? SCHEDULES[context.level]
  for (let schedule = 0; schedule < count; schedule += 1) {
    const random = new Random(context.random.integer(0, 2 ** 31))
    const length = context.level === 'hard' ? random.integer(1, STEPS) : STEPS
    yield schedule === 0 ? everyAct(random) : randomSchedule(random, length)
  }
}

/** Each lane has a clock of its own, by which a store that expires rows may clear away those of the others. */
function lanesOf({ level, capabilities }: CheckContext): number {
  return capabilities.ttl === undefined ? LANES[level] : 1
}

type Batch = readonly Schedule[]

function batched(schedules: readonly Schedule[], lanes: number): readonly Batch[] {
  const size = Math.max(1, Math.min(BATCH, Math.ceil(schedules.length / lanes)))
  return Array.from({ length: Math.ceil(schedules.length / size) }, (_, index) =>
    schedules.slice(index * size, (index + 1) * size),
  )
}

/** Of several that fail the first is told, however they ran: batches are begun in their order, and brought to an end. */
async function inLanes(
  context: CheckContext,
  batches: readonly Batch[],
  onHappened: (happened: Happened) => void,
): Promise<void> {
  const failures = new Map<number, unknown>()
  const queue = batches.entries()
  const lane = async (number: number): Promise<void> => {
    const own = number === 0 ? context : await context.fork(`lane ${number}`)
    try {
      for (const [index, batch] of queue) {
        await tellBatch(own, batch, `b${index}`, onHappened).catch((error: unknown) => failures.set(index, error))
        if (failures.size > 0) return
      }
    } finally {
      if (own !== context) await own.dispose()
    }
  }
  const lanes = Math.min(lanesOf(context), batches.length)
  const ended = await Promise.allSettled(Array.from({ length: lanes }, (_, number) => lane(number)))
  if (failures.size > 0) throw failures.get(Math.min(...failures.keys()))
  for (const one of ended) if (one.status === 'rejected') throw one.reason
}

async function tellBatch(
  context: CheckContext,
  batch: Batch,
  name: string,
  onHappened: (happened: Happened) => void,
): Promise<void> {
  const told: Schedule[] = []
  try {
    await onStage(context, name, async (dataset) => {
      for (const schedule of batch) {
        told.push(schedule)
        onHappened(await tellSchedule(context, dataset, schedule))
      }
    })
  } catch (error) {
    if (!(error instanceof CheckFailure)) throw error
    throw await smallestFailure(context, told, name, error)
  }
}

/** The last of what was told failed: by itself, or only after the others. What can be cut of it is cut. */
async function smallestFailure(
  context: CheckContext,
  told: Batch,
  name: string,
  error: CheckFailure,
): Promise<CheckFailure> {
  const together: Schedule = { steps: told.flatMap(({ steps }) => steps) }
  let trial = 0
  let last = error
  const fails = async (candidate: Schedule): Promise<boolean> => {
    trial += 1
    const failure = await failureOf(context, candidate, `${name}t${trial}`)
    if (failure) last = failure
    return failure !== null
  }
  for (const schedule of [...told.slice(-1), together]) {
    if (!(await fails(schedule))) continue
    const smallest = await shrunk(schedule, fails)
    return withSchedule(last, smallest)
  }
  return withSchedule(error, together)
}

function withSchedule({ parts, cause }: CheckFailure, schedule: Schedule): CheckFailure {
  const where = `${parts.where}; the schedule: ${scheduleText(schedule)}`
  return new CheckFailure({ ...parts, where, schedule }, cause)
}

async function failureOf(context: CheckContext, schedule: Schedule, name: string): Promise<CheckFailure | null> {
  try {
    await runSchedule(context, name, schedule)
    return null
  } catch (error) {
    if (error instanceof CheckFailure) return error
    throw error
  }
}
