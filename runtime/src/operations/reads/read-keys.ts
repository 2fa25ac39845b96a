/**
 * Rows by many keys of several products, in one request. Each product goes the one way of all reads (`readingView`): same
 * policy, same record. What is not there and what the policy hides is null either way.
 */
import { setImmediate } from 'node:timers/promises'
import {
  type Column,
  columnNamed,
  isJsonBatch,
  isSluiceError,
  type LogicalType,
  type ReadPlan,
  type Row,
  renderKey,
  rowsOf,
  SluiceError,
  toJsonValue,
  typeName,
  type Value,
} from '@sluice/sdk'
import { rowJson } from '../../events/row-json.ts'
import type { TenantCall } from '../../flow.ts'
import { type Rests, restOnTheSame } from '../../registry/rests-on.ts'
import { freshnessOf } from '../served/freshness.ts'
import { accessOrNull, NO_PRODUCT, notConsistent, type ServedProduct } from '../served/served-product.ts'
import { type AskedKey, isExact, keyTexts, roundedKey } from './asked-keys.ts'
import { type AskedEpochs, type Awaiting, askedEpochs } from './awaited-reads.ts'
import { jsonRows } from './json-rows.ts'
import { type KeyGroup, keyGroups, type RowKey } from './key-groups.ts'
import { collect, requireServed, typedColumns } from './page.ts'
import { parseValue } from './parse-value.ts'
import { auditRead, planFor, type ReadDeps, type ReadQuery, readingView } from './read-endpoint.ts'
import { columnMasked, parseFilters, selectingColumn } from './read-request.ts'
import type { ReadView } from './read-view.ts'

export interface AskedItem {
  readonly product: string
  readonly store: 'lookup' | 'realtime'
  readonly keys: readonly AskedKey[]
  readonly columns?: readonly string[]
}

export interface AskedItems {
  readonly items: readonly AskedItem[]
  /** Of the one product, or by product as the items name it. */
  readonly at_least_epoch?: AskedEpochs
  readonly consistent?: boolean
}

/** The members `rows` and `meta` as JSON, without braces; or why the item was not read. */
export type ItemAnswer = { readonly json: string; readonly rests: Rests | null } | { readonly error: SluiceError }

export interface ItemsAnswer {
  /** In the order of the items. */
  readonly answers: readonly ItemAnswer[]
  /** Whether those that were read are known to rest on the same rows of what they are made of. */
  readonly isConsistent: boolean
}

export const MAX_ITEMS = 10
/** Of all items together. */
export const MAX_KEYS = 1000
/** As many as a filter takes: so many keys of a product take one token of the rate limit, as one read would. */
const KEYS_PER_TOKEN = 100
/** Requests to a store for one item at a time. */
const REQUESTS_AT_ONCE = 8
/** Of an item's rows as JSON: ten of them are held at once. */
const MAX_ITEM_BYTES = 4 * 1024 * 1024
/** Keys are worked out so many at a time. */
const KEYS_IN_A_TURN = 16
/** How often items are read anew because they do not rest on the same rows. */
const MAX_LOOKS = 3

/** Throws INVALID_DATA `too_many_keys`. */
function refuseTooManyKeys(items: readonly AskedItem[]): void {
  const count = items.reduce((sum, { keys }) => sum + keys.length, 0)
  if (count <= MAX_KEYS) return
  throw new SluiceError('INVALID_DATA', `the request asks for ${count} keys, and may ask for ${MAX_KEYS}`, {
    code: 'too_many_keys',
    remedy: 'Ask in several requests.',
  })
}

/**
 * What the request costs of the rate limit: what its items would as reads of their own. Throws INVALID_DATA `too_many_keys`,
 * which no limit would ever let pass.
 */
export function tokensOf(items: readonly AskedItem[]): number {
  refuseTooManyKeys(items)
  return items.reduce((sum, { keys }) => sum + Math.ceil(keys.length / KEYS_PER_TOKEN), 0)
}

/**
 * All items at once; the answers in their order. What is no fault of an item, and the end of the request, is thrown; and
 * CONFLICT `answer_not_consistent`, INVALID_DATA `invalid_value`.
 */
