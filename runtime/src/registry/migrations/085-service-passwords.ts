import type { Migration } from '../../database/migrate.ts'

/**
 * Passwords of tools that speak to PostgreSQL. The id is the name of the user; of the password there is a verifier of
 * SCRAM-SHA-256 alone. `clearance` null: as the team's members have it. `expires_at` null: until it is deleted.
 */
export const servicePasswordsTable: Migration = {
  id: '085_service_passwords',
  sql: `
create table service_passwords (
  id text primary key,
  tenant text not null references tenants on delete cascade,
  name text not null,
  team text not null,
  clearance text,
  salt bytea not null,
  iterations integer not null check (iterations >= 4096),
  stored_key bytea not null,
  server_key bytea not null,
  maker_issuer text not null,
  maker_subject text not null,
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3),
  last_used_at timestamptz(3)
);
create index service_passwords_newest on service_passwords (tenant, created_at desc, id desc);
`,
}
