/** Where a tenant's people want to be told of incidents. Addresses and signing keys are sealed with the tenant's key. */
import type { Principal } from '../flow.ts'
import { type Actor, actorOf } from './actor.ts'
import { issuedAtMs } from './application-keys.ts'
import { newId } from './ids.ts'
import type { MasterKeys } from './master-keys.ts'
import { type Page, type PageRequest, pageParameters, toPage } from './paging.ts'
import { seal, unseal } from './sealing.ts'
import { change, json, many, maybeOne, type Queryable, type Transaction } from './sql.ts'
import { currentTenantKey, type TenantKey, tenantKey } from './tenant-keys.ts'

export const TARGET_KINDS = ['webhook', 'slack'] as const
export type TargetKind = (typeof TARGET_KINDS)[number]

export interface NotificationTarget {
  readonly id: string
  readonly tenant: string
  readonly kind: TargetKind
  readonly name: string
  /** Of the address, which itself is told to nobody. */
  readonly host: string
  readonly createdBy: Actor
  /** Whether it is told of all of the tenant, as those of administrators are. */
  readonly ofAll: boolean
  readonly mayHear: boolean
  readonly createdAt: Date
  readonly deliveredAt: Date | null
  /** Of the newest try, where that failed. */
  readonly errorCode: string | null
}

export interface TargetSecret {
  readonly url: string
  /** What bodies are signed with; null where the address is all that counts. */
  readonly signingKey: string | null
}

const COLUMNS = `id, tenant, kind, name, host, created_by as "createdBy", of_all as "ofAll", may_hear as "mayHear",
  created_at as "createdAt", delivered_at as "deliveredAt", error_code as "errorCode"`

const MOST_OF_A_TENANT = 20

export interface NewTarget extends Pick<NotificationTarget, 'tenant' | 'kind' | 'name' | 'host'> {
  readonly secret: TargetSecret
  readonly maker: Principal
}

/** Null where the tenant has as many as it may. */
export async function createTarget(
  tx: Transaction,
  masters: MasterKeys,
  { tenant, kind, name, host, secret, maker }: NewTarget,
): Promise<NotificationTarget | null> {
  // Before the key is read: from here on a rotation waits for this transaction, or this one has waited for it.
  await change(tx, 'locking the targets', 'lock table notification_targets in row exclusive mode')
  const key = await currentTenantKey(tx, masters, tenant, 'secret')
  const id = newId('ntf')
  return maybeOne<NotificationTarget>(
    tx,
    'making a target of notifications',
    `insert into notification_targets (id, tenant, kind, name, host, key_version, sealed, created_by, of_all, token_issued_at)
     select $1, $2, $3, $4, $5, $6, $7, $8, $9, to_timestamp($10::float8 / 1000)
     where (select count(*) from notification_targets where tenant = $2) < ${MOST_OF_A_TENANT}
     returning ${COLUMNS}`,
    [
      id,
      tenant,
      kind,
      name,
      host,
      key.version,
      sealed({ id, tenant }, secret, key),
      json(actorOf(maker)),
      maker.isAdmin,
      issuedAtMs(maker),
    ],
  )
}

function sealed(
  { id, tenant }: Pick<NotificationTarget, 'id' | 'tenant'>,
  secret: TargetSecret,
  key: TenantKey,
): Buffer {
  return seal(key.key, Buffer.from(JSON.stringify(secret)), ['notification', tenant, id, key.version])
}

interface SealedRow {
  readonly id: string
  readonly tenant: string
  readonly keyVersion: number
  readonly sealed: Buffer
}

const SEALED = 'select id, tenant, key_version as "keyVersion", sealed from notification_targets'

async function opened(db: Queryable, masters: MasterKeys, row: SealedRow): Promise<TargetSecret> {
  const { key } = await tenantKey(db, masters, row.tenant, 'secret', row.keyVersion)
  const text = unseal(key, row.sealed, ['notification', row.tenant, row.id, row.keyVersion]).toString('utf8')
  return JSON.parse(text) as TargetSecret
}

/** In clear, for the delivery alone. Null where the target is gone. */
export async function readTargetSecret(db: Queryable, masters: MasterKeys, id: string): Promise<TargetSecret | null> {
  const row = await maybeOne<SealedRow>(db, 'reading a target of notifications', `${SEALED} where id = $1`, [id])
  return row && opened(db, masters, row)
}

/** Part of the rotation of the tenant's key: returns how many were sealed anew. */
export async function resealTargets(
  tx: Transaction,
  masters: MasterKeys,
  tenant: string,
  next: TenantKey,
): Promise<number> {
  const rows = await many<SealedRow>(tx, 'reading targets of notifications', `${SEALED} where tenant = $1`, [tenant])
  for (const row of rows) {
    const bytes = sealed(row, await opened(tx, masters, row), next)
    const statement = 'update notification_targets set key_version = $2, sealed = $3 where id = $1'
    await change(tx, 'sealing a target of notifications', statement, [row.id, next.version, bytes])
  }
  return rows.length
}

export async function listTargets(db: Queryable, tenant: string, page: PageRequest): Promise<Page<NotificationTarget>> {
  const parameters = pageParameters(page)
  const rows = await many<NotificationTarget>(
    db,
    'listing targets of notifications',
    `select ${COLUMNS} from notification_targets
     where tenant = $4 and ($2::timestamptz is null or (created_at, id) < ($2, $3)) order by created_at desc, id desc limit $1`,
    [...parameters, tenant],
  )
  return toPage(rows, parameters, (row) => row)
}

export function findTarget(db: Queryable, tenant: string, id: string): Promise<NotificationTarget | null> {
  const statement = `select ${COLUMNS} from notification_targets where tenant = $1 and id = $2`
  return maybeOne<NotificationTarget>(db, 'reading a target of notifications', statement, [tenant, id])
}

export async function removeTarget(tx: Transaction, id: string): Promise<void> {
  await change(tx, 'removing a target of notifications', 'delete from notification_targets where id = $1', [id])
}

/** How the newest try ended. */
export async function noteTry(db: Queryable, id: string, errorCode: string | null): Promise<void> {
  await change(
    db,
    'noting a notification',
    `update notification_targets set error_code = $2, delivered_at = case when $2::text is null then clock_timestamp() else delivered_at end
     where id = $1`,
    [id, errorCode],
  )
}
