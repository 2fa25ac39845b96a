import type { Migration } from '../../database/migrate.ts'

/**
 * Of a copy a store has two places: which of them is served, and whether the other one may have something too, which is to be
 * dropped. A release before this one knows the first alone.
 */
export const twoPlaces: Migration = {
  id: '109_two_places',
  sql: `
alter table endpoint_states add column place text not null default 'first' check (place in ('first', 'second'));
alter table endpoint_states add column leftover boolean not null default false;
create index endpoint_states_leftover on endpoint_states (next_retry_at) where leftover;
`,
}
