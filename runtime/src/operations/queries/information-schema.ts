/**
 * `information_schema` of a query: the tables that its author may read, as he may read them, and nothing of others. No
 * table tells of rows, and none of what the author would be refused.
 */

import { type EngineTable, INFORMATION_SCHEMA, sqlType } from '@sluice/engine'
import { engineTable, type TableRef } from '@sluice/iceberg'
import { type LogicalType, parseDecimal, sqlTableNotFound } from '@sluice/sdk'
import { LRUCache } from 'lru-cache'
import { SANDBOX } from '../../lake/tenant-layout.ts'
import { qualified } from '../../manifest/context.ts'
import { rawDomain, rawTable } from '../../materializer/inputs.ts'
import { lakeTable } from '../../materializer/variants.ts'
import { missingMasks } from '../../policy/made-masks.ts'
import { everyConnection, isOfSource } from '../../registry/connections.ts'
import { deployedProducts } from '../../registry/products.ts'
import { rawReader } from '../rights/raw-rights.ts'
import { accessOrNull, notMaterialized } from '../served/served-product.ts'
import { readsSandbox, type StatementCall } from './asked-query.ts'
import type { QueriesDeps } from './deps.ts'
import type { ShownTables } from './shown-tables.ts'

export interface Described {
  readonly schema: string
  readonly table: string
  readonly columns: EngineTable['columns']
  /** Names of those that hold masks for this reader. */
  readonly masked?: readonly string[]
}

type Snapshot = Pick<Described, 'columns'> & { readonly summary: Readonly<Record<string, string>> }

const AT_ONCE = 8
/** Snapshots never change. */
const snapshots = new LRUCache<string, Snapshot>({ max: 5_000 })

/** All that the caller may read now, as he may read it, in the order of the names. */
export async function describedTables(platform: QueriesDeps, call: StatementCall): Promise<readonly Described[]> {
  const found = [
    ...(await products(platform, call)),
    ...(await sandbox(platform, call)),
    ...(await rawTables(platform, call)),
  ]
  return found.toSorted(byName)
}

/** Tables of the engine that hold the descriptions. Throws `table_not_found` or `not_materialized` where what is to be shown is not there. */
export async function descriptionsFor(
  platform: QueriesDeps,
  call: StatementCall,
  sql: string,
  shown: ShownTables | null,
): Promise<readonly EngineTable[]> {
  const found = await describedTables(platform, call)
  const wanted = shown?.table ?? null
  if (wanted !== null && !found.some(({ schema, table }) => schema === wanted[0] && table === wanted[1])) {
    const [product] = await platform.served.named(call.tenant, new Set([wanted.join('.')]))
    if (product?.variants.size === 0 && accessOrNull(product, call.principal, platform.rules) !== null) {
      throw notMaterialized(product)
    }
    throw sqlTableNotFound(wanted.join('.'), { text: sql, leadBytes: 0 }, null)
  }
  return [schemataOf(call.tenant, found), tablesOf(call.tenant, found), columnsOf(call.tenant, found)]
}

function byName(left: Described, right: Described): number {
  const [a, b] = [`${left.schema} ${left.table}`, `${right.schema} ${right.table}`]
  return a < b ? -1 : a > b ? 1 : 0
}

async function products(platform: QueriesDeps, call: StatementCall): Promise<readonly Described[]> {
  const deployed = await deployedProducts(platform.pool, call.tenant)
  return await someAtOnce(deployed, async ({ id }) => {
    const product = await platform.served.find(call.tenant, id)
    const access = accessOrNull(product, call.principal, platform.rules)
    const served = access === null ? undefined : product.variants.get(access.variant)
    // Of what is still being masked anew, nobody reads anything.
    if (access === null || served === undefined || missingMasks(access.masks, served.masks).length > 0) return null
    const ref = lakeTable(call.tenant, product.domain, product.name, access.variant)
    const { columns } = await snapshotOf(platform, call, ref, served.snapshotId)
    return { schema: product.domain, table: product.name, columns, masked: served.maskedColumns }
  })
}

async function sandbox(platform: QueriesDeps, call: StatementCall): Promise<readonly Described[]> {
  if (!readsSandbox(call.principal)) return []
  return await someAtOnce(await platform.lake.tables(call.tenant, SANDBOX), async (ref) => {
    const scan = await platform.lake.scan(ref, {}, call.signal)
    return { schema: SANDBOX, table: ref.table, columns: engineTable(scan, [ref.table]).columns }
  })
}

