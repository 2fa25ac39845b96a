/**
 * Functions of PostgreSQL's own that every login may call unless they are taken away, and with which one that may only
 * read could hold up others, write, or measure what it may not see.
 */
import pg from 'pg'

/** By name or by beginning: `pg_advisory_` is all of those. `deploy/postgres/20-walls.sh` has the same. */
export const OPEN_FUNCTIONS = [
  // Locks that others wait for.
  'pg_advisory_',
  'pg_try_advisory_',
  // Large objects, which nobody else can drop, and bytes for the log of the server.
  'lo_creat',
  'lo_create',
  'lo_from_bytea',
  'lo_put',
  'lowrite',
  'pg_logical_emit_message',
  // What wakes others, and numbers of transactions, of which a server has few.
  'pg_notify',
  'pg_current_xact_id',
  'txid_current',
  'pg_export_snapshot',
  // Lengths of tables that cannot be read.
  'pg_relation_size',
  'pg_table_size',
  'pg_indexes_size',
  'pg_total_relation_size',
] as const

/** Those of them that everybody may still call in this database. */
const STILL_OPEN = `
select p.oid::regprocedure::text as name from pg_proc p
where p.pronamespace = 'pg_catalog'::regnamespace and has_function_privilege('public', p.oid, 'execute')
  and exists (select from unnest($1::text[]) n where p.proname = n or (n like '%\\_' and starts_with(p.proname, n)))`

/** The database's owner and those that `keepers` names go on calling them. */
const KEEPERS = `
select rolname as name from pg_roles where rolname = any($1)
union select pg_get_userbyid(datdba) from pg_database where datname = current_database()`

/** In the client's database, where it is a superuser: nobody else may. Repeatable. */
export async function closeOpenFunctions(client: pg.ClientBase, keepers: readonly string[] = []): Promise<void> {
  const { rows: names } = await client.query<{ name: string }>(
    `${STILL_OPEN} and exists (select from pg_roles where rolname = current_user and rolsuper)`,
    [OPEN_FUNCTIONS],
  )
  if (names.length === 0) return
  const { rows: roles } = await client.query<{ name: string }>(KEEPERS, [keepers])
  const functions = names.map(({ name }) => name).join(', ')
  await client.query(
    `grant execute on function ${functions} to ${roles.map(({ name }) => pg.escapeIdentifier(name)).join(', ')}`,
  )
  await client.query(`revoke execute on function ${functions} from public`)
}

/** What a login may do beside what it was made for; empty where the server was set up for it. */
export async function gapsOf(client: pg.ClientBase, role: string): Promise<readonly string[]> {
  const { rows: functions } = await client.query<{ name: string }>(STILL_OPEN, [OPEN_FUNCTIONS])
  const { rows: databases } = await client.query<{ name: string }>(
    `select datname as name from pg_database
     where datallowconn and datname <> current_database() and has_database_privilege($1, oid, 'connect') order by 1`,
    [role],
  )
  return [
    ...(functions.length === 0 ? [] : [`call ${functions.length} functions that write, lock or measure`]),
    ...databases.map(({ name }) => `enter the database ${name}`),
  ]
}

/**
 * Drops the role with whatever it has made or was given, in every database of the server that the client may enter for
 * it. The client is a superuser, or made the role.
 * @param enter a client of the same login to another database, which is ended here
 */
export async function dropLogin(
  client: pg.ClientBase,
  role: string,
  enter: (database: string) => Promise<pg.Client>,
): Promise<void> {
  const name = pg.escapeIdentifier(role)
  const { rows } = await client.query<{ database: string; isHere: boolean }>(
    `select distinct d.datname as database, d.datname = current_database() as "isHere"
     from pg_shdepend s join pg_database d on d.oid = s.dbid
     where s.refclassid = 'pg_authid'::regclass and s.refobjid = (select oid from pg_roles where rolname = $1)`,
    [role],
  )
  for (const { database } of rows.filter(({ isHere }) => !isHere)) {
    const there = await enter(database)
    await there.query(`drop owned by ${name}`).finally(() => there.end())
  }
  await client.query(`drop owned by ${name}`)
  await client.query(`drop role ${name}`)
}
