/** One row for every epoch of a product, and for every attempt that its quality checks kept from becoming one. */
import type { MaskStrategy } from '../config.ts'
import { readAtOf } from './data-ages.ts'
import { checkFence, NEXT_EPOCH } from './fences.ts'
import { newId } from './ids.ts'
import { type Page, type PageRequest, pageParameters, toPage } from './paging.ts'
import { noteReadAt } from './read-ats.ts'
import { wakeFollowers } from './schedule-follows.ts'
import { change, json, many, maybeOne, one, type Queryable, type Transaction } from './sql.ts'

/** Of a column of which nobody knew how it is masked, once the lake has no rows of the epoch any more. */
export const GONE = 'gone'

/** How columns are masked, by variant and column. */
export type EpochMasks = Readonly<Record<string, Readonly<Record<string, MaskStrategy | typeof GONE>>>>

export interface Materialization {
  readonly id: string
  readonly tenant: string
  readonly productId: string
  /** Null where nothing was published. */
  readonly epoch: number | null
  readonly kind: 'materialize' | 'rollback'
  readonly state: 'committed' | 'blocked'
  readonly runId: string | null
  readonly version: string
  readonly digest: string
  /** The lake's snapshot id by variant, as text: it has 63 bits. */
  readonly snapshots: Readonly<Record<string, string>>
  readonly maskedColumns: Readonly<Record<string, readonly string[]>>
  /** How each of them is masked, by variant and column; null of epochs that were made before it was noted. */
  readonly masks: EpochMasks | null
  /** By input alias: what was read, for the next incremental run and for a rollback. */
  readonly inputs: Readonly<Record<string, unknown>>
  /** `rows`, `quarantined`, and under `lost.<column>` the values that its cast took something from. */
  readonly counts: Readonly<Record<string, number>>
  readonly quality: unknown
  /** 0 to 100; null without checks. */
  readonly qualityScore: number | null
  /** Of the database's clock; later than that of the epoch before. */
  readonly committedAt: Date
}

const COLUMNS = `id, tenant, product_id as "productId", epoch, kind, state, run_id as "runId", version, digest,
  snapshots, masked_columns as "maskedColumns", masks, inputs, counts, quality, quality_score as "qualityScore",
  committed_at as "committedAt"`

export interface NewMaterialization {
  readonly tenant: string
  readonly productId: string
  readonly kind: 'materialize' | 'rollback'
  readonly runId: string | null
  readonly version: string
  readonly digest: string
  readonly maskedColumns: Readonly<Record<string, readonly string[]>>
  readonly masks?: EpochMasks | null
  readonly inputs: Readonly<Record<string, unknown>>
  readonly counts: Readonly<Record<string, number>>
  readonly quality: unknown
  readonly qualityScore: number | null
  /** Of a rollback: the epoch that it brought back. */
  readonly restoredEpoch?: number
}

const LOST = 'lost.'

/** As `counts` has them. */
export function lostCounts(lost: Readonly<Record<string, number>>): Readonly<Record<string, number>> {
  return Object.fromEntries(Object.entries(lost).map(([column, values]) => [`${LOST}${column}`, values]))
}

/** Values that lost something by the cast to their column's type, by column. */
export function lostIn({ counts }: Pick<Materialization, 'counts'>): Readonly<Record<string, number>> {
  const own = Object.entries(counts).filter(([name]) => name.startsWith(LOST))
  return Object.fromEntries(own.map(([name, values]) => [name.slice(LOST.length), values]))
}

export interface ReservedEpoch {
  readonly epoch: number
  readonly committedAt: Date
}

/**
 * Locks the product under the caller's token and takes its next epoch. The lake's commit and `recordEpoch` follow in
 * the same transaction, so that all of it happens or nothing. FENCED where a newer writer came.
 */
export async function reserveEpoch(tx: Transaction, productId: string, token: bigint): Promise<ReservedEpoch> {
  await checkFence(tx, productId, token)
  // Strictly later than the epoch before, whatever the clock was set to meanwhile: histories are timed by it.
  return one<ReservedEpoch>(
    tx,
    'taking the next epoch',
    `update product_fences set epoch = ${NEXT_EPOCH},
       epoch_committed_at = greatest(clock_timestamp(), epoch_committed_at + interval '1 millisecond')
     where product_id = $1 returning epoch, epoch_committed_at as "committedAt"`,
    [productId],
  )
}

/**
 * Told at the commit of every epoch, and once for all the later reads of a wave; the payload is the tenant. Runtimes forget by it
 * what they keep of its products.
 */
export const EPOCHS_CHANNEL = 'sluice_epochs'

/** Records the epoch that `reserveEpoch` took in this transaction, and has every runtime told of it. */
export function recordEpoch(
  tx: Transaction,
  epoch: ReservedEpoch,
  materialization: NewMaterialization & { readonly snapshots: Readonly<Record<string, string>> },
): Promise<Materialization> {
  return insertEpoch(tx, materialization, epoch.epoch, materialization.snapshots, epoch.committedAt)
}

