/** The wall between tenants, as statements. */
import { quoteIdentifier, quoteLiteral } from './identifiers.ts'
import type { Client, Roles } from './sessions.ts'

const POLICY = 'tenant_isolation'

/** Unset, the setting reads as null; after a transaction that set it, as ''. Neither is a tenant. */
const OWN_ROWS = `tenant_id = current_setting('app.tenant_id', true) and current_setting('app.tenant_id', true) <> ''`

/** A policy for every login, the table's owner included, on what is read and on what is written. */
export function wallStatements(table: string): readonly string[] {
  return [
    `create policy ${quoteIdentifier(POLICY)} on ${table} using (${OWN_ROWS}) with check (${OWN_ROWS})`,
    `alter table ${table} enable row level security, force row level security`,
  ]
}

/** Grants stand on parents alone: a partition that is named directly is refused to reader and writer. */
export function grantTable(table: string, roles: Roles): readonly string[] {
  return [
    `grant select on ${table} to ${quoteIdentifier(roles.reader)}`,
    `grant select, insert, update, delete on ${table} to ${quoteIdentifier(roles.writer)}`,
  ]
}

export function grantSchema(schema: string, roles: Roles): string {
  const logins = [roles.reader, roles.writer].map(quoteIdentifier).join(', ')
  return `grant usage on schema ${quoteIdentifier(schema)} to ${logins}`
}

/** Rows of one tenant: true for no other partition, so that attaching it needs no scan. */
export function tenantCheck(tenant: string): string {
  return `constraint tenant_own check (tenant_id is not null and tenant_id = ${quoteLiteral(tenant)})`
}

export interface SecurityState {
  readonly forced: boolean
  readonly policies: number
}

/** What the server says of a table; null where there is no such table. */
export async function securityOf(client: Client, schema: string, table: string): Promise<SecurityState | null> {
  const result = await client.query<{ forced: boolean; policies: number }>(
    `select c.relrowsecurity and c.relforcerowsecurity as forced,
            (select count(*)::int from pg_policy p
              where p.polrelid = c.oid and p.polpermissive and p.polcmd = '*' and p.polroles = '{0}'
                and p.polname = $3 and pg_get_expr(p.polqual, p.polrelid) = pg_get_expr(p.polwithcheck, p.polrelid))
            + (select count(*)::int * 100 from pg_policy p where p.polrelid = c.oid and p.polname <> $3) as policies
       from pg_class c where c.oid = to_regclass($1 || '.' || $2)`,
    [quoteIdentifier(schema), quoteIdentifier(table), POLICY],
  )
  return result.rows[0] ?? null
}

/** True where the one policy that this module makes, and no other, is forced on the table. */
export function isWall(state: SecurityState | null): boolean {
  return state?.forced === true && state.policies === 1
}

export async function runAll(client: Client, statements: readonly string[]): Promise<void> {
  for (const statement of statements) await client.query(statement)
}

/** Whether both logins can read the table already; false where there is none. */
export async function isGranted(client: Client, schema: string, table: string, roles: Roles): Promise<boolean> {
  const result = await client.query<{ granted: boolean | null }>(
    `select bool_and(has_schema_privilege(r, n.oid, 'usage') and has_table_privilege(r, c.oid, 'select')) as granted
       from pg_class c join pg_namespace n on n.oid = c.relnamespace, unnest($3::name[]) r
      where n.nspname = $1 and c.relname = $2`,
    [schema, table, [roles.reader, roles.writer]],
  )
  return result.rows[0]?.granted === true
}
