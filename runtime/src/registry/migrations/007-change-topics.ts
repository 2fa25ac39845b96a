import type { Migration } from '../../database/migrate.ts'

/** A row outlives its product: until the bus has no such topic any more. */
export const changeTopics: Migration = {
  id: '007_change_topics',
  sql: `
create table change_topics (
  product_id text not null,
  variant text not null check (variant in ('masked', 'clear')),
  tenant text not null,
  topic text not null unique,
  -- The version, level and settings that the topic and its rules were made for; empty until they are.
  made_for text not null default '',
  -- What each column is shown as in what was sent.
  shape jsonb,
  readers jsonb not null default '[]',
  -- Why there is no topic, though there would be one.
  refused text,
  -- The newest epoch that the bus has acknowledged.
  sent_epoch bigint,
  error jsonb,
  attempts integer not null default 0,
  next_attempt_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default now(),
  primary key (product_id, variant)
)`,
}
