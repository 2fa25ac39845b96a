/** Keys of applications: made by a member of the tenant, and never good for more than that member may do now. */
import type { KeyOperation, Level, Principal } from '../flow.ts'
import type { Actor } from './actor.ts'
import { type Page, type PageRequest, pageParameters, toPage } from './paging.ts'
import { change, many, maybeOne, type Queryable } from './sql.ts'

export interface ApplicationKeyRecord {
  readonly id: string
  readonly tenant: string
  readonly name: string
  /** Ids; null: all that its maker may read. */
  readonly products: readonly string[] | null
  readonly operations: readonly KeyOperation[]
  /** Classes; `*` is all that its maker sees in clear. */
  readonly unmask: readonly string[]
  readonly createdBy: Actor
  readonly createdAt: Date
  readonly expiresAt: Date
  /** To the minute. Null: never. */
  readonly lastUsedAt: Date | null
}

export interface NewApplicationKey extends Omit<ApplicationKeyRecord, 'createdAt' | 'createdBy' | 'lastUsedAt'> {
  /** SHA-256 of the secret, which is random. */
  readonly secretHash: Buffer
  readonly maker: Principal
}

/** A key as it is met at a door, with what its maker is as of the newest token that was seen. */
export interface PresentedKey extends ApplicationKeyRecord {
  readonly secretHash: Buffer
  readonly makerGroups: readonly string[]
  readonly makerClearance: Level | null
  /** What the token claimed by which it was made. */
  readonly clearance: Level | null
  /** The last use has not been written down within the last minute. */
  readonly isUseDue: boolean
}

const COLUMNS = `id, tenant, name, products, operations, unmask, created_at as "createdAt", expires_at as "expiresAt",
  last_used_at as "lastUsedAt", jsonb_build_object('issuer', maker_issuer, 'subject', maker_subject) as "createdBy"`

const MOST_OF_A_TENANT = 1_000

/** Null where the tenant has as many as it may. */
export function createApplicationKey(db: Queryable, key: NewApplicationKey): Promise<ApplicationKeyRecord | null> {
  return maybeOne<ApplicationKeyRecord>(
    db,
    'making a key',
    `insert into application_keys (id, tenant, name, secret_hash, products, operations, unmask, expires_at,
       maker_issuer, maker_subject, maker_groups, maker_clearance, maker_token_issued_at, clearance)
     select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, to_timestamp($13::float8 / 1000), $14
     where (select count(*) from application_keys where tenant = $2) < ${MOST_OF_A_TENANT}
     returning ${COLUMNS}`,
    [
      key.id,
      key.tenant,
      key.name,
      key.secretHash,
      key.products,
      key.operations,
      key.unmask,
      key.expiresAt,
      key.maker.issuer,
      key.maker.subject,
      key.maker.groups,
      key.maker.claimedClearance,
      issuedAtMs(key.maker),
      key.maker.claimedClearance,
    ],
  )
}

/** Of a tenant that is served; null where there is none. */
export function presentedKey(db: Queryable, id: string): Promise<PresentedKey | null> {
  return maybeOne<PresentedKey>(
    db,
    'looking a key up',
    `select ${COLUMNS}, secret_hash as "secretHash", maker_groups as "makerGroups", maker_clearance as "makerClearance", clearance,
       (last_used_at is null or last_used_at < now() - interval '1 minute') as "isUseDue"
     from application_keys
     where id = $1 and exists (select from tenants where slug = application_keys.tenant and status = 'active')`,
    [id],
  )
}

/** Which of these are good now. */
export async function goodKeys(db: Queryable, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const rows = await many<{ readonly id: string }>(
    db,
    'looking keys up',
    `select id from application_keys where id = any($1) and expires_at > now()
       and exists (select from tenants where slug = application_keys.tenant and status = 'active')`,
    [ids],
  )
  return new Set(rows.map(({ id }) => id))
}

/** At most once a minute, however many runtimes the key is used at. */
export async function recordUse(db: Queryable, id: string): Promise<void> {
  await change(
    db,
    'recording the use of a key',
    `update application_keys set last_used_at = date_trunc('minute', now())
     where id = $1 and (last_used_at is null or last_used_at < now() - interval '1 minute')`,
    [id],
  )
}

/**
 * What a token of the maker's says now holds for all keys of theirs; a token that is older than the newest one seen says
 * nothing.
 */
export async function refreshMaker(db: Queryable, maker: Principal): Promise<void> {
  if (maker.tenant === null) return
  await change(
    db,
    'following the makers of keys',
    `update application_keys set maker_groups = $4, maker_clearance = $5,
       maker_token_issued_at = to_timestamp($6::float8 / 1000)
     where tenant = $1 and maker_issuer = $2 and maker_subject = $3
       and maker_token_issued_at <= to_timestamp($6::float8 / 1000)
       and (maker_groups, maker_clearance, maker_token_issued_at)
         is distinct from ($4::text[], $5::text, to_timestamp($6::float8 / 1000))`,
    [maker.tenant, maker.issuer, maker.subject, maker.groups, maker.claimedClearance, issuedAtMs(maker)],
  )
}

/** When the token was issued; never of the future, whatever it says. */
export const issuedAtMs = (maker: Principal): number => Math.min(maker.tokenIssuedAtMs, Date.now())

/** Newest first, those that have expired included. */
export async function listApplicationKeys(
  db: Queryable,
  tenant: string,
  page: PageRequest,
): Promise<Page<ApplicationKeyRecord>> {
  const parameters = pageParameters(page)
  const rows = await many<ApplicationKeyRecord>(
    db,
    'listing keys',
    `select ${COLUMNS} from application_keys
     where tenant = $4 and ($2::timestamptz is null or (created_at, id) < ($2, $3))
     order by created_at desc, id desc limit $1`,
    [...parameters, tenant],
  )
  return toPage(rows, parameters, (row) => row)
}

/** The key that is gone from here on, or null. */
export function removeApplicationKey(db: Queryable, tenant: string, id: string): Promise<ApplicationKeyRecord | null> {
  const statement = `delete from application_keys where tenant = $1 and id = $2 returning ${COLUMNS}`
  return maybeOne<ApplicationKeyRecord>(db, 'revoking a key', statement, [tenant, id])
}

/** All that one person made; their ids. */
export async function removeKeysOf(db: Queryable, tenant: string, maker: Actor): Promise<readonly string[]> {
  const rows = await many<{ readonly id: string }>(
    db,
    'revoking keys',
    'delete from application_keys where tenant = $1 and maker_issuer = $2 and maker_subject = $3 returning id',
    [tenant, maker.issuer, maker.subject],
  )
  return rows.map(({ id }) => id)
}
