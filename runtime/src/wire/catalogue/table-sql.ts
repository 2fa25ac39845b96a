/** The tables that a caller may read, as statements that make them in a PostgreSQL: their columns, and never a row. */
import { createHash } from 'node:crypto'
import { quoteName, quoteText } from '@sluice/engine'
import { type LogicalType, parseDecimal } from '@sluice/sdk'
import type { Described } from '../../operations/queries/information-schema.ts'
import { heldTables } from './held-tables.ts'
import { OWN_VIEWS_SQL } from './own-views.ts'

/** The one login of statements about the catalogue. */
export const READER = 'reader'

/** The same for the same tables of the same tenant, and tells nothing of either. */
export function catalogueName(tenant: string, tables: readonly Described[]): string {
  const described = tables.map(({ schema, table, columns, masked = [] }) => [
    schema,
    table,
    columns.map(({ name, type }) => [name, type]),
    masked,
  ])
  const hash = createHash('sha256')
    .update(JSON.stringify([tenant, described]))
    .digest('hex')
  return `c_${hash.slice(0, 40)}`
}

const TYPES: Readonly<Record<string, string>> = {
  boolean: 'boolean',
  integer: 'integer',
  long: 'bigint',
  float: 'real',
  double: 'double precision',
  string: 'text',
  binary: 'bytea',
  json: 'json',
  date: 'date',
  timestamp: 'timestamp',
  timestamptz: 'timestamptz',
  uuid: 'uuid',
}

function typeOf(type: LogicalType): string {
  const decimal = parseDecimal(type)
  return decimal === null ? (TYPES[type] ?? 'text') : `numeric(${decimal.precision}, ${decimal.scale})`
}

const TABLES_A_PART = 500
const COLUMNS_A_PART = 20_000

/**
 * In parts, each a transaction of its own. Names are listed for who may REFERENCE a table, which gives no row of it: a
 * statement of rows that comes here by mistake is refused, in place of being told that there are none.
 */
export function tablesSql(tenant: string, database: string, tables: readonly Described[]): readonly string[] {
  const held = heldTables(tables)
  const schemas = [...new Set(held.map(({ schema }) => schema))]
  const path = ['public', ...schemas.filter((schema) => schema !== 'public')].map(quoteName).join(', ')
  const first = [
    `create or replace function pg_catalog.current_database() returns name language sql stable as ${quoteText(`select ${quoteText(tenant)}::pg_catalog.name`)}`,
    ...schemas.map((schema) => `create schema if not exists ${quoteName(schema)}`),
  ]
  const last = [
    ...schemas.flatMap((schema) => [
      `grant usage on schema ${quoteName(schema)} to ${READER}`,
      `grant references on all tables in schema ${quoteName(schema)} to ${READER}`,
    ]),
    `alter database ${database} set search_path = ${path}`,
  ]
  const parts = [first, ...inParts(held).map((some) => some.flatMap(tableSql)), last]
  return parts.map((statements) => statements.join(';\n'))
}

/** Few enough for the memory of one process. */
function inParts(tables: readonly Described[]): readonly (readonly Described[])[] {
  const parts: Described[][] = []
  let columns = 0
  for (const table of tables) {
    const part = parts.at(-1)
    columns += table.columns.length
    if (part !== undefined && part.length < TABLES_A_PART && columns <= COLUMNS_A_PART) part.push(table)
    else {
      parts.push([table])
      columns = table.columns.length
    }
  }
  return parts
}

function tableSql({ schema, table, columns, masked = [] }: Described): readonly string[] {
  const name = `${quoteName(schema)}.${quoteName(table)}`
  const list = columns.map((column) => `${quoteName(column.name)} ${typeOf(column.type)}`).join(', ')
  const hidden = columns.filter((column) => masked.includes(column.name))
  return [
    `create table ${name} (${list})`,
    ...hidden.map((column) => `comment on column ${name}.${quoteName(column.name)} is 'masked for you'`),
  ]
}

/** Views of what a server and its sessions do: they keep their columns, and have no rows. */
const EMPTY_VIEWS = '^pg_(stat_|statio_|locks$|prepared_xacts$|available_)'

