/**
 * A run that erases a row of a source wherever it was carried to, and ends only when a search finds nothing of it: the raw table,
 * its quarantine, the products made of it with all that they were, their copies in stores, and files of exports. Each step may be
 * repeated, so that whatever dies, the next attempt goes on; the key is known to nobody once it has ended.
 */
import type { TableRef } from '@sluice/iceberg'
import { SluiceError } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import type { ExportFiles } from '../../lake/export-files.ts'
import { qualified } from '../../manifest/context.ts'
import type { Input } from '../../manifest/manifest-set.ts'
import type { MaterializeDeps } from '../../materializer/deps.ts'
import type { ErasedKey } from '../../materializer/erased-key.ts'
import { carriedKey, requireTellable } from '../../materializer/erasure.ts'
import { rawTable } from '../../materializer/inputs.ts'
import { productPaused } from '../../materializer/pauses.ts'
import { withProductLock } from '../../materializer/product-lock.ts'
import { lakeTable, tablesOfProduct } from '../../materializer/variants.ts'
import { appendAudit } from '../../registry/audit.ts'
import { forgetStreams } from '../../registry/captures.ts'
import { endpointStates } from '../../registry/endpoint-states.ts'
import {
  type ErasedProduct,
  type Erasure,
  type ErasureProof,
  finishErasure,
  noteFound,
  openErasure,
} from '../../registry/erasures.ts'
import { endExportsOf, forgetExport } from '../../registry/exports.ts'
import { eraseSpooled } from '../../registry/log-spool.ts'
import { PREVIEW } from '../../registry/previews.ts'
import { type Product, pauseOf } from '../../registry/products.ts'
import { newestPush, oldestPush } from '../../registry/push-spool.ts'
import { checkRun } from '../../registry/run-claims.ts'
import { appendRunLog, saveRunResult } from '../../registry/run-progress.ts'
import type { Transaction } from '../../registry/sql.ts'
import type { IngestionDeps, IngestionRun } from '../ingestion-run.ts'
import { about } from '../make-wave.ts'
import { fullNameOf, outcomeText, type ProductOutcome, publishedOutcome } from '../product-outcome.ts'
import { productProgress } from '../product-progress.ts'
import { ingestPushed } from '../push/ingest-pushed.ts'
import { PUSH_TYPE } from '../push/settings.ts'
import type { IngestionResult } from '../run-ingestion.ts'
import { sourceTable } from '../source-tables.ts'
import { reportFailure } from '../table-progress.ts'
import type { DeployedProduct } from '../wave.ts'
import { eraseRaw, rowsOfKey } from './erase-raw.ts'
import { deployedReaders, historiesOf, touchedPreviews, touchedProducts } from './touched-products.ts'

export interface ErasureDeps extends IngestionDeps {
  readonly materializer: MaterializeDeps
  readonly exportFiles: ExportFiles
  /** Changed rows that wait on disk for those who follow products of the tenant. */
  forgetSpools(tenant: string): Promise<void>
  /** As discarding it does, and until nothing is left of it. `note`: in the transaction that ends it, where it was not over. */
  endPreview(preview: Product, note: (tx: Transaction) => Promise<unknown>): Promise<void>
}

interface Member extends DeployedProduct {
  /** The row's key in the product's own columns; null where it has them not. */
  readonly key: ErasedKey | null
}

type TypedErasure = Omit<Erasure, 'key'> & { readonly key: ErasedKey }

interface Erasing {
  readonly run: IngestionRun
  readonly erasure: TypedErasure
  readonly raw: TableRef
  readonly members: readonly Member[]
  readonly deps: ErasureDeps
}

/**
 * Throws before anything is changed INVALID_DATA `erasure_unsupported` and CONFLICT `product_paused`; the error of a product that
 * could not be made anew; TRANSIENT `erasure_unfinished` where the search finds something.
 */
