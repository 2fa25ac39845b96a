/** The moment of a commit: what is there after it, whoever interrupts it, and whoever comes second. */
import { type AppliedEpoch, isSluiceError, type Receipt, type Row, type ServingStore } from '@sluice/sdk'
import { callDeadline } from '../call-deadline.ts'
import { type Check, CheckFailure, expect, vacuous } from '../check.ts'
import { describeDifference, differenceOf } from '../compare.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset, PreparedWrite } from '../dataset.ts'
import { answerOf, planOf, pointPlan } from '../reading.ts'
import { hook } from '../requirements.ts'
import { changed, rowsOf, SIMPLE } from '../shapes.ts'

/** How long another writer may take while the first is held at a fault point: it may have to wait for its lock. */
const HOLD_MS = 40

export const commitChecks: readonly Check[] = [
  {
    id: 48,
    name: 'all-visible-after-commit',
    level: 'core',
    async run(context) {
      const dataset = await context.filled(10)
      const other = context.knobs.opensTwice === false ? null : await context.openAnother()
      for (const mode of ['delta', 'full'] as const) {
        await dataset.apply(await dataset.prepare({ mode, upserts: rowsOf(SIMPLE, 5, 40, context.random) }))
        for (const way of dataset.ways())
          await dataset.expectRows('a receipt means that every read shows it', undefined, { way })
        await expectShown(dataset, context.store)
        if (other) await expectShown(dataset, other.store)
      }
    },
  },
  {
    id: 49,
    name: 'abort-leaves-nothing',
    level: 'core',
    async run(context) {
      for (const mode of ['delta', 'full'] as const) {
        const points = await pointsOf(context, mode)
        for (let point = 0; point < points; point += 1) await expectAborted(context, mode, point)
      }
    },
  },
  {
    id: 66,
    name: 'zombie-cannot-stage-into-new-txn',
    level: 'core',
    async run(context) {
      const points = await pointsOf(context, 'delta')
      const second = context.knobs.opensTwice === false ? context.store : (await context.openAnother()).store
      for (let point = 0; point < points; point += 1) await expectOvertaken(context, second, point)
    },
  },
  {
    id: 70,
    name: 'checkpoint-size-and-shape',
    level: 'core',
    requires: [hook('recover')],
    async run(context) {
      const dataset = await context.filled(10)
      for (const [epoch, fence] of [
        [2, 2n],
        [2 ** 31 + 7, 2n ** 40n],
        [Number.MAX_SAFE_INTEGER, 2n ** 62n + 1n],
      ] as const) {
        // The lake dates its commits by the microsecond.
        const committedAt = context.clock.nowText().replace(/\d{3}Z$/, '457Z')
        const upserts = rowsOf(SIMPLE, 20, 3, context.random)
        const write = await dataset.prepare({ mode: 'full', upserts, commit: { epoch, fence, committedAt } })
        await dataset.apply(write)
        const found = await context.store.recover?.(dataset.target)
        expect(isCheckpoint(found, write), () => ({
          what: `recover gave ${inspected(found)} for epoch ${epoch} with token ${fence}`,
          where: 'store.recover',
          why: 'the runtime keeps it and compares it: epoch, token and instant, none of them rounded',
          remedy: 'Keep epochs in 53 bits, tokens in 64, instants as the text that came; return nothing else.',
        }))
      }
      await dataset.expectRows('and the rows are those of the last one')
    },
  },
  {
    id: 71,
    name: 'declared-commit-class-matches-observed',
    level: 'core',
    async run(context) {
      const dataset = await context.filled(10)
      let looks = 0
      for (let turn = 0; turn < 4; turn += 1) {
        const mode = turn % 2 === 0 ? 'delta' : 'full'
        const rows = [...dataset.content.values()].map((row) => changed(SIMPLE, row, { name: `turn ${turn}` }))
        const write = await dataset.prepare({ mode, upserts: rows })
        looks += await lookDuring(context, dataset, write)
        dataset.taken(write)
      }
      await dataset.expectRows('the last of the writes is there')
      expect(looks > 0, () => vacuous('nothing could be read beside the writes'))
    },
  },
]

