/** What others see while a write runs, and what is left where it is ended. */
import { isSluiceError, type Row } from '@sluice/sdk'
import { callDeadline } from '../call-deadline.ts'
import { type Check, CheckFailure, expect, expectRefusal } from '../check.ts'
import { describeDifference, differenceOf } from '../compare.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset, Look, PreparedWrite } from '../dataset.ts'
import { answerOf, planOf, pointPlan } from '../reading.ts'
import { changed, rowsOf, SIMPLE } from '../shapes.ts'

export const concurrencyChecks: readonly Check[] = [
  {
    id: 4,
    name: 'secret-never-in-log-error-metric-plan',
    level: 'core',
    async run(context) {
      const secret = 'quagga-51c9'
      const dataset = await context.dataset(SIMPLE)
      await dataset.full(rowsOf(SIMPLE, 1, 3, context.random).map((row) => changed(SIMPLE, row, { name: secret })))
      await dataset.expectRows('the rows whose values must not be logged must be there')
      const gap = await dataset.prepare({
        mode: 'delta',
        upserts: [...dataset.content.values()],
        commit: { previousEpoch: 7, epoch: 9 },
      })
      // It was to be refused: what it said of that is looked at.
      await context.store.write(dataset.target, gap.changes, gap.commit).catch(() => undefined)
      context.host.crashAt(0)
      const next = await dataset.prepare({ mode: 'full', upserts: [...dataset.content.values()] })
      // It was to be cut off: what it said before is looked at.
      await context.store.write(dataset.target, next.changes, next.commit).catch(() => undefined)
      await context.reopen()
      const text = context.logger.text()
      for (const word of [secret, ...secretsIn(context.fixture.settings)]) {
        expect(!text.includes(word), () => ({
          what: word === secret ? 'a value of a row stands in the log' : 'a secret of the settings stands in the log',
          where: 'host.logger',
          why: 'logs are read by more people than rows are',
          remedy: 'Log counts, codes and names; of a driver’s error its code alone.',
        }))
      }
    },
  },
  {
    id: 10,
    name: 'close-drains-inflight-commit',
    level: 'core',
    async run(context) {
      const dataset = await context.filled(10)
      const write = await dataset.prepare({ mode: 'full', upserts: rowsOf(SIMPLE, 3, 200, context.random) })
      const { store } = context
      const [outcome] = await Promise.allSettled([
        store.write(dataset.target, write.changes, write.commit),
        store.close(),
      ])
      await context.reopen()
      const epoch = await wholeEpoch(dataset, write, await dataset.see(), 'after a close during a write')
      const isTold = outcome.status === 'rejected' || epoch === write.commit.epoch
      expect(isTold, () => ({
        what: 'a write that was answered is not there after the close',
        where: 'store.close during store.write',
        why: 'a receipt is a promise',
        remedy: 'Let close wait for the commit that is running, or end the write with an error.',
      }))
      await dataset.apply(write)
      await dataset.expectRows('and the same write then reaches its end')
    },
  },
  {
    id: 11,
    name: 'two-instances-do-not-share-state',
    level: 'core',
    async run(context) {
      const dataset = await context.filled(10)
      if (context.knobs.opensTwice === false) {
        await expectSecondRefused(context)
      } else {
        const { store: second } = await context.openAnother()
        const write = await dataset.prepare({ mode: 'delta', upserts: rowsOf(SIMPLE, 30, 2, context.random) })
        await dataset.apply(write, second)
        await dataset.expectRows('what one store has committed, another on the same settings reads')
        await second.close()
      }
      await dataset.expectRows('closing one store, or refusing it, leaves the other open')
      await dataset.delta(rowsOf(SIMPLE, 40, 2, context.random))
      await dataset.expectRows('and it can still write')
    },
  },
  {
    id: 43,
    name: 'max-batch-and-max-row-limits-honoured',
    level: 'core',
    async run(context) {
      const characters = Math.min(Math.floor(context.capabilities.limits.maxRowBytes * 0.9), 400_000) - 1000
      const dataset = await context.dataset(SIMPLE)
      const large = rowsOf(SIMPLE, 1, 3, context.random).map((row, index) =>
        changed(SIMPLE, row, { name: `${index}"\\`.padEnd(characters - 8, 'x') }),
      )
      await dataset.full([...large, ...rowsOf(SIMPLE, 10, 3, context.random)])
      for (const way of dataset.ways())
        await dataset.expectRows('a row within the declared limit is kept whole', undefined, { way })
    },
  },
  {
    id: 47,
    name: 'nothing-visible-before-commit',
    level: 'core',
    async run(context) {
      for (const mode of ['delta', 'full'] as const) {
        const dataset = await context.filled(10)
        const rows = [...dataset.content.values()].map((row) => changed(SIMPLE, row, { name: 'new' }))
        const write = await dataset.prepare({
          mode,
          upserts: [...rows.slice(2), ...rowsOf(SIMPLE, 50, 30, context.random)],
        })
        // Reads are begun at each point and awaited later: a store may let them wait for the commit.
        const looks: Promise<Look>[] = []
        const before = [...dataset.content.values()]
        context.host.atEachPoint(() => void looks.push(dataset.look(context.random.pick(before))))
        await context.store.write(dataset.target, write.changes, write.commit)
        context.host.atEachPoint(null)
        for (const { rows: seen, epoch, of } of await Promise.all(looks)) {
          const state = epoch === write.commit.epoch ? [...write.content.values()] : before
          const isWhole = differenceOf(SIMPLE, of(state), seen) === null
          expect(isWhole || !isAtomic(context), () => halfSeen(mode, seen.length))
        }
        expect(looks.length > 0, () => halfSeen(mode, 0))
        dataset.taken(write)
        await dataset.expectRows('once the write is answered every read shows it')
      }
    },
  },
  {
    id: 50,
    name: 'read-own-epoch-stable-during-later-commit',
    level: 'core',
    async run(context) {
      const dataset = await context.filled(10)
      const old = [...dataset.content.values()]
      const [way = 'scan'] = dataset.ways()
      const sight = { target: dataset.target, template: dataset.template, candidates: [] }
      const plan = way === 'key' || way === 'get' ? pointPlan(way, old[0] ?? [], sight) : planOf(SIMPLE, way)
      const reading = context.store.read(dataset.target, plan)[Symbol.asyncIterator]()
      const first = await reading.next()
      await dataset.full(rowsOf(SIMPLE, 100, 5, context.random))
      const epochs = first.done ? [] : [first.value.epoch]
      for (let next = await reading.next(); !next.done; next = await reading.next()) epochs.push(next.value.epoch)
      expect(epochs.length > 0 && epochs.every((epoch) => epoch === 1), () => ({
        what: `a read that began at epoch 1 gave batches of epochs ${epochs.join(', ')}`,
        where: `read ${way} across a commit`,
        why: 'an answer is of one epoch',
        remedy: 'Read from one snapshot, or take all rows before the first batch is given.',
      }))
      await dataset.expectRows('the next read shows the new epoch')
    },
  },
  {
    id: 57,
    name: 'deadline-and-abort-stop-within-100ms',
    level: 'core',
    async run(context) {
      const dataset = await context.filled(10)
      const signal = AbortSignal.abort()
      const [way = 'scan'] = dataset.ways()
      const sight = { target: dataset.target, template: dataset.template, candidates: [] }
      const [row = []] = dataset.candidates
      const write = await dataset.prepare({
        mode: 'full',
        upserts: rowsOf(SIMPLE, 50, 40, context.random),
        commit: { signal },
      })
      const tries = {
        read: () => answerOf(context.store, dataset.target, pointPlan(way, row, sight, { signal })),
        write: () => context.store.write(dataset.target, write.changes, write.commit),
      }
      for (const [name, attempt] of Object.entries(tries)) {
        await expectRefusal(
          {
            kind: 'TRANSIENT',
            tried: `a ${name} whose signal had been aborted`,
            where: `store.${name}`,
            why: 'nobody waits for it any more',
          },
          attempt,
        )
      }
      await dataset.expectRows('a write that was ended leaves nothing')
      const again = { ...write, commit: { ...write.commit, signal: callDeadline() } }
      await dataset.apply(again)
      await dataset.expectRows('and can be done again')
    },
  },
]