export async function readItems(asked: AskedItems, call: TenantCall, deps: ReadDeps): Promise<ItemsAnswer> {
  const { items } = asked
  refuseTooManyKeys(items)
  const atLeast = askedEpochs(
    asked.at_least_epoch,
    items.map(({ product }) => product),
  )
  const endsAtMs = performance.now() + deps.timeoutMs
  for (let look = 0; look < MAX_LOOKS; look += 1) {
    const answers = await Promise.all(
      items.map((item) => answerOf(item, call, deps, { endsAtMs, atLeastEpoch: atLeast.get(item.product) })),
    )
    call.signal.throwIfAborted()
    const isConsistent = restOnTheSame(answers.flatMap((one) => ('json' in one ? [one.rests] : []))) !== null
    if (isConsistent || asked.consistent !== true) return { answers, isConsistent }
    // Stores may have been given epochs that nobody has told of yet.
    deps.forget(call.tenant)
  }
  throw notConsistent([...new Set(items.map(({ product }) => product))])
}

/** What the items are to wait for before they are read; null: nothing. Throws INVALID_DATA `invalid_value`. */
export function awaitedItems(
  { items, at_least_epoch: epochs, consistent = false }: AskedItems,
  call: TenantCall,
  deps: Pick<ReadDeps, 'find' | 'rules'>,
): Pick<Awaiting, 'reads' | 'isConsistent'> | null {
  if (epochs === undefined && !consistent) return null
  const atLeast = askedEpochs(
    epochs,
    items.map(({ product }) => product),
  )
  const reads = items.map(({ product, store }) => ({
    asked: { type: store },
    find: () => findReadable(product, call, deps),
    atLeastEpoch: atLeast.get(product),
  }))
  return { reads, isConsistent: consistent }
}

interface ItemBounds {
  readonly endsAtMs: number
  readonly atLeastEpoch: number | undefined
}

async function answerOf(
  item: AskedItem,
  call: TenantCall,
  deps: ReadDeps,
  { endsAtMs, atLeastEpoch }: ItemBounds,
): Promise<ItemAnswer> {
  const { store: type } = item
  const find = () => findReadable(item.product, call, deps)
  try {
    return await readingView({ type, call, find, atLeastEpoch }, deps, async (view) => {
      const request: KeysRequest = { item, view, signal: call.signal, endsAtMs }
      const read = type === 'lookup' ? lookupRead(request) : realtimeRead(request, await realtimePlans(request))
      await auditRead(type, view, call, deps)
      return { json: itemJson(view, await read()), rests: view.served.rests }
    })
  } catch (error) {
    if (!isSluiceError(error) || error.kind === 'INTERNAL') throw error
    return { error: isUnreadable(error) ? noProduct() : error }
  }
}

const isUnreadable = ({ code }: SluiceError) => code === 'product_forbidden' || code === NO_PRODUCT.code

const noProduct = () => new SluiceError('INVALID_DATA', NO_PRODUCT.message, NO_PRODUCT)

/** A name is looked for among what the caller may read: products of the same name elsewhere do not show. */
export async function findReadable(
  reference: string,
  call: TenantCall,
  deps: Pick<ReadDeps, 'find' | 'rules'>,
): Promise<ServedProduct> {
  try {
    return await deps.find(call.tenant, reference, undefined)
  } catch (error) {
    if (!isSluiceError(error, 'CONFLICT') || error.code !== 'ambiguous_product') throw error
    const names = (error.details?.candidates ?? []) as readonly string[]
    const found = await Promise.all(names.map((name) => deps.find(call.tenant, name, undefined)))
    const readable = found.filter((product) => accessOrNull(product, call.principal, deps.rules) !== null)
    const [only] = readable
    if (only === undefined) throw noProduct()
    if (readable.length === 1) return only
    throw new SluiceError('CONFLICT', error.message, {
      code: error.code,
      remedy: 'Write namespace.name.',
      details: { candidates: readable.map(({ domain, name }) => `${domain}.${name}`) },
    })
  }
}

interface KeysRequest {
  readonly item: AskedItem
  readonly view: ReadView
  readonly signal: AbortSignal
  /** By `performance.now()`. */
  readonly endsAtMs: number
}

interface Found {
  /** Row objects as JSON in the order of the keys; null where there is none. */
  readonly rows: readonly (string | null)[]
  readonly ttlRemainingS: number | undefined
}

