/**
 * What the dashboard server reads: for each dataset a login of the serving database that may select one view and nothing
 * else. The view's function finds out by the login itself whose rows to give, so no setting, no statement and no mistake
 * in the dashboard server leads to another dataset. The function looks the table up anew each time: stores rebuild and
 * drop their tables without knowing of views.
 */
import { randomBytes } from 'node:crypto'
import {
  ADDED_COLUMNS,
  enterTenant,
  HAS_REGISTER,
  OWNER_COLUMN,
  schemaOf,
  servedTable,
} from '@sluice/lookup/row-secured-postgresql/served-tables'
import { isSluiceError, physicalName, SluiceError, variantTable } from '@sluice/sdk'
import pg from 'pg'
import { type DatabaseAddress, formatAddress } from '../database/address.ts'
import { sqlState, toDatabaseError } from '../database/errors.ts'
import { closeOpenFunctions, dropLogin, gapsOf } from '../database/open-functions.ts'
import { clientConfig, inTransaction } from '../database/pools.ts'
import { loginName } from './names.ts'

export interface ServingViewsDeps {
  /** The serving database, as the role that owns its tables. */
  readonly pool: pg.Pool
  /** A login to the same database that may make roles. */
  readonly admin: DatabaseAddress
  /** Where the dashboard server finds it. */
  readonly shown: Pick<DatabaseAddress, 'host' | 'port' | 'database' | 'tls'>
  /** Told once what such logins may do beside reading, where the server was not set up for them. */
  readonly onGaps: (gaps: readonly string[]) => void
}

/** A dataset as the store has it. */
export interface StoredDataset {
  readonly productId: string
  readonly tenant: string
  readonly domain: string
  readonly product: string
  readonly variant: string
  readonly endpoint: string
  /** By which name the store has the variant now, where that is another one. */
  readonly storedAs?: string
}

export interface ServingView {
  readonly schema: string
  readonly name: string
  /** In the order of the table, with PostgreSQL's types; without the column of the tenant. */
  readonly columns: readonly { readonly name: string; readonly type: string }[]
}

/** The column of the tenant's slug in every view: names of products' columns do not begin with two underscores. */
export const TENANT_COLUMN = '__tenant'

const CONNECTIONS = 10

/** Of every session of such a login, for what a login can always do: hold connections, statements and locks. */
const SETTINGS = {
  default_transaction_read_only: 'on',
  statement_timeout: '60s',
  lock_timeout: '2s',
  idle_in_transaction_session_timeout: '60s',
  idle_session_timeout: '15min',
} as const

/** A dataset's name in the line of the login that asks. */
const OF_LOGIN = {
  tenant: 'login.tenant_id',
  domain: 'login.domain',
  product: 'login.product',
  variant: 'login.variant',
  endpoint: 'login.endpoint',
} as const

/** The same in the first parameters of a statement. */
const OF_PARAMETERS = { tenant: '$1', domain: '$2', product: '$3', variant: '$4', endpoint: '$5' } as const

const REGISTER = `
create schema if not exists sluice_views;
create table if not exists sluice_views.logins (
  role_name name primary key,
  tenant_id text collate "C" not null,
  domain text collate "C" not null,
  product text collate "C" not null,
  variant text collate "C" not null,
  endpoint text collate "C" not null,
  schema_name text not null,
  columns text not null,
  is_open boolean not null default false
);
create or replace function sluice_views.own_rows() returns setof record
language plpgsql volatile security definer set search_path = pg_catalog as $$
declare
  login sluice_views.logins;
  found_relation text;
begin
  select * into login from sluice_views.logins l where l.role_name = session_user;
  if not coalesce(login.is_open, false) then
    raise exception 'who may see this is being changed' using errcode = 'insufficient_privilege';
  end if;
  perform ${enterTenant(OF_LOGIN.tenant)};
  found_relation := (${servedTable(OF_LOGIN)});
  if found_relation is null then
    raise exception 'this has no rows yet' using errcode = 'undefined_table';
  end if;
  return query execute format(
    'select ${OWNER_COLUMN}::text, %s from %I.%I where ${OWNER_COLUMN} = $1', login.columns, login.schema_name, found_relation
  ) using login.tenant_id;
  perform ${enterTenant("''")};
end $$;
revoke all on function sluice_views.own_rows() from public;`

/** A table of which no login has anything: none can hold up who takes this. */
const REGISTER_LOCK = 'lock table sluice_views.logins in share update exclusive mode'

/** What making the same thing at once ends with for all but one. */
const MADE_AT_ONCE: readonly (string | undefined)[] = ['23505', '42P06', '42P07', '42723', '42710', 'XX000']
const PREPARE_ATTEMPTS = 5

export class ServingViews {
  readonly #deps: ServingViewsDeps
  #prepared: Promise<void> | null = null
  #isTold = false

