/** Who was given what: on products, and on the raw tables of connections. Every change raises the policy version. */
import type { Principal } from '../flow.ts'
import type { Actor } from './actor.ts'
import { newId } from './ids.ts'
import { type Page, type PageRequest, pageParameters, toPage } from './paging.ts'
import { change, json, many, maybeOne, one, type Queryable } from './sql.ts'

/** Whom something is granted to: a person, or everybody of a team of the tenant. */
export interface GrantSubject {
  readonly subjectType: 'user' | 'team'
  readonly subject: string
  /** Of a person: the issuer's identity, a part of who it is. Null: of a team. */
  readonly issuer: string | null
}

export interface ProductGrant extends GrantSubject {
  readonly id: string
  readonly tenant: string
  readonly productId: string
  readonly may: 'read' | 'unmask'
  /** For `unmask`: the classes; `*` is all. Empty for `read`. */
  readonly classes: readonly string[]
  /** What of it the subject may grant on to others: classes, or `read`. */
  readonly grantable: readonly string[]
  readonly grantedBy: Actor
  readonly createdAt: Date
}

export interface RawTableGrant extends GrantSubject {
  readonly id: string
  readonly tenant: string
  readonly connectionId: string
  /** Null: every table of the connection. */
  readonly tableName: string | null
  /** Whether the subject may grant it on to others. */
  readonly grantable: boolean
  readonly grantedBy: Actor
  readonly createdAt: Date
}

const SUBJECT = 'subject_type as "subjectType", subject, issuer, granted_by as "grantedBy", created_at as "createdAt"'
const PRODUCT_COLUMNS = `id, tenant, product_id as "productId", may, classes, grantable, ${SUBJECT}`
const RAW_COLUMNS = `id, tenant, connection_id as "connectionId", table_name as "tableName", grantable, ${SUBJECT}`

/** Without `grantable`: of which nothing may be granted on. */
export type NewProductGrant = Omit<ProductGrant, 'id' | 'createdAt' | 'grantable'> &
  Partial<Pick<ProductGrant, 'grantable'>>

/** Adds the grant; where the subject has one of that kind already, its classes, and what is grantable, are added to it. */
export function grantProduct(db: Queryable, grant: NewProductGrant): Promise<ProductGrant> {
  return one<ProductGrant>(
    db,
    'granting',
    `insert into product_grants as g (id, tenant, product_id, subject_type, subject, issuer, may, classes, granted_by,
       grantable)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
     on conflict (product_id, subject_type, subject, issuer, may) do update
       set classes = array(select distinct class from unnest(g.classes || excluded.classes) class order by class),
         grantable = array(select distinct class from unnest(g.grantable || excluded.grantable) class order by class)
     returning ${PRODUCT_COLUMNS}`,
    [
      newId('grt'),
      grant.tenant,
      grant.productId,
      grant.subjectType,
      grant.subject,
      grant.issuer,
      grant.may,
      grant.classes,
      json(grant.grantedBy),
      grant.grantable ?? [],
    ],
  )
}

/** The one that `grantProduct` would add to. */
export function grantAddedTo(db: Queryable, grant: NewProductGrant): Promise<ProductGrant | null> {
  return maybeOne<ProductGrant>(
    db,
    'granting',
    `select ${PRODUCT_COLUMNS} from product_grants where product_id = $1 and subject_type = $2 and subject = $3
       and issuer is not distinct from $4 and may = $5`,
    [grant.productId, grant.subjectType, grant.subject, grant.issuer, grant.may],
  )
}

/** Every grant on the product. At most 10,000: policy must see all, so a product with more is refused to everybody. */
export function productGrants(db: Queryable, tenant: string, productId: string): Promise<ProductGrant[]> {
  return many<ProductGrant>(
    db,
    'reading grants',
    `select ${PRODUCT_COLUMNS} from product_grants where tenant = $1 and product_id = $2 order by created_at, id
     limit 10000`,
    [tenant, productId],
  )
}

/** The same, of a product that is known by its id alone: of a preview those of its product. Of one that is gone there are none. */
export function grantsHeldOn(db: Queryable, productId: string): Promise<ProductGrant[]> {
  return many<ProductGrant>(
    db,
    'reading grants',
    `select ${PRODUCT_COLUMNS} from product_grants where tenant = (select tenant from products where id = $1)
       and product_id = (select coalesce(preview_of, id) from products where id = $1) order by created_at, id limit 10000`,
    [productId],
  )
}

/** The grants on any product of the tenant that the person or one of its teams holds: for deciding on many at once. */
export function productGrantsOf(
  db: Queryable,
  tenant: string,
  { issuer, subject, groups }: Pick<Principal, 'issuer' | 'subject' | 'groups'>,
): Promise<ProductGrant[]> {
  return many<ProductGrant>(
    db,
    'reading grants',
    `select ${PRODUCT_COLUMNS} from product_grants
     where tenant = $1 and (
       (subject_type = 'user' and subject = $2 and issuer = $3) or (subject_type = 'team' and subject = any($4))
     )
     order by created_at, id limit 10000`,
    [tenant, subject, issuer, groups],
  )
}