function itemJson(view: ReadView, { rows, ttlRemainingS }: Found): string {
  const ttl = ttlRemainingS === undefined ? '' : `,"ttl_remaining_s":${ttlRemainingS}`
  const { metaJson, readAt } = view.marks
  const freshness = JSON.stringify(freshnessOf(readAt))
  return `"rows":[${rows.map((row) => row ?? 'null').join(',')}],"meta":${metaJson}${ttl},"freshness":${freshness}}`
}

/** Keys name rows by the key of the product, whatever else is indexed. */
function lookupRead(request: KeysRequest): () => Promise<Found> {
  const { item, view } = request
  const { schema, policy, served } = view
  // A variant whose mask tells no two rows apart has no key; the product has one.
  const key = served.madeBy.output.primaryKey
  const hidden = key.find((name) => served.maskedColumns.includes(name))
  if (hidden !== undefined) throw columnMasked(hidden)
  const columns = key.map((name) => selectingColumn(name, schema, policy))
  const keys = item.keys.map((_, position): RowKey => {
    const texts = keyTexts(item.keys, columns, position)
    const filters = parseFilters(
      texts.map((text, at) => `${key[at]}:${text}`),
      schema,
      policy,
    )
    const parts = filters.map(({ values: [value = null] }, at) => partOf(value, columns[at]))
    return { id: JSON.stringify(parts), filters, parts }
  })
  const { capabilities } = served.plugin
  const takesMany = capabilities.filters.includes('in')
  const free = columns.map(
    ({ type }) => takesMany && hasOneForm(type) && capabilities.types[typeName(type)] === 'exact',
  )
  const groups = keyGroups(distinct(keys), free, capabilities.limits.maxReadRows)
  const plan = basePlan(request, {})
  return async () => {
    const rows = new RowsById(view)
    await eachAtOnce(groups, (group) => readGroup(request, plan, group, columns, rows))
    return rows.found(keys)
  }
}

/** Values that every store gives back as they were asked for. */
const hasOneForm = (type: LogicalType) => !['float', 'double', 'json', 'binary'].includes(typeName(type))

const partOf = (value: Value, column: Column | undefined) =>
  JSON.stringify(toJsonValue(value, column?.type ?? 'string'))

const distinct = <T extends { readonly id: string }>(keys: readonly T[]): readonly T[] => [
  ...new Map(keys.map((key) => [key.id, key])).values(),
]

/** The key comes with each row, to tell whose it is; it leaves with the answer only where it was asked for. */
async function readGroup(
  request: KeysRequest,
  base: ReadPlan,
  { keys, filters }: KeyGroup,
  keyColumns: readonly Column[],
  rows: RowsById,
): Promise<void> {
  const { served, schema } = request.view
  const shown = typedColumns(base.columns, schema)
  const names = keyColumns.map(({ name }) => name)
  const columns = [...new Set([...base.columns, ...names])]
  const hidden = new Set(names.filter((name) => !base.columns.includes(name)))
  const asked = new Set(keys.map(({ id }) => id))
  const [only] = keys.length === 1 ? keys : []
  const take = (id: string, json: string) => {
    if (!asked.delete(id)) throw new Error('a store gave a row of a key that nobody asked for, or gave it twice')
    rows.add(id, json)
  }
  const idOf = (row: Row) =>
    only?.id ?? JSON.stringify(keyColumns.map((column) => partOf(row[columns.indexOf(column.name)] ?? null, column)))
  let after: readonly Value[] | undefined
  do {
    const position = after === undefined ? null : { after }
    const plan: ReadPlan = {
      ...base,
      ...position,
      operation: 'get',
      columns,
      filters,
      limit: asked.size,
      timeoutMs: timeLeftMs(request),
      encoding: 'json',
    }
    after = undefined
    for await (const batch of served.store.read(served.target, plan)) {
      requireServed(batch, served)
      rows.note(batch.ttlRemainingS)
      if (isJsonBatch(batch)) {
        for (const { text, values } of jsonRows(batch.json, names, hidden)) {
          take(only?.id ?? JSON.stringify(values.map(spelled)), text)
        }
      } else for (const row of rowsOf(batch)) take(idOf(row), rowJson(shown, row))
      after = batch.next
    }
  } while (after !== undefined && asked.size > 0)
}

/** A JSON text as `JSON.stringify` has it: strings may be written in several ways. */
const spelled = (text: string) => (text.includes('\\') ? JSON.stringify(JSON.parse(text)) : text)

