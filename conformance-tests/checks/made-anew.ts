/** What outlives a target, a refusal or a change of the columns: nothing of the former rows, and every token. */
import { isSluiceError, type RowPredicate, rowPasses, type TableSchema } from '@sluice/sdk'
import { callDeadline } from '../call-deadline.ts'
import { type Check, CheckFailure, expect, vacuous } from '../check.ts'
import { describeDifference, differenceOf } from '../compare.ts'
import { type CheckContext, FORCED_POLICY } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { openPolicy } from '../reading.ts'
import { changed, rowsOf, SIMPLE, WIDER } from '../shapes.ts'

/** As stores take names that hold lower case alone. */
const tenantOf = (end: 'drop' | 'dropTenant'): string => (end === 'drop' ? 'drop' : 'drop-tenant')

export const madeAnewChecks: readonly Check[] = [
  {
    id: 165,
    name: 'a-target-made-anew-knows-nothing-of-the-former',
    level: 'core',
    notFor: ({ commit }) => (commit === 'lake' ? 'what is served is what the lake has' : null),
    async run(context) {
      for (const end of ['drop', 'dropTenant'] as const) {
        const former = await context.dataset(SIMPLE, { tenant: tenantOf(end), product: 'again' })
        const rows = rowsOf(SIMPLE, 1, 4, context.random)
        former.fence = 50n
        await former.full(rows)
        for (const way of former.ways()) await former.expectRows('the former rows are there', undefined, { way })
        const digest = await digestOf(context, former)
        if (end === 'drop') await context.store.drop(former.target, 'apply')
        else await context.store.dropTenant(former.target.scope)
        const next = await context.dataset(SIMPLE, { tenant: tenantOf(end), product: 'again', policy: 'none' })
        next.candidates.push(...rows)
        // The same epoch with the same keys, from a writer whose token is lower than the former's.
        await next.full(rows.map((row) => changed(SIMPLE, row, { name: 'of the next', rank: null })))
        for (const way of next.ways()) {
          const shown = await next.see({ way })
          expect(shown.length === 0, () => ({
            what: `a target that was made anew shows ${shown.length} rows, and no policy is in place for it`,
            where: `read ${way} after ${end}, provision and write`,
            why: 'that a policy was in place for a target that is gone says nothing of the one that has come',
            remedy: 'Keep with the rows whether a policy is in place, and remember nothing of it beside them.',
          }))
        }
        await context.store.rls.install(next.target, FORCED_POLICY)
        for (const way of next.ways())
          await next.expectRows(`after ${end} an epoch of the same number has other rows`, undefined, { way })
        expect(digest === null || digest !== (await digestOf(context, next)), () => ({
          what: 'other rows of the same epoch have the digest of the former ones',
          where: `store.digest after ${end}, provision and write`,
          why: 'a copy is compared with what is served by it',
          remedy: 'Compute it of the rows that are there.',
        }))
      }
      await expectOwnPolicies(context)
    },
  },
  {
    id: 166,
    name: 'a-token-counts-whatever-becomes-of-its-write',
    level: 'core',
    async run(context) {
      const dataset = await context.filled(4)
      let fence = 10n
      // The epoch is older, or its deltas start from another: the writer has taken over all the same.
      const refused = [
        { epoch: dataset.epoch, mode: 'full', previousEpoch: null, code: 'already_applied' },
        { epoch: dataset.epoch + 5, mode: 'delta', previousEpoch: dataset.epoch + 4, code: 'epoch_gap' },
      ] as const
      for (const { code, mode, ...commit } of refused) {
        fence += 10n
        const outcome = await writeBy(context, dataset, fence, { mode, ...commit })
        expect(outcome === code, () => vacuous(`the write was answered by ${outcome} and not by ${code}`))
        await expectFencedBelow(context, dataset, fence, `a write that was answered by ${code}`)
      }
      dataset.fence = fence
      await dataset.full([...dataset.content.values()])
      fence += 10n
      const older = await writeBy(context, dataset, fence, { mode: 'full', epoch: 1, previousEpoch: null })
      expect(older === 'older_epoch', () => vacuous(`an older epoch was answered by ${older}`))
      await expectFencedBelow(context, dataset, fence, 'a write that was answered by older_epoch')
      for (const [done, act] of betweenWrites(context, dataset)) {
        await act()
        await expectFencedBelow(context, dataset, fence, done)
      }
      dataset.fence = fence
      const grown = context.grown(dataset, WIDER)
      await context.store.provision(grown.target, 'apply')
      await expectFencedBelow(context, grown, fence, 'a column was added')
      await grown.expectRows('refused writers leave nothing')
      await grown.delta(rowsOf(WIDER, 80, 1, context.random))
      await grown.expectRows('and who has taken over writes on')
    },
  },
  {
    id: 167,
    name: 'columns-that-were-added-are-there-for-everybody',
    level: 'core',
    async run(context) {
      const dataset = await context.filled(9)
      const other = context.knobs.opensTwice === false ? null : (await context.second()).store
      const seen = async () => {
        const answers = [await dataset.see()]
        if (other) answers.push(await seenBy(dataset, other))
        return answers
      }
      for (const rows of await seen()) expect(rows.length === 9, () => vacuous('the rows are not there'))
      const grown = context.grown(dataset, WIDER)
      await context.store.provision(grown.target, 'apply')
      await context.store.rls.install(grown.target, FORCED_POLICY)
      const young = rowsOf(WIDER, 30, 4, context.random).map((row, index) =>
        changed(WIDER, row, { more: ['', 'null', null, 'new'][index] ?? null }),
      )
      await grown.delta(young, [...grown.content.values()].slice(0, 1))
      const rows = [...grown.content.values()]
      for (const predicate of predicatesOf(context)) {
        const wanted = rows.filter((row) => rowPasses(predicate, WIDER, row, CLAIMS))
        const policy = { ...openPolicy(WIDER), rows: predicate, claims: CLAIMS }
        for (const way of grown.ways()) {
          expectSame(grown.target.schema, wanted, await grown.see({ policy, way }), `read ${way}`)
        }
        if (other && predicate.op === 'all')
          expectSame(grown.target.schema, wanted, await seenBy(grown, other, policy), 'another client')
      }
    },
  },
]

