/** Stores that are wrong only about values at the ends of their types, about pages, zones, growth and neighbours. */
import {
  batchFromRows,
  type Filter,
  isJsonBatch,
  planOfSteps,
  type ReadBatch,
  type ReadPlan,
  type Row,
  rowPasses,
  rowsOf,
  type TableSchema,
  type Target,
  tenantOf,
  type Value,
} from '@sluice/sdk'
import { type Saboteur, type Store, saboteur, withRows } from './wrap.ts'

type Known = NonNullable<Value>

function asking(store: Store, change: (plan: ReadPlan, schema: TableSchema) => ReadPlan): Partial<Store> {
  return { read: (target, plan) => store.read(target, change(plan, target.schema)) }
}

function withFilterValues(plan: ReadPlan, change: (value: Known, filter: Filter) => Known): ReadPlan {
  const filters = plan.filters.map((filter) => ({
    ...filter,
    values: filter.values.map((value) => change(value, filter)),
  }))
  return { ...plan, filters }
}

function withClaims(plan: ReadPlan, change: (value: Value) => Value): ReadPlan {
  const entries = Object.entries(plan.policy.claims).map(([name, value]) => [name, change(value)])
  return { ...plan, policy: { ...plan.policy, claims: Object.fromEntries(entries) } }
}

function typeOf(schema: TableSchema, name: string): string {
  return schema.columns.find((column) => column.name === name)?.type ?? ''
}

const asDouble = <T extends Value>(value: T): T | bigint =>
  typeof value === 'bigint' ? BigInt.asIntN(64, BigInt(Number(value))) : value

/** A `timestamp` that the machine's zone is read into. */
const inLocalZone = (value: Known): Known =>
  typeof value === 'string' ? `${new Date(value).toISOString().slice(0, 19)}${value.slice(19)}` : value

/** The day that begins at midnight of the machine's zone, as UTC has it. */
function localDay(value: Known): Known {
  if (typeof value !== 'string') return value
  const midnight = new Date(`${value}T00:00:00`)
  return midnight.getUTCFullYear() > 9999 ? value : midnight.toISOString().slice(0, 10)
}

const namedBy = ({ scope, domain, product, variant }: Target) =>
  JSON.stringify([tenantOf(scope), domain, product, variant])

const positionText = (target: Target, { orderBy }: ReadPlan, position: readonly Value[]) =>
  JSON.stringify([namedBy(target), orderBy], null) +
  position.map((value) => (value instanceof Uint8Array ? Buffer.from(value).toString('hex') : `${value}`)).join()

async function wholeOf(batches: AsyncIterable<ReadBatch>): Promise<ReadBatch> {
  let last: ReadBatch | null = null
  for await (const batch of batches) last = batch
  if (last === null) throw new Error('the reference store gives one batch')
  return last
}