export async function runErasure(run: IngestionRun, id: string, deps: ErasureDeps): Promise<IngestionResult> {
  await deps.faultPoint('erasure.claimed')
  const { connection, signal } = run
  const asked = await openErasure(deps.pool, deps.masters, connection.tenant, id)
  if (asked === null) return { products: [] }
  const raw = rawTable(connection.tenant, connection.name, asked.table)
  const erasure = { ...asked, key: await typedKey(raw, asked.key, deps, signal) }
  const erasing = { run, erasure, raw, members: await membersOf(run, raw, erasure, deps), deps }
  await countBefore(erasing)
  if (connection.connectorType === PUSH_TYPE) await takePushed(erasing)
  await forgetSpooled(erasing)
  const quarantined = await eraseRaw(run, erasure.table, erasure.key, deps)
  await say(erasing, `${erasure.table}: the raw table has the row no more, and nothing of what it was before`)
  await run.toTransforms()
  const outcomes = await makeProducts(erasing)
  await deps.faultPoint('erasure.products-made')
  await awaitFirstEpochs(erasing)
  await endPreviews(erasing)
  await deps.faultPoint('erasure.previews-ended')
  const exports = await removeExports(erasing)
  await deps.forgetSpools(connection.tenant)
  signal.throwIfAborted()
  const proof = { ...(await prove(erasing, outcomes)), quarantined, exports }
  await deps.faultPoint('erasure.proved')
  await finish(erasing, proof)
  await say(erasing, `${proof.tables.length} lake tables were searched: none has anything of the row`)
  await deps.faultPoint('erasure.before-finish')
  return { products: outcomes }
}

/** Each value as the raw table has it: other tables may carry it in another type, in which the same text is another value. */
async function typedKey(
  raw: TableRef,
  texts: Readonly<Record<string, string>>,
  { lake }: ErasureDeps,
  signal: AbortSignal,
): Promise<ErasedKey> {
  const fields = (await lake.load(raw, { signal }))?.schema.fields ?? []
  const typed = Object.entries(texts).map(([name, text]) => {
    const type = fields.find((field) => field.name === name)?.type ?? 'string'
    return [name, { text, type }] as const
  })
  return Object.fromEntries(typed)
}

const say = ({ run, deps }: Erasing, text: string) => appendRunLog(deps.pool, run.lease, 'info', text)

async function membersOf(
  { connection, signal }: IngestionRun,
  raw: TableRef,
  { table, key }: TypedErasure,
  deps: ErasureDeps,
): Promise<readonly Member[]> {
  const erased = [{ table: raw, key }]
  const members: Member[] = []
  for (const one of await touchedProducts(deps.pool, connection, table)) {
    const { product, manifests } = one
    const pause = await pauseOf(deps.pool, product.id)
    if (pause !== null) throw about(fullNameOf(product), productPaused(pause))
    const own = await carriedKey(product, manifests, erased, signal, deps.materializer)
    requireTellable(product, manifests, own)
    const clear = lakeTable(product.tenant, product.domain, product.name, 'clear')
    if (own !== null) erased.push({ table: clear, key: own })
    members.push({ ...one, key: own })
  }
  return members
}

const nameOf = ({ namespace, table }: TableRef): string => `${namespace}.${table}`

async function tablesIn({ raw, members, deps }: Erasing): Promise<readonly TableRef[]> {
  const own = await Promise.all(members.map(({ product }) => tablesOfProduct(product, deps.lake)))
  return [raw, ...own.flat()]
}

async function countBefore(erasing: Erasing): Promise<void> {
  const { erasure, raw, deps, run } = erasing
  if (erasure.found !== null) return
  const snapshots: Record<string, number> = {}
  for (const ref of await tablesIn(erasing)) {
    const state = await deps.lake.load(ref, { signal: run.signal })
    if (state !== null) snapshots[nameOf(ref)] = Math.max(0, deps.lake.snapshots(state).length - 1)
  }
  const { engine } = deps.materializer
  const rows = await rowsOfKey(raw, erasure.key, false, { ...deps, engine }, run.signal)
  await noteFound(deps.pool, erasure.id, { rows, snapshots })
}

