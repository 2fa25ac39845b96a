import type { Migration } from '../../database/migrate.ts'

/** Buckets of the rate limits that several processes share. Lost in a crash, they begin full again. */
export const rateBuckets: Migration = {
  id: '006_rate_buckets',
  sql: `
create unlogged table rate_buckets (
  key_hash bytea primary key,
  tokens double precision not null,
  granted integer not null,
  refilled_at timestamptz not null
)`,
}
