/** Mistakes of reading that were written from the contract alone, before any check was looked at. */

import type { Target } from '@sluice/sdk'
import {
  batchFromRows,
  isJsonBatch,
  type ReadBatch,
  type ReadPlan,
  type RowPredicate,
  rowPasses,
  rowsOf,
  SluiceError,
  type Value,
} from '@sluice/sdk'
import type { ReferenceConfig, ReferenceMemory } from '../reference/index.ts'
import type { RowVersion, StoredDataset } from '../reference/memory.ts'
import { type Saboteur, type Store, saboteur } from './wrap.ts'

type Asked = Target<ReferenceConfig>

/** The read of a plan that was changed before it. */
export function planned(store: Store, change: (plan: ReadPlan, target: Asked) => ReadPlan): Partial<Store> {
  return { read: (target, plan) => store.read(target, change(plan, target)) }
}

/** The read of other content than there is; it is looked at until the first batch. */
export function over(
  store: Store,
  memory: ReferenceMemory,
  change: (versions: readonly RowVersion[], plan: ReadPlan, stored: StoredDataset) => readonly RowVersion[],
): Partial<Store> {
  return {
    async *read(target, plan) {
      const stored = memory.get(target)
      const { contents } = stored ?? { contents: [] }
      if (stored) stored.contents = contents.map((one) => ({ ...one, versions: change(one.versions, plan, stored) }))
      const found = []
      try {
        const first = await store.read(target, plan)[Symbol.asyncIterator]().next()
        if (!first.done) found.push(first.value)
      } finally {
        if (stored) stored.contents = contents
      }
      yield* found
    },
  }
}

export function predicate(rows: RowPredicate, change: (one: RowPredicate) => RowPredicate): RowPredicate {
  if (rows.op === 'and' || rows.op === 'or') return { ...rows, of: rows.of.map((one) => predicate(one, change)) }
  if (rows.op === 'not') return { ...rows, of: predicate(rows.of, change) }
  return change(rows)
}

const indexIn = (stored: StoredDataset, name: string) =>
  stored.schema.columns.findIndex((column) => column.name === name)

function cellsOf(memory: ReferenceMemory, target: Asked, name: string): readonly Value[] {
  const stored = memory.get(target)
  if (!stored) return []
  const index = indexIn(stored, name)
  return stored.contents.flatMap(({ versions }) => versions.map(({ row }) => row[index] ?? null))
}

const typeOf = (target: Asked, name: string) => target.schema.columns.find((column) => column.name === name)?.type

