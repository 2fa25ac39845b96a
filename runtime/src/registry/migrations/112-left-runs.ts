import type { Migration } from '../../database/migrate.ts'

/**
 * How long makings of a product have taken of late, by which a wave knows whom it would wait for. A release before this one notes
 * nothing of it.
 */
export const leftRuns: Migration = {
  id: '112_left_runs',
  sql: `
create table product_makings (
  product_id text primary key references products on delete cascade,
  took_ms bigint not null check (took_ms >= 0)
);
create index runs_left on runs (product_id, created_at) where input ? 'left';
`,
}