export async function listProductGrants(
  db: Queryable,
  tenant: string,
  productId: string,
  page: PageRequest,
): Promise<Page<ProductGrant>> {
  const parameters = pageParameters(page)
  const rows = await many<ProductGrant>(
    db,
    'listing grants',
    `select ${PRODUCT_COLUMNS} from product_grants
     where tenant = $4 and product_id = $5 and ($2::timestamptz is null or (created_at, id) < ($2, $3))
     order by created_at desc, id desc limit $1`,
    [...parameters, tenant, productId],
  )
  return toPage(rows, parameters, (row) => row)
}

/** The grant that was removed, or null. */
export function revokeProductGrant(
  db: Queryable,
  tenant: string,
  productId: string,
  id: string,
): Promise<ProductGrant | null> {
  return maybeOne<ProductGrant>(
    db,
    'revoking',
    `delete from product_grants where tenant = $1 and product_id = $2 and id = $3 returning ${PRODUCT_COLUMNS}`,
    [tenant, productId, id],
  )
}

/** Without `grantable`: that may not be granted on. */
export type NewRawTableGrant = Omit<RawTableGrant, 'id' | 'createdAt' | 'grantable'> &
  Partial<Pick<RawTableGrant, 'grantable'>>

/** Repeatable: the same grant twice is one, grantable where one of both is. */
export function grantRawTable(db: Queryable, grant: NewRawTableGrant): Promise<RawTableGrant> {
  return one<RawTableGrant>(
    db,
    'granting',
    `insert into raw_table_grants as g (id, tenant, connection_id, table_name, subject_type, subject, issuer, granted_by,
       grantable)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
     on conflict (connection_id, table_name, subject_type, subject, issuer) do update
       set grantable = g.grantable or excluded.grantable
     returning ${RAW_COLUMNS}`,
    [
      newId('rgt'),
      grant.tenant,
      grant.connectionId,
      grant.tableName,
      grant.subjectType,
      grant.subject,
      grant.issuer,
      json(grant.grantedBy),
      grant.grantable ?? false,
    ],
  )
}

/** The one that `grantRawTable` would add to. */
export function rawGrantAddedTo(db: Queryable, grant: NewRawTableGrant): Promise<RawTableGrant | null> {
  return maybeOne<RawTableGrant>(
    db,
    'granting',
    `select ${RAW_COLUMNS} from raw_table_grants where connection_id = $1 and table_name is not distinct from $2
       and subject_type = $3 and subject = $4 and issuer is not distinct from $5`,
    [grant.connectionId, grant.tableName, grant.subjectType, grant.subject, grant.issuer],
  )
}

/** At most 10,000. The connection's creator may read its tables without a grant. */
export function rawTableGrants(db: Queryable, tenant: string, connectionId: string): Promise<RawTableGrant[]> {
  return many<RawTableGrant>(
    db,
    'reading grants',
    `select ${RAW_COLUMNS} from raw_table_grants where tenant = $1 and connection_id = $2 order by created_at, id
     limit 10000`,
    [tenant, connectionId],
  )
}

export async function listRawTableGrants(
  db: Queryable,
  tenant: string,
  connectionId: string,
  page: PageRequest,
): Promise<Page<RawTableGrant>> {
  const parameters = pageParameters(page)
  const rows = await many<RawTableGrant>(
    db,
    'listing grants',
    `select ${RAW_COLUMNS} from raw_table_grants
     where tenant = $4 and connection_id = $5 and ($2::timestamptz is null or (created_at, id) < ($2, $3))
     order by created_at desc, id desc limit $1`,
    [...parameters, tenant, connectionId],
  )
  return toPage(rows, parameters, (row) => row)
}

export function revokeRawTableGrant(
  db: Queryable,
  tenant: string,
  connectionId: string,
  id: string,
): Promise<RawTableGrant | null> {
  return maybeOne<RawTableGrant>(
    db,
    'revoking',
    `delete from raw_table_grants where tenant = $1 and connection_id = $2 and id = $3 returning ${RAW_COLUMNS}`,
    [tenant, connectionId, id],
  )
}

/** Takes all of them back; how many there were. */
export function revokeRawTableGrants(db: Queryable, tenant: string, connectionId: string): Promise<number> {
  const statement = 'delete from raw_table_grants where tenant = $1 and connection_id = $2'
  return change(db, 'revoking', statement, [tenant, connectionId])
}

/**
 * Gives grants of people that name no issuer, as former releases wrote them, the one that they are from now on for.
 * Repeatable.
 * @param only the identity of the one issuer that is trusted, whom they served; null where there are several: then each
 *   is for the issuer of whoever granted it, because whom else it meant is not known
 */
export async function bindGrants(db: Queryable, only: string | null): Promise<void> {
  for (const table of ['product_grants', 'raw_table_grants']) {
    await change(
      db,
      'binding grants to issuers',
      `update ${table} set issuer = coalesce($1, granted_by ->> 'issuer')
       where subject_type = 'user' and issuer is null`,
      [only],
    )
  }
}
