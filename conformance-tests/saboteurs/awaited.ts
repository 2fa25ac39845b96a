/** Mistakes of stores around their reads: they go on with those for which nobody waits, say the wrong thing of what is not there, end too early, and keep what reads leave. */
import { closeSync, openSync } from 'node:fs'
import { devNull } from 'node:os'
import {
  isJsonBatch,
  isSluiceError,
  type OperationPlan,
  type ReadBatch,
  type ReadPlan,
  SluiceError,
  type Target,
} from '@sluice/sdk'
import type { ReferenceConfig } from '../reference/index.ts'
import { type Saboteur, type Store, saboteur } from './wrap.ts'

type Asked = Target<ReferenceConfig>
type Operate = NonNullable<Store['operate']>
type Bounds = Pick<ReadPlan, 'after' | 'timeoutMs' | 'signal'>

/** Both kinds of reads with other bounds. */
const bounded = (store: Store, change: <Plan extends Bounds>(plan: Plan) => Plan): Partial<Store> => ({
  read: (target, plan) => store.read(target, change(plan)),
  operate: (target, plan) => (store.operate as Operate)(target, change(plan)),
})

type Refusing = (error: SluiceError, columns: readonly string[]) => ReadBatch | Error

/** What one kind of reads says in the place of an error of this code. */
const saying = (store: Store, code: string, say: Refusing, isFor: (plan: ReadPlan) => boolean = () => true) => {
  async function* said(answer: AsyncIterable<ReadBatch>, { columns }: Pick<ReadPlan | OperationPlan, 'columns'>) {
    try {
      yield* answer
    } catch (error) {
      if (!isSluiceError(error) || error.code !== code) throw error
      const other = say(error, columns)
      if (other instanceof Error) throw other
      yield other
    }
  }
  return {
    read: (target: Asked, plan: ReadPlan) =>
      isFor(plan) ? said(store.read(target, plan), plan) : store.read(target, plan),
    operate: (target: Asked, plan: OperationPlan) => said((store.operate as Operate)(target, plan), plan),
  }
}

const empty: Refusing = (_, columns) => ({ rowCount: 0, columns: columns.map(() => []), epoch: 0 })
const away: Refusing = () => new SluiceError('TRANSIENT', 'the store is away', { code: 'store_unavailable' })
const fault: Refusing = () => new SluiceError('INTERNAL', 'something went wrong', { code: 'not_materialized' })

export const awaitedSaboteurs: readonly Saboteur[] = [
  saboteur('gives every read the time that it takes', [175], (store) =>
    bounded(store, (plan) => ({ ...plan, timeoutMs: 300_000 })),
  ),
  saboteur('looks at the time of a first page alone', [175], (store) =>
    bounded(store, (plan) => (plan.after === undefined ? plan : { ...plan, timeoutMs: 300_000 })),
  ),
  saboteur('says that the caller has gone where the time is over', [175], (store) =>
    saying(store, 'deadline_exceeded', () => new SluiceError('TRANSIENT', 'the read was ended', { code: 'aborted' })),
  ),
  saboteur('asks at the beginning alone whether somebody waits', [176], (store) =>
    bounded(store, (plan) => (plan.signal.aborted ? plan : { ...plan, signal: new AbortController().signal })),
  ),
  saboteur('looks at the clock at the beginning alone', [176], (store) =>
    bounded(store, (plan) => (plan.timeoutMs > 0 ? { ...plan, timeoutMs: 86_400_000 } : plan)),
  ),
  saboteur('asks for the first page alone whether somebody waits', [176], (store) =>
    bounded(store, (plan) => (plan.after === undefined ? plan : { ...plan, signal: new AbortController().signal })),
  ),
  saboteur('takes what came before its caller left for the whole', [176], (store) => ({
    async *read(target, plan) {
      for await (const batch of store.read(target, plan)) {
        yield batch
        if (plan.signal.aborted) return
      }
    },
  })),
  saboteur('gives an empty answer of what was never written', [177], (store) =>
    saying(store, 'not_materialized', empty),
  ),
  saboteur('says of what was never written that the store is away', [177], (store) =>
    saying(store, 'not_materialized', away),
  ),
  saboteur('takes what was never written for a fault of its own', [177], (store) =>
    saying(store, 'not_materialized', fault),
  ),
  saboteur('says of an unwritten history that the store is away', [177], (store) =>
    saying(store, 'not_materialized', away, ({ history }) => history !== undefined),
  ),
  saboteur('gives an empty answer under a key that was never written', [177], (store) =>
    saying(store, 'not_materialized', empty, ({ operation }) => operation === 'key'),
  ),
]