type AdoptedEpoch = Pick<
  Materialization,
  'committedAt' | 'version' | 'digest' | 'snapshots' | 'maskedColumns' | 'masks' | 'inputs'
> & { readonly epoch: number }

/** Records an epoch that the lake has and the registry has not. Results of its checks are not known any more. */
export async function adoptEpoch(
  tx: Transaction,
  { id, tenant }: { readonly id: string; readonly tenant: string },
  adopted: AdoptedEpoch,
): Promise<void> {
  const { epoch, committedAt, snapshots, ...rest } = adopted
  await many(
    tx,
    'taking over an epoch of the lake',
    `update product_fences set epoch = greatest(epoch, $2), token = token + 1,
       epoch_committed_at = greatest(epoch_committed_at, $3) where product_id = $1`,
    [id, epoch, committedAt],
  )
  // An epoch of the same number, which the registry made by itself, is not what the lake has.
  await many(
    tx,
    'taking over an epoch of the lake',
    'delete from materializations where product_id = $1 and epoch >= $2',
    [id, epoch],
  )
  const row = { ...rest, tenant, productId: id, kind: 'materialize', runId: null, counts: {}, quality: null } as const
  await insertEpoch(tx, { ...row, qualityScore: null }, epoch, snapshots, committedAt)
}

/**
 * That the rows of the newest epoch are those of a later read, too. Whoever notes the last one of a wave says so (`tellLaterReads`).
 * @param readAts of inputs, RFC 3339 by alias; those that are missing stay
 */
export async function noteLaterRead(
  tx: Transaction,
  { id, productId, inputs }: Materialization,
  readAts: Readonly<Record<string, string | null>>,
): Promise<void> {
  const later = Object.entries(inputs).map(([name, kept]) => {
    const read = readAts[name] ?? null
    return [name, read === null ? kept : { ...(kept as object), read_at: read }] as const
  })
  const noted = await maybeOne<Materialization>(
    tx,
    'noting a read',
    `update materializations set inputs = $2 where id = $1 and inputs <> $2 returning ${COLUMNS}`,
    [id, json(Object.fromEntries(later))],
  )
  if (noted !== null) await noteReadAt(tx, productId, readAtOf(noted))
}

export async function tellLaterReads(db: Queryable, tenant: string): Promise<void> {
  await change(db, 'telling the runtimes of reads', 'select pg_notify($1, $2)', [EPOCHS_CHANNEL, tenant])
}

/** Records an attempt that was not published. */
export function recordBlocked(db: Queryable, materialization: NewMaterialization): Promise<Materialization> {
  return insert(db, materialization, null, {}, null)
}

async function insertEpoch(
  tx: Transaction,
  row: NewMaterialization,
  epoch: number,
  snapshots: Readonly<Record<string, string>>,
  committedAt: Date,
): Promise<Materialization> {
  await change(tx, 'telling the runtimes of an epoch', 'select pg_notify($1, $2)', [EPOCHS_CHANNEL, row.tenant])
  await wakeFollowers(tx, row.productId)
  const inserted = await insert(tx, row, epoch, snapshots, committedAt)
  await noteReadAt(tx, row.productId, readAtOf(inserted))
  return inserted
}

function insert(
  db: Queryable,
  row: NewMaterialization,
  epoch: number | null,
  snapshots: Readonly<Record<string, string>>,
  committedAt: Date | null,
): Promise<Materialization> {
  return one<Materialization>(
    db,
    'recording the materialization',
    `insert into materializations (id, tenant, product_id, epoch, kind, state, run_id, version, digest, snapshots,
       masked_columns, inputs, counts, quality, quality_score, committed_at, restored_epoch, masks)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, coalesce($16, clock_timestamp()), $17, $18)
     returning ${COLUMNS}`,
    [
      newId('mat'),
      row.tenant,
      row.productId,
      epoch,
      row.kind,
      epoch === null ? 'blocked' : 'committed',
      row.runId,
      row.version,
      row.digest,
      json(snapshots),
      json(row.maskedColumns),
      json(row.inputs),
      json(row.counts),
      json(row.quality),
      row.qualityScore,
      committedAt,
      row.restoredEpoch ?? null,
      json(row.masks ?? null),
    ],
  )
}

export function findMaterialization(db: Queryable, tenant: string, id: string): Promise<Materialization | null> {
  return maybeOne<Materialization>(
    db,
    'reading the materialization',
    `select ${COLUMNS} from materializations where tenant = $1 and id = $2`,
    [tenant, id],
  )
}

/** The newest attempt of each of these products, published or not. */
export function newestAttempts(db: Queryable, productIds: readonly string[]): Promise<Materialization[]> {
  return many<Materialization>(
    db,
    'reading the newest materializations',
    `select m.* from unnest($1::text[]) product, lateral (
       select ${COLUMNS} from materializations where product_id = product order by committed_at desc, id desc limit 1) m`,
    [productIds],
  )
}

