/** Plans that are out of date, and provisioning beside writes: what is decided from what was read before. */
import { type Column, isSluiceError, type LogicalType, type TableSchema, type Target } from '@sluice/sdk'
import { type Check, CheckFailure, expect, expectRefusal, vacuous } from '../check.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset, PreparedWrite } from '../dataset.ts'
import { hook } from '../requirements.ts'
import { rowsOf, SIMPLE, WIDER } from '../shapes.ts'

const TRIALS = { core: 6, full: 20, hard: 200 } as const
/** A store may wait for so many other things while it provisions or writes. */
const MAX_TURNS = 60

export const besideChecks: readonly Check[] = [
  {
    id: 156,
    name: 'stale-plans-are-refused-in-every-state',
    level: 'core',
    async run(context) {
      const { store } = context
      const dataset = context.unprovisioned(SIMPLE)
      const { target } = dataset
      const first = await store.provision(target, 'plan')
      await expectStale(context, target, 'of a target that is not there', ['', 'another', `${first.hash}0`])
      await store.provision(target, 'apply', first.hash)
      await store.rls.install(target, { version: '1', tenantIsolation: 'forced' })
      await dataset.full(rowsOf(SIMPLE, 1, 4, context.random))
      await expectStale(context, target, 'of a target that is as it is to be', ['another', first.hash])
      await dataset.expectRows('a plan that was refused changes nothing')
      const { target: wider } = context.grown(dataset, WIDER)
      const growing = await store.provision(wider, 'plan')
      await expectStale(context, wider, 'of a target with a column more', ['another', first.hash])
      await store.provision(wider, 'apply', growing.hash)
      await expectStale(context, wider, 'that has been applied', [growing.hash])
      await store.drop(wider, 'apply')
      await expectStale(context, target, 'of a target that was dropped', [growing.hash])
    },
  },
  {
    id: 161,
    name: 'verdicts-are-those-of-the-plan-for-any-change',
    level: 'core',
    requires: [hook('validate')],
    async run(context) {
      const { store } = context
      const dataset = await context.filled(6)
      const outcomes = new Set<boolean>()
      for (const [change, schema] of changesOf(context)) {
        const { target } = context.grown(dataset, schema)
        const verdicts = (await store.validate?.(target, SIMPLE)) ?? []
        const refusal = await store.provision(target, 'plan').then(
          () => null,
          (error: unknown) => error,
        )
        if (refusal !== null && !isSluiceError(refusal, 'CONFLICT')) throw refusal
        const isUnsatisfiable = verdicts.some(({ verdict }) => verdict === 'unsatisfiable')
        outcomes.add(isUnsatisfiable)
        expect(isUnsatisfiable === (refusal !== null) && verdicts.length === schema.columns.length, () => ({
          what: `validate finds ${isUnsatisfiable ? 'a column that cannot be had' : 'nothing wrong'} where provision ${refusal === null ? 'plans' : 'refuses'}, for a schema with ${change}`,
          where: 'store.validate, beside store.provision in mode plan',
          why: 'a deployment is shown the verdicts, and fails or passes by the plan',
          remedy: 'Make both from one judgement of the columns that are there.',
        }))
      }
      expect(outcomes.size === 2, () => vacuous('all changes had one verdict'))
      await dataset.expectRows('judging a schema changes nothing')
    },
  },
  {
    id: 157,
    name: 'provisioning-beside-writes-loses-nothing',
    level: 'core',
    async run(context) {
      const { store, random } = context
      const dataset = await context.filled(6)
      const { target } = dataset
      let version = 1
      for (let trial = 0; trial < TRIALS[context.level]; trial += 1) {
        const upserts = rowsOf(SIMPLE, 100 + trial, 2, random)
        const write = await dataset.prepare({ mode: trial % 3 === 0 ? 'full' : 'delta', upserts })
        version += 1
        const policy = { version: String(version), tenantIsolation: 'forced' } as const
        const others = [() => store.provision(target, 'apply'), () => store.rls.install(target, policy)]
        await sideBySide(context, [() => store.write(target, write.changes, write.commit), ...others])
        dataset.taken(write)
        await expectKept(context, dataset, write, policy.version)
      }
    },
  },
]

