import type { Migration } from '../../database/migrate.ts'

/**
 * What statements in Trino have been charged for, `last_s` before that, for all runtimes; and when one of them looks at them
 * next.
 */
export const trinoStatements: Migration = {
  id: '029_trino_statements',
  sql: `
create table trino_statements (
  query_id text primary key,
  cpu_s double precision not null,
  last_s double precision not null,
  charged_at timestamptz not null
);
create index trino_statements_charged on trino_statements (charged_at);
create table trino_watch (
  one boolean primary key default true check (one),
  next_at timestamptz not null
);
`,
}
