/** Rows of sources that are to be nowhere any more: asked for by their keys, and told of without them. */
import { type LogicalType, SluiceError, typeName } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import type { TenantCall } from '../../flow.ts'
import type { ErasureInput } from '../../ingestion/erasure/erasure-input.ts'
import { historiesOf, touchedPreviews, touchedProducts } from '../../ingestion/erasure/touched-products.ts'
import { about } from '../../ingestion/make-wave.ts'
import { fullNameOf } from '../../ingestion/product-outcome.ts'
import type { DeployedProduct } from '../../ingestion/wave.ts'
import { qualified } from '../../manifest/context.ts'
import { rawTable } from '../../materializer/inputs.ts'
import { productPaused } from '../../materializer/pauses.ts'
import { tablesOfProduct } from '../../materializer/variants.ts'
import { actorOf } from '../../registry/actor.ts'
import type { Connection } from '../../registry/connections.ts'
import { closeErasures, createErasure, type Erasure, findErasure, listErasures } from '../../registry/erasures.ts'
import type { Page, PageRequest } from '../../registry/paging.ts'
import { pauseOf } from '../../registry/products.ts'
import { enqueueRun, rollbackUnderWay } from '../../registry/runs.ts'
import type { Queryable } from '../../registry/sql.ts'
import { audited } from '../audit.ts'
import { connectionOf } from '../connections/connections.ts'
import type { Keep } from '../keep.ts'
import { notFound } from '../not-found.ts'
import { requireAdmin } from '../permissions.ts'
import { parseValue } from '../reads/parse-value.ts'
import type { ErasuresDeps } from './deps.ts'

export interface WantedErasure {
  /** `schema.table` */
  readonly table: string
  /** By column. Numbers only where JSON's reader has lost nothing of them. */
  readonly key: Readonly<Record<string, string | number | boolean>>
  /** That former snapshots of the tables go with it. */
  readonly expireHistory: boolean
}

const ATTEMPTS = 20

/**
 * Queues the run. Throws INVALID_DATA `table_not_ingested`, `erasure_key_mismatch` and `invalid_value` for a key that the raw table
 * has not, or a number that may have lost digits, CONFLICT `product_paused`, `run_in_progress`
 * of a product that the run would make anew and may not, and `erasure_expires_history` where nobody has said yet that history may go, with what would.
 */
export async function requestErasure(
  platform: ErasuresDeps,
  call: TenantCall,
  reference: string,
  wanted: WantedErasure,
  keep: Keep<Erasure>,
): Promise<Erasure> {
  requireAdmin(call.principal)
  const { tenant } = call
  const connection = await connectionOf(platform, tenant, reference)
  const table = qualified(wanted.table)
  const key = await checkedKey(platform, connection, table, wanted)
  const members = await touchedProducts(platform.pool, connection, table)
  await requireMakeable(platform.pool, members)
  if (!wanted.expireHistory) throw await expiresHistory(platform, connection, table, members)
  const createdBy = actorOf(call.principal)
  return inTransaction(platform.pool, async (tx) => {
    await requireMakeable(tx, members)
    const made = await createErasure(
      tx,
      platform.masters,
      { tenant, connectionId: connection.id, table, key, createdBy },
      async (erasure) => {
        const input: ErasureInput & Readonly<Record<string, unknown>> = { erasure }
        const target = { tenant, kind: 'ingestion', connectionId: connection.id } as const
        return (await enqueueRun(tx, { ...target, input, trigger: 'manual', createdBy, maxAttempts: ATTEMPTS })).id
      },
    )
    const about = { erasure: made.id, table, key_digest: made.keyDigest, run: made.runId }
    await audited(tx, call, tenant, 'connection.erase', { type: 'connection', id: connection.id }, about)
    await keep(tx, made)
    return made
  })
}

/** Newest first. */
export async function erasuresOf(
  platform: ErasuresDeps,
  call: TenantCall,
  reference: string,
  page: PageRequest,
): Promise<Page<Erasure>> {
  requireAdmin(call.principal)
  const { id } = await connectionOf(platform, call.tenant, reference)
  await closeErasures(platform.pool, call.tenant)
  return listErasures(platform.pool, call.tenant, id, page)
}

/** Throws INVALID_DATA `erasure_not_found`. */
export async function erasureOf(
  platform: ErasuresDeps,
  call: TenantCall,
  reference: string,
  id: string,
): Promise<Erasure> {
  requireAdmin(call.principal)
  const connection = await connectionOf(platform, call.tenant, reference)
  await closeErasures(platform.pool, call.tenant)
  const found = await findErasure(platform.pool, call.tenant, connection.id, id)
  if (found === null) throw notFound('erasure')
  return found
}

