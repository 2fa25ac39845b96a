/** Rows of another tenant do not exist, whoever asks and however. */
import { isSluiceError, type TableSchema, type TenantScope } from '@sluice/sdk'
import { callDeadline } from '../call-deadline.ts'
import { type Check, CheckFailure, expect, expectRefusal, type Level } from '../check.ts'
import type { CheckContext } from '../context.ts'
import { FORCED_POLICY } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { expectNameRefused, heldNames, refusedNames } from '../names.ts'
import { answerOf, openPolicy, planOf, pointPlan, seeAll } from '../reading.ts'
import { rowsOf, SIMPLE } from '../shapes.ts'

export const isolationChecks: readonly Check[] = [
  {
    id: 74,
    name: 'read-without-policy-is-zero-rows',
    level: 'core',
    async run(context) {
      const dataset = await context.dataset(SIMPLE, { policy: 'none' })
      const rows = rowsOf(SIMPLE, 1, 5, context.random)
      const written = await dataset.full(rows).then(
        () => true,
        (error: unknown) => refusedWithoutPolicy(error),
      )
      if (written) {
        for (const way of dataset.ways()) {
          await dataset.expectRows('without a policy in place there are no rows', [], { way })
        }
      }
      await context.store.rls.install(dataset.target, FORCED_POLICY)
      await dataset.full(rows)
      await dataset.expectRows('with a policy the rows are there, so it was the policy that they lacked')
      const policy = { ...openPolicy(SIMPLE), rows: { op: 'none' } as const }
      const none = await dataset.see({ policy })
      expect(none.length === 0, () => leaked('a read policy that allows no row', none.length))
    },
  },
  {
    id: 75,
    name: 'tenant-a-never-sees-b',
    level: 'core',
    async run(context) {
      const mine = await filled(context, 'a', 1)
      const digest = await context.store.digest?.(mine.target, callDeadline())
      const theirs = await filled(context, 'b', 5)
      const candidates = [...mine.candidates, ...theirs.candidates]
      for (const dataset of [mine, theirs]) {
        dataset.candidates.push(...candidates)
        for (const way of dataset.ways()) {
          await dataset.expectRows('a tenant sees its own rows and no other’s, equal keys included', undefined, { way })
        }
      }
      await theirs.full([])
      await mine.expectRows('what another tenant removes is its own')
      const after = await context.store.digest?.(mine.target, callDeadline())
      expect(digest?.sha256 === after?.sha256, () => ({
        what: 'a digest changed when another tenant wrote',
        where: 'store.digest',
        why: 'a digest over shared rows tells what others do',
        remedy: 'Compute it under the tenant’s own scope.',
      }))
    },
  },
  {
    id: 76,
    name: 'cross-tenant-key-guess-equals-absent',
    level: 'core',
    async run(context) {
      const mine = await filled(context, 'a', 1)
      const theirs = await filled(context, 'b', 100)
      await theirs.expectRows('the rows that are guessed at must be there')
      const [absent = []] = rowsOf(SIMPLE, 900, 1, context.random)
      const [foreign = []] = [...theirs.content.values()]
      for (const way of mine.ways().filter((name) => name === 'key' || name === 'get')) {
        const sight = { target: mine.target, template: mine.template, candidates: [] }
        const guess = await answerOf(context.store, mine.target, pointPlan(way, foreign, sight))
        const miss = await answerOf(context.store, mine.target, pointPlan(way, absent, sight))
        expect(JSON.stringify(guess) === JSON.stringify(miss) && guess.rows.length === 0, () => ({
          what: 'the key of another tenant’s row is answered otherwise than a key that nobody has',
          where: `read ${way}`,
          why: 'who can tell the two apart can find out what others keep',
          remedy: 'Look only below the tenant’s own prefix or policy.',
        }))
      }
      await mine.expectRows('the guesser’s own rows are there')
    },
  },
  {
    id: 77,
    name: 'write-with-foreign-tenant-value-rejected',
    level: 'core',
    async run(context) {
      const victim = await filled(context, 'b', 1)
      await victim.expectRows('the rows that are reached for must be there')
      const { tenant } = victim.target.scope
      const forgeries: readonly unknown[] = [
        { tenant },
        Object.create(Object.getPrototypeOf(victim.target.scope)),
        new Proxy(victim.target.scope, {}),
        tenant,
        undefined,
      ]
      for (const forged of forgeries) await expectForgeryRefused(context, victim, forged as TenantScope)
      await victim.expectRows('a forged scope changes nothing')
      await expectColumnIsNoTenant(context, tenant)
    },
  },
  {
    id: 78,
    name: 'tenant-id-with-metacharacters',
    level: 'core',
    async run(context) {
      await expectApart(context, ODD_TENANTS)
    },
  },
  {
    id: 79,
    name: 'prefix-tenants-do-not-overlap',
    level: 'core',
    async run(context) {
      await expectApart(context, ['acme', 'acme2', 'acm', 'acme-', 'acme:conformance', 'acme__masked'])
    },
  },
  {
    id: 80,
    name: 'interleaved-tenants-on-shared-pool-1e4',
    level: 'core',
    async run(context) {
      const datasets = []
      for (let tenant = 0; tenant < 5; tenant += 1) datasets.push(await filled(context, `t${tenant}`, tenant * 50 + 1))
      context.measured['reads'] = await interleaved(context, datasets, READS[context.level], async () => undefined)
    },
  },
  {
    id: 81,
    name: 'error-in-tenant-a-does-not-leave-context',
    level: 'core',
    async run(context) {
      const datasets = [await filled(context, 'a', 1), await filled(context, 'b', 50)]
      const [first] = datasets
      let errors = 0
      await interleaved(context, datasets, { most: 100 }, async (turn) => {
        if (turn % 3 !== 0 || !first) return
        await badRead(context, first).catch(() => {
          errors += 1
        })
      })
      expect(errors > 10, () => ({
        what: `of 34 reads that must be refused only ${errors} were`,
        where: 'store.read',
        why: 'without errors nothing is shown about what they leave behind',
        remedy: 'Refuse filters and columns that the policy does not show.',
      }))
    },
  },
  {
    id: 82,
    name: 'cancel-mid-query-does-not-leave-context',
    level: 'core',
    async run(context) {
      const datasets = [await filled(context, 'a', 1), await filled(context, 'b', 50)]
      const [first] = datasets
      await interleaved(context, datasets, { most: 100 }, async (turn) => {
        if (turn % 3 === 0 && first) await cancelledRead(context, first)
      })
    },
  },
]