/** Rows that wait to be taken would bring it back, also where no product reads them now: the next one that does would have it. */
async function takePushed({ run, erasure, deps }: Erasing): Promise<void> {
  const { connection } = run
  const place = { connectionId: connection.id, table: erasure.table }
  const upTo = await newestPush(deps.pool, connection.id)
  if ((await oldestPush(deps.pool, place)) === null) return
  const products = await deps.productsOf(connection)
  const inputs = products.flatMap(({ manifests }) => manifests.inputs)
  const isOfTable = ({ connection: name, table }: Input) =>
    name === connection.name && qualified(table) === erasure.table
  const hooks = {
    fail: (name: string, error: unknown) => reportFailure(run, name, error, deps),
    say: (level: 'info' | 'warn', message: string) => appendRunLog(deps.pool, run.lease, level, message),
  }
  const table = sourceTable(erasure.table, inputs.filter(isOfTable))
  const [failed] = (await ingestPushed(run, [table], hooks, deps)).values()
  if (failed !== undefined) throw failed
  const left = await oldestPush(deps.pool, place)
  if (left !== null && left <= upTo) throw unfinished(`what was pushed to ${erasure.table}`)
}

/** What was taken up of the source's log would bring it back. Without it the log cannot tell the table: it is read whole. */
async function forgetSpooled({ run, erasure, deps }: Erasing): Promise<void> {
  const { connection, lease } = run
  const isGone = await inTransaction(deps.pool, async (tx) => {
    await checkRun(tx, lease)
    const found = await eraseSpooled(tx, connection.id, erasure.table)
    if (found) await forgetStreams(tx, connection.id, [erasure.table])
    return found
  })
  const text = `${erasure.table}: what waited of the source’s log is gone, and the next sync reads the table whole`
  if (isGone) await appendRunLog(deps.pool, lease, 'info', text)
}

async function makeProducts({ run, members, deps }: Erasing): Promise<readonly ProductOutcome[]> {
  const outcomes: ProductOutcome[] = []
  const { lease, signal } = run
  for (const { product, key } of members) {
    const { begun, report, settle } = productProgress(deps.pool, lease, product, outcomes)
    begun()
    try {
      const made = await deps.materialize({ product, runId: lease.runId, signal, report, erased: { key } })
      const outcome = publishedOutcome(product, made)
      outcomes.push(outcome)
      await appendRunLog(deps.pool, lease, outcome.state === 'succeeded' ? 'info' : 'warn', outcomeText(outcome))
    } catch (error) {
      throw about(fullNameOf(product), error)
    } finally {
      await settle()
    }
    await saveRunResult(deps.pool, lease, { products: outcomes })
  }
  return outcomes
}

/**
 * A product that was being made for the first time had no epoch when this began, and may have read the row before. What is
 * begun from here on has nothing of it.
 */
async function awaitFirstEpochs({ run, erasure, members, deps }: Erasing): Promise<void> {
  const { connection, signal } = run
  const known = new Set(members.map(({ product }) => product.id))
  for (const { id } of await deployedReaders(deps.pool, connection, erasure.table)) {
    if (!known.has(id)) await withProductLock(deps.pool, id, signal, async () => undefined)
  }
  const late = (await touchedProducts(deps.pool, connection, erasure.table)).find(
    ({ product }) => !known.has(product.id),
  )
  if (late !== undefined) throw unfinished(fullNameOf(late.product))
}

/**
 * Versions beside those in service are made once, of rows of then. They end when all that they can be made of has the row no
 * more: one that begins after this has nothing of it.
 */
async function endPreviews(erasing: Erasing): Promise<void> {
  const { run, erasure, deps } = erasing
  const { id, tenant, table, createdBy: actor } = erasure
  for (const preview of await touchedPreviews(deps.pool, run.connection, table)) {
    const object = { objectType: 'product', objectId: preview.previewOf as string, outcome: 'allowed' } as const
    const details = { erasure: id, preview: preview.id, run: run.lease.runId }
    await deps.endPreview(preview, (tx) =>
      appendAudit(tx, { tenant, actor, action: 'product.preview_discard', ...object, details }),
    )
    await say(erasing, `${fullNameOf(preview)}: the preview has ended, and its rows are gone`)
  }
}