export const contractReads: readonly Saboteur[] = [
  saboteur('looks up an instant of a history by milliseconds', [145], (store) =>
    planned(store, (plan) =>
      plan.history?.kind === 'at'
        ? { ...plan, history: { ...plan.history, instant: plan.history.instant.replace(/\d{3}Z$/, '000Z') } }
        : plan,
    ),
  ),
  saboteur('gives rows twice of an `in` that names a value twice', [52], (store) => ({
    async *read(target, plan) {
      const doubled = plan.filters.some(
        ({ operator, values }) => operator === 'in' && new Set(values.map(String)).size < values.length,
      )
      for await (const batch of store.read(target, plan)) {
        if (!doubled || isJsonBatch(batch)) yield batch
        else
          yield {
            ...batch,
            ...batchFromRows(
              [...rowsOf(batch)].flatMap((row) => [row, row]),
              batch.columns.length,
            ),
          }
      }
    },
  })),
  saboteur('cuts `in` behind 999 values', [171], (store) =>
    planned(store, (plan) => ({
      ...plan,
      filters: plan.filters.map((filter) => ({ ...filter, values: filter.values.slice(0, 999) })),
    })),
  ),
  saboteur('compares texts without the spaces at their end', [134], (store, memory) =>
    planned(store, (plan, target) => ({
      ...plan,
      filters: plan.filters.map((filter) => {
        const { column, operator, values } = filter
        if (typeOf(target, column) !== 'string' || (operator !== 'eq' && operator !== 'in')) return filter
        const trimmed = values.map((value) => String(value).replace(/ +$/, ''))
        const like = cellsOf(memory, target, column).filter(
          (cell): cell is string => typeof cell === 'string' && trimmed.includes(cell.replace(/ +$/, '')),
        )
        return { column, operator: 'in' as const, values: [...new Set([...values, ...like])] }
      }),
    })),
  ),
  saboteur('normalises what is looked for', [134], (store) =>
    planned(store, (plan) => ({
      ...plan,
      filters: plan.filters.map((filter) => ({
        ...filter,
        values: filter.values.map((value) => (typeof value === 'string' ? value.normalize('NFC') : value)),
      })),
    })),
  ),
  saboteur('takes the empty text for null in row policies', [167], (store) =>
    planned(store, (plan, target) => ({
      ...plan,
      policy: {
        ...plan.policy,
        rows: predicate(plan.policy.rows, (one) =>
          one.op === 'is_null' && typeOf(target, one.column) === 'string'
            ? { op: 'or', of: [one, { op: 'eq', column: one.column, value: { literal: '' } }] }
            : one,
        ),
      },
    })),
  ),
  saboteur('leaves operands that are null out of an `in` of a policy', [84], (store) =>
    planned(store, (plan) => {
      const { claims } = plan.policy
      const isThere = (value: { literal: Value } | { claim: string }) =>
        ('literal' in value ? value.literal : (claims[value.claim] ?? null)) !== null
      const rows = predicate(plan.policy.rows, (one) =>
        one.op === 'in' ? { ...one, values: one.values.filter((value) => isThere(value as never)) } : one,
      )
      return { ...plan, policy: { ...plan.policy, rows } }
    }),
  ),
  saboteur('keeps compiled policies by their version and the claims joined by commas', [172], (store) => {
    const kept = new Map<string, ReadPlan['policy']['claims']>()
    return planned(store, (plan, target) => {
      const { version, claims, rows } = plan.policy
      const key = [
        target.product,
        version,
        JSON.stringify(rows, (_, one) => (typeof one === 'bigint' ? `${one}` : one)),
        Object.values(claims).join(),
      ].join(' ')
      const compiled = kept.get(key) ?? claims
      kept.set(key, compiled)
      return { ...plan, policy: { ...plan.policy, claims: compiled } }
    })
  }),
  saboteur('keeps answers by target, plan and epoch, over a drop', [165], (store, memory) => {
    const kept = new Map<string, ReadBatch[]>()
    return {
      async *read(target, plan) {
        const stored = memory.get(target)
        const text = JSON.stringify(
          [target, { ...plan, signal: null }, stored?.policy, stored?.servedEpoch],
          (_, one) => (typeof one === 'bigint' ? `${one}n` : one),
        )
        if (stored?.servedEpoch == null) return yield* store.read(target, plan)
        const found = kept.get(text)
        if (found) {
          for await (const { epoch, ttlRemainingS } of store.read(target, plan))
            yield* found.map((batch) => ({
              ...batch,
              epoch,
              ...(ttlRemainingS === undefined ? {} : { ttlRemainingS }),
            }))
          return
        }
        const given: ReadBatch[] = []
        for await (const batch of store.read(target, plan)) {
          given.push(batch)
          yield batch
        }
        kept.set(text, given)
      },
    }
  }),
  saboteur('turns a range round whose ends are swapped', [168], (store) =>
    planned(store, (plan) => {
      const { from = null, to = null } = plan.range ?? {}
      return from !== null && to !== null && from > to ? { ...plan, range: { from: to, to: from } } : plan
    }),
  ),
  saboteur('includes the last day of a range by dates', [144], (store) =>
    planned(store, (plan) => {
      const to = plan.range?.to
      if (plan.operation !== 'range' || to == null || to.length > 10) return plan
      const next = new Date(Date.parse(to) + 86_400_000).toISOString().slice(0, 10)
      return { ...plan, range: { from: plan.range?.from ?? null, to: next } }
    }),
  ),
  saboteur('skips rows of the same time where a range falls', [168], (store) => ({
    async *read(target, plan) {
      const [first] = plan.orderBy
      if (plan.operation !== 'range' || first?.direction !== 'desc' || plan.after === undefined) {
        return yield* store.read(target, plan)
      }
      const last = plan.after[0]
      const isMasked = last === null || last === undefined
      if (isMasked) return yield* store.read(target, plan)
      yield* store.read(target, {
        ...plan,
        filters: [...plan.filters, { column: first.column, operator: 'lt', values: [last] }],
      })
    },
  })),
  saboteur('rounds what was before 1970 towards it', [143], (store, memory) =>
    over(store, memory, (versions, plan, stored) => {
      if (plan.operation !== 'aggregate') return versions
      const unit = /(minute|hour|day)/.exec(plan.interval ?? '')?.[1]
      const spans: Record<string, number> = { minute: 60_000, hour: 3_600_000, day: 86_400_000 }
      const span = unit === undefined ? null : Number.parseInt(plan.interval ?? '', 10) * (spans[unit] ?? 0)
      const index = stored.schema.columns.findIndex(
        ({ name, type }) =>
          name === stored.config.time_column || (!stored.config.time_column && /^(date|timestamp)/.test(type)),
      )
      if (!span || stored.schema.columns[index]?.type === 'date') return versions
      return versions.map((version) => {
        const text = String(version.row[index])
        const ms = Date.parse(text.endsWith('Z') ? text : `${text}Z`)
        if (!(ms < 0) || ms % span === 0) return version
        const moved = new Date(ms + span).toISOString().replace('Z', text.endsWith('Z') ? '000Z' : '000')
        return { ...version, row: version.row.map((cell, at) => (at === index ? moved : cell)) }
      })
    }),
  ),
  saboteur('leaves NaN out of aggregates', [143], (store, memory) =>
    over(store, memory, (versions, plan) =>
      plan.operation === 'aggregate'
        ? versions.map((one) => ({ ...one, row: one.row.map((cell) => (Number.isNaN(cell) ? null : cell)) }))
        : versions,
    ),
  ),
  saboteur('does not find null in a column that is younger than the row', [167], (store, memory) =>
    over(store, memory, (versions, plan, stored) =>
      versions.filter(({ row }) => {
        if (row.length >= stored.schema.columns.length) return true
        const young = stored.schema.columns.slice(row.length).map(({ name }) => name)
        const rows = predicate(plan.policy.rows, (one) =>
          one.op === 'is_null' && young.includes(one.column) ? { op: 'none' } : one,
        )
        const { claims } = plan.policy
        return rowPasses(rows, stored.schema, row, claims) || !rowPasses(plan.policy.rows, stored.schema, row, claims)
      }),
    ),
  ),
  saboteur('leaves members out of JSON that are null', [35], (store) => ({
    async *read(target, plan) {
      for await (const batch of store.read(target, plan)) {
        if (!isJsonBatch(batch)) yield batch
        else {
          const rows = JSON.parse(batch.json) as Record<string, unknown>[]
          const json = JSON.stringify(
            rows.map((row) => Object.fromEntries(Object.entries(row).filter(([, value]) => value !== null))),
          )
          yield { ...batch, json }
        }
      }
    },
  })),
  saboteur('says of JSON answers not how long they hold', [170], (store) => ({
    async *read(target, plan) {
      for await (const batch of store.read(target, plan)) {
        if (!isJsonBatch(batch)) yield batch
        else {
          const { ttlRemainingS: _, ...rest } = batch
          yield rest
        }
      }
    },
  })),
  saboteur('gives no position with the answer of a get', [168], (store) => ({
    async *read(target, plan) {
      for await (const batch of store.read(target, plan)) {
        const { next: _, ...rest } = batch
        yield plan.operation === 'get' ? rest : batch
      }
    },
  })),
  saboteur('takes years below 100 for those of the twentieth century', [135], (store) => ({
    async *read(target, plan) {
      const turned = (value: Value): Value =>
        typeof value === 'string' && /^00\d\d-\d\d-\d\d/.test(value) ? `19${value.slice(2)}` : value
      for await (const batch of store.read(target, plan)) {
        if (isJsonBatch(batch)) yield batch
        else {
          const types = plan.columns.map((name) => typeOf(target, name) ?? '')
          yield {
            ...batch,
            columns: batch.columns.map((cells, index) =>
              /^(date|timestamp)/.test(types[index] ?? '') ? cells.map(turned) : cells,
            ),
          }
        }
      }
    },
  })),
  saboteur('gives no position with a page of the greatest length', [142], (store) => ({
    async *read(target, plan) {
      for await (const batch of store.read(target, plan)) {
        const { next: _, ...rest } = batch
        yield plan.limit === 1000 ? rest : batch
      }
    },
  })),
  saboteur('keeps the columns that an instance has seen first', [167], (store, memory) => {
    const seen = new Map<string, readonly string[]>()
    const keyOf = ({ scope, domain, product, variant }: Asked) => JSON.stringify([scope, domain, product, variant])
    return {
      async provision(target, mode, hash) {
        const plan = await store.provision(target, mode, hash)
        if (mode === 'apply') seen.delete(keyOf(target))
        return plan
      },
      async *read(target, plan) {
        const names = seen.get(keyOf(target)) ?? memory.get(target)?.schema.columns.map(({ name }) => name) ?? []
        seen.set(keyOf(target), names)
        const isAfter = (name: string) =>
          !names.includes(name) && memory.get(target)?.schema.columns.some((column) => column.name === name)
        for await (const batch of store.read(target, plan)) {
          if (isJsonBatch(batch)) yield batch
          else
            yield {
              ...batch,
              columns: batch.columns.map((cells, index) =>
                isAfter(plan.columns[index] ?? '') ? cells.map(() => null) : cells,
              ),
            }
        }
      },
    }
  }),
  saboteur('forgets the row policy from the second page of an operation on', [131], (store) => ({
    operate(target, plan) {
      if (store.operate === undefined) throw new SluiceError('UNSUPPORTED', 'no operation', { code: 'unsupported' })
      const policy = plan.after === undefined ? plan.policy : { ...plan.policy, rows: { op: 'all' as const } }
      return store.operate(target, { ...plan, policy })
    },
  })),
]
