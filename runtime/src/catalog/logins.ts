/**
 * PostgreSQL logins for engines that read the SQL catalog (`JdbcCatalog`, PyIceberg's `sql`): one a tenant, which may
 * select the rows of its own catalog and nothing else.
 */
import { randomBytes } from 'node:crypto'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import pg from 'pg'
import { type DatabaseAddress, formatAddress } from '../database/address.ts'
import { toDatabaseError } from '../database/errors.ts'
import { closeOpenFunctions, dropLogin } from '../database/open-functions.ts'
import { clientConfig, inTransaction } from '../database/pools.ts'
import { catalogName } from '../lake/tenant-layout.ts'
import type { MaskingRules } from '../policy/masking.ts'
import { change, json, maybeOne, one } from '../registry/sql.ts'

export interface CatalogLoginsDeps {
  /** The registry, as the role that owns its tables. */
  readonly pool: pg.Pool
  /** A login to the registry's database that may make roles; null where there is none. */
  readonly admin: DatabaseAddress | null
  /** Where engines find the database. */
  readonly shown: Pick<DatabaseAddress, 'host' | 'port' | 'database' | 'tls'>
}

export interface CatalogLogin {
  readonly catalog: string
  readonly host: string
  readonly port: number
  readonly database: string
  readonly user: string
  /** Told once; making the login again gives another one. */
  readonly password: string
  /** All of it, as libpq reads it. */
  readonly uri: string
}

/** The operator's login for an engine that works for all tenants. Nobody else's sessions can have its name. */
export const ENGINE_ROLE = 'sluice_lake'

const READ_TABLES = ['iceberg_tables', 'iceberg_namespace_properties'] as const
const MAX_CONNECTIONS = 20

/** Of every session of such a login, for what a login can always do: hold connections, statements and locks. */
const SETTINGS = {
  default_transaction_read_only: 'on',
  statement_timeout: '30s',
  lock_timeout: '2s',
  idle_in_transaction_session_timeout: '60s',
  idle_session_timeout: '15min',
  search_path: 'public',
} as const

export class CatalogLogins {
  readonly #deps: CatalogLoginsDeps

  constructor(deps: CatalogLoginsDeps) {
    this.#deps = deps
  }

  /** Tells the database which classes are masked, and how; once per start. */
  async setMasking({ sensitive, strategies }: MaskingRules): Promise<void> {
    const statement = 'update catalog_masking set sensitive = $1, strategies = $2'
    await change(this.#deps.pool, 'keeping the masked classes', statement, [sensitive, json(strategies)])
  }

  /** Lets the operator's engine read where tables lie, if there is a login for one; once per start. */
  async admitEngine(): Promise<void> {
    const known = await maybeOne(
      this.#deps.pool,
      'looking for the login of engines',
      'select from pg_roles where rolname = $1 and not has_table_privilege(oid, $2, $3)',
      [ENGINE_ROLE, READ_TABLES[1], 'select'],
    )
    if (known !== null) await this.#grant(ENGINE_ROLE, 'grant')
  }

  /** Makes the tenant's login, or gives it a new password and ends its sessions. */
  async issue(tenant: string): Promise<CatalogLogin> {
    if (this.#deps.admin === null) throw unavailable()
    const role = await this.#roleOf(tenant)
    const password = randomBytes(24).toString('base64url')
    await this.#asAdmin(async (client) => {
      await closeOpenFunctions(client)
      const name = pg.escapeIdentifier(role)
      const { rowCount } = await client.query('select from pg_roles where rolname = $1', [role])
      if (rowCount === 0) await client.query(`create role ${name} nologin`)
      await client.query(
        `alter role ${name} login nosuperuser nocreatedb nocreaterole noinherit noreplication nobypassrls
         connection limit ${MAX_CONNECTIONS} password ${pg.escapeLiteral(password)}`,
      )
      // Whoever had it may have changed what its sessions begin with.
      await client.query(`alter role ${name} reset all`)
      for (const [setting, value] of Object.entries(SETTINGS)) {
        await client.query(`alter role ${name} set ${setting} = ${pg.escapeLiteral(value)}`)
      }
      await endSessions(client, role)
    })
    await this.#grant(role, 'grant')
    const { host, port, database, tls } = this.#deps.shown
    const uri = formatAddress({ host, port, database, tls, user: role, password })
    return { catalog: catalogName(tenant), host, port, database, user: role, password, uri }
  }

