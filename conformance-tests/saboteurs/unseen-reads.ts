/** Mistakes in reads, by somebody who had read the contract and none of the checks. */
import {
  batchFromRows,
  isJsonBatch,
  type ReadBatch,
  type ReadPlan,
  type Row,
  type RowPredicate,
  rowPasses,
  rowsOf,
  type TableSchema,
  type Target,
  ttlMs,
  type Value,
} from '@sluice/sdk'
import type { ReferenceConfig } from '../reference/index.ts'
import { type Saboteur, type Store, sabotagedPlugin, saboteur } from './wrap.ts'

const asking = (store: Store, change: (plan: ReadPlan, target: Target<ReferenceConfig>) => ReadPlan) => ({
  read: (target: Target<ReferenceConfig>, plan: ReadPlan) => store.read(target, change(plan, target)),
})

const at = ({ columns }: TableSchema, name: string) => columns.findIndex((column) => column.name === name)

export const unseenReadSaboteurs: readonly Saboteur[] = [
  saboteur('gives a row once for each time that its value stands in the list of in', [52, 98, 134], (store) => ({
    async *read(target, plan) {
      const list = plan.filters.find(({ operator }) => operator === 'in')
      if (list === undefined || plan.encoding === 'json') return yield* store.read(target, plan)
      for await (const batch of store.read(target, { ...plan, columns: [...plan.columns, list.column] })) {
        if (isJsonBatch(batch)) return
        const rows = [...rowsOf(batch)].flatMap((row) => {
          const times = list.values.filter((value) => value === row.at(-1)).length
          return Array.from({ length: Math.max(1, times) }, () => row.slice(0, -1))
        })
        yield { ...batch, ...batchFromRows(rows.slice(0, plan.limit), plan.columns.length) }
      }
    },
  })),
  saboteur('keeps one filter for each column, the last', [52, 134], (store) =>
    asking(store, (plan) => ({
      ...plan,
      filters: [...new Map(plan.filters.map((filter) => [filter.column, filter])).values()],
    })),
  ),
  saboteur('begins a range at its millisecond', [144], (store) =>
    asking(store, (plan) => {
      const from = plan.range?.from
      if (plan.range === undefined || typeof from !== 'string' || from.length < 26) return plan
      return { ...plan, range: { ...plan.range, from: `${from.slice(0, 23)}000${from.slice(26)}` } }
    }),
  ),
  saboteur('sums nothing up to 0', [152], (store) => ({
    async *read(target, plan) {
      for await (const batch of store.read(target, plan)) {
        if (plan.operation !== 'aggregate' || isJsonBatch(batch)) yield batch
        else yield { ...batch, columns: batch.columns.map((cells, index) => zeroed(plan.columns[index] ?? '', cells)) }
      }
    },
  })),
  saboteur('gives aggregates in ascending time, whatever is asked', [152], (store) =>
    asking(store, (plan) => (plan.operation === 'aggregate' ? { ...plan, orderBy: [] } : plan)),
  ),
  sabotagedPlugin('rounds the time up that an answer stays true', [154], (plugin) => ({
    ...plugin,
    async open(settings, host) {
      const store = await plugin.open(settings, host)
      return {
        ...store,
        async *read(target, plan) {
          for await (const batch of store.read(target, plan)) {
            const committed = (await store.recover?.(target))?.committedAt ?? ''
            const leftMs = Date.parse(committed) + ttlMs(target.config.ttl ?? '1h') - host.clock.nowMs()
            yield batch.ttlRemainingS === undefined
              ? batch
              : { ...batch, ttlRemainingS: Math.max(0, Math.ceil(leftMs / 1000)) }
          }
        },
      }
    },
  })),
  saboteur('asks of the first filter alone whether its column is masked', [153], (store) =>
    asking(store, (plan) => {
      const others = plan.filters.slice(1).map(({ column }) => column)
      const { policy } = plan
      return {
        ...plan,
        policy: { ...policy, maskedColumns: policy.maskedColumns.filter((one) => !others.includes(one)) },
      }
    }),
  ),
  saboteur('leaves nulls out of the lists of a policy', [84], (store) =>
    asking(store, (plan) => {
      const { policy } = plan
      return { ...plan, policy: { ...policy, rows: withoutNulls(policy.rows, policy.claims) } }
    }),
  ),
  saboteur('remembers the visible columns of a version of the policy', [29, 81, 99], (store) => {
    const visible = new Map<string, readonly string[]>()
    return asking(store, (plan, { product, variant }) => {
      const key = JSON.stringify([product, variant, plan.policy.version])
      const known = visible.get(key) ?? plan.policy.visibleColumns
      visible.set(key, known)
      return { ...plan, policy: { ...plan.policy, visibleColumns: known } }
    })
  }),
  saboteur('goes on in a history behind the last key', [145], (store) =>
    asking(store, (plan) => {
      if (plan.history === undefined || plan.after === undefined) return plan
      return { ...plan, after: [...plan.after.slice(0, -1), '9999-12-31T23:59:59.999999Z'] }
    }),
  ),
  saboteur('finds nothing behind a null', [54, 136, 137], (store) => ({
    async *read(target, plan) {
      const isLost = plan.after?.includes(null) === true
      for await (const batch of store.read(target, plan)) yield isLost ? emptied(batch, plan) : batch
    },
  })),
  saboteur('sorts all columns in the direction of the first', [148], (store) =>
    asking(store, (plan) => ({
      ...plan,
      orderBy: plan.orderBy.map(({ column }) => ({ column, direction: plan.orderBy[0]?.direction ?? 'asc' })),
    })),
  ),
]

