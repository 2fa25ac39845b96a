#!/bin/bash
# Takes from everybody what PostgreSQL gives to every login: entering databases, and functions that lock, write, or measure
# others' tables. Run by the image after 10-logins.sh; repeatable, for a server that was set up before:
#   docker compose exec postgres bash /docker-entrypoint-initdb.d/20-walls.sh
set -euo pipefail

sql() { psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --quiet --dbname "$@"; }

# A database, and who keeps what is taken from everybody else there. The names are those of runtime/src/database/open-functions.ts.
walls() {
  sql "$1" -v keepers="$2" > /dev/null <<'SQL'
select case when :'keepers' <> '' then format('grant execute on routine %s to %s', f, :'keepers') else 'select' end,
  format('revoke execute on routine %s from public', f)
from (
  select p.oid::regprocedure as f from pg_proc p
  where p.pronamespace = 'pg_catalog'::regnamespace and has_function_privilege('public', p.oid, 'execute') and (
    p.proname ~ '^pg_(try_)?advisory_' or p.proname in (
      'lo_creat', 'lo_create', 'lo_from_bytea', 'lo_put', 'lowrite', 'pg_logical_emit_message',
      'pg_notify', 'pg_current_xact_id', 'txid_current', 'pg_export_snapshot',
      'pg_relation_size', 'pg_table_size', 'pg_indexes_size', 'pg_total_relation_size'
    )
  )
  union all
  -- Of TimescaleDB: jobs that run on as whoever made them, and the sizes of everybody's tables.
  select p.oid::regprocedure from pg_proc p
  join pg_depend d on d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e'
  join pg_extension e on e.oid = d.refobjid and e.extname = 'timescaledb'
  where has_function_privilege('public', p.oid, 'execute')
    and p.proname ~ '^((add|alter|delete|run)_job|(add|remove)_.*_policy|(hypertable|(compressed_)?chunks?|approximate|relation)_.*(size|row_count|stats).*)$'
) open
\gexec
SQL
}

sql postgres -c 'revoke all on database postgres, template1 from public'
# First what new databases are copied from.
walls template1 ''
walls postgres ''
walls sluice_registry sluice_registry
walls sluice_serving 'sluice_owner, sluice_writer'
walls keycloak keycloak
walls superset superset

# Temporary tables fill disks as well as others do.
sql postgres -c 'revoke temporary on database sluice_registry from public' \
  -c 'alter role sluice_lake connection limit 50' \
  -c 'alter role sluice_logins connection limit 20'
