import type { StagedCommit, TableRef, TableState } from '@sluice/iceberg'
import { SluiceError } from '@sluice/sdk'
import { inTransaction } from '../database/pools.ts'
import { registryCatalog } from '../lake/registry-catalog.ts'
import { keepsMissing, type ManifestSet, outputSchema } from '../manifest/manifest-set.ts'
import { eraseCopies } from '../registry/endpoint-states.ts'
import { latestEpoch, type Materialization } from '../registry/materializations.ts'
import { forgetProfiles } from '../registry/past-epochs.ts'
import type { Product } from '../registry/products.ts'
import { newestSummary } from './changed-rows.ts'
import type { MaterializeDeps } from './deps.ts'
import { noteMove } from './epoch-note.ts'
import type { ErasedKey, ErasedValue } from './erased-key.ts'
import { readInputs } from './inputs.ts'
import { keysCopied } from './row-wise.ts'
import { lakeTable, tablesOfProduct } from './variants.ts'

export interface ErasedRow {
  readonly table: TableRef
  readonly key: ErasedKey
}

/** The key that the product's rows of one of these have, in its own columns; null where that cannot be told. */
export async function carriedKey(
  product: Product,
  manifests: ManifestSet,
  erased: readonly ErasedRow[],
  signal: AbortSignal,
  deps: MaterializeDeps,
): Promise<ErasedKey | null> {
  const { inputs, compute, output } = manifests
  if (inputs.length !== 1 || compute.engine === 'distributed') return null
  const [read] = await readInputs(product, manifests, signal, {
    pool: deps.pool,
    lake: deps.lake,
    upstreamOf: (input) => deps.upstreamOf(product, product.currentVersion as string, input),
  })
  const row =
    read && erased.find(({ table }) => table.namespace === read.table.namespace && table.table === read.table.table)
  if (read === undefined || row === undefined) return null
  const asked = { tenant: product.tenant, limits: deps.transformLimits, signal }
  const copied =
    compute.transform === null
      ? new Map(output.columns.map(({ name }) => [name, name]))
      : await keysCopied(deps.engine, compute.transform, read, asked)
  const own = Object.entries(row.key).map(([name, value]) => {
    const column = outputSchema(output).columns.find((one) => copied?.get(one.name) === name)
    return column === undefined ? null : ([column.name, value] as const)
  })
  return own.includes(null) ? null : Object.fromEntries(own as (readonly [string, ErasedValue])[])
}

/** Where nobody could say which of the rows that it keeps are those of the source's row. */
export function requireTellable({ domain, name }: Product, { output }: ManifestSet, key: ErasedKey | null): void {
  if (key !== null || !keepsMissing(output)) return
  throw new SluiceError(
    'INVALID_DATA',
    `${domain}.${name} keeps rows that its inputs no longer have, and not the columns of the row’s key: which of its rows are to go cannot be told`,
    {
      code: 'erasure_unsupported',
      remedy:
        'Nothing was changed. Deploy a version of it with write_mode replace, or one that has the columns of the key as they are, and ask again.',
    },
  )
}

/** Whether what the tables are now is that epoch, and nothing was written after it. */
export async function isAsWritten(product: Product, written: Materialization, deps: MaterializeDeps): Promise<boolean> {
  const newest = await latestEpoch(deps.pool, product.id)
  if (newest?.epoch !== written.epoch) return false
  for (const [variant, snapshotId] of Object.entries(written.snapshots)) {
    const state = await deps.lake.load(lakeTable(product.tenant, product.domain, product.name, variant))
    if (state?.snapshotId !== snapshotId) return false
  }
  return true
}

/**
 * The epoch is all that there is of the product: tables, learned measures, and copies that are made anew. Only where the caller
 * has the product's lock. Repeatable.
 */
export async function forgetBefore(
  product: Product,
  written: Materialization,
  signal: AbortSignal,
  deps: MaterializeDeps,
): Promise<void> {
  for (const ref of await tablesOfProduct(product, deps.lake)) {
    const publish = async (staged: StagedCommit) => {
      await inTransaction(deps.pool, (tx) => deps.lake.publish(registryCatalog(tx), [staged]))
      await noteMove(product, staged, deps.lake)
    }
    const state = await deps.lake.load(ref, { signal })
    if (state === null) continue
    const isOfEpoch = newestSummary(state, deps.lake)?.['sluice.epoch'] === String(written.epoch)
    if (!isOfEpoch) await publish(await emptied(state, signal, deps))
    await deps.lake.forgetHistory(ref, publish, signal)
    await deps.faultPoint('erasure.table-forgotten')
  }
  await inTransaction(deps.pool, async (tx) => {
    await forgetProfiles(tx, product.id, written.id)
    await eraseCopies(tx, product.id)
  })
  await deps.faultPoint('erasure.product-forgotten')
}

/** What no epoch fills any more: twins of clearances that nobody has, rows that checks of former versions put aside. */
function emptied(state: TableState, signal: AbortSignal, deps: MaterializeDeps): Promise<StagedCommit> {
  const before = newestSummary(state, deps.lake) ?? {}
  const summary = Object.fromEntries(Object.entries(before).filter(([name]) => name.startsWith('sluice.')))
  const change = { base: state, operation: 'replace', files: [], leavesNoTrace: true, summary } as const
  return deps.lake.stage(state.ref, change, signal)
}
