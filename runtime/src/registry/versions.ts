/**
 * A product's manifests: the draft that was uploaded last, and the versions that were deployed. The registry keeps the
 * texts as they came and what they mean as JSON; of the latter's shape it knows where the columns are.
 */
import { type LogicalType, SluiceError } from '@sluice/sdk'
import type { Level, Principal } from '../flow.ts'
import type { Actor } from './actor.ts'
import { SUPERSEDED } from './deployments.ts'
import { change, json, many, maybeOne, one, type Queryable, type Transaction } from './sql.ts'

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

/** What decides as whom an input that is a product is read; its rights are looked at anew at each run. */
export type UpstreamReader = Pick<
  Principal,
  'issuer' | 'subject' | 'groups' | 'isAdmin' | 'isDeveloper' | 'isViewer' | 'claimedClearance'
>

export interface VersionUpstream {
  readonly productId: string
  /** That the reader was shown. */
  readonly variant: string
  /** Of the product as it was then. */
  readonly classification: Level
  /** That it had then: by these the version was judged, and no others are read. Absent: whichever it has. */
  readonly columns?: readonly string[]
  /** Whoever deployed; of its groups those that hold grants on the product. */
  readonly reader: UpstreamReader
}

/** By alias. */
export type VersionUpstreams = Readonly<Record<string, VersionUpstream>>

/** By alias of an input that is a table, the columns that it had when the version was judged: no others are read for it. */
export type JudgedColumns = Readonly<Record<string, readonly string[]>>

/** A column of an input's table as the version is held to it. */
export interface HeldColumn {
  readonly name: string
  readonly type: LogicalType
  readonly nullable: boolean
}

/** By alias of an input, the columns of its table when the version was deployed. */
export type HeldShapes = Readonly<Record<string, readonly HeldColumn[]>>

export interface ProductVersion<Normalised = unknown> extends ManifestRecord<Normalised> {
  readonly version: string
  readonly deployedBy: Actor
  readonly deployedAt: Date
  /** The rules by which it was judged when it was put in service last; null: before there was a word for them. */
  readonly judgedBy: string | null
  /** Null: no input is a product. */
  readonly upstreams: VersionUpstreams | null
  /** Null: whichever the inputs have. */
  readonly judgedColumns: JudgedColumns | null
  /** Of inputs whose contract holds them to a shape, where it was known. */
  readonly heldShapes: HeldShapes | null
}

/** What a version's columns depend on counts, and not only what they are computed from. */
export const JUDGED_BY_INFLUENCE = 'influence'

const CONTENT = 'product_id as "productId", manifests, normalised, digest'
const DRAFT_COLUMNS = `${CONTENT}, warnings, uploaded_by as "uploadedBy", uploaded_at as "uploadedAt"`
const VERSION_COLUMNS = `${CONTENT}, version, deployed_by as "deployedBy", deployed_at as "deployedAt",
  judged_by as "judgedBy", upstreams, judged_columns as "judgedColumns", held_shapes as "heldShapes"`

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
  readonly judgedBy?: string
  /** What each of its columns depends on, as it was judged; JSON. */
  readonly origins?: unknown
  readonly upstreams?: VersionUpstreams | null
  readonly judgedColumns?: JudgedColumns | null
  readonly heldShapes?: HeldShapes | null
}

/**
 * Keeps the version, or finds that it is kept already with the same meaning. Throws CONFLICT `version_exists` where it
 * was deployed with other manifests.
 */
export async function saveVersion(tx: Transaction, version: NewVersion): Promise<ProductVersion> {
  const kept = await maybeOne<ProductVersion>(
    tx,
    'storing the version',
    `insert into product_versions as v (product_id, version, manifests, normalised, digest, deployed_by, judged_by, origins,
       upstreams, judged_columns, held_shapes)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
     on conflict (product_id, version) do update set judged_by = excluded.judged_by, origins = excluded.origins,
       upstreams = excluded.upstreams, judged_columns = excluded.judged_columns, held_shapes = excluded.held_shapes
       where v.digest = excluded.digest
     returning ${VERSION_COLUMNS}`,
    [
      version.productId,
      version.version,
      json(version.manifests),
      json(version.normalised),
      version.digest,
      json(version.deployedBy),
      version.judgedBy ?? null,
      json(version.origins ?? null),
      json(version.upstreams ?? null),
      json(version.judgedColumns ?? null),
      json(version.heldShapes ?? null),
    ],
  )
  if (kept) return kept
  throw new SluiceError('CONFLICT', 'this version was deployed with other manifests', {
    code: 'version_exists',
    remedy: 'Deploy the changed manifests under a new version.',
    details: { version: version.version },
  })
}

/** Of inputs whose shape was not known when the version was deployed. */
export async function noteHeldShapes(
  tx: Transaction,
  productId: string,
  version: string,
  shapes: HeldShapes,
): Promise<void> {
  await change(
    tx,
    'keeping the columns of inputs',
    `update product_versions set held_shapes = $3::jsonb || coalesce(held_shapes, '{}'::jsonb) where product_id = $1 and version = $2`,
    [productId, version, json(shapes)],
  )
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

export interface ReadingVersion<Normalised, Origins> {
  readonly productId: string
  readonly product: string
  readonly namespace: string
  readonly normalised: Normalised
  readonly digest: string
  /** Null where it was not kept. */
  readonly origins: Origins | null
  readonly isInService: boolean
}

/** Every version in the tenant with an input of one of these connections, those of one meaning once. */
export function versionsReading<Normalised, Origins>(
  db: Queryable,
  tenant: string,
  connections: readonly string[],
): Promise<ReadingVersion<Normalised, Origins>[]> {
  return many(
    db,
    'reading the versions',
    `select distinct on (v.product_id, v.digest) v.product_id as "productId", p.name as product, p.domain as namespace,
       v.normalised, v.digest, v.origins, coalesce(v.digest = now.digest, false) as "isInService"
     from product_versions v join products p on p.id = v.product_id
     left join product_versions now on now.product_id = p.id and now.version = p.current_version
     where p.tenant = $1 and p.status <> 'retired' and exists (
       select from jsonb_array_elements(v.normalised -> 'inputs') i where i ->> 'connection' = any($2))
     order by v.product_id, v.digest, v.origins nulls last`,
    [tenant, connections],
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
 * The columns of deployed versions whose names are not among those of today, each as it was when it was in service last, by a
 * deployment, by a rollback, or because the rows of a later one differed too much: what its class hides stays hidden in snapshots of the past when the column is gone.
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
     from product_versions v
     left join (
       select version, max(at) as at from (
         select version, case kind when 'deploy' then created_at else finished_at end as at
         from deployments where product_id = $1 and (kind = 'deploy' or state = 'succeeded')
         union all
         select comparison #>> '{former,version}', finished_at from deployments
         where product_id = $1 and kind = 'deploy' and state = 'failed' and error ->> 'code' <> $3
       ) began group by version
     ) d on d.version = v.version,
     jsonb_array_elements(v.normalised #> '{output,columns}') item
     where v.product_id = $1 and item ->> 'name' <> all($2)
     order by item ->> 'name', greatest(v.deployed_at, d.at) desc, v.version desc`,
    [productId, today.map(({ name }) => name), SUPERSEDED],
  )
  return rows.map(({ column }) => column)
}
