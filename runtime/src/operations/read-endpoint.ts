/** Serving reads: lookup, timeseries and realtime, by one path from the request to the store and back. */
import { hash } from 'node:crypto'
import {
  type Batch,
  columnNamed,
  type Filter,
  isJsonBatch,
  type ReadBatch,
  type ReadPlan,
  type ReadPolicy,
  rowsOf,
  SluiceError,
  type TableSchema,
  toJsonValue,
  type Value,
} from '@sluice/sdk'
import type { TenantCall } from '../flow.ts'
import type { MaskingRules } from '../policy/masking.ts'
import { parseTimeBound, parseValue } from './parse-value.ts'
import { parseColumns, parseFilters, parseOrder } from './read-request.ts'
import {
  accessTo,
  type ReadAccess,
  refuseStaleMask,
  type ServedProduct,
  type ServedTarget,
  servedTarget,
} from './served-product.ts'

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

export interface ReadDeps {
  readonly rules: MaskingRules
  readonly timeoutMs: number
  find(tenant: string, reference: string, domain: string | undefined): Promise<ServedProduct>
  /** Writes the record before any data leaves; for restricted products and administrators. */
  audit(call: TenantCall, product: ServedProduct, action: string): Promise<void>
  openCursor(call: TenantCall, cursor: string, binding: PageBinding): unknown
  sealCursor(call: TenantCall, position: unknown, binding: PageBinding): string
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
}

export type EndpointType = 'lookup' | 'timeseries' | 'realtime'

const DEFAULT_LIMIT = 100

export async function readEndpoint(
  type: EndpointType,
  call: TenantCall,
  reference: string,
  domain: string | undefined,
  query: ReadQuery,
  deps: ReadDeps,
): Promise<ReadAnswer> {
  const product = await deps.find(call.tenant, reference, domain)
  const endpoint = product.endpoints.get(type)
  const access = accessTo(product, call.principal, deps.rules, (variant) => endpoint?.targets.has(variant) ?? false)
  const served = servedTarget(product, type, access)
  refuseStaleMask(access.masks, served.maskedColumns)
  const binding = bindingOf(type, product, access, query)
  const after = query.cursor === undefined ? undefined : deps.openCursor(call, query.cursor, binding)
  const plan = planFor(type, query, after, product, access, served, call.signal, deps.timeoutMs)
  if (access.audit) await deps.audit(call, product, `read.${type}`)
  const page = await collect(served, plan, schemaOf(type, served, query))
  if (type === 'realtime' && page.rowCount === 0) throw keyNotFound(product)
  const next = page.next === undefined ? null : deps.sealCursor(call, encodePosition(page.next), binding)
  const meta = metaOf(product, served, access, page)
  return {
    json: `{"data":[${page.rows.join(',')}],"meta":${JSON.stringify(meta)},"next_cursor":${JSON.stringify(next)}}`,
    etag: etagOf(product, access, page.epoch, query, page.ttlRemainingS),
  }
}

function bindingOf(type: string, product: ServedProduct, access: ReadAccess, query: ReadQuery): PageBinding {
  const { cursor: _cursor, limit: _limit, ...rest } = query
  return {
    product: product.id,
    policyVersion: product.policyVersion,
    query: { type, variant: access.variant, ...rest },
  }
}

function planFor(
  type: EndpointType,
  query: ReadQuery,
  after: unknown,
  product: ServedProduct,
  access: ReadAccess,
  served: ServedTarget,
  signal: AbortSignal,
  timeoutMs: number,
): ReadPlan {
  const schema = schemaOf(type, served, query)
  const policy = policyFor(schema, product, access, served)
  const base = {
    columns: parseColumns(query.columns, policy, schema),
    filters: parseFilters(query.filter ?? [], schema, policy),
    orderBy: parseOrder(query.order === 'asc' || query.order === 'desc' ? undefined : query.order, schema, policy),
    limit: Math.min(query.limit ?? DEFAULT_LIMIT, served.plugin.capabilities.limits.maxReadRows),
    policy,
    timeoutMs,
    signal,
    encoding: 'json' as const,
    ...(after === undefined ? {} : { after: decodePosition(after) }),
  }
  switch (type) {
    case 'lookup':
      return lookupPlan(base, query, served)
    case 'timeseries':
      return timeseriesPlan(base, query, served)
    case 'realtime':
      return realtimePlan(base, query, policy)
  }
}