  constructor(deps: ServingViewsDeps) {
    this.#deps = deps
  }

  /** Where the dashboard server finds the views. */
  get shown(): ServingViewsDeps['shown'] {
    return this.#deps.shown
  }

  /** What a dataset's view has or would have; null while the store has none of its rows. */
  async describe(dataset: StoredDataset, signal: AbortSignal): Promise<ServingView | null> {
    const columns = await inTransaction(
      this.#deps.pool,
      async (tx) => {
        await tx.query(`select ${enterTenant('$1')}`, [dataset.tenant])
        const { rows } = await tx.query<{ there: boolean }>(`select ${HAS_REGISTER} as there`)
        return rows[0]?.there === true ? columnsOf(tx, dataset) : []
      },
      { signal },
    )
    if (columns.length === 0) return null
    return { schema: loginName(dataset), name: viewName(dataset), columns }
  }

  /**
   * Makes the login and its view, or sets right what is there, and gives the login a new password. It reads nothing before
   * `setOpen`, unless it was open. Returns the address, which holds the password.
   */
  async provision(dataset: StoredDataset, view: ServingView, signal: AbortSignal): Promise<string> {
    await this.#prepare(signal)
    const role = loginName(dataset)
    const password = randomBytes(24).toString('base64url')
    await this.#asAdmin((client) => makeLogin(client, role, password))
    await this.#asAdmin(async (client) => {
      await closeOpenFunctions(client)
      const gaps = this.#isTold ? [] : await gapsOf(client, role)
      if (gaps.length > 0) this.#deps.onGaps(gaps)
      this.#isTold = true
    })
    await inTransaction(this.#deps.pool, (tx) => makeView(tx, this.#deps.shown.database, role, dataset, view), {
      signal,
    })
    return formatAddress({ ...this.#deps.shown, user: role, password })
  }

  /** Shut, the view gives no rows to anybody. Of what is not there nothing is changed. */
  async setOpen(dataset: Pick<StoredDataset, 'productId' | 'variant'>, isOpen: boolean): Promise<void> {
    await this.#prepare(AbortSignal.timeout(30_000))
    await asOwner(this.#deps.pool, 'update sluice_views.logins set is_open = $2 where role_name = $1', [
      loginName(dataset),
      isOpen,
    ])
  }

  /** Removes the login with its view and sessions. Repeatable. */
  async remove(dataset: Pick<StoredDataset, 'productId' | 'variant'>): Promise<void> {
    await this.setOpen(dataset, false)
    const role = loginName(dataset)
    const name = pg.escapeIdentifier(role)
    const database = pg.escapeIdentifier(this.#deps.shown.database)
    const isThere = await this.#asAdmin(async (client) => {
      if (!(await roleExists(client, role))) return false
      await client.query(`alter role ${name} nologin`)
      await endSessions(client, role)
      return true
    })
    await inTransaction(this.#deps.pool, async (tx) => {
      await tx.query(`drop schema if exists ${name} cascade`)
      await tx.query('delete from sluice_views.logins where role_name = $1', [role])
      if (!isThere) return
      await tx.query(`revoke all on schema sluice_views from ${name}`)
      await tx.query(`revoke all on function sluice_views.own_rows() from ${name}`)
      await tx.query(`revoke all on database ${database} from ${name}`)
    })
    if (isThere) await this.#asAdmin((client) => dropLogin(client, role, (other) => this.#connect(other)))
  }

  #prepare(signal: AbortSignal): Promise<void> {
    this.#prepared ??= this.#register(signal, PREPARE_ATTEMPTS).catch((error: unknown) => {
      this.#prepared = null
      throw error
    })
    return this.#prepared
  }

  /** Several runtimes may begin at once. */
  async #register(signal: AbortSignal, attempts: number): Promise<void> {
    try {
      await inTransaction(this.#deps.pool, (tx) => tx.query(REGISTER), { signal })
    } catch (error) {
      const cause = (error as { readonly cause?: unknown }).cause
      const isRace = MADE_AT_ONCE.includes(sqlState(error) ?? sqlState(cause))
      if (attempts <= 1 || !isRace) throw error
      await this.#register(signal, attempts - 1)
    }
  }

  async #asAdmin<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
    let client: pg.Client | undefined
    try {
      client = await this.#connect(this.#deps.admin.database)
      return await work(client)
    } catch (error) {
      throw isSluiceError(error) ? error : toDatabaseError(error, 'changing a login of dashboards')
    } finally {
      // How it ended is known by now; a connection that does not close is broken, and gone.
      await client?.end().catch(() => undefined)
    }
  }

  async #connect(database: string): Promise<pg.Client> {
    const address = { ...this.#deps.admin, database }
    const client = new pg.Client(clientConfig(address, { applicationName: 'sluice-dashboards' }))
    client.on('error', () => undefined)
    await client.connect()
    return client
  }
}