export const endSaboteurs: readonly Saboteur[] = [
  saboteur('asks for longs as doubles', [134], (store) =>
    asking(store, (plan) => withFilterValues(plan, (value) => asDouble(value))),
  ),
  saboteur('composes the accents of what is asked for', [134], (store) =>
    asking(store, (plan) =>
      withFilterValues(plan, (value) => (typeof value === 'string' ? value.normalize('NFC') : value)),
    ),
  ),
  saboteur('looks at the first hundred values of a list', [134], (store) =>
    asking(store, (plan) => ({
      ...plan,
      filters: plan.filters.map((filter) => ({ ...filter, values: filter.values.slice(0, 100) })),
    })),
  ),
  saboteur('keeps the claims of the first reader of a policy', [135], (store) => {
    const first = new Map<string, ReadPlan['policy']>()
    return asking(store, (plan, schema) => {
      const key = `${plan.policy.version} ${schema.columns.length}`
      const policy = first.get(key) ?? plan.policy
      if (Object.keys(plan.policy.claims).length > 0) first.set(key, policy)
      return { ...plan, policy: { ...plan.policy, claims: policy.claims } }
    })
  }),
  saboteur('takes a reader’s numbers for doubles', [135], (store) =>
    asking(store, (plan) => withClaims(plan, (value) => asDouble(value))),
  ),
  saboteur('takes a last row that stands alone for the end', [136], (store) => ({
    async *read(target, plan) {
      for await (const batch of store.read(target, plan)) {
        const { next, ...last } = batch
        const rest =
          next === undefined ? null : await wholeOf(store.read(target, { ...plan, encoding: 'columns', after: next }))
        yield rest?.rowCount === 1 && plan.limit > 1 ? last : batch
      }
    },
  })),
  saboteur('orders the texts of a page as a dictionary does', [136], (store) => ({
    async *read(target, plan) {
      const [{ column, direction } = { column: '', direction: 'asc' }] = plan.orderBy
      const at = plan.columns.indexOf(column)
      const [sign, isText] = [direction === 'asc' ? 1 : -1, typeOf(target.schema, column) === 'string']
      const compared = (left: Value, right: Value) =>
        typeof left === 'string' && typeof right === 'string' ? left.localeCompare(right, 'en') * sign : 0
      for await (const batch of store.read(target, plan)) {
        yield isText
          ? withRows(batch, (rows) => rows.toSorted((left, right) => compared(left[at] ?? null, right[at] ?? null)))
          : batch
      }
    },
  })),
  saboteur('counts rows to find where a page begins', [137], (store) => {
    const offsets = new Map<string, number>()
    return {
      async *read(target, plan) {
        const { after, ...whole } = plan
        const offset = after === undefined ? 0 : (offsets.get(positionText(target, plan, after)) ?? -1)
        const limit = offset + plan.limit
        if (offset < 0 || limit > 1000 || plan.encoding === 'json') {
          yield* store.read(target, plan)
          return
        }
        for await (const batch of store.read(target, { ...whole, limit })) {
          if (batch.next) offsets.set(positionText(target, plan, batch.next), limit)
          yield withRows(batch, (rows) => rows.slice(offset))
        }
      },
    }
  }),
  saboteur('continues from the millisecond of a time', [137], (store) =>
    asking(store, (plan) => {
      const cut = (value: Value) =>
        typeof value === 'string' && /^\d{4}-.*\.\d{6}Z?$/.test(value) ? value.replace(/\d{3}(Z?)$/, '999$1') : value
      return plan.after === undefined ? plan : { ...plan, after: plan.after.map(cut) }
    }),
  ),
  saboteur('applies the policy to the page', [138], (store) => ({
    async *read(target, plan) {
      const { columns } = target.schema
      const names = columns.map(({ name }) => name)
      const open = { ...plan.policy, rows: { op: 'all' } as const, visibleColumns: names }
      const isPlain = plan.encoding === 'columns' && (plan.operation === 'scan' || plan.operation === 'range')
      if (!isPlain || plan.history !== undefined) {
        yield* store.read(target, plan)
        return
      }
      for await (const batch of store.read(target, { ...plan, columns: names, policy: open })) {
        if (isJsonBatch(batch)) continue
        const passes = (row: Row) => rowPasses(plan.policy.rows, target.schema, row, plan.policy.claims)
        const rows = [...rowsOf(batch)].filter(passes)
        const projected = rows.map((row) => plan.columns.map((name) => row[names.indexOf(name)] ?? null))
        yield { ...batch, ...batchFromRows(projected, plan.columns.length) }
      }
    },
  })),
  saboteur('says that there is more where only hidden rows are left', [138], (store) => ({
    async *read(target, plan) {
      const open = { ...plan, policy: { ...plan.policy, rows: { op: 'all' } as const } }
      const isPaged = plan.operation === 'scan' || plan.operation === 'range'
      for await (const batch of store.read(target, plan)) {
        const more = isPaged && batch.next === undefined ? (await wholeOf(store.read(target, open))).next : undefined
        yield more === undefined ? batch : { ...batch, next: more }
      }
    },
  })),
  saboteur('reads the machine’s zone into times without one', [139], (store) =>
    asking(store, (plan, schema) =>
      withFilterValues(plan, (value, { column }) =>
        typeOf(schema, column) === 'timestamp' ? inLocalZone(value) : value,
      ),
    ),
  ),
  saboteur('takes a day for the one of its local midnight', [139], (store) =>
    asking(store, (plan, schema) =>
      withFilterValues(plan, (value, { column }) => (typeOf(schema, column) === 'date' ? localDay(value) : value)),
    ),
  ),
  saboteur('keeps the columns that it has prepared its reads for', [140], (store) => {
    const prepared = new Map<string, readonly string[]>()
    return {
      async *read(target, plan) {
        const known = prepared.get(namedBy(target)) ?? target.schema.columns.map(({ name }) => name)
        prepared.set(namedBy(target), known)
        const isAdded = (name: string) =>
          target.schema.columns.some((column) => column.name === name) && !known.includes(name)
        for await (const batch of store.read(target, plan)) {
          yield withRows(batch, (rows) =>
            rows.map((row) => row.map((cell, at) => (isAdded(plan.columns[at] ?? '') ? null : cell))),
          )
        }
      },
    }
  }),
  saboteur('leaves out filters on columns that came later', [140], (store) => {
    const first = new Map<string, readonly string[]>()
    return {
      provision(target, mode, expectedHash) {
        if (!first.has(namedBy(target)))
          first.set(
            namedBy(target),
            target.schema.columns.map(({ name }) => name),
          )
        return store.provision(target, mode, expectedHash)
      },
      read(target, plan) {
        const known = first.get(namedBy(target))
        const filters = plan.filters.filter(({ column }) => known?.includes(column) ?? true)
        return store.read(target, { ...plan, filters })
      },
    }
  }),
  saboteur('keeps the columns of a product by its name', [141], (store) => {
    const columns = new Map<string, TableSchema['columns']>()
    return {
      async provision(target, mode, expectedHash) {
        const plan = await store.provision(target, mode, expectedHash)
        if (mode === 'apply') columns.set(`${target.domain}.${target.product}`, target.schema.columns)
        return plan
      },
      async *read(target, plan) {
        const known = columns.get(`${target.domain}.${target.product}`) ?? target.schema.columns
        const isOther = (name: string) =>
          target.schema.columns.some((column) => column.name === name) && !known.some((column) => column.name === name)
        for await (const batch of store.read(target, plan)) {
          yield withRows(batch, (rows) =>
            rows.map((row) => row.map((cell, at) => (isOther(plan.columns[at] ?? '') ? null : cell))),
          )
        }
      },
    }
  }),
  saboteur('plans by who else has a product of that name', [141], (store, memory) => ({
    async provision(target, mode, expectedHash) {
      const plan = await store.provision(target, mode, expectedHash)
      const others = memory.all().filter(({ tenant }) => tenant !== tenantOf(target.scope)).length
      if (mode === 'apply' || others === 0) return plan
      return planOfSteps([...plan.steps, { action: 'alter', description: `share with ${others} others` }])
    },
  })),
  saboteur('gives four thousand rows and says no more of the others', [142], (store) => {
    const seen = new Map<string, number>()
    return {
      async *read(target, plan) {
        let rows = plan.after === undefined ? 0 : (seen.get(namedBy(target)) ?? 0)
        for await (const batch of store.read(target, plan)) {
          rows += batch.rowCount
          seen.set(namedBy(target), rows)
          const { next, ...last } = batch
          yield next !== undefined && rows >= 4000 ? last : batch
        }
      },
    }
  }),
  saboteur('has room for sixty-four columns', [142], (store) => ({
    async *read(target, plan) {
      for await (const batch of store.read(target, plan)) {
        yield withRows(batch, (rows) => rows.map((row) => row.map((cell, at) => (at < 64 ? cell : null))))
      }
    },
  })),
]