/** The second dozen, of other kinds. */
export const laterReadSaboteurs: readonly Saboteur[] = [
  saboteur('trims the texts that are filtered by', [134, 146], (store) =>
    asking(store, (plan) => ({
      ...plan,
      filters: plan.filters.map((filter) => ({
        ...filter,
        values: filter.values.map((value) => (typeof value === 'string' ? value.trim() : value)),
      })),
    })),
  ),
  saboteur('finds no NaN by a filter', [134], (store) => ({
    async *read(target, plan) {
      const isNone = plan.filters.some(({ operator, values }) => operator === 'eq' && Number.isNaN(values[0]))
      for await (const batch of store.read(target, plan)) yield isNone ? emptied(batch, plan) : batch
    },
  })),
  saboteur('cuts the page before it asks the policy', [136, 138], (store) => ({
    async *read(target, plan) {
      const { schema } = target
      if (plan.history || !['get', 'scan'].includes(plan.operation) || plan.encoding === 'json') {
        return yield* store.read(target, plan)
      }
      const columns = schema.columns.map(({ name }) => name)
      const others = plan.columns.filter((name) => !columns.includes(name))
      if (others.length > 0) return yield* store.read(target, plan)
      const hidden = plan.columns.some((name) => !plan.policy.visibleColumns.includes(name))
      if (hidden) return yield* store.read(target, plan)
      const open = { ...plan.policy, rows: { op: 'all' } as const, visibleColumns: columns }
      // What the reader may not filter or sort by is refused as ever.
      for await (const _ of store.read(target, { ...plan, limit: 1 })) break
      for await (const batch of store.read(target, { ...plan, columns, policy: open })) {
        if (isJsonBatch(batch)) return
        const rows = [...rowsOf(batch)].filter((row) => rowPasses(plan.policy.rows, schema, row, plan.policy.claims))
        const page = rows.map((row): Row => plan.columns.map((name) => row[at(schema, name)] ?? null))
        yield { ...batch, ...batchFromRows(page, plan.columns.length) }
      }
    },
  })),
]

function zeroed(name: string, cells: readonly Value[]): readonly Value[] {
  const sample = cells.find((cell) => cell !== null)
  const zero = typeof sample === 'number' ? 0 : '0'
  return name.endsWith('_sum') ? cells.map((cell) => cell ?? zero) : cells
}

function emptied(batch: ReadBatch, { columns, encoding }: ReadPlan): ReadBatch {
  const { epoch } = batch
  return encoding === 'json' ? { epoch, rowCount: 0, json: '[]' } : { epoch, ...batchFromRows([], columns.length) }
}

function withoutNulls(rows: RowPredicate, claims: ReadPlan['policy']['claims']): RowPredicate {
  if (rows.op === 'and' || rows.op === 'or') return { ...rows, of: rows.of.map((one) => withoutNulls(one, claims)) }
  if (rows.op === 'not') return { ...rows, of: withoutNulls(rows.of, claims) }
  if (rows.op !== 'in') return rows
  const isKnown = (value: (typeof rows.values)[number]) =>
    'literal' in value ? value.literal !== null : (claims[value.claim] ?? null) !== null
  return { ...rows, values: rows.values.filter(isKnown) }
}
