/** Reading a store to the end of an answer, and seeing the whole of a dataset by whatever way the store offers. */
import {
  type Capabilities,
  isJsonBatch,
  parseKeyTemplate,
  type ReadBatch,
  type ReadOperation,
  type ReadPlan,
  type ReadPolicy,
  type Row,
  renderKey,
  rowsOf,
  type ServingStore,
  type TableSchema,
  type Target,
  type Value,
} from '@sluice/sdk'
import { CALL_TIMEOUT_MS, callDeadline } from './call-deadline.ts'
import { CheckFailure } from './check.ts'
import { indexOf, keyText } from './compare.ts'
import { expectWholeBatch } from './whole-batch.ts'

/** More batches or pages than any check's data can make. */
const MAX_BATCHES = 10_000

/** Everything visible, nothing masked. */
export function openPolicy(schema: TableSchema): ReadPolicy {
  return {
    version: '1',
    rows: { op: 'all' },
    claims: {},
    visibleColumns: schema.columns.map((column) => column.name),
    maskedColumns: [],
  }
}

export function planOf(schema: TableSchema, operation: ReadOperation, parts: Partial<ReadPlan> = {}): ReadPlan {
  return {
    operation,
    columns: schema.columns.map((column) => column.name),
    filters: [],
    orderBy: [],
    limit: 100,
    policy: openPolicy(schema),
    timeoutMs: CALL_TIMEOUT_MS,
    signal: callDeadline(),
    encoding: 'columns',
    ...(operation === 'range' ? { range: { from: null, to: null } } : {}),
    ...parts,
  }
}

/** One answer, to its end. */
export interface Answer {
  /** Of a columns answer, in the order of the plan's columns. */
  readonly rows: readonly Row[]
  /** Of a JSON answer. */
  readonly objects: readonly Readonly<Record<string, unknown>>[]
  readonly epoch: number
  readonly ttlRemainingS: number | undefined
  readonly next: readonly Value[] | undefined
}

export async function answerOf(store: ServingStore, target: Target, plan: ReadPlan): Promise<Answer> {
  const batches: ReadBatch[] = []
  for await (const batch of store.read(target, plan)) {
    batches.push(batch)
    if (batches.length > MAX_BATCHES) throw endless('batches')
  }
  for (const batch of batches) {
    if (!isJsonBatch(batch)) expectWholeBatch(batch, null, `store.read, operation ${plan.operation}`)
  }
  const last = batches.at(-1)
  if (!last) throw noBatch(plan.operation)
  return {
    rows: batches.flatMap((batch) => (isJsonBatch(batch) ? [] : [...rowsOf(batch)])),
    objects: batches.flatMap((batch) => (isJsonBatch(batch) ? (JSON.parse(batch.json) as []) : [])),
    epoch: last.epoch,
    ttlRemainingS: last.ttlRemainingS,
    next: last.next,
  }
}

function endless(what: string, most = MAX_BATCHES): CheckFailure {
  return new CheckFailure({
    what: `a read gave more than ${most} ${what}`,
    where: 'store.read',
    why: 'an answer must end: the rows that a check writes fit in far fewer',
    remedy: 'End the iteration when the limit is reached, and leave out `next` on the last page.',
  })
}

function noBatch(operation: string): CheckFailure {
  return new CheckFailure({
    what: 'a read ended without a batch',
    where: `store.read, operation ${operation}`,
    why: 'the epoch of an answer stands in its batches, so an empty answer has to be one empty batch',
    remedy: 'Yield `{rowCount: 0, columns: […], epoch}` where there are no rows.',
  })
}

/** The ways in which the whole of a dataset can be seen, the most direct first. */
export function waysToSee(capabilities: Capabilities, schema: TableSchema): readonly ReadOperation[] {
  const ways: readonly ReadOperation[] = ['scan', 'range', 'key', 'get']
  return ways.filter((way) => {
    if (!capabilities.operations.includes(way)) return false
    if (way === 'get') return capabilities.filters.includes('eq') && schema.primaryKey.length > 0
    return way !== 'key' || schema.primaryKey.length > 0
  })
}

export interface Sight {
  readonly target: Target
  /** Every row that was ever written, or might have been: asked for one by one where the store cannot scan. */
  readonly candidates: readonly Row[]
  /** The key template, for `key`. */
  readonly template: string
  readonly policy?: ReadPolicy
}

/** All rows of the dataset, in no particular order. */
export async function seeAll(store: ServingStore, way: ReadOperation, sight: Sight): Promise<readonly Row[]> {
  if (way === 'scan' || way === 'range') return seePages(store, way, sight)
  const { schema } = sight.target
  const asked = new Map(sight.candidates.map((row) => [keyText(schema, row), row]))
  const rows: Row[] = []
  for (const row of asked.values()) {
    const answer = await answerOf(store, sight.target, pointPlan(way, row, sight))
    rows.push(...answer.rows)
  }
  return rows
}

/** The plan that reads exactly this row. */
export function pointPlan(way: ReadOperation, row: Row, sight: Sight, parts: Partial<ReadPlan> = {}): ReadPlan {
  const { schema } = sight.target
  const policy = sight.policy ?? openPolicy(schema)
  const cell = (name: string): Value => row[indexOf(schema, name)] ?? null
  if (way === 'key') {
    const template = parseKeyTemplate(sight.template)
    const key = 'problem' in template ? null : renderKey(template, schema, cell)
    return planOf(schema, 'key', { key: key ?? '', limit: 1, policy, ...parts })
  }
  const filters = schema.primaryKey.map((column) => ({ column, operator: 'eq' as const, values: [cell(column) ?? ''] }))
  return planOf(schema, way, { filters, policy, ...parts })
}

async function seePages(store: ServingStore, way: ReadOperation, sight: Sight): Promise<readonly Row[]> {
  const { schema } = sight.target
  const policy = sight.policy ?? openPolicy(schema)
  return (await pagesOf(() => store, sight.target, planOf(schema, way, { policy }))).rows
}

export interface Pages {
  readonly rows: readonly Row[]
  readonly pages: number
  /** The positions that led on. */
  readonly ends: readonly (readonly Value[])[]
}

/** All pages of a plan. A store that may be opened anew `between` them is asked for at each. */
export async function pagesOf(
  store: () => ServingStore,
  target: Target,
  plan: ReadPlan,
  { most = MAX_BATCHES, between }: { readonly most?: number; between?(): Promise<void> } = {},
): Promise<Pages> {
  const rows: Row[] = []
  const ends: (readonly Value[])[] = []
  for (let pages = 1; pages <= most; pages += 1) {
    const after = ends.at(-1)
    const answer = await answerOf(store(), target, { ...plan, ...(after ? { after } : {}) })
    rows.push(...answer.rows)
    if (answer.next === undefined) return { rows, pages, ends }
    ends.push(answer.next)
    await between?.()
  }
  throw endless('pages', most)
}
