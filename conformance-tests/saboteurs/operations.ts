/** Stores whose own operation breaks what every read keeps. */
import {
  batchFromRows,
  isJsonBatch,
  type OperationPlan,
  type ReadBatch,
  type Row,
  rowsOf,
  type Target,
} from '@sluice/sdk'
import { openPolicy } from '../reading.ts'
import { SIMPLE } from '../shapes.ts'
import { type Saboteur, type Store, sabotagedPlugin, saboteur } from './wrap.ts'

type Operate = NonNullable<Store['operate']>

const honest = (store: Store): Operate => store.operate as Operate

function asking(store: Store, change: (plan: OperationPlan) => OperationPlan): Partial<Store> {
  return { operate: (target, plan) => honest(store)(target, change(plan)) }
}

function answering(store: Store, change: (batch: ReadBatch, plan: OperationPlan) => ReadBatch): Partial<Store> {
  return {
    async *operate(target, plan) {
      for await (const batch of honest(store)(target, plan)) yield change(batch, plan)
    },
  }
}

const withRows = (batch: ReadBatch, rows: readonly Row[], width: number): ReadBatch =>
  isJsonBatch(batch) ? batch : { ...batch, ...batchFromRows(rows, width) }

const rowsIn = (batch: ReadBatch): readonly Row[] => (isJsonBatch(batch) ? [] : [...rowsOf(batch)])

export const operationSaboteurs: readonly Saboteur[] = [
  sabotagedPlugin(
    'declares an operation and does not say what it selects by',
    [127],
    ({ selects: _, ...plugin }) => plugin,
  ),
  sabotagedPlugin('shows an example that its own schema refuses', [127], (plugin) => {
    const declared = Object.fromEntries(
      Object.entries(plugin.capabilities.declared ?? {}).map(([name, one]) => [name, { ...one, example: {} }]),
    )
    return { ...plugin, capabilities: { ...plugin.capabilities, declared } }
  }),
  saboteur('gives all columns of an operation', [128], (store) =>
    asking(store, (plan) => ({ ...plan, columns: plan.policy.visibleColumns })),
  ),
  saboteur('finds a row twice', [128], (store) =>
    answering(store, (batch, { columns }) =>
      withRows(batch, [...rowsIn(batch), ...rowsIn(batch).slice(0, 1)], columns.length),
    ),
  ),
  saboteur('leaves the last row of a page out of the next one, and one more', [129], (store) =>
    answering(store, (batch, { after, columns }) =>
      after === undefined ? batch : withRows(batch, rowsIn(batch).slice(1), columns.length),
    ),
  ),
  saboteur('begins each page of an operation anew', [129], (store) => asking(store, ({ after: _, ...plan }) => plan)),
  saboteur('scores by what others have', [130], (store, memory) => ({
    async *operate(target, plan) {
      for await (const batch of honest(store)(target, plan)) {
        const at = plan.columns.indexOf('matches')
        const more = memory.size
        const rows = rowsIn(batch).map((row) => row.map((cell, index) => (index === at ? Number(cell) + more : cell)))
        yield withRows(batch, rows, plan.columns.length)
      }
    },
  })),
  saboteur('lets an operation see rows that the policy hides', [131], (store) =>
    asking(store, (plan) => ({ ...plan, policy: { ...plan.policy, rows: { op: 'all' } } })),
  ),
  saboteur('shows columns of an operation that are not visible', [132], (store) =>
    asking(store, (plan) => ({
      ...plan,
      policy: { ...plan.policy, visibleColumns: openPolicy(SIMPLE).visibleColumns },
    })),
  ),
  saboteur('gives as many rows as it likes', [132], (store) =>
    asking(store, (plan) => ({ ...plan, limit: Math.min(Math.max(1, Math.ceil(plan.limit)), 1000) })),
  ),
  saboteur('answers an operation from the state before', [133], (store) => {
    const former = new Map<string, ReadBatch[]>()
    return {
      async *operate(target, plan) {
        const key = JSON.stringify([target.product, target.variant, plan.input, plan.columns, plan.limit])
        const batches: ReadBatch[] = []
        for await (const batch of honest(store)(target, plan)) batches.push(batch)
        yield* former.get(key) ?? batches
        if (!former.has(key)) former.set(key, batches)
      },
    }
  }),
  saboteur('scores by rows that a delta has taken out, until a full set comes', [133], (store) => {
    const gone = new Map<string, number>()
    const keyOf = ({ product, variant }: Target) => JSON.stringify([product, variant])
    return {
      async write(target, changes, commit) {
        const receipt = await store.write(target, changes, commit)
        const before = changes.mode === 'full' ? 0 : (gone.get(keyOf(target)) ?? 0)
        gone.set(keyOf(target), before + changes.deleteCount)
        return receipt
      },
      async *operate(target, plan) {
        const at = plan.columns.indexOf('matches')
        const more = gone.get(keyOf(target)) ?? 0
        for await (const batch of honest(store)(target, plan)) {
          const rows = rowsIn(batch).map((row) => row.map((cell, index) => (index === at ? Number(cell) + more : cell)))
          yield withRows(batch, rows, plan.columns.length)
        }
      },
    }
  }),
]