/** The read without `next`, for some plans. */
const ending = (isFor: (plan: ReadPlan) => boolean) => (store: Store) => ({
  async *read(target: Asked, plan: ReadPlan) {
    for await (const { next, ...batch } of store.read(target, plan)) {
      yield next === undefined || isFor(plan) ? batch : { ...batch, next }
    }
  },
})

const namesUnshown = ({ orderBy, columns }: ReadPlan) => orderBy.some(({ column }) => !columns.includes(column))

export const pageSaboteurs: readonly Saboteur[] = [
  saboteur(
    'ends a filtered range with its first page',
    [178],
    ending((plan) => plan.operation === 'range' && plan.filters.length > 0),
  ),
  saboteur(
    'ends the states at an instant with the first page',
    [178],
    ending(({ history }) => history?.kind === 'at'),
  ),
  saboteur(
    'ends a page that is ordered by a column which it does not show',
    [178],
    ending((plan) => plan.operation === 'scan' && namesUnshown(plan)),
  ),
  saboteur(
    'ends a list of keys with its first page',
    [178],
    ending(({ operation, filters }) => operation === 'get' && filters.some(({ operator }) => operator === 'in')),
  ),
  saboteur(
    'ends a page of JSON that is not of one row',
    [178],
    ending(({ encoding, limit }) => encoding === 'json' && limit > 1),
  ),
  saboteur('says that it goes on where a page holds just what there is', [178], (store) => ({
    async *read(target, plan) {
      for await (const batch of store.read(target, { ...plan, limit: Math.max(1, plan.limit - 1) })) yield batch
    },
  })),
]

const kept: unknown[] = []

export const leavingSaboteurs: readonly Saboteur[] = [
  saboteur('says of the last second that it is a whole one', [154], (store) => ({
    async *read(target, plan) {
      for await (const batch of store.read(target, plan)) {
        yield batch.ttlRemainingS === undefined ? batch : { ...batch, ttlRemainingS: Math.max(1, batch.ttlRemainingS) }
      }
    },
  })),
  saboteur('keeps 4 KiB of each read', [179], (store) => ({
    read(target, plan) {
      kept.push(Array.from({ length: 512 }, (_, at) => at + kept.length))
      return store.read(target, plan)
    },
    async close() {
      kept.length = 0
      await store.close()
    },
  })),
  saboteur('keeps a file open for every fourth scan', [179], (store) => {
    const open: number[] = []
    let reads = 0
    return {
      read(target, plan) {
        reads += 1
        if (plan.operation === 'scan' && reads % 4 === 0) open.push(openSync(devNull, 'r'))
        return store.read(target, plan)
      },
      async close() {
        for (const file of open.splice(0)) closeSync(file)
        await store.close()
      },
    }
  }),
  saboteur('keeps a buffer for each call of its operation', [179], (store) => ({
    operate(target, plan) {
      kept.push(Buffer.alloc(4096))
      return (store.operate as Operate)(target, plan)
    },
  })),
  saboteur('forgets its indexes when a place is provisioned again', [180], (store) => {
    const times = new Map<string, number>()
    const keyOf = ({ scope, product }: Asked) => JSON.stringify([scope.tenant, product])
    return {
      async provision(target, mode, hash) {
        if (mode === 'apply') times.set(keyOf(target), (times.get(keyOf(target)) ?? 0) + 1)
        return store.provision(target, mode, hash)
      },
      async *read(target, plan) {
        const rows = (times.get(keyOf(target)) ?? 0) > 1 && plan.operation === 'get' ? 2000 : 0
        for (let row = 0; row < rows; row += 1) await Promise.resolve(row)
        yield* store.read(target, plan)
      },
    }
  }),
  saboteur('makes the index of its operation anew, of no rows, when a column is added', [180], (store) => {
    const grown = new Set<string>()
    const keyOf = ({ scope, product }: Asked) => JSON.stringify([scope.tenant, product])
    return {
      async provision(target, mode, hash) {
        const plan = await store.provision(target, mode, hash)
        if (mode === 'apply' && plan.steps.some(({ action }) => action === 'alter')) grown.add(keyOf(target))
        return plan
      },
      async *operate(target, plan) {
        for await (const batch of (store.operate as Operate)(target, plan)) {
          yield grown.has(keyOf(target)) && !isJsonBatch(batch)
            ? { epoch: batch.epoch, rowCount: 0, columns: batch.columns.map(() => []) }
            : batch
        }
      },
    }
  }),
]