interface Reads {
  readonly most: number
  /** After that long these are enough: the level is over in minutes, whatever a read takes. */
  readonly afterMs?: number
  readonly least?: number
}

/** A server that plans each read for 50 ms would take eight minutes for them all; `hard` takes them. */
const READS: Readonly<Record<Level, Reads>> = {
  core: { most: 300 },
  full: { most: 10_000, afterMs: 45_000, least: 500 },
  hard: { most: 10_000 },
}

const ODD_TENANTS = ['a:b', 'a%3Ab', 'a%', "a'--", '..', 'a"b', 'a/b', 'a_b', 'ab', 'a.b', 'a', 'A', 'ä', '😀']

async function filled(context: CheckContext, tenant: string, from: number): Promise<Dataset> {
  const dataset = await context.dataset(SIMPLE, { tenant, product: 'orders', indexed: ['id', 'name'] })
  await dataset.full(rowsOf(SIMPLE, from, 8, context.random))
  return dataset
}

/** A store may also refuse to take rows that it could show to nobody. */
function refusedWithoutPolicy(error: unknown): false {
  if (isSluiceError(error, 'CONFLICT') || isSluiceError(error, 'PERMISSION')) return false
  throw error
}

function leaked(where: string, count: number) {
  return {
    what: `${count} rows came through`,
    where,
    why: 'no policy, no rows',
    remedy: 'Deny unless the policy allows.',
  }
}

async function expectForgeryRefused({ store }: CheckContext, victim: Dataset, scope: TenantScope): Promise<void> {
  const target = { ...victim.target, scope }
  const write = await victim.prepare({ mode: 'full', upserts: [] })
  const [way = 'scan'] = victim.ways()
  const [row = []] = victim.candidates
  const tries: Readonly<Record<string, () => Promise<unknown>>> = {
    read: () => seeAll(store, way, { target, candidates: [row], template: victim.template }),
    write: () => store.write(target, write.changes, write.commit),
    provision: () => store.provision(target, 'apply'),
    drop: () => store.drop(target, 'apply'),
    dropTenant: () => store.dropTenant(scope),
    'rls.install': () => store.rls.install(target, FORCED_POLICY),
  }
  for (const [name, attempt] of Object.entries(tries)) {
    await expectRefusal(
      {
        kind: 'PERMISSION',
        codes: ['tenant_scope_missing'],
        tried: `${name} with a forged scope`,
        where: `store.${name}`,
        why: 'only the runtime makes scopes; an object that looks like one proves nothing',
      },
      attempt,
    )
  }
}

/** A product may have a column named like the wall; its values are data and move no row. */
async function expectColumnIsNoTenant(context: CheckContext, victim: string): Promise<void> {
  const schema: TableSchema = {
    ...SIMPLE,
    columns: SIMPLE.columns.map((column) => (column.name === 'name' ? { ...column, name: 'tenant_id' } : column)),
  }
  const theirs = await context.dataset(schema, { tenant: 'b', product: 'claims' }).catch(refusedColumn)
  const mine = await context.dataset(schema, { tenant: 'a', product: 'claims' }).catch(refusedColumn)
  if (!theirs || !mine) return
  await theirs.full([])
  const rows = rowsOf(schema, 1, 3, context.random).map((row) => row.with(2, victim))
  await mine.full(rows)
  await mine.expectRows('a column named tenant_id is a column like any other')
  theirs.candidates.push(...rows)
  await theirs.expectRows('a value in a column does not carry a row to another tenant', [])
}

