/**
 * A product's manifests: the draft that was uploaded last, and the versions that were deployed. The registry keeps the
 * texts as they came and what they mean as JSON; of the latter's shape it knows where the columns are.
 */
import { SluiceError } from '@sluice/sdk'
import type { Actor } from './actor.ts'
import { json, many, maybeOne, one, type Queryable, type Transaction } from './sql.ts'

/** The six YAML texts by file name without extension. */
export type ManifestTexts = Readonly<Record<string, string>>

export interface ManifestRecord<Normalised = unknown> {
  readonly productId: string
  readonly manifests: ManifestTexts
  readonly normalised: Normalised
  /** Equal for manifests that mean the same. */
  readonly digest: string
}

export interface Draft<Normalised = unknown> extends ManifestRecord<Normalised> {
  readonly warnings: readonly unknown[]
  readonly uploadedBy: Actor
  readonly uploadedAt: Date
}

export interface ProductVersion<Normalised = unknown> extends ManifestRecord<Normalised> {
  readonly version: string
  readonly deployedBy: Actor
  readonly deployedAt: Date
}

const CONTENT = 'product_id as "productId", manifests, normalised, digest'
const DRAFT_COLUMNS = `${CONTENT}, warnings, uploaded_by as "uploadedBy", uploaded_at as "uploadedAt"`
const VERSION_COLUMNS = `${CONTENT}, version, deployed_by as "deployedBy", deployed_at as "deployedAt"`

export interface NewDraft extends ManifestRecord {
  readonly warnings: readonly unknown[]
  readonly uploadedBy: Actor
}

/** Replaces the draft. */
export function saveDraft(db: Queryable, draft: NewDraft): Promise<Draft> {
  return one<Draft>(
    db,
    'storing the manifests',
    `insert into product_drafts (product_id, manifests, normalised, digest, warnings, uploaded_by)
     values ($1, $2, $3, $4, $5, $6)
     on conflict (product_id) do update set manifests = excluded.manifests, normalised = excluded.normalised,
       digest = excluded.digest, warnings = excluded.warnings, uploaded_by = excluded.uploaded_by, uploaded_at = now()
     returning ${DRAFT_COLUMNS}`,
    [
      draft.productId,
      json(draft.manifests),
      json(draft.normalised),
      draft.digest,
      json(draft.warnings),
      json(draft.uploadedBy),
    ],
  )
}

export function findDraft<Normalised = unknown>(db: Queryable, productId: string): Promise<Draft<Normalised> | null> {
  return maybeOne<Draft<Normalised>>(
    db,
    'reading the manifests',
    `select ${DRAFT_COLUMNS} from product_drafts where product_id = $1`,
    [productId],
  )
}

export interface NewVersion extends ManifestRecord {
  readonly version: string
  readonly deployedBy: Actor
}

/**
 * Keeps the version, or finds that it is kept already with the same meaning. Throws CONFLICT `version_exists` where it
 * was deployed with other manifests.
 */
export async function saveVersion(tx: Transaction, version: NewVersion): Promise<ProductVersion> {
  const inserted = await maybeOne<ProductVersion>(
    tx,
    'storing the version',
    `insert into product_versions (product_id, version, manifests, normalised, digest, deployed_by)
     values ($1, $2, $3, $4, $5, $6) on conflict (product_id, version) do nothing returning ${VERSION_COLUMNS}`,
    [
      version.productId,
      version.version,
      json(version.manifests),
      json(version.normalised),
      version.digest,
      json(version.deployedBy),
    ],
  )
  if (inserted) return inserted
  const kept = await findVersion(tx, version.productId, version.version)
  if (kept?.digest === version.digest) return kept
  throw new SluiceError('CONFLICT', 'this version was deployed with other manifests', {
    code: 'version_exists',
    remedy: 'Deploy the changed manifests under a new version.',
    details: { version: version.version },
  })
}

export function findVersion<Normalised = unknown>(
  db: Queryable,
  productId: string,
  version: string,
): Promise<ProductVersion<Normalised> | null> {
  return maybeOne<ProductVersion<Normalised>>(
    db,
    'reading the version',
    `select ${VERSION_COLUMNS} from product_versions where product_id = $1 and version = $2`,
    [productId, version],
  )
}

/** Every version that was deployed, newest first. */
export function deployedVersions<Normalised>(
  db: Queryable,
  productId: string,
): Promise<Pick<ProductVersion<Normalised>, 'version' | 'normalised' | 'deployedAt'>[]> {
  return many(
    db,
    'reading the versions',
    `select version, normalised, deployed_at as "deployedAt" from product_versions
     where product_id = $1 order by deployed_at desc, version desc`,
    [productId],
  )
}

/** Newest first, at most 1000; without the manifests. */
export function listVersions(
  db: Queryable,
  productId: string,
): Promise<Pick<ProductVersion, 'version' | 'digest' | 'deployedBy' | 'deployedAt'>[]> {
  return many(
    db,
    'listing versions',
    `select version, digest, deployed_by as "deployedBy", deployed_at as "deployedAt" from product_versions
     where product_id = $1 order by deployed_at desc, version desc limit 1000`,
    [productId],
  )
}

/**
 * The columns of deployed versions whose names are not among those of today, each as the newest of those versions had
 * it: what its class hides stays hidden in snapshots of the past when the column is gone.
 */
export async function formerColumns<Column extends { readonly name: string }>(
  db: Queryable,
  productId: string,
  today: readonly Column[],
): Promise<readonly Column[]> {
  const rows = await many<{ readonly column: Column }>(
    db,
    'reading the columns of former versions',
    `select distinct on (item ->> 'name') item as "column"
     from product_versions, jsonb_array_elements(normalised #> '{output,columns}') item
     where product_id = $1 and item ->> 'name' <> all($2)
     order by item ->> 'name', deployed_at desc, version desc`,
    [productId, today.map(({ name }) => name)],
  )
  return rows.map(({ column }) => column)
}