function isAtomic({ capabilities }: CheckContext): boolean {
  return capabilities.commit !== 'per-key'
}

async function wholeEpoch(dataset: Dataset, write: PreparedWrite, seen: readonly Row[], when: string): Promise<number> {
  const old = differenceOf(SIMPLE, [...dataset.content.values()], seen)
  if (old === null) return dataset.epoch
  const next = differenceOf(SIMPLE, [...write.content.values()], seen)
  if (next === null) return write.commit.epoch
  throw new CheckFailure({
    what: `${when} reads show neither epoch: to the old one ${describeDifference(old)}`,
    where: 'store.close during store.write',
    why: 'a write is visible wholly or not at all',
    remedy: 'Make all rows visible in one step, together with the epoch.',
  })
}

async function expectSecondRefused(context: CheckContext): Promise<void> {
  const refused = await context.openAnother().then(
    () => false,
    (error: unknown) => isSluiceError(error),
  )
  expect(refused, () => ({
    what: 'a store that says it belongs to one process was opened twice',
    where: 'plugin.open, knobs.opensTwice',
    why: 'two owners of one folder destroy it',
    remedy: 'Take a lock and refuse the second with a SluiceError.',
  }))
}

function halfSeen(mode: string, count: number) {
  return {
    what:
      count === 0
        ? 'nothing could be read while the write ran'
        : `during a write a read showed ${count} rows, neither the old epoch nor the new`,
    where: `read during a ${mode} write`,
    why: 'nothing of an epoch is visible before its commit, and everything after',
    remedy: 'Make all rows visible in one step.',
  }
}

/** Passwords of connection strings, and what else is long enough not to occur by chance. */
function secretsIn(settings: unknown): readonly string[] {
  if (typeof settings === 'string') {
    const password = /:\/\/[^:/@]*:([^@/]+)@/.exec(settings)?.[1]
    return password && password.length >= 8 ? [password, decodeURIComponent(password)] : []
  }
  if (typeof settings !== 'object' || settings === null) return []
  return Object.entries(settings).flatMap(([name, value]) =>
    /password|secret|token/i.test(name) && typeof value === 'string' && value.length >= 8 ? [value] : secretsIn(value),
  )
}
