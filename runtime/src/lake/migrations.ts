import type { MigrationList } from '../database/migrate.ts'

/**
 * The first two tables are those of Iceberg's own SQL catalog (`JdbcCatalog`, schema V1), to the letter: any Iceberg
 * engine reads them. The others are ours.
 */
export const LAKE_MIGRATIONS: MigrationList = {
  name: 'lake',
  migrations: [
    {
      id: '001_iceberg_catalog',
      sql: `
create table iceberg_tables (
  catalog_name varchar(255) not null,
  table_namespace varchar(255) not null,
  table_name varchar(255) not null,
  metadata_location varchar(1000),
  previous_metadata_location varchar(1000),
  iceberg_type varchar(5),
  primary key (catalog_name, table_namespace, table_name)
);
create table iceberg_namespace_properties (
  catalog_name varchar(255) not null,
  namespace varchar(255) not null,
  property_key varchar(255),
  property_value varchar(1000),
  primary key (catalog_name, namespace, property_key)
)`,
    },
    {
      id: '002_storage_and_writes',
      sql: `
-- What each table takes in the object store, all snapshots together; moves with the pointer, in its transaction.
create table lake_storage (
  catalog_name varchar(255) not null,
  table_namespace varchar(255) not null,
  table_name varchar(255) not null,
  stored_bytes bigint not null check (stored_bytes >= 0),
  primary key (catalog_name, table_namespace, table_name)
);
-- Writers that may have files in the object store which no snapshot names yet: the cleaner leaves such tables alone.
create table lake_writes (
  write_id uuid primary key,
  catalog_name varchar(255) not null,
  table_namespace varchar(255) not null,
  table_name varchar(255) not null,
  lease_until timestamptz not null
);
create index lake_writes_by_table on lake_writes (catalog_name, table_namespace, table_name)`,
    },
    {
      id: '003_upkeep',
      sql: `
-- When each kind of upkeep was last begun and ended for a tenant, and until when somebody has it in hand. An empty
-- catalog name stands for what is not a tenant's.
create table lake_upkeep (
  catalog_name varchar(255) not null,
  task text not null,
  lease_until timestamptz not null,
  claim uuid,
  started_at timestamptz not null,
  finished_at timestamptz,
  primary key (catalog_name, task)
)`,
    },
    {
      id: '004_owners',
      sql: `
-- Whose each tenant's bucket is: the same mark lies in it. What was found when it was looked at last.
create table lake_owners (
  catalog_name varchar(255) primary key,
  mark text,
  state text not null check (state in ('own', 'emptied', 'foreign', 'dropping'))
)`,
    },
  ],
}