function refusedColumn(error: unknown): null {
  if (isSluiceError(error, 'CONFIG') || isSluiceError(error, 'INVALID_DATA') || isSluiceError(error, 'CONFLICT'))
    return null
  throw error
}

/** Tenants with these names each keep their own rows of one product, also when one of them goes; or they are refused. */
async function expectApart(context: CheckContext, names: readonly string[]): Promise<void> {
  const suffix = context.tenant().tenant.slice(-6)
  const datasets: Dataset[] = []
  for (const [index, name] of heldNames(context, names).entries()) {
    context.tenantNamed(name, `${suffix}${name}`)
    datasets.push(await filled(context, name, index * 4 + 1))
  }
  for (const name of refusedNames(context, names)) {
    context.tenantNamed(name, `${suffix}${name}`)
    await expectNameRefused(context, context.unprovisioned(SIMPLE, { tenant: name, product: 'orders' }))
  }
  const everything = datasets.flatMap((dataset) => dataset.candidates)
  for (const dataset of datasets) {
    dataset.candidates.push(...everything)
    await dataset.expectRows(`tenant ${dataset.target.scope.tenant} sees its own rows alone`)
  }
  const [gone, ...others] = datasets
  if (gone) await context.store.dropTenant(gone.target.scope)
  for (const dataset of others) {
    await dataset.expectRows(`tenant ${dataset.target.scope.tenant} keeps its rows when another with a like name goes`)
  }
}

/** Reads of all datasets in turn, several at once, each checked; `disturb` happens among them. Returns how many. */
async function interleaved(
  context: CheckContext,
  datasets: readonly Dataset[],
  { most, afterMs = Number.POSITIVE_INFINITY, least = most }: Reads,
  disturb: (turn: number) => Promise<void>,
): Promise<number> {
  const startedMs = performance.now()
  let turn = 0
  for (; turn < most; turn += 10) {
    if (turn >= least && performance.now() - startedMs > afterMs) break
    const together = Array.from({ length: 10 }, async (_, offset) => {
      const dataset = context.random.pick(datasets)
      await Promise.all([expectOwnRow(context, dataset), disturb(turn + offset)])
    })
    await Promise.all(together)
  }
  for (const dataset of datasets) await dataset.expectRows('after all of that each tenant still sees its own rows')
  return turn
}

async function expectOwnRow({ store, random }: CheckContext, dataset: Dataset): Promise<void> {
  const row = random.pick([...dataset.content.values()])
  const way = dataset.ways().at(-1) ?? 'scan'
  const sight = { target: dataset.target, template: dataset.template, candidates: [] }
  const plan = way === 'range' ? planOf(SIMPLE, 'range') : pointPlan(way, row, sight)
  const { rows } = await answerOf(store, dataset.target, plan)
  const own = new Set([...dataset.content.values()].map(([id]) => id))
  const isRight = rows.some(([id]) => id === row[0]) && rows.every(([id]) => own.has(id ?? null))
  if (isRight) return
  throw new CheckFailure({
    what: `tenant ${dataset.target.scope.tenant} asked for one of its rows and got ${rows.length} rows, its own or not`,
    where: `read ${way}, ${dataset.target.scope.tenant} among other tenants at the same time`,
    why: 'what one read sets on a connection must not be there for the next',
    remedy: 'Set the tenant inside the transaction of the read, and nowhere else.',
  })
}

async function badRead({ store }: CheckContext, dataset: Dataset): Promise<unknown> {
  const [row = []] = dataset.candidates
  const way = dataset.ways().at(-1) ?? 'scan'
  const policy = { ...openPolicy(SIMPLE), visibleColumns: ['id'] }
  const sight = { target: dataset.target, template: dataset.template, candidates: [], policy }
  return answerOf(store, dataset.target, pointPlan(way, row, sight))
}

/** Ends a read while it runs; whether it had an answer by then does not matter. */
async function cancelledRead({ store }: CheckContext, dataset: Dataset): Promise<void> {
  const [row = []] = dataset.candidates
  const way = dataset.ways().at(-1) ?? 'scan'
  const cancel = new AbortController()
  const sight = { target: dataset.target, template: dataset.template, candidates: [] }
  const reading = answerOf(store, dataset.target, pointPlan(way, row, sight, { signal: cancel.signal }))
  setImmediate(() => cancel.abort())
  await reading.catch((error: unknown) => {
    if (!isSluiceError(error, 'TRANSIENT')) throw error
  })
}
