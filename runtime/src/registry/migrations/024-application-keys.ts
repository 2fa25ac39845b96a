import type { Migration } from '../../database/migrate.ts'

/**
 * Of a key only the hash of its secret is kept. `maker_*`: what the newest token of whoever made it says, and when that
 * was issued: a key never has more. `products` null: all that its maker may read.
 */
export const applicationKeys: Migration = {
  id: '024_application_keys',
  sql: `
create table application_keys (
  id text primary key,
  tenant text not null references tenants on delete cascade,
  name text not null,
  secret_hash bytea not null,
  products text[],
  operations text[] not null,
  unmask text[] not null default '{}',
  maker_issuer text not null,
  maker_subject text not null,
  maker_groups text[] not null,
  maker_clearance text,
  maker_token_issued_at timestamptz not null,
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null,
  last_used_at timestamptz(3)
);
create index application_keys_newest on application_keys (tenant, created_at desc, id desc);
create index application_keys_maker on application_keys (tenant, maker_issuer, maker_subject);
`,
}
