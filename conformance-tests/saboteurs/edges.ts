/** Stores that are wrong about sums, microseconds, states, near keys, rows without a key, ties, readers side by side and tokens. */
import { isJsonBatch, type ReadPlan, type Row, type RowPredicate, type Value } from '@sluice/sdk'
import { counted, type Saboteur, type Store, saboteur, withRows, withUpserts } from './wrap.ts'

type Change = (value: Value, name: string) => Value

function answeringCells(store: Store, change: Change, when: (plan: ReadPlan) => boolean): Store['read'] {
  return async function* read(target, plan) {
    for await (const batch of store.read(target, plan)) {
      const cells = (row: Row) => row.map((value, at) => change(value, plan.columns[at] ?? ''))
      yield when(plan) ? withRows(batch, (rows) => rows.map(cells)) : batch
    }
  }
}

const isAggregate = ({ operation }: ReadPlan) => operation === 'aggregate'

/** Text of the key columns changed as it is written, which makes two rows one where their keys are near. */
function keyedBy(store: Store, change: (value: Value) => Value): Partial<Store> {
  return {
    async write(target, changes, commit) {
      const { columns, primaryKey } = target.schema
      const rekeyed = (row: Row) =>
        row.map((value, at) => (primaryKey.includes(columns[at]?.name ?? '') ? change(value) : value))
      const written = await counted(
        withUpserts(changes, (rows) => [
          ...new Map(rows.map((row) => [String(rekeyed(row).filter(isKey(target.schema))), row])).values(),
        ]),
      )
      return store.write(target, written, commit)
    },
  }
}

const isKey =
  ({ columns, primaryKey }: Parameters<Store['provision']>[0]['schema']) =>
  (_: Value, at: number) =>
    primaryKey.length === 0 || primaryKey.includes(columns[at]?.name ?? '')

function digestingText(store: Store, change: (text: string) => string): Partial<Store> {
  return {
    async write(target, changes, commit) {
      const flat = withUpserts(changes, (rows) =>
        rows.map((row) => row.map((value) => (typeof value === 'string' ? change(value) : value))),
      )
      return store.write(target, flat, commit)
    },
  }
}

const withPolicy = (plan: ReadPlan, rows: RowPredicate): ReadPlan => ({ ...plan, policy: { ...plan.policy, rows } })