async function checkedKey(
  { lake }: ErasuresDeps,
  { tenant, name }: Connection,
  table: string,
  { key }: WantedErasure,
): Promise<Readonly<Record<string, string>>> {
  const state = await lake.load(rawTable(tenant, name, table))
  if (state === null) throw noRawTable(table)
  const { fields, identifierFieldIds } = state.schema
  const own = fields.filter(({ id }) => identifierFieldIds.includes(id)).map((field) => field.name)
  const given = Object.keys(key)
  // Of a table without a key all rows that have these values.
  const wanted = own.length > 0 ? own : given
  const isWhole = given.length === wanted.length && wanted.every((column) => given.includes(column))
  if (!isWhole || !given.every((column) => fields.some((field) => field.name === column))) throw keyMismatch(table, own)
  const texts = Object.entries(key).map(([column, value]) => {
    const { type } = fields.find((field) => field.name === column) as { readonly type: LogicalType }
    if (UNCOMPARED.includes(typeName(type))) throw keyMismatch(table, own)
    // In one form: the same text may be another value where a product has the column in another type.
    return [column, String(parseValue(exactText(column, value), type, `the value of ${column}`))] as const
  })
  return Object.fromEntries(texts)
}

/** A number that JSON's reader has rounded would name another row: that one would be gone for ever, and the one that was meant stay. */
function exactText(column: string, value: string | number | boolean): string {
  if (typeof value !== 'number' || Number.isSafeInteger(value)) return String(value)
  throw new SluiceError('INVALID_DATA', `the value of ${column} is a number that may have lost digits on its way`, {
    code: 'invalid_value',
    remedy: 'Write numbers with a fraction, or beyond ±(2^53−1), as strings.',
  })
}

/** No text says which value of these is meant. */
const UNCOMPARED = ['binary', 'json', 'float', 'double']

/** Its run makes each anew, and that would take away what a pause keeps: whoever has paused it says that it may go. */
async function requireMakeable(db: Queryable, members: readonly DeployedProduct[]): Promise<void> {
  for (const { product } of members) {
    const pause = await pauseOf(db, product.id)
    if (pause !== null) throw about(fullNameOf(product), productPaused(pause))
    const rollback = await rollbackUnderWay(db, product.id)
    if (rollback !== null) throw rollbackPauses(fullNameOf(product), rollback)
  }
}

function rollbackPauses(product: string, runId: string): SluiceError {
  return new SluiceError('CONFLICT', `${product} is being rolled back, which pauses it`, {
    code: 'run_in_progress',
    remedy: `Wait for the run ${runId}, resume the product or deploy a version of it, and ask again.`,
  })
}

async function expiresHistory(
  platform: ErasuresDeps,
  connection: Connection,
  table: string,
  members: readonly DeployedProduct[],
): Promise<SluiceError> {
  const previews = await touchedPreviews(platform.pool, connection, table)
  const raw = rawTable(connection.tenant, connection.name, table)
  const own = await Promise.all(members.map(({ product }) => tablesOfProduct(product, platform.lake)))
  const snapshots: Record<string, number> = {}
  for (const ref of [raw, ...own.flat()]) {
    const state = await platform.lake.load(ref)
    if (state !== null)
      snapshots[`${ref.namespace}.${ref.table}`] = Math.max(0, platform.lake.snapshots(state).length - 1)
  }
  const nameOf = ({ product }: DeployedProduct) => fullNameOf(product)
  const products = members.map(nameOf)
  const ended = previews.map(fullNameOf)
  const histories = members.filter(({ manifests }) => historiesOf(manifests).length > 0).map(nameOf)
  return new SluiceError(
    'CONFLICT',
    `nothing was erased: with the row go ${[
      `former snapshots of ${listed([table, ...products])}`,
      ...(histories.length === 0 ? [] : [`histories in stores of ${listed(histories)}`]),
      ...(ended.length === 0 ? [] : [`previews ${listed(ended)}`]),
    ].join('; ')}`,
    {
      code: 'erasure_expires_history',
      remedy: 'Ask again with expire_history true (--expire-history) where that may go.',
      details: { snapshots, products, previews: ended, histories },
    },
  )
}

const NAMED = 20

function listed(names: readonly string[]): string {
  const more = names.length - NAMED
  return `${names.slice(0, NAMED).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

function noRawTable(table: string): SluiceError {
  return new SluiceError('INVALID_DATA', `the lake has no rows of ${table}`, {
    code: 'table_not_ingested',
    remedy: 'Name a table, as schema.table, that a deployed product has read from the connection.',
  })
}

function keyMismatch(table: string, key: readonly string[]): SluiceError {
  const what =
    key.length === 0
      ? 'has no key, and not all of these columns with values that can be compared'
      : `is told apart by ${key.join(', ')}`
  return new SluiceError('INVALID_DATA', `${table} ${what}`, {
    code: 'erasure_key_mismatch',
    remedy: 'Give a value for each column of the key, and for no other.',
  })
}
