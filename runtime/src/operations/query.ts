/** SQL over the products that the caller may read, in an engine process that holds nothing else. */
import { SluiceError, type Value } from '@sluice/sdk'
import type { EngineRun, EngineTable, ResultColumn } from '../engine/engine.ts'
import type { TenantCall } from '../flow.ts'
import { engineTable, type TableRef } from '../lake/lake.ts'
import { rawTable } from '../materializer/materialize.ts'
import { lakeTable } from '../materializer/variants.ts'
import { listConnections } from '../registry/connections.ts'
import { epochAsOf, epochOfSnapshot, type Materialization } from '../registry/materializations.ts'
import { parseValue } from './parse-value.ts'
import { audited, type Platform } from './platform.ts'
import { mayReadRaw } from './products.ts'
import { accessTo, type ReadAccess, refuseStaleMask, type ServedProduct } from './served-product.ts'

export type QueryFormat = 'json' | 'ndjson' | 'csv' | 'parquet'

export interface QueryRequest {
  readonly sql: string
  readonly params?: readonly (string | number | boolean | null)[]
  readonly limit?: number
  readonly timeoutMs?: number
  /** A time (RFC 3339), or a snapshot id. */
  readonly asOf?: string
  readonly format: QueryFormat
}

export interface QueryAnswer {
  readonly run: EngineRun
  readonly columns: readonly (ResultColumn & { readonly masked: boolean })[]
  readonly snapshots: Readonly<Record<string, string>>
  readonly startedAtMs: number
}

interface Visible {
  readonly table: EngineTable
  readonly name: string
  readonly snapshotId: string
  readonly maskedColumns: readonly string[]
}

const OUTPUT_KINDS = { json: 'json-rows', ndjson: 'ndjson', csv: 'csv', parquet: 'parquet' } as const
const MAX_PARQUET_BYTES = 4 * 1024 * 1024 * 1024
const QUERY_THREADS = 2

export async function runQuery(platform: Platform, call: TenantCall, request: QueryRequest): Promise<QueryAnswer> {
  const startedAtMs = performance.now()
  const visible = await visibleTables(platform, call, request)
  const { limits } = platform.config
  const run = await platform.engine.run(
    {
      trust: 'tenant',
      tables: visible.map((entry) => entry.table),
      output: {
        kind: OUTPUT_KINDS[request.format],
        sql: request.sql,
        parameters: (request.params ?? []).map((value): Value => value),
      },
      limits: {
        memoryBytes: limits.query_memory_mb * 1024 * 1024,
        timeoutMs: Math.min(request.timeoutMs ?? limits.query_timeout_ms, limits.query_timeout_ms),
        threads: QUERY_THREADS,
        ...(request.format === 'parquet'
          ? { maxOutputBytes: MAX_PARQUET_BYTES }
          : { maxRows: Math.min(request.limit ?? limits.query_rows, limits.query_rows) }),
      },
    },
    call.signal,
  )
  const masked = new Set(visible.flatMap((entry) => entry.maskedColumns))
  return {
    run,
    columns: run.columns.map((column) => ({ ...column, masked: masked.has(column.name) })),
    snapshots: Object.fromEntries(visible.map((entry) => [entry.name, entry.snapshotId])),
    startedAtMs,
  }
}

/** What the statement may refer to and its author may read; nothing else exists for it. */
async function visibleTables(platform: Platform, call: TenantCall, request: QueryRequest): Promise<readonly Visible[]> {
  const products = await platform.served.mentionedIn(call.tenant, request.sql)
  const visible: Visible[] = []
  for (const product of products) {
    const access = accessOrNull(platform, call, product)
    if (access === null) continue
    const table = await productTable(platform, call, product, access, request.asOf)
    if (table === null) continue
    if (access.audit) {
      await audited(platform.pool, call, call.tenant, 'read.query', { type: 'product', id: product.id })
    }
    visible.push(...table)
  }
  return [...visible, ...(await rawTables(platform, call, request.sql))]
}

/** A product that the caller may not read does not exist for the statement. */
function accessOrNull(platform: Platform, call: TenantCall, product: ServedProduct): ReadAccess | null {
  try {
    return accessTo(product, call.principal, platform.rules, (variant) => product.variants.has(variant))
  } catch (error) {
    if (error instanceof SluiceError && error.kind === 'PERMISSION') return null
    throw error
  }
}

