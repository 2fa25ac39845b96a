import type { Migration } from '../../database/migrate.ts'

/**
 * What runtimes do by the clock, beside runs: one row for each piece of it. A job is free where it has no lease; one whose
 * lease has ended belonged to a runtime that died, and is anybody's. Its tenant may be gone before it, so there is no
 * foreign key.
 */
export const jobs: Migration = {
  id: '035_jobs',
  sql: `
create table jobs (
  kind text not null,
  -- Unique in its kind: a tenant, a product; empty where there is one of the kind.
  key text not null,
  -- Null: of the platform.
  tenant text,
  -- When it may begin; null: not until somebody asks for it. What is asked for while it is done stands here meanwhile.
  due_at timestamptz,
  lease_until timestamptz,
  -- Grows with every claim.
  token bigint not null default 0,
  -- Failures since it was done last.
  attempts integer not null default 0,
  -- Of the last failure since then.
  error_code text,
  started_at timestamptz,
  finished_at timestamptz,
  primary key (kind, key)
);
create index jobs_next on jobs (kind, coalesce(lease_until, due_at))`,
}