  /**
   * Removes the tenant's login with its sessions. Where nobody may change roles any more, it keeps its name and sees
   * nothing: what it may see hangs on the entry that is removed here. Repeatable.
   */
  async revoke(tenant: string): Promise<void> {
    const known = await maybeOne<{ role: string }>(
      this.#deps.pool,
      'reading the login',
      'select role_name as role from catalog_logins where tenant = $1',
      [tenant],
    )
    if (known === null) return
    if (this.#deps.admin !== null) await this.#dropRole(known.role)
    await change(this.#deps.pool, 'removing the login', 'delete from catalog_logins where tenant = $1', [tenant])
  }

  async #dropRole(role: string): Promise<void> {
    await this.#asAdmin(async (client) => {
      const { rowCount } = await client.query('select from pg_roles where rolname = $1', [role])
      if (rowCount === 0) return
      await client.query(`alter role ${pg.escapeIdentifier(role)} nologin`)
      await endSessions(client, role)
      await this.#grant(role, 'revoke')
      await dropLogin(client, role, (database) => this.#connect({ database }))
    })
  }

  /** The name says nothing of the tenant: every login can list every role. */
  async #roleOf(tenant: string): Promise<string> {
    const { role } = await one<{ role: string }>(
      this.#deps.pool,
      'keeping the login',
      `insert into catalog_logins (tenant, role_name) values ($1, $2)
       on conflict (tenant) do update set rotated_at = now() returning role_name as role`,
      [tenant, `sluice_catalog_${randomBytes(8).toString('hex')}`],
    )
    return role
  }

  async #grant(role: string, verb: 'grant' | 'revoke'): Promise<void> {
    const [name, toOrFrom] = [pg.escapeIdentifier(role), verb === 'grant' ? 'to' : 'from']
    await inTransaction(this.#deps.pool, async (tx) => {
      // Two grants on one thing at once fail. Of this table no login has anything, so that none can hold this up.
      await tx.query('lock table catalog_logins in share update exclusive mode')
      const database = pg.escapeIdentifier(this.#deps.shown.database)
      // Temporary tables fill disks as well as others do. Whoever owns the database keeps the right.
      await tx.query(`revoke temporary on database ${database} from public`)
      await tx.query(`${verb} connect on database ${database} ${toOrFrom} ${name}`)
      await tx.query(`${verb} select on ${READ_TABLES.join(', ')} ${toOrFrom} ${name}`)
    })
  }

  async #asAdmin(work: (client: pg.Client) => Promise<void>): Promise<void> {
    let client: pg.Client | undefined
    try {
      client = await this.#connect({})
      await work(client)
    } catch (error) {
      throw isSluiceError(error) ? error : toDatabaseError(error, 'changing a login')
    } finally {
      // How it ended is known by now; a connection that does not close is broken, and gone.
      await client?.end().catch(() => undefined)
    }
  }

  async #connect(other: { readonly database?: string }): Promise<pg.Client> {
    const { admin } = this.#deps
    if (admin === null) throw unavailable()
    const client = new pg.Client(clientConfig({ ...admin, ...other }, { applicationName: 'sluice-logins' }))
    client.on('error', () => undefined)
    await client.connect()
    return client
  }
}

async function endSessions(client: pg.Client, role: string): Promise<void> {
  await client.query('select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = $1', [role])
}

function unavailable(): SluiceError {
  return new SluiceError('UNSUPPORTED', 'this deployment makes no logins for SQL catalogs', {
    code: 'catalog_logins_unavailable',
    remedy: 'Set database.catalog_admin_url to a login of the registry’s server that may make roles.',
  })
}