type BasePlan = Omit<ReadPlan, 'operation'>

/** The columns that a read may name: the dataset's, and what its endpoint adds. */
function schemaOf(type: EndpointType, served: ServedTarget, query: ReadQuery): TableSchema {
  const { schema, config } = served.target
  const { include_columns: included } = config as EndpointConfig
  if (type === 'realtime' && included) {
    return { columns: schema.columns.filter((column) => included.includes(column.name)), primaryKey: [] }
  }
  const operation = type === 'lookup' ? 'get' : query.interval === undefined ? 'range' : 'aggregate'
  const { interval } = query
  const columns = served.plugin.readColumns?.(
    config,
    schema,
    interval === undefined ? { operation } : { operation, interval },
  )
  if (columns === null) throw intervalNotKept(config as EndpointConfig)
  return { ...schema, columns: columns ?? schema.columns }
}

interface EndpointConfig {
  readonly history_mode?: string
  readonly tracked_columns?: readonly string[]
  readonly include_columns?: readonly string[]
  readonly time_column?: string
  readonly continuous_aggregates?: readonly { readonly interval: string; readonly columns: readonly string[] }[]
}

function policyFor(schema: TableSchema, product: ServedProduct, access: ReadAccess, served: ServedTarget): ReadPolicy {
  const masked = new Set([...access.masks.map((mask) => mask.column), ...served.maskedColumns])
  const isMasked = (name: string) => masked.has(name) || masked.has(name.replace(/^previous_/, ''))
  const names = schema.columns.map((column) => column.name)
  return {
    version: product.policyVersion,
    rows: { op: 'all' },
    claims: {},
    visibleColumns: names,
    maskedColumns: names.filter(isMasked),
  }
}

function lookupPlan(base: BasePlan, query: ReadQuery, served: ServedTarget): ReadPlan {
  const withHistory = (served.target.config as EndpointConfig).history_mode === 'type_2'
  if ((query.at !== undefined || query.history) && !withHistory) {
    throw new SluiceError('INVALID_DATA', 'this lookup keeps the current state only', {
      code: 'history_not_kept',
      remedy: 'Declare history_mode: type_2 in serving.yaml, or leave out at and history.',
    })
  }
  const operation = base.filters.length > 0 ? 'get' : 'scan'
  if (query.at !== undefined) {
    const instant = parseTimeBound(query.at, 'timestamptz', 'from')
    return { ...base, operation, history: { kind: 'at', instant } }
  }
  return query.history ? { ...base, operation, history: { kind: 'all' } } : { ...base, operation }
}