async function digestOf(context: CheckContext, { target }: Dataset): Promise<string | null> {
  if (!context.capabilities.digest) return null
  return (await context.store.digest?.(target, callDeadline()))?.sha256 ?? null
}

/** Variants of one product are guarded each by itself. */
async function expectOwnPolicies(context: CheckContext): Promise<void> {
  for (const first of ['clear', 'masked']) {
    const product = `guarded_${first}`
    const guarded = await context.dataset(SIMPLE, { product, variant: first })
    const other = first === 'clear' ? 'masked' : 'clear'
    const open = await context.dataset(SIMPLE, { product, variant: other, policy: 'none' })
    for (const one of [guarded, open]) await one.full(rowsOf(SIMPLE, 1, 3, context.random))
    await context.store.rls.install(guarded.target, FORCED_POLICY)
    await guarded.expectRows('the variant whose policy is in place shows its rows')
    const shown = await open.see()
    expect(shown.length === 0, () => ({
      what: `the ${other} variant shows ${shown.length} rows, and a policy is in place for the ${first} one alone`,
      where: 'rls.install, read',
      why: 'a policy is installed for a target, and a variant is one of its own',
      remedy: 'Keep the policy by tenant, domain, product and variant.',
    }))
  }
}

type Wish = { readonly mode: 'full' | 'delta'; readonly epoch: number; readonly previousEpoch: number | null }

async function writeBy(context: CheckContext, dataset: Dataset, fence: bigint, wish: Wish): Promise<string> {
  const { mode, ...commit } = wish
  const upserts = rowsOf(dataset.target.schema, 60, 2, context.random)
  const write = await dataset.prepare({ mode, upserts, commit: { ...commit, fence } })
  return context.store.write(dataset.target, write.changes, write.commit).then(
    ({ outcome }) => outcome,
    (error: unknown) => {
      if (isSluiceError(error)) return error.code
      throw error
    },
  )
}

async function expectFencedBelow(context: CheckContext, dataset: Dataset, fence: bigint, done: string): Promise<void> {
  const epoch = dataset.epoch + 1
  for (const mode of ['full', 'delta'] as const) {
    const previousEpoch = mode === 'full' ? null : dataset.epoch
    const came = await writeBy(context, dataset, fence - 1n, { mode, epoch, previousEpoch })
    expect(came === 'stale_fence', () => ({
      what: `a writer whose token ${fence - 1n} is below ${fence} was not refused, after this: ${done}`,
      expected: 'FENCED stale_fence',
      came,
      where: `store.write, mode ${mode}`,
      why: 'whoever was taken over must not write again, whatever has become of the first write of who took over',
      remedy: 'Note the token before the epoch is judged, and keep it: see judgeCommit of the SDK.',
    }))
  }
}

/** What is done to a target beside its writes. */
function betweenWrites(
  context: CheckContext,
  dataset: Dataset,
): readonly (readonly [string, () => Promise<unknown>])[] {
  const { target } = dataset
  return [
    ['the same place was provisioned again', () => context.store.provision(target, 'apply')],
    ['the policy was installed again', () => context.store.rls.install(target, FORCED_POLICY)],
    ['the rows were read', () => dataset.see()],
    ['the store was opened anew', () => context.reopen()],
  ]
}

function seenBy(dataset: Dataset, store: CheckContext['store'], policy = openPolicy(dataset.target.schema)) {
  return dataset.see({ policy, store })
}

const CLAIMS = { word: 'new', nothing: null }

function predicatesOf({ random }: CheckContext): readonly RowPredicate[] {
  const isNull = { op: 'is_null', column: 'more' } as const
  const is = (value: string) => ({ op: 'eq', column: 'more', value: { literal: value } }) as const
  const atoms: readonly RowPredicate[] = [
    isNull,
    is(''),
    is('null'),
    { op: 'ne', column: 'more', value: { claim: 'word' } },
    { op: 'in', column: 'more', values: [{ literal: 'new' }, { claim: 'nothing' }] },
    { op: 'ge', column: 'more', value: { literal: '' } },
    { op: 'gt', column: 'id', value: { literal: 5n } },
  ]
  const joined = Array.from({ length: 6 }, (): RowPredicate => {
    const op = random.pick(['and', 'or'] as const)
    const [left, right] = [random.pick(atoms), random.pick(atoms)]
    return { op, of: [left, random.chance(0.5) ? { op: 'not', of: right } : right] }
  })
  return [{ op: 'all' }, ...atoms, ...atoms.map((of): RowPredicate => ({ op: 'not', of })), ...joined]
}

function expectSame(
  schema: TableSchema,
  expected: readonly (readonly unknown[])[],
  given: readonly (readonly unknown[])[],
  where: string,
): void {
  const difference = differenceOf(schema, expected as never, given as never)
  if (difference === null) return
  throw new CheckFailure({
    what: `after a column was added a read gives other rows than it means: ${describeDifference(difference)}`,
    expected: `${expected.length} rows`,
    came: `${given.length} rows`,
    where: `${where}, with rows of before and after the column`,
    why: 'of older rows a new column is null, for filters, policies and every client, and what is written is there at once',
    remedy: 'Look up the columns where the rows are, and treat a value that was never written as null.',
  })
}
