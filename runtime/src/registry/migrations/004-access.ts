import type { Migration } from '../../database/migrate.ts'

export const access: Migration = {
  id: '004_access',
  sql: `
create table product_grants (
  id text primary key,
  tenant text not null,
  product_id text not null references products on delete cascade,
  subject_type text not null check (subject_type in ('user', 'team')),
  subject text not null,
  issuer text,
  may text not null check (may in ('read', 'unmask')),
  classes text[] not null default '{}',
  granted_by jsonb not null,
  created_at timestamptz(3) not null default now(),
  check ((may = 'unmask') = (classes <> '{}')),
  unique nulls not distinct (product_id, subject_type, subject, issuer, may)
);
create index product_grants_newest on product_grants (product_id, created_at desc, id desc);
create trigger product_grants_policy after insert or update or delete on product_grants
  for each row execute function policy_changed();

-- table_name null: every table of the connection, those to come included.
create table raw_table_grants (
  id text primary key,
  tenant text not null,
  connection_id text not null references connections on delete cascade,
  table_name text,
  subject_type text not null check (subject_type in ('user', 'team')),
  subject text not null,
  issuer text,
  granted_by jsonb not null,
  created_at timestamptz(3) not null default now(),
  unique nulls not distinct (connection_id, table_name, subject_type, subject, issuer)
);
create index raw_table_grants_newest on raw_table_grants (connection_id, created_at desc, id desc);
create trigger raw_table_grants_policy after insert or update or delete on raw_table_grants
  for each row execute function policy_changed();

-- No foreign key: the record outlives the tenant and the object it is about.
create table audit_log (
  id bigint generated always as identity primary key,
  tenant text,
  at timestamptz(3) not null default clock_timestamp(),
  actor jsonb not null,
  action text not null,
  object_type text not null,
  object_id text,
  outcome text not null check (outcome in ('allowed', 'denied', 'failed')),
  request_id text,
  details jsonb not null default '{}'
);
create index audit_log_newest on audit_log (tenant, id desc);

create function audit_is_append_only() returns trigger language plpgsql as $$
begin
  raise exception 'the audit log is append-only' using errcode = 'insufficient_privilege';
end $$;
create trigger audit_log_no_change before update or delete on audit_log
  for each row execute function audit_is_append_only();
create trigger audit_log_no_truncate before truncate on audit_log
  for each statement execute function audit_is_append_only();

create table idempotency_keys (
  -- Of tenant, issuer, subject, method, path and key.
  scope_hash bytea primary key,
  claim_id text not null unique,
  tenant text,
  request_hash text not null,
  state text not null default 'started' check (state in ('started', 'finished')),
  status integer,
  headers jsonb,
  body text,
  -- After this an attempt that never ended may be tried again.
  abandoned_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  check ((state = 'finished') = (status is not null))
);
create index idempotency_keys_expiry on idempotency_keys (expires_at);
`,
}