export const edgeSaboteurs: readonly Saboteur[] = [
  saboteur('adds whole numbers as doubles', [143], (store) => ({
    read: answeringCells(
      store,
      (value, name) => (name.endsWith('_sum') && typeof value === 'string' ? String(Number(value)) : value),
      isAggregate,
    ),
  })),
  saboteur('leaves NaN out of what it adds and compares', [143], (store) => ({
    read: answeringCells(store, (value) => (Number.isNaN(value) ? 7 : value), isAggregate),
  })),
  saboteur('cuts the bounds of a range to milliseconds', [144], (store) => {
    const cut = (text: string | null) => text?.replace(/(\.\d{3})\d{3}/, '$1000') ?? null
    return {
      read: (target, plan) =>
        store.read(
          target,
          plan.range === undefined ? plan : { ...plan, range: { from: cut(plan.range.from), to: cut(plan.range.to) } },
        ),
    }
  }),
  saboteur('holds the last day of a range', [144], (store) => ({
    read: (target, plan) =>
      store.read(
        target,
        plan.range?.to?.length === 10 ? { ...plan, range: { ...plan.range, to: `${plan.range.to}~` } } : plan,
      ),
  })),
  saboteur('looks for a state at the millisecond', [145], (store) => ({
    read: (target, plan) =>
      store.read(
        target,
        plan.history?.kind === 'at'
          ? { ...plan, history: { kind: 'at', instant: plan.history.instant.replace(/\d{3}Z$/, '000Z') } }
          : plan,
      ),
  })),
  saboteur('shows states of before whatever the policy says', [145], (store) => ({
    read: (target, plan) => store.read(target, plan.history?.kind === 'all' ? withPolicy(plan, { op: 'all' }) : plan),
  })),
  saboteur('composes the accents of keys', [146], (store) =>
    keyedBy(store, (value) => (typeof value === 'string' ? value.normalize('NFC') : value)),
  ),
  saboteur('keys longs by doubles', [146], (store) =>
    keyedBy(store, (value) => (typeof value === 'bigint' ? Number(value) : value)),
  ),
  saboteur('takes equal rows without a key for one', [147], (store) => ({
    async *read(target, plan) {
      for await (const batch of store.read(target, plan)) {
        const isKeyless = target.schema.primaryKey.length === 0 && plan.operation === 'scan'
        yield isKeyless ? withRows(batch, (rows) => [...new Map(rows.map((row) => [row.join(), row])).values()]) : batch
      }
    },
  })),
  saboteur('numbers rows without a key anew at each start', [147], (store, memory) => {
    let begun = false
    return {
      async write(target, changes, commit) {
        const stored = memory.get(target)
        const newest = stored?.contents.at(-1)
        if (!begun && stored && newest && target.schema.primaryKey.length === 0 && changes.mode === 'delta') {
          const versions = newest.versions.slice(changes.upsertCount)
          stored.contents = [...stored.contents.slice(0, -1), { ...newest, versions }]
        }
        begun = true
        return store.write(target, changes, commit)
      },
    }
  }),
  saboteur('orders by the first column that is asked for', [148], (store) => ({
    read: (target, plan) => store.read(target, { ...plan, orderBy: plan.orderBy.slice(0, 1) }),
  })),
  saboteur('orders a key by the columns of the table', [148], (store) => ({
    read: (target, plan) => {
      const { columns, primaryKey } = target.schema
      const isPlain = plan.operation === 'scan' && plan.orderBy.length === 0 && primaryKey.length > 1
      const key = columns.filter(({ name }) => primaryKey.includes(name))
      const orderBy = key.map(({ name }) => ({ column: name, direction: 'asc' as const }))
      return store.read(target, isPlain ? { ...plan, orderBy } : plan)
    },
  })),
  saboteur('keeps the claims of its reader where all readers see them', [149], (store) => {
    let claims: ReadPlan['policy']['claims'] = {}
    return {
      async *read(target, plan) {
        claims = plan.policy.claims
        await new Promise((resolve) => setImmediate(resolve))
        yield* store.read(target, { ...plan, policy: { ...plan.policy, claims } })
      },
    }
  }),
  saboteur('looks at the first hundred values of a policy', [149], (store) => ({
    read: (target, plan) => {
      const { rows } = plan.policy
      return store.read(
        target,
        rows.op === 'in' ? withPolicy(plan, { ...rows, values: rows.values.slice(0, 100) }) : plan,
      )
    },
  })),
  saboteur('digests what text looks like', [150], (store) => digestingText(store, (text) => text.normalize('NFC'))),
  saboteur('digests the beginning of a text', [150], (store) => digestingText(store, (text) => text.slice(0, 4000))),
  saboteur('keeps tokens as doubles', [151], (store) => ({
    write: (target, changes, commit) =>
      store.write(target, changes, { ...commit, fence: BigInt(Number(commit.fence)) }),
  })),
  saboteur('keeps a token as a number of 32 bits', [151], (store) => ({
    write: (target, changes, commit) =>
      store.write(target, changes, { ...commit, fence: commit.fence > 0xffff_ffffn ? 0xffff_ffffn : commit.fence }),
  })),
  saboteur('writes floats into JSON as doubles', [35], (store) => ({
    async *read(target, plan) {
      const floats = target.schema.columns.filter(({ type }) => type === 'float').map(({ name }) => name)
      const widened = (object: Record<string, unknown>) =>
        Object.entries(object).map(([name, value]) => [
          name,
          floats.includes(name) && typeof value === 'number' ? Math.fround(value) : value,
        ])
      for await (const batch of store.read(target, plan)) {
        if (!isJsonBatch(batch)) yield batch
        else {
          const objects = JSON.parse(batch.json) as Record<string, unknown>[]
          yield { ...batch, json: JSON.stringify(objects.map((object) => Object.fromEntries(widened(object)))) }
        }
      }
    },
  })),
  saboteur('orders a range by its time, whatever is asked', [144], (store) => ({
    read: (target, plan) => store.read(target, plan.operation === 'range' ? { ...plan, orderBy: [] } : plan),
  })),
]
