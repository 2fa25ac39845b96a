/** Stores that answer another question than the plan asks. */
import type { Filter, ReadPlan, Row } from '@sluice/sdk'
import { isJsonBatch } from '@sluice/sdk'
import { readingWith, type Saboteur, type Store, saboteur, withRows } from './wrap.ts'

function readingPlan(store: Store, change: (plan: ReadPlan) => ReadPlan): Partial<Store> {
  return { read: (target, plan) => store.read(target, change(plan)) }
}

function filtersOf(change: (filter: Filter) => Filter) {
  return (plan: ReadPlan): ReadPlan => ({ ...plan, filters: plan.filters.map(change) })
}

export const readSaboteurs: readonly Saboteur[] = [
  saboteur('gives all columns', [51], (store) =>
    readingPlan(store, (plan) =>
      plan.operation === 'aggregate'
        ? plan
        : { ...plan, columns: plan.policy.visibleColumns.filter((name) => name !== 'is_current') },
    ),
  ),
  saboteur('gives columns in its own order', [51], (store) =>
    readingPlan(store, (plan) => ({ ...plan, columns: [...plan.columns].sort() })),
  ),
  saboteur('writes longs as numbers in JSON', [35], (store) => ({
    read: readingWith(store, (batch) =>
      isJsonBatch(batch) ? { ...batch, json: batch.json.replaceAll(/"(-?\d{16,})"/g, '$1') } : batch,
    ),
  })),
  saboteur('takes lt for le', [52], (store) =>
    readingPlan(
      store,
      filtersOf((filter) => (filter.operator === 'lt' ? { ...filter, operator: 'le' } : filter)),
    ),
  ),
  saboteur('looks only at the first value of in', [52], (store) =>
    readingPlan(
      store,
      filtersOf((filter) => (filter.operator === 'in' ? { ...filter, values: filter.values.slice(0, 1) } : filter)),
    ),
  ),
  saboteur('uses only the first filter', [52], (store) =>
    readingPlan(store, (plan) => ({ ...plan, filters: plan.filters.slice(0, 1) })),
  ),
  saboteur('orders always ascending', [53, 54], (store) =>
    readingPlan(store, (plan) => ({
      ...plan,
      orderBy: plan.orderBy.map(({ column }) => ({ column, direction: 'asc' })),
    })),
  ),
  saboteur('gives equal rows in a random order', [53], (store) => ({
    read: (target, plan) => {
      const shuffle = (rows: readonly Row[]) => [...rows].reverse()
      const turn = (calls.count += 1) % 2 === 0
      const flipped = turn && plan.orderBy[0]?.column === 'active'
      return readingWith(store, (batch) => (flipped ? withRows(batch, (rows) => stable(rows, shuffle)) : batch))(
        target,
        plan,
      )
    },
  })),
  saboteur('begins a page with the last row of the former', [54], (store) => ({
    read: (target, plan) =>
      readingWith(store, (batch) =>
        plan.after && plan.limit === 10
          ? withRows(batch, (rows) => [...rows.slice(0, 1), ...rows].slice(0, 10))
          : batch,
      )(target, plan),
  })),
  saboteur('skips rows after a page', [54], (store) => ({
    read: (target, plan) =>
      readingWith(store, (batch) => (plan.after ? withRows(batch, (rows) => rows.slice(1)) : batch))(target, plan),
  })),
  saboteur('begins anew for a cursor that it does not know', [55], (store) => ({
    async *read(target, plan) {
      try {
        yield* store.read(target, plan)
      } catch (error) {
        if (!plan.after || (error as { code?: string }).code !== 'invalid_cursor') throw error
        const { after: _, ...first } = plan
        yield* store.read(target, first)
      }
    },
  })),
  saboteur('does not look at the limit', [56], (store) => readingPlan(store, (plan) => ({ ...plan, limit: 1000 }))),
  saboteur('names no epoch', [42], (store) => ({ read: readingWith(store, (batch) => ({ ...batch, epoch: 0 })) })),
  saboteur('gives no batch for no rows', [42], (store) => ({
    async *read(target, plan) {
      for await (const batch of store.read(target, plan)) if (batch.rowCount > 0) yield batch
    },
  })),
]

const calls = { count: 0 }

/** Turns the rows around within each value of the ordered column, so that the order stays right. */
function stable(rows: readonly Row[], turn: (rows: readonly Row[]) => Row[]): readonly Row[] {
  return [...Map.groupBy(rows, (row) => row[5] ?? null).values()].flatMap((group) => turn(group))
}
