import type { Migration } from '../../database/migrate.ts'

/**
 * Where changes of products are delivered, and how far each receiver has them. No row of a product is here: a delivery is read
 * from the lake each time that it is tried. Address and signing key are sealed as secrets of connections are.
 */
export const webhooks: Migration = {
  id: '087_webhooks',
  sql: `
create table webhooks (
  id text primary key,
  tenant text not null references tenants on delete cascade,
  product_id text not null references products on delete cascade,
  name text not null,
  host text not null,
  key_version integer not null,
  sealed bytea not null,
  -- The key of an application by whose rights it delivers. It refers to nothing: that the key is gone is what ends the webhook.
  application_key text not null,
  created_by jsonb not null,
  state text not null default 'active' check (state in ('active', 'paused', 'failed', 'ended')),
  -- Why it is failed or ended: a code.
  reason text,
  -- Up to where its receiver has the changes: shape, epoch, target, offset.
  place jsonb not null,
  -- How often it has begun anew.
  round integer not null default 0,
  -- Of the newest delivery that was begun, and its id until the receiver has acknowledged it.
  sequence bigint not null default 0,
  sending text,
  attempts integer not null default 0,
  failing_since timestamptz(3),
  next_at timestamptz(3),
  -- Of the newest try: the status of the answer, where there was one, and a code where it failed.
  status integer,
  error_code text,
  delivered_at timestamptz(3),
  created_at timestamptz(3) not null default clock_timestamp()
);
create index webhooks_newest on webhooks (product_id, created_at desc, id desc);
create index webhooks_of_tenant on webhooks (tenant);

-- Deliveries that were given up, until they are delivered again: what they were, and not what was in them.
create table webhook_dead_letters (
  id text primary key,
  webhook_id text not null references webhooks on delete cascade,
  delivery text not null,
  sequence bigint not null,
  -- Of its rows; null where it told that all begins anew, or nothing could be read.
  epoch bigint,
  attempts integer not null,
  status integer,
  error_code text not null,
  failing_since timestamptz(3) not null,
  created_at timestamptz(3) not null default clock_timestamp(),
  redelivered_at timestamptz(3)
);
create index webhook_dead_letters_newest on webhook_dead_letters (webhook_id, created_at desc, id desc);
`,
}
