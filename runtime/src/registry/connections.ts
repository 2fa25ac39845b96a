/** Connections to external sources. Their secret fields are kept apart: see `connection-secrets.ts`. */
import { SluiceError } from '@sluice/sdk'
import { isUniqueViolation } from '../database/errors.ts'
import type { Actor } from './actor.ts'
import { newId } from './ids.ts'
import { MAX_PAGE, type Page, type PageRequest, pageParameters, toPage } from './paging.ts'
import { json, many, maybeOne, one, type Queryable, type Transaction } from './sql.ts'
import { withTenant } from './tenant-first.ts'
import { reserveRoom } from './tenants.ts'

export type ConnectionStatus = 'untested' | 'ok' | 'failed'

export interface Connection {
  readonly id: string
  readonly tenant: string
  readonly name: string
  readonly connectorType: string
  /** The fields that are no secrets. */
  readonly config: Readonly<Record<string, unknown>>
  /** The names of the secret fields that are stored. */
  readonly secretFields: readonly string[]
  readonly status: ConnectionStatus
  readonly lastTestedAt: Date | null
  /** Since when it leads to the source that it leads to now. Null: from the beginning. */
  readonly sourceSince: Date | null
  readonly createdBy: Actor
  readonly createdAt: Date
  readonly updatedAt: Date
}

const COLUMNS = `id, tenant, name, connector_type as "connectorType", config, status,
  array(select field from connection_secrets where connection_id = id order by field) as "secretFields",
  last_tested_at as "lastTestedAt", source_since as "sourceSince", created_by as "createdBy", created_at as "createdAt", updated_at as "updatedAt"`

export interface NewConnection {
  readonly tenant: string
  readonly name: string
  readonly connectorType: string
  readonly config: Readonly<Record<string, unknown>>
  readonly createdBy: Actor
}

/**
 * Throws QUOTA `tier_limit_exceeded`, or CONFLICT `connection_exists` where the tenant has a connection of that name, in
 * any case: the lake's engine takes names that differ in case alone for one.
 */
export async function createConnection(tx: Transaction, connection: NewConnection): Promise<Connection> {
  await reserveRoom(tx, connection.tenant, 'connections')
  return namesOnce(() =>
    one<Connection>(
      tx,
      'creating the connection',
      `insert into connections (id, tenant, name, connector_type, config, created_by)
       values ($1, $2, $3, $4, $5, $6) returning ${COLUMNS}`,
      [
        newId('con'),
        connection.tenant,
        connection.name,
        connection.connectorType,
        json(connection.config),
        json(connection.createdBy),
      ],
    ),
  )
}

/** By id or by name; an id wins. Another tenant's connection is not found. */
export function findConnection(db: Queryable, tenant: string, idOrName: string): Promise<Connection | null> {
  return maybeOne<Connection>(
    db,
    'reading the connection',
    `select ${COLUMNS} from connections where tenant = $1 and (id = $2 or name = $2) order by id = $2 desc limit 1`,
    [tenant, idOrName],
  )
}

/** Of whichever tenant, as long as that is active: for callers that prove themselves by the connection's own secret. */
export function connectionOfActiveTenant(db: Queryable, id: string): Promise<Connection | null> {
  return maybeOne<Connection>(
    db,
    'reading the connection',
    `select ${COLUMNS} from connections where id = $1
       and exists (select from tenants where slug = connections.tenant and tenants.status = 'active')`,
    [id],
  )
}

/** As it is until the transaction ends: nobody changes it meanwhile. */
export async function lockConnection(tx: Transaction, tenant: string, id: string): Promise<Connection | null> {
  const statement = `${withTenant('$1')}
    select id from connections where tenant = $1 and id = $2 and exists (select from kept) for no key update`
  await maybeOne(tx, 'reading the connection', statement, [tenant, id])
  return findConnection(tx, tenant, id)
}

/** By name only, as manifests refer to connections. */
export function findConnectionByName(db: Queryable, tenant: string, name: string): Promise<Connection | null> {
  return maybeOne<Connection>(
    db,
    'reading the connection',
    `select ${COLUMNS} from connections where tenant = $1 and name = $2`,
    [tenant, name],
  )
}

export async function listConnections(db: Queryable, tenant: string, page: PageRequest): Promise<Page<Connection>> {
  const parameters = pageParameters(page)
  const rows = await many<Connection>(
    db,
    'listing connections',
    `select ${COLUMNS} from connections where tenant = $4 and ($2::timestamptz is null or (created_at, id) < ($2, $3))
     order by created_at desc, id desc limit $1`,
    [...parameters, tenant],
  )
  return toPage(rows, parameters, (row) => row)
}