async function productTable(
  platform: Platform,
  call: TenantCall,
  product: ServedProduct,
  access: ReadAccess,
  asOf: string | undefined,
): Promise<readonly Visible[] | null> {
  const epoch = asOf === undefined ? null : await epochAt(platform, product, asOf)
  const snapshotId =
    asOf === undefined ? product.variants.get(access.variant)?.snapshotId : epoch?.snapshots[access.variant]
  if (snapshotId === undefined) {
    if (asOf === undefined || epoch === null) return null
    throw stalePast()
  }
  const maskedColumns =
    (epoch === null ? product.variants.get(access.variant)?.maskedColumns : epoch.maskedColumns[access.variant]) ?? []
  // Today's policy holds for the past, too.
  refuseStaleMask(access.masks, maskedColumns)
  const ref = lakeTable(call.tenant, product.domain, product.name, access.variant)
  const own = await visibleTable(platform, call, ref, [product.domain, product.name], snapshotId, maskedColumns)
  const aside = await quarantineTable(platform, call, product, access)
  return aside === null ? [own] : [own, aside]
}

async function visibleTable(
  platform: Platform,
  call: TenantCall,
  ref: TableRef,
  name: readonly string[],
  snapshotId: string,
  maskedColumns: readonly string[],
): Promise<Visible> {
  const scan = await platform.lake.scan(ref, { snapshotId }, call.signal)
  return { table: engineTable(scan, name), name: name.join('.'), snapshotId, maskedColumns }
}

/** Rows that checks put aside, for those who may read the product. */
async function quarantineTable(
  platform: Platform,
  call: TenantCall,
  product: ServedProduct,
  access: ReadAccess,
): Promise<Visible | null> {
  const ref = lakeTable(call.tenant, product.domain, `${product.name}__quarantine`, access.variant)
  const table = await platform.lake.load(ref, { signal: call.signal })
  if (table?.snapshotId == null) return null
  const masked = access.masks.map((mask) => mask.column)
  return visibleTable(platform, call, ref, [product.domain, `${product.name}__quarantine`], table.snapshotId, masked)
}

function stalePast(): SluiceError {
  return new SluiceError('CONFLICT', 'that snapshot was made before columns of it were classified as they are today', {
    code: 'snapshot_not_masked',
    remedy: 'Ask for a later snapshot, or for a grant that unmasks the columns.',
  })
}

async function epochAt(platform: Platform, product: ServedProduct, asOf: string): Promise<Materialization | null> {
  if (/^\d{1,19}$/.test(asOf)) {
    const epoch = await epochOfSnapshot(platform.pool, product.id, asOf)
    if (epoch) return epoch
    throw new SluiceError('INVALID_DATA', 'no product of this query has that snapshot', {
      code: 'snapshot_not_found',
      remedy: 'Take an id from GET /api/v1/products/{id}/snapshots.',
    })
  }
  const instant = parseValue(asOf, 'timestamptz', 'as_of') as string
  return epochAsOf(platform.pool, product.id, new Date(instant))
}

/** `raw_<connection>.<table>`, for those who may read it. */
async function rawTables(platform: Platform, call: TenantCall, sql: string): Promise<readonly Visible[]> {
  const lower = sql.toLowerCase()
  if (!lower.includes('raw_')) return []
  const visible: Visible[] = []
  const connections = await listConnections(platform.pool, call.tenant, { limit: 1000, after: null })
  for (const connection of connections.items) {
    const domain = `raw_${connection.name}`
    if (!lower.includes(domain)) continue
    for (const ref of await platform.lake.tables(call.tenant, domain)) {
      const name = ref.table.includes('.') ? ref.table : `public.${ref.table}`
      if (!lower.includes(ref.table.toLowerCase()) || !(await mayReadRaw(platform, call, connection, name))) continue
      const table = await platform.lake.load(rawTable(call.tenant, connection.name, name), { signal: call.signal })
      if (table?.snapshotId == null) continue
      await audited(
        platform.pool,
        call,
        call.tenant,
        'read.raw',
        { type: 'connection', id: connection.id },
        { table: name },
      )
      visible.push(await visibleTable(platform, call, ref, [domain, ref.table], table.snapshotId, []))
    }
  }
  return visible
}