/** How many files went: those of previews that have ended, too. */
async function removeExports({ run, members, deps }: Erasing): Promise<number> {
  const ids = members.map(({ product }) => product.id)
  const ended = await endExportsOf(deps.pool, run.connection.tenant, ids)
  for (const one of ended) {
    await deps.exportFiles.remove(one)
    await forgetExport(deps.pool, one.id)
  }
  return ended.length
}

/** Throws TRANSIENT `erasure_unfinished` with the name of the place that has something, and nothing of what it has. */
async function prove(
  erasing: Erasing,
  outcomes: readonly ProductOutcome[],
): Promise<Pick<ErasureProof, 'tables' | 'products' | 'rows'>> {
  const { run, erasure, raw, members, deps } = erasing
  const search = { ...deps, engine: deps.materializer.engine }
  const tables: string[] = []
  for (const ref of await tablesIn(erasing)) {
    const { snapshots, goneEntries, unreachedFiles } = await deps.lake.traces(ref, run.signal)
    if (snapshots > 1 || goneEntries > 0 || unreachedFiles > 0) throw unfinished(`the lake table ${nameOf(ref)}`)
    tables.push(nameOf(ref))
  }
  if ((await rowsOfKey(raw, erasure.key, true, search, run.signal)) > 0)
    throw unfinished(`the lake table ${nameOf(raw)}`)
  // Its row in the registry goes last, after its copies, tables and files.
  for (const preview of await touchedPreviews(deps.pool, run.connection, erasure.table))
    throw unfinished(`the preview ${fullNameOf(preview)}`)
  for (const { product } of members) {
    const [left] = await tablesOfProduct({ ...product, name: `${product.name}${PREVIEW}` }, deps.lake)
    if (left !== undefined) throw unfinished(`the lake table ${nameOf(left)}`)
  }
  const products: ErasedProduct[] = []
  for (const { product, manifests, key } of members) {
    const name = fullNameOf(product)
    const clear = lakeTable(product.tenant, product.domain, product.name, 'clear')
    if (key !== null && (await rowsOfKey(clear, key, true, search, run.signal)) > 0) throw unfinished(name)
    const { epoch } = outcomes.find(({ id }) => id === product.id) as ProductOutcome
    for (const copy of await endpointStates(deps.pool, product.id)) {
      if (copy.state !== 'ok' || copy.leftover || (copy.appliedEpoch ?? 0) < (epoch ?? 0))
        throw unfinished(`the ${copy.endpoint} store of ${name}`)
    }
    products.push({ name, epoch: epoch as number, by_key: key !== null, histories: historiesOf(manifests) })
  }
  return { tables, products, rows: 0 }
}

function unfinished(place: string): SluiceError {
  return new SluiceError('TRANSIENT', `${place} may still have something of the row`, {
    code: 'erasure_unfinished',
    remedy:
      'The run is tried again. If it fails for good, correct what keeps that place from being written, and ask for the erasure again.',
  })
}

/** The record of it has what was done, and never the key. */
async function finish({ run, erasure, deps }: Erasing, proof: ErasureProof): Promise<void> {
  const { id, tenant, table, keyDigest, connectionId, createdBy: actor } = erasure
  const { tables, products, quarantined, exports } = proof
  const counts = { tables: tables.length, products: products.map(({ name }) => name), quarantined, exports }
  await inTransaction(deps.pool, async (tx) => {
    await checkRun(tx, run.lease)
    await finishErasure(tx, id, proof)
    const details = { erasure: id, table, key_digest: keyDigest, run: run.lease.runId, ...counts }
    const object = { objectType: 'connection', objectId: connectionId, outcome: 'allowed' } as const
    await appendAudit(tx, { tenant, actor, action: 'connection.erased', ...object, details })
  })
}
