/** Serving reads: lookup, timeseries and realtime, by one path from the request to the store and back. */
import { setTimeout as sleep } from 'node:timers/promises'
import { columnNamed, isSluiceError, type ReadPlan, SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import { copyRebuilding, isCopyOutdated } from '../../materializer/store-review.ts'
import { isSchemaConflict } from '../../materializer/store-sync.ts'
import type { MaskingRules } from '../../policy/masking.ts'
import { epochNotReached, type ServedProduct, type ServedTarget, unambiguous } from '../served/served-product.ts'
import { answerJson, collect, decodePosition, laterEpochIn } from './page.ts'
import { parseMoment, parseTimeBound } from './parse-value.ts'
import { parseColumns, parseFilters, parseOrder } from './read-request.ts'
import { type AskedView, type EndpointType, type ReadView, viewOf } from './read-view.ts'
import { renderedKey } from './realtime-key.ts'

export type { EndpointType }

export interface ReadQuery {
  readonly filter?: readonly string[]
  readonly columns?: string
  readonly order?: string
  readonly limit?: number
  readonly cursor?: string
  /** lookup */
  readonly at?: string
  readonly history?: boolean
  /** timeseries */
  readonly from?: string
  readonly to?: string
  readonly interval?: string
  /** realtime */
  readonly key?: string
}

export interface AskedRead extends ReadQuery {
  readonly at_least_epoch?: number
}

export interface ReadDeps {
  readonly rules: MaskingRules
  readonly timeoutMs: number
  find(tenant: string, reference: string, domain: string | undefined): Promise<ServedProduct>
  /** Products of the tenant are loaded anew from here on. */
  forget(tenant: string): void
  /** The product with that copy as that epoch has it; null where it has no such epoch. */
  withCopyAt(product: ServedProduct, type: string, at: CopyEpoch): Promise<ServedProduct | null>
  /** That copy cannot be read, and is to be built anew where it cannot be read `again` either. Throws what that throws else. */
  doubt(place: DoubtedCopy, again: () => Promise<unknown>): Promise<unknown>
  /** Writes the record before any data leaves; for restricted products and administrators. */
  audit(call: TenantCall, product: ServedProduct, action: string): Promise<void>
  openCursor(call: TenantCall, cursor: string, binding: PageBinding): unknown
  sealCursor(call: TenantCall, position: unknown, binding: PageBinding): string
}

/** Which epoch a store has of a variant. */
export interface CopyEpoch {
  readonly variant: string
  readonly epoch: number
}

/** A copy of which a store does not say what it was to say. */
export interface DoubtedCopy {
  readonly served: ServedTarget
  readonly product: ServedProduct
  readonly type: string
  readonly variant: string
}

/** What a page belongs to: the same read, under the same policy. */
export interface PageBinding {
  readonly product: string
  readonly policyVersion: string
  readonly query: Readonly<Record<string, unknown>>
}

export interface ReadAnswer {
  readonly json: string
  readonly etag: string
  readonly readAt: string
}

const DEFAULT_LIMIT = 100

export function readEndpoint(
  type: EndpointType,
  call: TenantCall,
  reference: string,
  domain: string | undefined,
  { at_least_epoch: atLeastEpoch, ...query }: AskedRead,
  deps: ReadDeps,
): Promise<ReadAnswer> {
  const find = () => unambiguous(call, deps.find(call.tenant, reference, domain))
  return readingView({ type, call, find, interval: query.interval, atLeastEpoch }, deps, async (view) => {
    const binding = () => bindingOf(type, view, query)
    const after = query.cursor === undefined ? undefined : deps.openCursor(call, query.cursor, binding())
    const plan = planFor(type, query, after, view, call.signal, deps.timeoutMs)
    const recorded = auditRead(type, view, call, deps)
    if (recorded !== null) await recorded
    const page = await collect(view.served.store.read(view.served.target, plan), view, plan.columns)
    if (type === 'realtime' && page.rowCount === 0) throw keyNotFound(view.product)
    const { etagSeed, readAt } = view.marks
    const json = answerJson(view, page, (position) => deps.sealCursor(call, position, binding()))
    return { json, etag: etagOf(etagSeed, query, page.ttlRemainingS), readAt }
  })
}

export interface Reading extends AskedView {
  readonly call: TenantCall
  readonly find: () => Promise<ServedProduct>
  /** A copy of an epoch before it is refused: CONFLICT `epoch_not_reached`. */
  readonly atLeastEpoch?: number | undefined
}

/**
 * What every read of an endpoint does: the product is found, the policy decided, and `read` works by the view that this
 * reader gets. It is called again where the store says that it is shaped otherwise by now, or has a later epoch.
 */
export function readingView<T>(
  { call, find, atLeastEpoch = 0, ...asked }: Reading,
  deps: ReadDeps,
  read: (view: ReadView) => Promise<T>,
): Promise<T> {
  let copies: CopiesMet | null = null
  let last: ReadView | null = null
  const doubt = async (again: () => Promise<unknown>) => {
    if (last === null) return
    const { served, product, access } = last
    await deps.doubt({ served, product, type: asked.type, variant: access.variant }, again)
  }
  return againIfReshaped(call, deps, doubt, async () => {
    const found = copies === null ? await find() : await copies.found()
    const product = copies === null ? found : await copies.withLater(found)
    const view = viewOf(product, call.principal, asked, deps.rules)
    last = view
    const { epoch } = view.served
    if (epoch < atLeastEpoch) throw epochNotReached(view.product, { atLeast: atLeastEpoch, epoch })
    try {
      return await read(view)
    } catch (error) {
      const later = laterEpochIn(error)
      if (later === null) throw error
      copies ??= new CopiesMet(asked.type, find, call, deps)
      await copies.meet(found, view.access.variant, later)
      throw error
    }
  })
}

/**
 * What one read has met of epochs that are later than those which it was decided by. The product is found anew then, and where the
 * registry does not know yet that the store has that epoch, it is read by what the version says that made it.
 */
class CopiesMet {
  readonly #type: string
  readonly #find: () => Promise<ServedProduct>
  readonly #call: TenantCall
  readonly #deps: ReadDeps
  /** By variant. */
  readonly #later = new Map<string, number>()
  #next: ServedProduct | null = null

  constructor(type: string, find: () => Promise<ServedProduct>, call: TenantCall, deps: ReadDeps) {
    this.#type = type
    this.#find = find
    this.#call = call
    this.#deps = deps
  }

  async found(): Promise<ServedProduct> {
    const next = this.#next
    this.#next = null
    return next ?? this.#find()
  }

  /** By what the next attempt is to be decided. */
  async withLater(found: ServedProduct): Promise<ServedProduct> {
    let product = found
    for (const [variant, epoch] of this.#later) {
      const known = product.endpoints.get(this.#type)?.targets.get(variant)
      if (known !== undefined && known.epoch >= epoch) continue
      product = (await this.#deps.withCopyAt(product, this.#type, { variant, epoch })) ?? product
    }
    return product
  }

  /** Reads that meet an epoch at once load the product once: whoever finds that another has, takes that. */
  async meet(found: ServedProduct, variant: string, epoch: number): Promise<void> {
    this.#later.set(variant, epoch)
    const now = await this.#find()
    if (now === found) this.#deps.forget(this.#call.tenant)
    else this.#next = now
  }
}

/** To be awaited before any row leaves; null where such reads are not on record. */
export function auditRead(how: string, view: ReadView, call: TenantCall, deps: ReadDeps): Promise<void> | null {
  return view.access.audit ? deps.audit(call, view.product, `read.${how}`) : null
}

/** A store that was to have an epoch says that it has none. */
const hasNothing = (error: unknown) => isSluiceError(error, 'TRANSIENT') && error.code === 'not_materialized'

/** Before each attempt. */
const RESHAPE_PAUSES_MS = [0, 0, 50, 200, 500]

/**
 * A store is given rows of another shape before the registry says so, and another runtime hears of it later still: a
 * read that comes in between is made again for the product as it is then. So it is where the store has an epoch from
 * before: the registry may have been put back, or the product be another one of that name by now; and where it has a later one.
 */
async function againIfReshaped<T>(
  call: TenantCall,
  deps: ReadDeps,
  doubt: (again: () => Promise<unknown>) => Promise<void>,
  read: () => Promise<T>,
): Promise<T> {
  let moved: unknown = null
  for (const pauseMs of RESHAPE_PAUSES_MS) {
    if (pauseMs > 0) await sleep(pauseMs, undefined, { signal: call.signal })
    try {
      return await read()
    } catch (error) {
      moved = laterEpochIn(error) === null ? null : error
      // Nothing is wrong with the copy: what has to be let go was.
      if (moved !== null) continue
      if (!isSchemaConflict(error) && !hasNothing(error) && !isCopyOutdated(error)) throw error
    }
    deps.forget(call.tenant)
  }
  if (moved !== null) throw moved
  // Nobody reshapes it that long: what the store has is not what it says.
  const last: T[] = []
  await doubt(async () => {
    last.push(await read())
  })
  for (const answer of last) return answer
  throw copyRebuilding()
}

/** By the policy as it is for this reader and these rows: what changes of other products does not end a cursor. */
export function pageBinding({ product, policy, served }: ReadView, query: PageBinding['query']): PageBinding {
  return {
    product: product.id,
    policyVersion: JSON.stringify([served.version, policy.visibleColumns, policy.maskedColumns]),
    query,
  }
}

function bindingOf(type: string, view: ReadView, query: ReadQuery): PageBinding {
  const { cursor: _cursor, limit: _limit, ...rest } = query
  return pageBinding(view, { type, variant: view.access.variant, ...rest })
}

export function planFor(
  type: EndpointType,
  query: ReadQuery,
  after: unknown,
  view: ReadView,
  signal: AbortSignal,
  timeoutMs: number,
): ReadPlan {
  const { schema, policy, served } = view
  const base: BasePlan = {
    columns: parseColumns(query.columns, policy, schema),
    filters: query.filter === undefined ? [] : parseFilters(query.filter, schema, policy),
    orderBy: parseOrder(query.order === 'asc' || query.order === 'desc' ? undefined : query.order, schema, policy),
    limit: Math.min(query.limit ?? DEFAULT_LIMIT, served.plugin.capabilities.limits.maxReadRows),
    policy,
    timeoutMs,
    signal,
    encoding: 'json',
    ...(after === undefined ? null : { after: decodePosition(after) }),
  }
  switch (type) {
    case 'lookup':
      return lookupPlan(base, query, view)
    case 'timeseries':
      return timeseriesPlan(base, query, view)
    case 'realtime':
      return realtimePlan(base, query, view)
  }
}

type BasePlan = Omit<ReadPlan, 'operation'>

function lookupPlan(base: BasePlan, query: ReadQuery, { config }: ReadView): ReadPlan {
  const withHistory = config.history_mode === 'type_2'
  if ((query.at !== undefined || query.history) && !withHistory) {
    throw new SluiceError('INVALID_DATA', 'this lookup keeps the current state only', {
      code: 'history_not_kept',
      remedy: 'Declare history_mode: type_2 in serving.yaml, or leave out at and history.',
    })
  }
  const operation = base.filters.length > 0 ? 'get' : 'scan'
  if (query.at !== undefined) {
    const instant = parseMoment(query.at, 'at')
    return { ...base, operation, history: { kind: 'at', instant } }
  }
  return query.history ? { ...base, operation, history: { kind: 'all' } } : { ...base, operation }
}

function timeseriesPlan(base: BasePlan, query: ReadQuery, view: ReadView): ReadPlan {
  const time = timeColumn(view)
  const range = {
    from: query.from === undefined ? null : parseTimeBound(query.from, time.type, 'from'),
    to: query.to === undefined ? null : parseTimeBound(query.to, time.type, 'to'),
  }
  const direction = query.order === 'desc' ? ('desc' as const) : ('asc' as const)
  const name = query.interval === undefined ? time.name : 'bucket'
  const orderBy = base.orderBy.length > 0 ? base.orderBy : [{ column: name, direction }]
  if (query.interval === undefined) return { ...base, operation: 'range', range, orderBy }
  return { ...base, operation: 'aggregate', range, orderBy, interval: query.interval }
}

function timeColumn({ config, served }: ReadView) {
  const { time_column: named } = config
  const { schema } = served.target
  if (named) return columnNamed(schema, named)
  const first = schema.columns.find((column) => ['date', 'timestamp', 'timestamptz'].includes(column.type))
  if (!first) throw new Error('a timeseries target without a time column')
  return first
}

function realtimePlan(base: BasePlan, query: ReadQuery, { keyTemplate, served }: ReadView): ReadPlan {
  if (query.key === undefined) {
    throw new SluiceError('INVALID_DATA', 'the parameter key is missing', {
      code: 'key_missing',
      remedy: 'Send the key_template with the row’s values in it, for example key=person:42.',
    })
  }
  const key = keyTemplate === null ? query.key : renderedKey(query.key, keyTemplate, served.target.schema)
  return { ...base, operation: 'key', key, limit: 1, filters: [] }
}

/**
 * Changes with the epoch, the reader's variant and policy, and what was asked; never with hidden values. Tags are only
 * compared for one address, so a plain hash of the request is enough.
 */
function etagOf(seed: string, query: ReadQuery, ttl: number | undefined): string {
  let hash = 0x811c9dc5
  for (const name in query) {
    const text = `${name}=${String(query[name as keyof ReadQuery])};`
    for (let index = 0; index < text.length; index += 1) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193)
  }
  return `${seed}-${(hash >>> 0).toString(36)}${ttl === undefined ? '' : `-${ttl}`}`
}

function keyNotFound(product: ServedProduct): SluiceError {
  return new SluiceError('INVALID_DATA', `${product.domain}.${product.name} has no such key, or it has expired`, {
    code: 'key_not_found',
    remedy: 'Check the key against the key_template, and when the product was last materialized.',
  })
}
