import type { Migration } from '../../database/migrate.ts'

/** Why a product is not materialized for now, and since when; null: it is. */
export const pausedProducts: Migration = {
  id: '018_paused_products',
  sql: `alter table products add column paused jsonb`,
}