async function realtimePlans(request: KeysRequest): Promise<readonly ReadPlan[]> {
  const plans: ReadPlan[] = []
  for (const [position, asked] of request.item.keys.entries()) {
    // A hostile key is tried in many ways to be read: others have their turn between.
    if (position % KEYS_IN_A_TURN === KEYS_IN_A_TURN - 1) await setImmediate(undefined, { signal: request.signal })
    plans.push(realtimePlan(request, asked, position))
  }
  return plans
}

/** A text is a whole key, as the parameter `key` of a single read; an object has the values of the template's columns. */
function realtimePlan(request: KeysRequest, asked: AskedKey, position: number): ReadPlan {
  const { served, keyTemplate } = request.view
  if (typeof asked === 'string' || keyTemplate === null) {
    if (typeof asked !== 'object' && !isExact(request.item.keys, position, asked)) throw roundedKey(position, [])
    return basePlan(request, { key: String(asked) })
  }
  const { schema } = served.target
  const names = keyTemplate.parts.map(({ column }) => column)
  const keyColumns = names.map((name) => columnNamed(schema, name))
  const texts = keyTexts(request.item.keys, keyColumns, position)
  const cells = new Map(
    names.map((name, at) => [
      name,
      parseValue(texts[at] ?? '', columnNamed(schema, name).type, `"${name}" of key ${position + 1}`),
    ]),
  )
  return {
    ...basePlan(request, { key: '' }),
    key: renderKey(keyTemplate, schema, (name) => cells.get(name) ?? null) ?? '',
  }
}

/** Values under keys are read one by one: the contract of stores has no operation for several. */
function realtimeRead(request: KeysRequest, plans: readonly ReadPlan[]): () => Promise<Found> {
  const keys = plans.map((plan) => ({ id: plan.key ?? '', plan }))
  const { view } = request
  return async () => {
    const rows = new RowsById(view)
    await eachAtOnce(distinct(keys), async ({ id, plan }) => {
      const page = await collect(
        view.served.store.read(view.served.target, { ...plan, timeoutMs: timeLeftMs(request) }),
        view,
        plan.columns,
      )
      rows.note(page.ttlRemainingS)
      if (page.rowCount > 0) rows.add(id, page.rows)
    })
    return rows.found(keys)
  }
}

function basePlan({ item, view, signal }: KeysRequest, query: Pick<ReadQuery, 'key'>): ReadPlan {
  const columns = item.columns === undefined ? null : { columns: item.columns.join(',') }
  return planFor(item.store, { ...query, ...columns }, undefined, view, signal, 1)
}

const timeLeftMs = ({ endsAtMs }: KeysRequest) => Math.max(1, Math.ceil(endsAtMs - performance.now()))

async function eachAtOnce<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  for (let at = 0; at < items.length; at += REQUESTS_AT_ONCE) {
    await Promise.all(items.slice(at, at + REQUESTS_AT_ONCE).map(work))
  }
}

/** What stores have given of an item, by ids of keys. */
class RowsById {
  readonly #view: ReadView
  readonly #rows = new Map<string, string>()
  #bytes = 0
  #ttlRemainingS: number | undefined

  constructor(view: ReadView) {
    this.#view = view
  }

  note(ttlRemainingS: number | undefined): void {
    if (ttlRemainingS !== undefined) this.#ttlRemainingS = Math.min(this.#ttlRemainingS ?? Infinity, ttlRemainingS)
  }

  add(id: string, json: string): void {
    this.#rows.set(id, json)
    this.#count(json)
  }

  /** A key that is asked for twice has its row twice. */
  found(keys: readonly { readonly id: string }[]): Found {
    this.#bytes = 0
    const rows = keys.map(({ id }) => {
      const row = this.#rows.get(id) ?? null
      if (row !== null) this.#count(row)
      return row
    })
    return { rows, ttlRemainingS: this.#ttlRemainingS }
  }

  #count(json: string): void {
    this.#bytes += Buffer.byteLength(json)
    if (this.#bytes <= MAX_ITEM_BYTES) return
    const { domain, name } = this.#view.product
    throw new SluiceError('INVALID_DATA', `the rows of ${domain}.${name} have more than ${MAX_ITEM_BYTES} bytes`, {
      code: 'rows_too_large',
      remedy: 'Ask for fewer keys at once, or name the columns that you need.',
      details: { max_bytes: MAX_ITEM_BYTES },
    })
  }
}