/** Of tables that have no rows here, nobody knows the size. */
const SIZES = [
  ...['pg_relation_size', 'pg_table_size', 'pg_indexes_size', 'pg_total_relation_size'].map(
    (name) => `${name}(regclass)`,
  ),
  ...['pg_relation_size(regclass, text)', 'pg_database_size(oid)', 'pg_database_size(name)'],
  ...['pg_tablespace_size(oid)', 'pg_tablespace_size(name)'],
]

/** What looks up its own database in `pg_database`, by a name that is not told here: all are in UTF8, which is 6. */
const ENCODING_SQL = `
create or replace function information_schema._pg_char_octet_length(typid oid, typmod int4) returns integer
  language sql immutable parallel safe returns null on null input
  return case when $1 in (25, 1042, 1043) then case when $2 = -1 then cast(2^30 as integer)
    else information_schema._pg_char_max_length($1, $2) * pg_catalog.pg_encoding_max_length(6) end end;
do $$ declare own record; begin
  for own in select c.relname as name, pg_get_viewdef(c.oid) as sql from pg_class c
    where relnamespace = 'information_schema'::regnamespace and relkind = 'v' and pg_get_viewdef(c.oid) like '%datname = current_database()%'
  loop execute format('create or replace view information_schema.%I as %s', own.name,
    replace(own.sql, 'datname = current_database()', 'datname = current_catalog::name')); end loop;
end $$`

/**
 * Of all databases, in the one that they are copies of. What tells of others is nobody's, or has no rows; of the server's settings
 * those alone are told that drivers compare with. Functions of the server's own are run by what is in their place only where that
 * is put into the statement: none of these may be STRICT.
 */
export const TEMPLATE_SQL = `
set allow_system_table_mods = on;
do $$ declare empty record; begin
  for empty in select c.relname as name, string_agg(format('null::%s%s as %I', format_type(a.atttypid, a.atttypmod),
        case when a.attcollation not in (0, t.typcollation) then format(' collate %s', a.attcollation::regcollation) end, a.attname), ', ' order by a.attnum) as columns
      from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 join pg_type t on t.oid = a.atttypid
      where c.relnamespace = 'pg_catalog'::regnamespace and c.relkind = 'v' and c.relname ~ '${EMPTY_VIEWS}' group by c.oid
  loop execute format('create or replace view pg_catalog.%I as select %s where false', empty.name, empty.columns); end loop;
end $$;
do $$ declare hidden text; begin
  for hidden in select oid::regclass::text from pg_class
    where relnamespace = 'pg_catalog'::regnamespace and relkind in ('r', 'v')
      and (relisshared or relname ~ '^pg_(stat|statio|user|group|shadow|settings|locks|cursors|prepared|file|hba|ident|config|backend|shmem|aios|wait|replication|dsm|available)')
      and relname !~ '${EMPTY_VIEWS}'
      and relname not in ('pg_statistic_ext', 'pg_stats', 'pg_stats_ext', 'pg_tablespace', 'pg_auth_members', 'pg_shdescription',
        'pg_shseclabel', 'pg_parameter_acl', 'pg_subscription', 'pg_user', 'pg_group', 'pg_user_mappings')
  loop execute format('revoke all on %s from public', hidden); end loop;
end $$;
do $$ declare settings text := format('select case lower($1) when %L then %L when %L then %L end',
  'default_table_access_method', 'heap', 'server_version_num', current_setting('server_version_num'));
begin
  execute format('create or replace function pg_catalog.current_setting(text) returns text language sql stable as %L', settings);
  execute format('create or replace function pg_catalog.current_setting(text, boolean) returns text language sql stable as %L', settings);
end $$;
${SIZES.map((size) => `create or replace function pg_catalog.${size} returns bigint language sql stable as 'select null::bigint'`).join(';\n')};
create or replace function pg_catalog.pg_blocking_pids(integer) returns integer[] language sql stable as 'select array[]::integer[]';
${ENCODING_SQL};
revoke create on schema public from public;
${OWN_VIEWS_SQL};
reset allow_system_table_mods`

/** Of what is closed to everybody, what does nothing here. */
export const REOPENED_SQL = ['pg_advisory_unlock_all()', ...SIZES]
  .map((name) => `grant execute on function pg_catalog.${name} to public`)
  .join(';\n')