/** SIMPLE with one thing changed in it, or two. */
export function changesOf({
  random,
  level,
}: Pick<CheckContext, 'random' | 'level'>): readonly (readonly [string, TableSchema])[] {
  const column = (name: string, type: LogicalType, nullable: boolean): Column => ({ name, type, nullable })
  type Change = readonly [string, (schema: TableSchema) => TableSchema]
  const columns =
    (change: (all: readonly Column[]) => readonly Column[]) =>
    (schema: TableSchema): TableSchema => ({ ...schema, columns: change(schema.columns) })
  const changes: readonly Change[] = [
    ['a column more that may be null', columns((all) => [...all, column('more', 'string', true)])],
    ['a column more that may not be null', columns((all) => [...all, column('must', 'integer', false)])],
    [
      'a column of another type',
      columns((all) => all.map((one) => (one.name === 'name' ? column('name', 'date', true) : one))),
    ],
    [
      'a column that may not be null any more',
      columns((all) => all.map((one) => (one.name === 'rank' ? { ...one, nullable: false } : one))),
    ],
    ['a column less', columns((all) => all.filter(({ name }) => name !== 'active'))],
    [
      'a column of another name',
      columns((all) => all.map((one) => (one.name === 'amount' ? { ...one, name: 'sum' } : one))),
    ],
    ['columns in another order', columns((all) => [...all.slice(0, 2), ...all.slice(2).toReversed()])],
    [
      'a narrower decimal',
      columns((all) => all.map((one) => (one.name === 'amount' ? { ...one, type: 'decimal(3,1)' as const } : one))),
    ],
    ['another key', (schema) => ({ ...schema, primaryKey: ['id', 'at'] })],
    ['no key', (schema) => ({ ...schema, primaryKey: [] })],
  ]
  const single = changes.map(([what, change]) => [what, change(SIMPLE)] as const)
  const pairs = Array.from({ length: TRIALS[level] }, () => {
    const [[one, first], [two, second]] = random.shuffled(changes).slice(0, 2) as [Change, Change]
    return [`${one} and ${two}`, second(first(SIMPLE))] as const
  })
  return [...single, ...pairs]
}

async function expectStale(
  { store }: CheckContext,
  target: Target,
  state: string,
  hashes: readonly string[],
): Promise<void> {
  const before = await store.provision(target, 'plan')
  // A plan that happens to be the one of now is none that is stale.
  for (const hash of hashes.filter((one) => one !== before.hash)) {
    await expectRefusal(
      {
        kind: 'CONFLICT',
        codes: ['stale_plan'],
        tried: `a plan ${state}, with another hash than the plan of now`,
        where: 'store.provision, mode apply, with expectedHash',
        why: 'what was shown to whoever deploys is done, or nothing',
      },
      () => store.provision(target, 'apply', hash),
    )
    const after = await store.provision(target, 'plan')
    expect(after.hash === before.hash, () => ({
      what: `the plan ${state} is another after a stale one was refused`,
      where: 'store.provision',
      why: 'what is refused leaves no effect',
      remedy: 'Compare the hash before anything is changed, also where there is nothing to do.',
    }))
  }
}

/** Each begins some turns after the one before, in any order; what gives way to another is called again. */
async function sideBySide({ random }: CheckContext, calls: readonly (() => Promise<unknown>)[]): Promise<void> {
  const running: Promise<void>[] = []
  for (const call of random.shuffled(calls)) {
    running.push(untilDone(call))
    const turns = random.chance(0.3) ? 0 : random.integer(0, MAX_TURNS)
    for (let turn = 0; turn < turns; turn += 1) await Promise.resolve()
  }
  await Promise.all(running)
}

const ATTEMPTS = 20

async function untilDone(call: () => Promise<unknown>): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await call()
      return
    } catch (error) {
      const mayGiveWay = isSluiceError(error, 'TRANSIENT') || isSluiceError(error, 'CONFLICT')
      if (!mayGiveWay || attempt === ATTEMPTS) throw error
      await new Promise((resolve) => setTimeout(resolve, attempt))
    }
  }
}

async function expectKept(
  { store, capabilities }: CheckContext,
  dataset: Dataset,
  write: PreparedWrite,
  version: string,
): Promise<void> {
  const lost = (what: string, cause?: unknown) =>
    new CheckFailure(
      {
        what: `${what} was lost to a call beside it`,
        where: 'store.write, store.provision and store.rls.install of one target, side by side',
        why: 'what a call has answered for stays, whoever else is at work',
        remedy: 'Change what has to change and nothing else, in one step; write nothing back that was read before.',
      },
      cause,
    )
  await dataset.expectRows('a write beside a provision is kept').catch((error: unknown) => {
    throw lost(`epoch ${write.commit.epoch}`, error)
  })
  const policy = await store.rls.describe(dataset.target)
  if (policy.version !== version) throw lost(`the policy of version ${version}`)
  const applied = capabilities.recover ? await store.recover?.(dataset.target) : null
  if (applied != null && applied.epoch !== write.commit.epoch) throw lost(`that epoch ${write.commit.epoch} is applied`)
}
