/**
 * A table that is emptied in its place looks as one without rows. So a trigger tells the register in the transaction that
 * empties it: the dataset's line then names no table that there is, and everybody who reads the line finds its place lost.
 */
import { EMPTIED, lockDefinitions, PARTITION_SCHEMA, STORE_SCHEMA } from './datasets.ts'
import { qualified, quoteIdentifier, quoteLiteral } from './identifiers.ts'
import { runAll } from './row-security.ts'
import type { Client } from './sessions.ts'

const FUNCTION = 'note_truncation'
const TRIGGER = 'sluice_truncation'

/**
 * As the owner, whoever empties the table, and in the tenant's scope, which is the trigger's argument: the register is
 * walled. Of a piece of a partition it notes the partition.
 */
const STATEMENTS = [
  `create or replace function ${STORE_SCHEMA}.${FUNCTION}() returns trigger
     language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
   declare scope constant text := current_setting('app.tenant_id', true);
   begin
     perform set_config('app.tenant_id', tg_argv[0], true);
     update ${STORE_SCHEMA}.datasets set partition = '${EMPTIED}' || partition
       where tenant_id = tg_argv[0] and partition in (
         select tg_table_name::text union all
         select c.relname::text from pg_partition_ancestors(tg_relid) a join pg_class c on c.oid = a.relid);
     perform set_config('app.tenant_id', coalesce(scope, ''), true);
     return null;
   end $$`,
  `revoke all on function ${STORE_SCHEMA}.${FUNCTION}() from public`,
]

/** That the table, or a piece of it, is emptied is noted from here on. It may be known already. */
export async function watchTruncations(client: Client, tables: readonly string[], tenant: string): Promise<void> {
  if (tables.length === 0) return
  const found = await client.query<{ there: boolean }>(
    `select exists (select from pg_proc p join pg_namespace n on n.oid = p.pronamespace
       where n.nspname = $1 and p.proname = $2) as there`,
    [STORE_SCHEMA, FUNCTION],
  )
  if (found.rows[0]?.there !== true) {
    await lockDefinitions(client, FUNCTION)
    await runAll(client, STATEMENTS)
  }
  for (const table of tables) {
    await client.query(
      `create or replace trigger ${TRIGGER} after truncate on ${qualified(PARTITION_SCHEMA, table)}
         for each statement execute function ${STORE_SCHEMA}.${FUNCTION}(${quoteLiteral(tenant)})`,
    )
  }
}

/** Of a partition that an earlier release has made, and of its pieces. */
export async function watchOlderPartition(client: Client, partition: string, tenant: string): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    `select c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
       where n.nspname = $1 and not exists (select from pg_trigger t where t.tgrelid = c.oid and t.tgname = $2)
         and c.oid in (select to_regclass($3)::oid union all select relid::oid from pg_partition_tree(to_regclass($3)))`,
    [PARTITION_SCHEMA, TRIGGER, `${quoteIdentifier(PARTITION_SCHEMA)}.${quoteIdentifier(partition)}`],
  )
  await watchTruncations(
    client,
    rows.map(({ name }) => name),
    tenant,
  )
}
