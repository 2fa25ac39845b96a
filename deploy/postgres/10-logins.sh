#!/bin/bash
# Run once, by the image, on an empty data folder: two databases and their logins, none of which may bypass row security.
set -euo pipefail

login() {
  psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres -v role="$1" -v password="$2" <<'SQL'
create role :"role" login nosuperuser nocreatedb nocreaterole noreplication nobypassrls password :'password';
SQL
}

database() {
  psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres -v name="$1" -v owner="$2" <<'SQL'
create database :"name" owner :"owner";
revoke all on database :"name" from public;
SQL
}

login sluice_registry "$REGISTRY_PASSWORD"
login sluice_owner "$SERVING_OWNER_PASSWORD"
login sluice_writer "$SERVING_WRITER_PASSWORD"
login sluice_reader "$SERVING_READER_PASSWORD"
database sluice_registry sluice_registry
database sluice_serving sluice_owner
psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres \
  -c 'grant connect, temporary on database sluice_serving to sluice_writer, sluice_reader'

# Makes and removes the logins of dashboards' datasets; it owns nothing and reads nothing.
login sluice_logins "$SERVING_LOGINS_PASSWORD"
psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres \
  -c 'alter role sluice_logins createrole' -c 'grant connect on database sluice_serving to sluice_logins'

# An engine's, for transforms: it may read where the tables of the lake lie, which the runtime grants, and nothing else.
login sluice_lake "$LAKE_PASSWORD"
psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres \
  -c 'alter role sluice_lake set default_transaction_read_only = on'

# Of the issuer and of the dashboards; neither sees the platform's databases.
login keycloak "$KEYCLOAK_DB_PASSWORD"
database keycloak keycloak
login superset "$SUPERSET_DB_PASSWORD"
database superset superset