/** What a run has committed for the product already; null where nothing. */
export function materializationOfRun(db: Queryable, productId: string, runId: string): Promise<Materialization | null> {
  return maybeOne<Materialization>(
    db,
    'reading the materialization',
    `select ${COLUMNS} from materializations
     where product_id = $1 and run_id = $2 and epoch is not null order by epoch desc limit 1`,
    [productId, runId],
  )
}

/** The newest of each product that the run has made, or that its checks kept from being published. */
export function materializationsOfRun(db: Queryable, tenant: string, runId: string): Promise<Materialization[]> {
  return many<Materialization>(
    db,
    'reading the materializations',
    `select distinct on (product_id) ${COLUMNS} from materializations
     where tenant = $1 and run_id = $2 order by product_id, committed_at desc, id desc`,
    [tenant, runId],
  )
}

/** The epoch that readers see: the newest one. */
export function latestEpoch(db: Queryable, productId: string): Promise<Materialization | null> {
  return maybeOne<Materialization>(
    db,
    'reading the newest epoch',
    `select ${COLUMNS} from materializations where product_id = $1 and epoch is not null order by epoch desc limit 1`,
    [productId],
  )
}

export function findEpoch(db: Queryable, productId: string, epoch: number): Promise<Materialization | null> {
  return maybeOne<Materialization>(
    db,
    'reading the epoch',
    `select ${COLUMNS} from materializations where product_id = $1 and epoch = $2`,
    [productId, epoch],
  )
}

/** The newest epoch that was committed at or before that time. */
export function epochAsOf(db: Queryable, productId: string, at: Date): Promise<Materialization | null> {
  return maybeOne<Materialization>(
    db,
    'reading the epoch',
    `select ${COLUMNS} from materializations
     where product_id = $1 and epoch is not null and committed_at <= $2 order by epoch desc limit 1`,
    [productId, at],
  )
}

/** The epoch in which any variant had that snapshot of the lake. */
export function epochOfSnapshot(db: Queryable, productId: string, snapshotId: string): Promise<Materialization | null> {
  return maybeOne<Materialization>(
    db,
    'reading the epoch',
    `select ${COLUMNS} from materializations
     where product_id = $1 and epoch is not null and jsonb_path_exists(snapshots, '$.* ? (@ == $id)', jsonb_build_object('id', $2::text))
     order by epoch desc limit 1`,
    [productId, snapshotId],
  )
}

/** The last epoch that a version made: what a rollback to it restores. */
export function lastEpochOfVersion(db: Queryable, productId: string, version: string): Promise<Materialization | null> {
  return maybeOne<Materialization>(
    db,
    'reading the epoch',
    `select ${COLUMNS} from materializations
     where product_id = $1 and epoch is not null and version = $2 order by epoch desc limit 1`,
    [productId, version],
  )
}

/** Epochs in rising order from `from` on: what a store with history folds. At most `limit`. */
export function epochsFrom(db: Queryable, productId: string, from: number, limit: number): Promise<Materialization[]> {
  return many<Materialization>(
    db,
    'reading epochs',
    `select ${COLUMNS} from materializations where product_id = $1 and epoch >= $2 order by epoch limit $3`,
    [productId, from, limit],
  )
}

/** Those of these numbers that there are. */
export async function epochsAt(
  db: Queryable,
  productId: string,
  epochs: readonly number[],
): Promise<Materialization[]> {
  if (epochs.length === 0) return []
  return many<Materialization>(
    db,
    'reading epochs',
    `select ${COLUMNS} from materializations where product_id = $1 and epoch = any($2::bigint[])`,
    [productId, epochs],
  )
}

/** @param only `committed`: without those that were not published */
export async function listMaterializations(
  db: Queryable,
  productId: string,
  page: PageRequest,
  only: 'committed' | null = null,
): Promise<Page<Materialization>> {
  const parameters = pageParameters(page)
  const rows = await many<Materialization>(
    db,
    'listing materializations',
    `select ${COLUMNS} from materializations
     where product_id = $4 and ($2::timestamptz is null or (committed_at, id) < ($2, $3))
       and ($5::text is null or state = $5)
     order by committed_at desc, id desc limit $1`,
    [...parameters, productId, only],
  )
  return toPage(rows, parameters, ({ committedAt, id }) => ({ createdAt: committedAt, id }))
}

/** Snapshots that the newest epoch of each of the tenant's products was made of; the next incremental run begins there. */
export async function snapshotsReadFrom(db: Queryable, tenant: string): Promise<readonly string[]> {
  const rows = await many<{ id: string }>(
    db,
    'reading the inputs of epochs',
    `select distinct input.value ->> 'snapshot_id' as id
     from (select distinct on (product_id) inputs from materializations
           where tenant = $1 and epoch is not null order by product_id, epoch desc) newest,
       jsonb_each(newest.inputs) as input
     where jsonb_typeof(input.value) = 'object' and input.value ? 'snapshot_id'`,
    [tenant],
  )
  return rows.map(({ id }) => id)
}
