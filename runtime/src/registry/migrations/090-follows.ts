import type { Migration } from '../../database/migrate.ts'

/**
 * Connections whose changes are applied as they come: how each is followed, and what of it waits for another try. Written when
 * something begins or ends, never while nothing does.
 */
export const followsTables: Migration = {
  id: '090_follows',
  sql: `
create table follows (
  connection_id text primary key references connections on delete cascade,
  -- Since when a runtime waits for its changes; null: none does.
  followed_at timestamptz(3),
  -- When the first change came that no run has taken yet; null: there is none.
  behind_since timestamptz(3),
  -- Why it could not be followed at the last try: a code.
  error_code text
);

-- Tables by their names, products by their ids: they failed while others of the connection did not.
create table follow_holds (
  connection_id text not null references connections on delete cascade,
  kind text not null check (kind in ('table', 'product')),
  part text not null,
  failures integer not null default 1,
  error_code text not null,
  until timestamptz(3) not null,
  primary key (connection_id, kind, part)
);
`,
}
