import type { Migration } from '../../database/migrate.ts'

/**
 * What was read of logs of sources while the lake could not be written. A piece goes on from where the one before it ends, the
 * oldest from the position of the capture: `spooled_after` is that position. Where it is another, or the generation is, a
 * release that knows nothing of pieces has gone on without them, and they count no more.
 */
export const logSpool: Migration = {
  id: '110_log_spool',
  sql: `
alter table captures
  add column spooled_generation integer,
  add column spooled_after text,
  -- Up to which the newest piece goes.
  add column spooled_position text,
  add column spooled_pieces bigint not null default 0,
  add column spooled_bytes bigint not null default 0,
  add column spooled_since timestamptz(3),
  -- Since when nothing more is taken up.
  add column spool_full_at timestamptz(3);

create table log_pieces (
  connection_id text not null references captures on delete cascade,
  -- No piece has one that another had.
  number bigint generated always as identity,
  position text not null,
  source_time timestamptz,
  read_at timestamptz(3) not null,
  bytes bigint not null,
  spooled_at timestamptz(3) not null default clock_timestamp(),
  primary key (connection_id, number)
);

create table log_parts (
  connection_id text not null,
  number bigint not null,
  table_name text not null,
  part integer not null,
  -- Of the table's rows, compressed and sealed: the registry holds no values of rows in clear.
  sealed bytea not null,
  primary key (connection_id, number, table_name, part),
  foreign key (connection_id, number) references log_pieces on delete cascade
);
-- Sealed bytes grow no smaller.
alter table log_parts alter column sealed set storage external;
`,
}
