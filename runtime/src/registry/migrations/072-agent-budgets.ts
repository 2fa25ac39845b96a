import type { Migration } from '../../database/migrate.ts'

/** What agents were given in a day of UTC, for one principal through one client (empty: the token names none). */
export const agentBudgets: Migration = {
  id: '072_agent_budgets',
  sql: `
create table agent_budgets (
  tenant text not null references tenants on delete cascade,
  issuer text not null,
  subject text not null,
  client text not null,
  day date not null,
  rows bigint not null,
  bytes bigint not null,
  engine_ms bigint not null,
  primary key (tenant, issuer, subject, client, day)
);
create index agent_budgets_day on agent_budgets (day);
`,
}