function timeseriesPlan(base: BasePlan, query: ReadQuery, served: ServedTarget): ReadPlan {
  const time = timeColumn(served)
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

function timeColumn(served: ServedTarget) {
  const { time_column: named } = served.target.config as EndpointConfig
  const { schema } = served.target
  if (named) return columnNamed(schema, named)
  const first = schema.columns.find((column) => ['date', 'timestamp', 'timestamptz'].includes(column.type))
  if (!first) throw new Error('a timeseries target without a time column')
  return first
}

function intervalNotKept({ continuous_aggregates: aggregates = [] }: EndpointConfig): SluiceError {
  return new SluiceError('INVALID_DATA', 'no continuous aggregate of that interval is kept', {
    code: 'interval_not_kept',
    remedy: `Intervals kept: ${aggregates.map((candidate) => candidate.interval).join(', ') || 'none'}.`,
  })
}

function realtimePlan(base: BasePlan, query: ReadQuery, policy: ReadPolicy): ReadPlan {
  if (query.key === undefined) {
    throw new SluiceError('INVALID_DATA', 'the parameter key is missing', {
      code: 'key_missing',
      remedy: 'Send the key as the key_template renders it, for example key=person:42.',
    })
  }
  return { ...base, operation: 'key', key: query.key, limit: 1, policy, filters: [] as readonly Filter[] }
}

interface Page {
  readonly rows: readonly string[]
  readonly rowCount: number
  readonly epoch: number
  readonly ttlRemainingS: number | undefined
  readonly next: readonly Value[] | undefined
}

async function collect(served: ServedTarget, plan: ReadPlan, schema: TableSchema): Promise<Page> {
  const rows: string[] = []
  let rowCount = 0
  let last: ReadBatch | undefined
  for await (const batch of served.store.read(served.target, plan)) {
    if (batch.rowCount > 0) rows.push(encodeRows(batch, plan.columns, schema))
    rowCount += batch.rowCount
    last = batch
  }
  return {
    rows,
    rowCount,
    epoch: last?.epoch ?? served.epoch,
    ttlRemainingS: last?.ttlRemainingS,
    next: last?.next,
  }
}

/** JSON objects, joined by commas. */
function encodeRows(batch: Batch, columns: readonly string[], schema: TableSchema): string {
  if (isJsonBatch(batch)) return batch.json.slice(batch.json.indexOf('[') + 1, batch.json.lastIndexOf(']'))
  const types = columns.map((name) => schema.columns.find((column) => column.name === name)?.type ?? 'string')
  const texts: string[] = []
  for (const row of rowsOf(batch)) {
    const entries = row.map((value, index) => [columns[index], toJsonValue(value, types[index] as 'string')])
    texts.push(JSON.stringify(Object.fromEntries(entries)))
  }
  return texts.join(',')
}

function metaOf(product: ServedProduct, served: ServedTarget, access: ReadAccess, page: Page) {
  const shown = product.variants.get(access.variant)
  const isNewest = shown?.epoch === page.epoch
  return {
    product: product.name,
    namespace: product.domain,
    version: served.version,
    epoch: page.epoch,
    snapshot_id: isNewest ? shown.snapshotId : served.snapshotId,
    as_of: isNewest ? shown.committedAt : served.committedAt,
    masked_columns: served.maskedColumns,
    store: `${served.plugin.type}:${served.plugin.name}`,
    ...(page.ttlRemainingS === undefined ? {} : { ttl_remaining_s: page.ttlRemainingS }),
  }
}

/** Changes with the epoch, the reader's variant and policy, and what was asked; never with hidden values. */
function etagOf(product: ServedProduct, access: ReadAccess, epoch: number, query: ReadQuery, ttl?: number): string {
  const text = JSON.stringify([product.tenant, product.id, product.policyVersion, access.variant, epoch, query, ttl])
  return hash('sha256', text, 'base64url').slice(0, 22)
}

function keyNotFound(product: ServedProduct): SluiceError {
  return new SluiceError('INVALID_DATA', `${product.domain}.${product.name} has no such key, or it has expired`, {
    code: 'key_not_found',
    remedy: 'Check the key against the key_template, and when the product was last materialized.',
  })
}

/** Positions travel as JSON: what it cannot hold is tagged. */
function encodePosition(values: readonly Value[]): unknown {
  return values.map((value) => {
    if (typeof value === 'bigint') return { long: value.toString() }
    if (value instanceof Uint8Array) return { binary: Buffer.from(value).toString('base64') }
    return typeof value === 'number' && !Number.isFinite(value) ? { double: String(value) } : value
  })
}

function decodePosition(position: unknown): readonly Value[] {
  return (position as readonly unknown[]).map((value): Value => {
    if (typeof value !== 'object' || value === null) return value as Value
    if ('long' in value) return parseValue(String(value.long), 'long', 'the cursor')
    if ('binary' in value) return Buffer.from(String(value.binary), 'base64')
    return Number((value as { double: string }).double)
  })
}