/** People read it. Its end differs between datasets: a dashboard server may keep one dataset of a name. */
function viewName(dataset: StoredDataset): string {
  const { domain, product, variant } = dataset
  return physicalName(`${domain}_${variantTable(product, variant)}_${loginName(dataset).slice(-8)}`)
}

async function columnsOf(tx: pg.ClientBase, dataset: StoredDataset): Promise<ServingView['columns']> {
  const { tenant, domain, product, variant, endpoint, storedAs = variant } = dataset
  const { rows } = await tx.query<{ name: string; type: string }>(
    `select a.attname as name, format_type(a.atttypid, a.atttypmod) as type
     from (${servedTable(OF_PARAMETERS)}) d
     join pg_class c on c.relname = d.relation
     join pg_namespace n on n.oid = c.relnamespace and n.nspname = $6
     join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     where a.attname <> all ($7)
     order by a.attnum`,
    [tenant, domain, product, storedAs, endpoint, schemaOf(domain), ADDED_COLUMNS],
  )
  return rows
}

async function makeLogin(client: pg.Client, role: string, password: string): Promise<void> {
  const name = pg.escapeIdentifier(role)
  if (!(await roleExists(client, role))) await client.query(`create role ${name} nologin`)
  await client.query(
    `alter role ${name} login noinherit
     connection limit ${CONNECTIONS} password ${pg.escapeLiteral(password)}`,
  )
  // Whoever had it may have changed what its sessions begin with.
  await client.query(`alter role ${name} reset all`)
  for (const [setting, value] of Object.entries(SETTINGS)) {
    await client.query(`alter role ${name} set ${setting} = ${pg.escapeLiteral(value)}`)
  }
  const { rows } = await client.query<{ climbs: boolean }>(
    `select rolsuper or rolbypassrls or rolreplication or rolcreaterole or rolcreatedb or exists (
       select from pg_auth_members m where m.member = r.oid
     ) as climbs from pg_roles r where rolname = $1`,
    [role],
  )
  if (rows[0]?.climbs === false) return
  throw new SluiceError('CONFIG', 'a login of dashboards may do more than read its view', {
    code: 'dashboard_login_unsafe',
    remedy: 'Take from the roles named sluice_view_… every attribute and membership that they were given.',
  })
}

async function makeView(
  tx: pg.ClientBase,
  databaseName: string,
  role: string,
  dataset: StoredDataset,
  { name, columns }: ServingView,
): Promise<void> {
  const [login, database] = [pg.escapeIdentifier(role), pg.escapeIdentifier(databaseName)]
  const view = `${login}.${pg.escapeIdentifier(name)}`
  const quoted = columns.map((column) => ({ ...column, sql: pg.escapeIdentifier(column.name) }))
  const types = [`${pg.escapeIdentifier(TENANT_COLUMN)} text`, ...quoted.map(({ sql, type }) => `${sql} ${type}`)]
  await tx.query(REGISTER_LOCK)
  await tx.query(
    `insert into sluice_views.logins
       (role_name, tenant_id, domain, product, variant, endpoint, schema_name, columns)
     values ($1, $2, $3, $4, $5, $6, $7, $8)
     on conflict (role_name) do update set variant = $5, endpoint = $6, columns = $8`,
    [
      role,
      dataset.tenant,
      dataset.domain,
      dataset.product,
      dataset.storedAs ?? dataset.variant,
      dataset.endpoint,
      schemaOf(dataset.domain),
      // Cast to what the view promises, whatever the table has become meanwhile.
      quoted.map(({ sql, type }) => `${sql}::${type}`).join(', '),
    ],
  )
  await tx.query(`create schema if not exists ${login}`)
  await tx.query(`drop view if exists ${view}`)
  await tx.query(
    `create view ${view} with (security_barrier) as select * from sluice_views.own_rows() as t(${types.join(', ')})`,
  )
  for (const grant of [
    `connect on database ${database}`,
    'usage on schema sluice_views',
    'execute on function sluice_views.own_rows()',
    `usage on schema ${login}`,
    `select on ${view}`,
  ]) {
    await tx.query(`grant ${grant} to ${login}`)
  }
}

async function roleExists(client: pg.Client, role: string): Promise<boolean> {
  return (await client.query('select from pg_roles where rolname = $1', [role])).rowCount === 1
}

/** A login that made the role may end its sessions only as a member of it. */
async function endSessions(client: pg.Client, role: string): Promise<void> {
  await client.query(`grant ${pg.escapeIdentifier(role)} to current_user`)
  await client.query('select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = $1', [role])
}

async function asOwner(pool: pg.Pool, statement: string, values: readonly unknown[]): Promise<void> {
  try {
    await pool.query(statement, [...values])
  } catch (error) {
    throw toDatabaseError(error, 'changing a view of dashboards')
  }
}
