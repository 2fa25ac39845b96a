/**
 * The lake's own note of a product's newest epoch, beside its tables. A registry that was put back from an older dump does
 * not know that epoch: nothing is written to the product then until somebody says which of the two is right.
 */
import type { Lake, StagedCommit } from '@sluice/iceberg'
import type { Logger } from '@sluice/sdk'
import type pg from 'pg'
import { inTransaction } from '../database/pools.ts'
import { passEpoch } from '../registry/fences.ts'
import { type EpochMasks, findEpoch, latestEpoch, type Materialization } from '../registry/materializations.ts'
import { type Pause, type Product, setPause } from '../registry/products.ts'
import { passDeliveries } from '../registry/webhooks.ts'
import { lakeTable } from './variants.ts'

export interface EpochNote {
  /** The product's id: another one of the same name has nothing to do with it. */
  readonly product: string
  readonly epoch: number
  /** RFC 3339, in UTC, with milliseconds. */
  readonly committed_at: string
  readonly version: string
  readonly digest: string
  readonly snapshots: Readonly<Record<string, string>>
  readonly masked_columns: Readonly<Record<string, readonly string[]>>
  /** As an epoch keeps them; notes of earlier releases have none. */
  readonly masks?: EpochMasks | null
  readonly inputs: Readonly<Record<string, unknown>>
  /** Where each table of the product was after it: the address of its metadata. */
  readonly tables: Readonly<Record<string, string>>
}

export interface EpochNoteDeps {
  readonly pool: pg.Pool
  readonly lake: Lake
  readonly logger: Logger
}

const refOf = ({ tenant, domain, name }: Product) => lakeTable(tenant, domain, name, 'clear')

/** Null where there is none of this product. */
export async function readNote(product: Product, lake: Lake): Promise<EpochNote | null> {
  const note = (await lake.newestNote(refOf(product))) as EpochNote | null
  return note?.product === product.id ? note : null
}

/** After the commit. A note that could not be written leaves the one before, which the registry knows as well. */
export async function noteEpoch(
  product: Product,
  materialization: Materialization,
  commits: readonly Pick<StagedCommit, 'ref' | 'to'>[],
  { lake, logger }: EpochNoteDeps,
): Promise<void> {
  const { epoch, committedAt, version, digest, snapshots, maskedColumns, masks, inputs } = materialization
  try {
    const moved = Object.fromEntries(commits.map(({ ref, to }) => [ref.table, to]))
    const tables = { ...(await readNote(product, lake))?.tables, ...moved }
    const committed_at = committedAt.toISOString()
    const marks = { product: product.id, epoch: epoch as number, committed_at }
    const note: EpochNote = {
      ...marks,
      version,
      digest,
      snapshots,
      masked_columns: maskedColumns,
      masks,
      inputs,
      tables,
    }
    await writeNote(product, note, lake)
  } catch (error) {
    logger.warn('the lake could not note the newest epoch of a product', {
      product: product.id,
      error: (error as Error).message,
    })
  }
}

/** In full beside the rows in clear; beside the others no more than what their upkeep has to know. */
async function writeNote(product: Product, note: EpochNote, lake: Lake): Promise<void> {
  const own = refOf(product)
  const others = Object.entries(note.tables).filter(([table]) => table !== own.table)
  await Promise.all([
    lake.noteNewest(own, note.tables[own.table] ?? null, note),
    ...others.map(([table, location]) => lake.noteNewest({ ...own, table }, location, {})),
  ])
}

/** Upkeep has moved a table's pointer, within the same epoch. */
export async function noteMove(product: Product, { ref, to }: StagedCommit, lake: Lake): Promise<void> {
  const note = await readNote(product, lake)
  if (note?.tables[ref.table] === undefined) return
  await writeNote(product, { ...note, tables: { ...note.tables, [ref.table]: to } }, lake)
}

/** The lake's newest epoch, where the registry does not know it; null where all is well. */
export async function unknownEpoch(product: Product, { pool, lake }: EpochNoteDeps): Promise<EpochNote | null> {
  const note = await readNote(product, lake)
  if (note === null) return null
  const known = await findEpoch(pool, product.id, note.epoch)
  return known?.committedAt.toISOString() === note.committed_at ? null : note
}

/** Pauses the product where the registry is older than the lake; null where it is not. */
export async function pauseIfOutdated(product: Product, deps: EpochNoteDeps): Promise<Pause | null> {
  const note = await unknownEpoch(product, deps)
  if (note === null) return null
  const pause: Pause = { reason: 'registry_outdated', version: note.version, since: note.committed_at }
  await inTransaction(deps.pool, async (tx) => {
    await setPause(tx, product.id, pause)
    // Whoever is right: stores, readers, followers and receivers have heard of what came after the dump.
    await passEpoch(tx, product.id, note.epoch)
    await passDeliveries(tx, product.id)
  })
  const { id, tenant } = product
  deps.logger.warn('the lake has an epoch of a product that the registry does not know; nothing is written to it', {
    tenant,
    product: id,
    epoch: note.epoch,
  })
  return pause
}

/** What the registry knows is right: the lake's newer epoch is forgotten, and its files go with the next cleaning. */
export async function forgetUnknownEpoch(product: Product, deps: EpochNoteDeps): Promise<void> {
  const note = await readNote(product, deps.lake)
  if (note === null) return
  const newest = await latestEpoch(deps.pool, product.id)
  const own = refOf(product)
  const tables: Record<string, string> = {}
  for (const table of Object.keys(note.tables)) {
    const state = await deps.lake.load({ ...own, table })
    if (state !== null) tables[table] = state.location
    else await deps.lake.forgetNewest({ ...own, table })
  }
  if (newest === null) return deps.lake.forgetNewest(own)
  const { epoch, committedAt, version, digest, snapshots, maskedColumns, masks, inputs } = newest
  const marks = { product: product.id, epoch: epoch as number, committed_at: committedAt.toISOString() }
  await writeNote(
    product,
    { ...marks, version, digest, snapshots, masked_columns: maskedColumns, masks, inputs, tables },
    deps.lake,
  )
}