/** All of a tenant, newest first, page by page. */
export async function* everyConnection(db: Queryable, tenant: string, limit = MAX_PAGE): AsyncGenerator<Connection> {
  for (let after: PageRequest['after'] = null; ; ) {
    const { items, next } = await listConnections(db, tenant, { limit, after })
    yield* items
    if (next === null) return
    after = next
  }
}

/** Those of these names, in any case, newest first. */
export function connectionsNamed(
  db: Queryable,
  tenant: string,
  names: readonly string[],
): Promise<readonly Connection[]> {
  return many<Connection>(
    db,
    'finding connections by name',
    `select ${COLUMNS} from connections where tenant = $1 and lower(name) = any(select lower(wanted) from unnest($2::text[]) wanted)
     order by created_at desc, id desc`,
    [tenant, names],
  )
}

export interface ConnectionChange {
  readonly name?: string
  /** Another place to connect to: the former test result is no longer worth anything. */
  readonly config?: Readonly<Record<string, unknown>>
  /** Whether it leads to another source from now on. */
  readonly isMoved?: boolean
}

/** Null where the tenant has no such connection; CONFLICT `connection_exists` where another has the name, in any case. */
export function updateConnection(
  db: Queryable,
  tenant: string,
  id: string,
  update: ConnectionChange,
): Promise<Connection | null> {
  return namesOnce(() =>
    maybeOne<Connection>(
      db,
      'changing the connection',
      `update connections set name = coalesce($3, name), config = coalesce($4, config),
         status = case when $4::jsonb is null then status else 'untested' end,
         source_since = case when $5 then clock_timestamp() else source_since end, updated_at = now()
       where tenant = $1 and id = $2 returning ${COLUMNS}`,
      [tenant, id, update.name ?? null, json(update.config), update.isMoved ?? false],
    ),
  )
}

/** What raw tables say of the source that they were read from: in the summary of their snapshots, under this name. */
export const SOURCE_MARK = 'sluice.source'

/** Empty for the source that a connection had at first. */
export function sourceMark({ sourceSince }: Pick<Connection, 'sourceSince'>): string {
  return sourceSince?.toISOString() ?? ''
}

/** Whether rows with that summary were read from the source that the connection leads to now. */
export function isOfSource(
  summary: Readonly<Record<string, string>>,
  connection: Pick<Connection, 'sourceSince'>,
): boolean {
  return (summary[SOURCE_MARK] ?? '') === sourceMark(connection)
}

/**
 * Within the transaction that keeps what was read: whether the connection still leads where it led when the reading
 * began. Throws CONFLICT `connection_moved`.
 */
export async function checkSource(tx: Transaction, connection: Pick<Connection, 'id' | 'sourceSince'>): Promise<void> {
  const statement = 'select source_since as "sourceSince" from connections where id = $1 for share'
  const now = await maybeOne<Pick<Connection, 'sourceSince'>>(tx, 'reading the connection', statement, [connection.id])
  if (now !== null && sourceMark(now) === sourceMark(connection)) return
  throw new SluiceError('CONFLICT', 'the connection leads to another source since the reading began', {
    code: 'connection_moved',
    remedy: 'Sync the connection again.',
  })
}

/** Keeps the outcome of a test; false where the connection was changed or removed since `testedState`. */
export async function recordConnectionTest(
  db: Queryable,
  tested: Pick<Connection, 'tenant' | 'id' | 'updatedAt'>,
  status: 'ok' | 'failed',
): Promise<boolean> {
  const row = await maybeOne(
    db,
    'recording the test',
    `update connections set status = $4, last_tested_at = clock_timestamp()
     where tenant = $1 and id = $2 and updated_at = $3 returning id`,
    [tested.tenant, tested.id, tested.updatedAt, status],
  )
  return row !== null
}

/** Removes it with its secrets, grants, states and runs; false where there was none. */
export async function deleteConnection(tx: Transaction, tenant: string, id: string): Promise<boolean> {
  const statement = 'delete from connections where tenant = $1 and id = $2 returning id'
  return (await maybeOne(tx, 'removing the connection', statement, [tenant, id])) !== null
}

/** For statements on `connections` itself, of which nothing but names can be there already. */
async function namesOnce<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!isUniqueViolation(error)) throw error
    throw new SluiceError('CONFLICT', 'the tenant has a connection of that name', {
      code: 'connection_exists',
      remedy: 'Choose a name that differs in more than case, or change the connection that has it.',
      cause: error,
    })
  }
}
