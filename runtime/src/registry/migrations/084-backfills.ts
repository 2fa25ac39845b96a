import type { Migration } from '../../database/migrate.ts'

/** Tables that somebody asked to be read whole again, until a run has done it. */
export const backfills: Migration = {
  id: '084_backfills',
  sql: `
create table backfills (
  connection_id text not null references connections on delete cascade,
  -- schema.table
  table_name text not null,
  asked_at timestamptz not null default clock_timestamp(),
  -- A run has begun it: the log of the source tells of the table no more until it was read.
  is_begun boolean not null default false,
  primary key (connection_id, table_name)
);
`,
}
