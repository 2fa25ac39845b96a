import type { Migration } from '../../database/migrate.ts'

/** How far the database's clock was seen to have come: one that is behind it was set back. */
export const clock: Migration = {
  id: '108_clock',
  sql: `
create table registry_clock (
  one boolean primary key default true check (one),
  seen_at timestamptz not null
)`,
}
