/**
 * The databases and logins on a server that the runtime may administer: the registry with one role, the serving database
 * with three. None of them is a superuser or may bypass row security.
 */
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import type { DatabaseAddress } from './address.ts'
import { sqlState, toDatabaseError } from './errors.ts'
import { closeOpenFunctions } from './open-functions.ts'
import { clientConfig } from './pools.ts'

export interface RoleNames {
  readonly registryDatabase: string
  readonly registryRole: string
  readonly servingDatabase: string
  /** Makes and changes tables; owns them. */
  readonly servingOwner: string
  /** Writes rows, within one tenant at a time. */
  readonly servingWriter: string
  /** Reads rows, within one tenant at a time. */
  readonly servingReader: string
}

export const ROLE_NAMES: RoleNames = {
  registryDatabase: 'sluice_registry',
  registryRole: 'sluice_registry',
  servingDatabase: 'sluice_serving',
  servingOwner: 'sluice_owner',
  servingWriter: 'sluice_writer',
  servingReader: 'sluice_reader',
}

export interface ServingLogins {
  readonly owner: DatabaseAddress
  readonly writer: DatabaseAddress
  readonly reader: DatabaseAddress
}

export interface PlatformDatabases {
  readonly registry: DatabaseAddress
  readonly serving: ServingLogins
}

/**
 * Makes both databases and their roles, or sets right what is there, and returns the logins. Every call gives the roles
 * new random passwords, so none needs to be stored: call it once per start, from the one process that owns the server.
 */
export async function preparePlatformDatabases(
  admin: DatabaseAddress,
  names: RoleNames = ROLE_NAMES,
): Promise<PlatformDatabases> {
  const registry = await prepareRegistryDatabase(admin, names)
  return { registry, serving: await prepareServingDatabase(admin, names) }
}

export async function prepareRegistryDatabase(
  admin: DatabaseAddress,
  names: Pick<RoleNames, 'registryDatabase' | 'registryRole'> = ROLE_NAMES,
): Promise<DatabaseAddress> {
  return asAdmin(admin, async (client) => {
    const login = await prepareRole(client, admin, names.registryRole, names.registryDatabase)
    await prepareDatabase(client, names.registryDatabase, names.registryRole, [])
    await asAdmin({ ...admin, database: names.registryDatabase }, closeOpenFunctions)
    return login
  })
}

export async function prepareServingDatabase(
  admin: DatabaseAddress,
  names: Omit<RoleNames, 'registryDatabase' | 'registryRole'> = ROLE_NAMES,
): Promise<ServingLogins> {
  return asAdmin(admin, async (client) => {
    const logins = {
      owner: await prepareRole(client, admin, names.servingOwner, names.servingDatabase),
      writer: await prepareRole(client, admin, names.servingWriter, names.servingDatabase),
      reader: await prepareRole(client, admin, names.servingReader, names.servingDatabase),
    }
    await prepareDatabase(client, names.servingDatabase, names.servingOwner, [names.servingWriter, names.servingReader])
    const { servingDatabase: database, servingWriter: writer } = names
    await asAdmin({ ...admin, database }, (inside) => closeOpenFunctions(inside, [writer]))
    return logins
  })
}

/**
 * Shuts the databases that every server has. Whoever may log in may enter them otherwise, and fill the disk with what the
 * platform's own databases do not let it make. Only for a server that is the runtime's alone. Repeatable.
 */
export function closeServersDatabases(admin: DatabaseAddress): Promise<void> {
  return asAdmin(admin, async (client) => {
    for (const name of ['postgres', 'template1']) await client.query(`revoke all on database ${name} from public`)
  })
}

async function asAdmin<T>(admin: DatabaseAddress, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(clientConfig(admin, { applicationName: 'sluice-setup' }))
  client.on('error', () => undefined)
  try {
    await client.connect()
    return await work(client)
  } catch (error) {
    throw toDatabaseError(error, 'preparing the databases')
  } finally {
    // How it ended is known by now; a connection that does not close is broken, and gone.
    await client.end().catch(() => undefined)
  }
}

async function prepareRole(
  client: pg.Client,
  admin: DatabaseAddress,
  role: string,
  database: string,
): Promise<DatabaseAddress> {
  const password = randomBytes(24).toString('base64url')
  const name = pg.escapeIdentifier(role)
  await unlessThere(client, `create role ${name}`)
  // Said again for a role that was there: whatever it was given in the meantime, it is not kept.
  await client.query(
    `alter role ${name} login nosuperuser nocreatedb nocreaterole noreplication nobypassrls password ${pg.escapeLiteral(password)}`,
  )
  return { ...admin, database, user: role, password }
}

async function prepareDatabase(
  client: pg.Client,
  database: string,
  owner: string,
  others: readonly string[],
): Promise<void> {
  const name = pg.escapeIdentifier(database)
  const exists = await client.query('select from pg_database where datname = $1', [database])
  if (exists.rowCount === 0) await unlessThere(client, `create database ${name} owner ${pg.escapeIdentifier(owner)}`)
  await client.query(`revoke all on database ${name} from public`)
  for (const role of others)
    await client.query(`grant connect, temporary on database ${name} to ${pg.escapeIdentifier(role)}`)
}

const ALREADY_THERE: readonly (string | undefined)[] = ['42710', '42P04', '23505']

async function unlessThere(client: pg.Client, statement: string): Promise<void> {
  try {
    await client.query(statement)
  } catch (error) {
    if (!ALREADY_THERE.includes(sqlState(error))) throw error
  }
}