async function rawTables(platform: QueriesDeps, call: StatementCall): Promise<readonly Described[]> {
  const mayRead = rawReader(platform, call.principal, call.tenant)
  const found: Described[] = []
  for await (const connection of everyConnection(platform.pool, call.tenant)) {
    const schema = rawDomain(connection.name)
    const refs = await platform.lake.tables(call.tenant, schema)
    const described = await someAtOnce(refs, async (ref) => {
      const name = qualified(ref.table)
      if (!(await mayRead(connection.id, name))) return null
      const table = await platform.lake.load(rawTable(call.tenant, connection.name, name), { signal: call.signal })
      if (table?.snapshotId == null) return null
      const { columns, summary } = await snapshotOf(platform, call, ref, table.snapshotId)
      return isOfSource(summary, connection) ? { schema, table: ref.table, columns } : null
    })
    found.push(...described)
  }
  return found
}

async function snapshotOf(
  platform: QueriesDeps,
  call: StatementCall,
  ref: TableRef,
  snapshotId: string,
): Promise<Snapshot> {
  const key = JSON.stringify([ref, snapshotId])
  const known = snapshots.get(key)
  if (known !== undefined) return known
  const scan = await platform.lake.scan(ref, { snapshotId }, call.signal)
  const snapshot = { columns: engineTable(scan, [ref.table]).columns, summary: scan.summary }
  snapshots.set(key, snapshot)
  return snapshot
}

/** In the order of the items; what is null is left out. */
async function someAtOnce<Item>(
  items: readonly Item[],
  describe: (item: Item) => Promise<Described | null>,
): Promise<readonly Described[]> {
  const found: Described[] = []
  for (let at = 0; at < items.length; at += AT_ONCE) {
    const some = await Promise.all(items.slice(at, at + AT_ONCE).map(describe))
    found.push(...some.filter((one) => one !== null))
  }
  return found
}

/** A table of texts and integers, by the columns of the standard that say something here. */
function relation(
  table: string,
  columns: Readonly<Record<string, LogicalType>>,
  rows: readonly (readonly (string | number | null)[])[],
): EngineTable {
  const typed = Object.entries(columns).map(([name, type], at) => ({ name, type, fieldId: at + 1 }))
  return { name: [INFORMATION_SCHEMA, table], files: [], columns: typed, rows }
}

function schemataOf(tenant: string, found: readonly Described[]): EngineTable {
  const schemas = [...new Set(found.map(({ schema }) => schema))]
  const columns = { catalog_name: 'string', schema_name: 'string', schema_owner: 'string' } as const
  return relation(
    'schemata',
    columns,
    schemas.map((schema) => [tenant, schema, null]),
  )
}

function tablesOf(tenant: string, found: readonly Described[]): EngineTable {
  const columns = {
    table_catalog: 'string',
    table_schema: 'string',
    table_name: 'string',
    table_type: 'string',
    is_insertable_into: 'string',
  } as const
  return relation(
    'tables',
    columns,
    found.map(({ schema, table }) => [tenant, schema, table, 'BASE TABLE', 'NO']),
  )
}

function columnsOf(tenant: string, found: readonly Described[]): EngineTable {
  const columns = {
    table_catalog: 'string',
    table_schema: 'string',
    table_name: 'string',
    column_name: 'string',
    ordinal_position: 'integer',
    column_default: 'string',
    is_nullable: 'string',
    data_type: 'string',
    character_maximum_length: 'integer',
    numeric_precision: 'integer',
    numeric_precision_radix: 'integer',
    numeric_scale: 'integer',
    datetime_precision: 'integer',
  } as const
  const rows = found.flatMap(({ schema, table, columns: own }) =>
    own.map(({ name, type }, at) => {
      const place = [tenant, schema, table, name, at + 1, null, 'YES', dataType(type), null]
      return [...place, ...numbersOf(type)]
    }),
  )
  return relation('columns', columns, rows)
}

const dataType = (type: LogicalType): string => (type === 'timestamptz' ? 'TIMESTAMP WITH TIME ZONE' : sqlType(type))

const BITS: Readonly<Record<string, number>> = { integer: 32, long: 64, float: 24, double: 53 }

/** Precision, its radix, the scale, and the digits of a second. */
function numbersOf(type: LogicalType): readonly (number | null)[] {
  const decimal = parseDecimal(type)
  if (decimal !== null) return [decimal.precision, 10, decimal.scale, null]
  const bits = BITS[type]
  if (bits !== undefined) return [bits, 2, type === 'integer' || type === 'long' ? 0 : null, null]
  return [null, null, null, type.startsWith('timestamp') ? 6 : null]
}