function nextWrite(
  context: CheckContext,
  dataset: Dataset,
  mode: 'full' | 'delta',
  parts: Partial<PreparedWrite['commit']> = {},
) {
  const rows = [...dataset.content.values()]
  const upserts = [
    ...rows.slice(0, 3).map((row) => changed(SIMPLE, row, { name: 'next' })),
    ...rowsOf(SIMPLE, 60, 9, context.random),
  ]
  return dataset.prepare({ mode, upserts, deletes: mode === 'delta' ? rows.slice(4, 6) : [], commit: parts })
}

/** How many fault points a write passes. */
async function pointsOf(context: CheckContext, mode: 'full' | 'delta'): Promise<number> {
  const dataset = await context.filled(10)
  const before = context.host.met.length
  await dataset.apply(await nextWrite(context, dataset, mode))
  await dataset.expectRows('the trial write must have been applied')
  const points = context.host.met.length - before
  expect(points > 0, () => vacuous('a write passes no fault point'))
  return points
}

async function expectShown(dataset: Dataset, store: ServingStore): Promise<void> {
  const [way = 'scan'] = dataset.ways()
  const row = [...dataset.content.values()].at(-1) ?? []
  const sight = { target: dataset.target, template: dataset.template, candidates: [] }
  const plan = way === 'range' ? planOf(SIMPLE, way) : pointPlan(way, row, sight)
  const { rows, epoch } = await answerOf(store, dataset.target, plan)
  expect(epoch === dataset.epoch && rows.some(([id]) => id === row[0]), () => ({
    what: `the read after the receipt of epoch ${dataset.epoch} is answered from epoch ${epoch}, ${rows.length} rows`,
    where: `read ${way}, on the store that wrote and on another`,
    why: 'whoever has a receipt tells others that the rows are there',
    remedy: 'Answer a write only when every reader sees it.',
  }))
}

/** The caller lets go while the write stands at that point: it is whole or nothing, and can be done again. */
async function expectAborted(context: CheckContext, mode: 'full' | 'delta', point: number): Promise<void> {
  const dataset = await context.filled(10)
  const abort = new AbortController()
  const write = await nextWrite(context, dataset, mode, { signal: abort.signal })
  let passed = 0
  context.host.atEachPoint(() => {
    if (passed === point) abort.abort()
    passed += 1
  })
  const outcome = await context.store
    .write(dataset.target, write.changes, write.commit)
    .catch((error: unknown) => error)
  context.host.atEachPoint(null)
  const isTold = isSluiceError(outcome, 'TRANSIENT') || (outcome as Receipt).outcome === 'applied'
  expect(isTold, () => ({
    what: `a write that its caller let go of ended with ${inspected(outcome)}`,
    where: `store.write, aborted at fault point ${point} (${mode})`,
    why: 'it is applied or it is TRANSIENT: the caller tries again',
    remedy: 'Look at commit.signal between the steps, and throw TRANSIENT.',
  }))
  const seen = await dataset.see()
  const isOld = differenceOf(SIMPLE, [...dataset.content.values()], seen) === null
  const isNew = differenceOf(SIMPLE, [...write.content.values()], seen) === null
  expect(isSluiceError(outcome) ? isOld || isNew : isNew, () => ({
    what: `after an abort reads show ${seen.length} rows, of neither epoch`,
    where: `store.write, aborted at fault point ${point} (${mode})`,
    why: 'a write is visible wholly or not at all',
    remedy: 'Roll back what was staged.',
  }))
  await dataset.apply({ ...write, commit: { ...write.commit, signal: callDeadline() } })
  await dataset.expectRows(`aborted at fault point ${point} (${mode}), the same write reaches its end`)
}

