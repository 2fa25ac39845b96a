/** Service passwords: for tools that speak to PostgreSQL, of one tenant and one group of it. */
import type { Level } from '../flow.ts'
import type { Actor } from './actor.ts'
import { type Page, type PageRequest, pageParameters, toPage } from './paging.ts'
import type { ScramVerifier } from './scram-verifiers.ts'
import { change, many, maybeOne, type Queryable, type Transaction } from './sql.ts'

export interface ServicePasswordRecord {
  /** The name of the user, too. */
  readonly id: string
  readonly tenant: string
  readonly name: string
  readonly group: string
  /** Null: none of its own. */
  readonly clearance: Level | null
  readonly createdBy: Actor
  readonly createdAt: Date
  /** Null: until it is deleted. */
  readonly expiresAt: Date | null
  /** To the minute. Null: never. */
  readonly lastUsedAt: Date | null
}

export interface NewServicePassword extends Omit<ServicePasswordRecord, 'createdAt' | 'lastUsedAt'> {
  readonly verifier: ScramVerifier
}

/** As it is met at the door. */
export interface PresentedPassword extends ServicePasswordRecord {
  readonly verifier: ScramVerifier
  /** The last use has not been written down within the last minute. */
  readonly isUseDue: boolean
}

const COLUMNS = `id, tenant, name, team as "group", clearance, created_at as "createdAt", expires_at as "expiresAt",
  last_used_at as "lastUsedAt", jsonb_build_object('issuer', maker_issuer, 'subject', maker_subject) as "createdBy"`

const OF_SERVED_TENANT = `exists (select from tenants where slug = service_passwords.tenant and status = 'active')`

export const MOST_OF_A_TENANT = 100

/** Null where the tenant has as many as it may, however many are made at once. */
export async function createServicePassword(
  tx: Transaction,
  { verifier, ...password }: NewServicePassword,
): Promise<ServicePasswordRecord | null> {
  await many(tx, 'making a service password', 'select from tenants where slug = $1 for no key update', [
    password.tenant,
  ])
  return maybeOne<ServicePasswordRecord>(
    tx,
    'making a service password',
    `insert into service_passwords (id, tenant, name, team, clearance, salt, iterations, stored_key, server_key,
       maker_issuer, maker_subject, expires_at)
     select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12
     where (select count(*) from service_passwords where tenant = $2) < ${MOST_OF_A_TENANT}
     returning ${COLUMNS}`,
    [
      password.id,
      password.tenant,
      password.name,
      password.group,
      password.clearance,
      verifier.salt,
      verifier.iterations,
      verifier.storedKey,
      verifier.serverKey,
      password.createdBy.issuer,
      password.createdBy.subject,
      password.expiresAt,
    ],
  )
}

interface PresentedRow extends ServicePasswordRecord, ScramVerifier {
  readonly isUseDue: boolean
}

/** Of a tenant that is served; null where there is none. */
export async function presentedPassword(db: Queryable, id: string): Promise<PresentedPassword | null> {
  const row = await maybeOne<PresentedRow>(
    db,
    'looking a service password up',
    `select ${COLUMNS}, salt, iterations, stored_key as "storedKey", server_key as "serverKey",
       (last_used_at is null or last_used_at < now() - interval '1 minute') as "isUseDue"
     from service_passwords where id = $1 and ${OF_SERVED_TENANT}`,
    [id],
  )
  if (row === null) return null
  const { salt, iterations, storedKey, serverKey, ...password } = row
  return { ...password, verifier: { salt, iterations, storedKey, serverKey } }
}

/** Which of these are good now. */
export async function goodPasswords(db: Queryable, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const rows = await many<{ readonly id: string }>(
    db,
    'looking service passwords up',
    `select id from service_passwords
     where id = any($1) and (expires_at is null or expires_at > now()) and ${OF_SERVED_TENANT}`,
    [ids],
  )
  return new Set(rows.map(({ id }) => id))
}

/** At most once a minute, however many runtimes it is used at. */
export async function recordPasswordUse(db: Queryable, id: string): Promise<void> {
  await change(
    db,
    'recording the use of a service password',
    `update service_passwords set last_used_at = date_trunc('minute', now())
     where id = $1 and (last_used_at is null or last_used_at < now() - interval '1 minute')`,
    [id],
  )
}

/** Newest first, those that have expired included. */
export async function listServicePasswords(
  db: Queryable,
  tenant: string,
  page: PageRequest,
): Promise<Page<ServicePasswordRecord>> {
  const parameters = pageParameters(page)
  const rows = await many<ServicePasswordRecord>(
    db,
    'listing service passwords',
    `select ${COLUMNS} from service_passwords
     where tenant = $4 and ($2::timestamptz is null or (created_at, id) < ($2, $3))
     order by created_at desc, id desc limit $1`,
    [...parameters, tenant],
  )
  return toPage(rows, parameters, (row) => row)
}

/** The one that is gone from here on, or null. */
export function removeServicePassword(
  db: Queryable,
  tenant: string,
  id: string,
): Promise<ServicePasswordRecord | null> {
  const statement = `delete from service_passwords where tenant = $1 and id = $2 returning ${COLUMNS}`
  return maybeOne<ServicePasswordRecord>(db, 'deleting a service password', statement, [tenant, id])
}
