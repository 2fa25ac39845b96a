/** Mistakes in reads, by outsiders who had the contract and none of the checks. */
import {
  batchFromRows,
  isJsonBatch,
  type OperationPlan,
  type ReadBatch,
  rowPasses,
  rowsOf,
  type TableSchema,
  toJsonValue,
} from '@sluice/sdk'
import reference from '../reference/index.ts'
import { type Saboteur, type Store, sabotagedPlugin, saboteur } from './wrap.ts'

const honest = (store: Store) => store.operate as NonNullable<Store['operate']>

/** Of a page that was cut under no policy the rows that the policy shows. */
function shownOf(batch: ReadBatch, { columns }: TableSchema, plan: OperationPlan, names: readonly string[]): ReadBatch {
  if (isJsonBatch(batch)) return batch
  const at = (name: string) => names.indexOf(name)
  const schema = { columns, primaryKey: [] }
  const rows = [...rowsOf(batch)]
    .filter((row) => rowPasses(plan.policy.rows, schema, row, plan.policy.claims))
    .map((row) => plan.columns.map((name) => row[at(name)] ?? null))
  return { ...batch, ...batchFromRows(rows, plan.columns.length) }
}

export const outsideReads: readonly Saboteur[] = [
  saboteur('writes JSON by the types of the columns as the product has them', [188], (store) => ({
    async *read(target, plan) {
      if (plan.encoding !== 'json') return yield* store.read(target, plan)
      for await (const batch of store.read(target, { ...plan, encoding: 'columns' })) {
        if (isJsonBatch(batch)) continue
        const { columns: _, ...facts } = batch
        const objects = [...rowsOf(batch)].map((row) =>
          Object.fromEntries(
            plan.columns.map((name, index) => [
              name,
              toJsonValue(row[index] ?? null, target.schema.columns[index]?.type ?? 'string'),
            ]),
          ),
        )
        yield { ...facts, json: JSON.stringify(objects) }
      }
    },
  })),
  saboteur('names with each batch the epoch that is newest then', [189], (store, memory) => ({
    async *read(target, plan) {
      let isFirst = true
      for await (const batch of store.read(target, plan)) {
        yield isFirst ? batch : { ...batch, epoch: memory.get(target)?.servedEpoch ?? batch.epoch }
        isFirst = false
      }
    },
  })),
  saboteur('takes each batch from the rows that there are then', [189], (store) => ({
    async *read(target, plan) {
      let index = 0
      for await (const batch of store.read(target, plan)) {
        const now = index === 0 ? batch : (await Array.fromAsync(store.read(target, plan)))[index]
        index += 1
        if (now !== undefined) yield { ...now, epoch: batch.epoch }
      }
    },
  })),
  saboteur('finds by its operation what has expired', [190], (store, memory) => ({
    async *operate(target, plan) {
      const stored = memory.get(target)
      if (stored?.config.ttl === undefined) return yield* honest(store)(target, plan)
      const { config } = stored
      const { ttl: _, ...rest } = config
      stored.config = rest
      try {
        for await (const batch of honest(store)(target, plan)) yield { ...batch, ttlRemainingS: 60 }
      } finally {
        stored.config = config
      }
    },
  })),
  sabotagedPlugin('lets rows live from the moment in which it has written them', [190], (plugin) => ({
    ...plugin,
    async open(settings, host) {
      const store = await reference.open(settings, host)
      const dated = () => new Date(host.clock.nowMs()).toISOString().replace('Z', '000Z')
      return {
        ...store,
        write: (target, changes, commit) => store.write(target, changes, { ...commit, committedAt: dated() }),
      }
    },
  })),
  saboteur('gives all intervals of an aggregate at once', [193], (store) => ({
    async *read(target, plan) {
      if (plan.operation !== 'aggregate' || plan.after !== undefined) return yield* store.read(target, plan)
      for await (const batch of store.read(target, { ...plan, limit: 1000 })) {
        const { next: _, ...rest } = batch
        yield rest
      }
    },
  })),
  saboteur('keeps one masked twin of a product', [194], (store) => {
    const own = <T extends { readonly variant: string }>(target: T): T =>
      target.variant === 'clear' ? target : { ...target, variant: 'masked' }
    return {
      provision: (target, mode, hash) => store.provision(own(target), mode, hash),
      rls: {
        install: (target, policy) => store.rls.install(own(target), policy),
        describe: (target) => store.rls.describe(own(target)),
      },
      write: (target, changes, commit) => store.write(own(target), changes, commit),
      read: (target, plan) => store.read(own(target), plan),
      drop: (target, mode) => store.drop(own(target), mode),
    }
  }),
  saboteur('lets go of what a read holds at its last batch alone', [195], (store) => {
    const held = new Set<object>()
    return {
      async *read(target, plan) {
        const batches = await Array.fromAsync(store.read(target, plan))
        held.add(batches)
        for (const [index, batch] of batches.entries()) {
          if (index === batches.length - 1) held.delete(batches)
          yield batch
        }
      },
    }
  }),
  saboteur('hides rows of an operation when its page is cut', [191], (store) => ({
    async *operate(target, plan) {
      const own = target.schema.columns.map(({ name }) => name)
      const names = [...own, ...plan.columns.filter((name) => !own.includes(name))]
      const policy = { ...plan.policy, rows: { op: 'all' }, visibleColumns: own } as const
      const isOpen = own.every((name) => plan.policy.visibleColumns.includes(name))
      if (!isOpen) return yield* honest(store)(target, plan)
      for await (const batch of honest(store)(target, { ...plan, columns: names, policy })) {
        yield shownOf(batch, target.schema, plan, names)
      }
    },
  })),
]