/** While the first writer stands at that point, another with a newer token writes the same epoch. */
async function expectOvertaken(context: CheckContext, second: ServingStore, point: number): Promise<void> {
  const dataset = await context.filled(10)
  const old = await nextWrite(context, dataset, 'delta')
  const upserts = rowsOf(SIMPLE, 200, 12, context.random)
  const newer = await dataset.prepare({ mode: 'full', upserts, commit: { fence: dataset.fence + 1n } })
  let passed = 0
  const overtaking: Promise<Receipt>[] = []
  context.host.atEachPoint(async () => {
    const index = passed
    passed += 1
    if (index !== point) return
    overtaking.push(second.write(dataset.target, newer.changes, newer.commit))
    await Promise.race([Promise.allSettled(overtaking), new Promise((resolve) => setTimeout(resolve, HOLD_MS))])
  })
  const [first] = await Promise.allSettled([context.store.write(dataset.target, old.changes, old.commit)])
  context.host.atEachPoint(null)
  const [settled] = await Promise.allSettled(overtaking)
  for (const outcome of [first, settled]) {
    if (outcome?.status === 'rejected' && !isSluiceError(outcome.reason)) throw outcome.reason
  }
  // Whoever came first with the epoch has it; the newer writer sends the next if it was not he.
  const isFirsts = first.status === 'fulfilled' && first.value.outcome === 'applied'
  dataset.taken(isFirsts ? old : newer)
  const isSeconds = settled?.status === 'fulfilled' && settled.value.outcome === 'applied'
  expect(isFirsts !== isSeconds, () => ({
    what: `of two writers of one epoch ${isFirsts ? 'both' : 'neither'} applied it`,
    where: `store.write, overtaken at fault point ${point}`,
    why: 'a worker that was taken for dead must not write into what its successor has begun',
    remedy: 'Check the token again in the step that commits.',
  }))
  await dataset.expectRows(`overtaken at fault point ${point}, the store holds one writer's rows and no others`)
}

function isCheckpoint(found: AppliedEpoch | null | undefined, { commit }: PreparedWrite): boolean {
  if (!found) return false
  const { epoch, fence, committedAt, ...others } = found
  const isSame = epoch === commit.epoch && fence === commit.fence && committedAt === commit.committedAt
  return isSame && typeof fence === 'bigint' && Object.keys(others).length === 0
}

/** Reads beside a write: each answer holds the rows of the epoch that it names. */
async function lookDuring(context: CheckContext, dataset: Dataset, write: PreparedWrite): Promise<number> {
  const { store } = context
  let isWriting = true
  let looks = 0
  const [way = 'scan'] = dataset.ways()
  const before = [...dataset.content.values()]
  const after = [...write.content.values()]
  const look = async (): Promise<void> => {
    const row = context.random.pick(before)
    const sight = { target: dataset.target, template: dataset.template, candidates: [] }
    const isWhole = way === 'scan' || way === 'range'
    const plan = isWhole ? planOf(SIMPLE, way) : pointPlan(way, row, sight)
    const answer = await answerOf(store, dataset.target, plan)
    const state = answer.epoch === write.commit.epoch ? after : before
    const expected = isWhole ? state : state.filter(([id]) => id === row[0])
    expectOfEpoch(context, answer.epoch, expected, answer.rows)
    looks += 1
  }
  context.host.atEachPoint(async (point) => {
    if (context.capabilities.commit === 'atomic' || point.includes('before')) await Promise.race([look(), held()])
  })
  const writing = store.write(dataset.target, write.changes, write.commit).finally(() => {
    isWriting = false
  })
  // A look that fails is reported first; what becomes of the write is then nobody's affair.
  writing.catch(() => undefined)
  while (isWriting && looks < 500) await look()
  await writing
  context.host.atEachPoint(null)
  await look()
  return looks
}

function held(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, HOLD_MS))
}

function expectOfEpoch(
  { capabilities }: CheckContext,
  epoch: number,
  expected: readonly Row[],
  given: readonly Row[],
): void {
  const difference = differenceOf(SIMPLE, expected, given)
  if (difference === null || capabilities.commit === 'per-key') return
  throw new CheckFailure({
    what: `an answer names epoch ${epoch} and holds other rows: ${describeDifference(difference)}`,
    where: `a read beside a write of a store whose commit class is ${capabilities.commit}`,
    why: 'an answer is of the epoch that it names',
    remedy: 'Read rows and epoch in one snapshot, or declare per-key.',
  })
}

function inspected(value: unknown): string {
  return (
    JSON.stringify(value, (_, inner: unknown) => (typeof inner === 'bigint' ? `${inner}n` : inner)) ?? String(value)
  )
}
