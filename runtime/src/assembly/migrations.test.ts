/** The release before runs on the registry that this one leaves: what a migration does to tables of before only adds. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Migration } from '../database/migrate.ts'
import { MIGRATIONS } from './migrations.ts'

/** Released before there was the rule. */
const BEFORE = new Set([
  ...['001_tenants', '002_products', '003_runs', '004_access', '005_raw_classes', '006_rate_buckets'],
  ...['007_change_topics', '008_all_raw_classes', '009_connection_names', '010_grants_name_issuers'],
  ...['001_outbox', '002_relays', '003_numbers_of_products', '004_traces'],
  ...['001_iceberg_catalog', '002_storage_and_writes', '003_upkeep'],
  ...['001_catalog_logins', '002_engine_login', '001_product_dashboards'],
])

/**
 * Functions and triggers are no part of the rule: what they do to an older release is to be read. These were, and why they do
 * it no harm. What else stands in them is judged like all.
 */
const JUDGED: Readonly<Record<string, string>> = {
  '104_former_products': 'they note and raise numbers, refuse nothing, and touch no column that an older release reads',
  '003_strict_masks':
    'a policy asks them for rows, and they hide more: what an older release does not tell them counts as redact',
  '004_unknown_masks': 'a policy asks it for rows, and it hides more: those of which nobody knows how they are masked',
}
const IS_FUNCTION_OR_TRIGGER = /^create (or replace )?function |^create trigger |^revoke execute on function /

/** Bodies of functions are texts in dollars. */
const withoutBodies = (sql: string) => sql.replace(/\$\$[^]*?\$\$/g, '$$$$')

/** Statements without comments, in lower case and single blanks; texts in quotes become `''`. */
function statementsOf(sql: string): readonly string[] {
  const bare = sql.replace(/--[^\n]*/g, ' ').replace(/'(?:[^']|'')*'/g, "''")
  const texts = bare.toLowerCase().split(';')
  return texts.map((text) => text.replace(/\s+/g, ' ').trim()).filter((text) => text !== '')
}

/** The parts of `a int, b numeric(1, 2)`. */
function partsOf(list: string): readonly string[] {
  let depth = 0
  const parts = ['']
  for (const letter of list) {
    depth += letter === '(' ? 1 : letter === ')' ? -1 : 0
    if (letter === ',' && depth === 0) parts.push('')
    else parts[parts.length - 1] += letter
  }
  return parts.map((part) => part.trim())
}

function addsColumn(action: string): boolean {
  if (!/^add column /.test(action) || /\b(unique|primary key)\b/.test(action)) return false
  // A release that knows nothing of the column leaves it null, and removes what it names with whatever names it.
  if (/\breferences\b/.test(action) && !/ on delete (cascade|set null)$/.test(action)) return false
  return !/\bnot null\b/.test(action) || /\bdefault\b/.test(action)
}

function onlyAdds(statement: string, made: Set<string>): boolean {
  const table = /^create table (?:if not exists )?([\w.]+)/.exec(statement)?.[1]
  if (table !== undefined) made.add(table)
  if (table !== undefined || /^(create (index|type|sequence) |comment on |grant )/.test(statement)) return true
  const index = /^create unique index .* on ([\w.]+)/.exec(statement)?.[1]
  if (index !== undefined) return made.has(index)
  const trigger = /^create trigger .* on ([\w.]+) (?:for each|execute)/.exec(statement)?.[1]
  if (trigger !== undefined) return made.has(trigger)
  const filled = /^insert into ([\w.]+) /.exec(statement)?.[1]
  if (filled !== undefined) return made.has(filled)
  const altered = /^alter table ([\w.]+) (.*)$/.exec(statement)
  if (altered === null) return false
  return made.has(altered[1] as string) || partsOf(altered[2] as string).every(addsColumn)
}

function takesAway({ sql }: Migration): readonly string[] {
  const made = new Set<string>()
  return statementsOf(sql).filter((statement) => !onlyAdds(statement, made))
}

test('the rule tells what adds from what takes away', () => {
  const of = (sql: string) => takesAway({ id: '', sql }).length === 0
  for (const sql of [
    'alter table a add column b int',
    "alter table a add column b text not null default '{;}', add column c numeric(1, 2)",
    "alter table a add column b text check (b in ('drop', 'rename'))",
    'alter table a add column b text references c on delete cascade',
    'create table n (i int primary key); create unique index u on n (i); alter table n enable row level security',
    'create index i on a (b) where b is not null',
    'create table n (i int); insert into n (i) select b from a',
    'create table n (i int); create trigger t after insert or delete on n for each row execute function told()',
  ]) {
    assert.ok(of(sql), sql)
  }
  for (const sql of [
    'alter table a drop column b',
    'alter table a add column b int, drop column c',
    'alter table a rename to c',
    'alter table a alter column b type bigint',
    'alter table a alter column b set not null',
    'alter table a add column b int not null',
    'alter table a add column b int unique',
    'alter table a add column b text references c',
    'alter table a add constraint c check (b > 1)',
    'create unique index u on a (b)',
    'create trigger t before insert on a for each row execute function refused()',
    'drop table a',
    'delete from a',
    'insert into a (b) values (1)',
    'do $$ begin drop table a; end $$',
  ]) {
    assert.ok(!of(sql), sql)
  }
})

test('every migration since then only adds, or says that older releases cannot go on', () => {
  const since = MIGRATIONS.flatMap(({ migrations }) => migrations.filter(({ id }) => !BEFORE.has(id)))
  assert.ok(since.length >= 4)
  const silent = since.filter(({ breaksOlder }) => breaksOlder !== true)
  const found = silent.flatMap(({ id, sql }) =>
    takesAway({ id, sql: withoutBodies(sql) }).map((text) => ({ id, text })),
  )
  const isJudged = ({ id, text }: { id: string; text: string }) => id in JUDGED && IS_FUNCTION_OR_TRIGGER.test(text)
  assert.deepEqual(
    found.filter((one) => !isJudged(one)).map(({ id, text }) => `${id}: ${text}`),
    [],
  )
  assert.deepEqual([...new Set(found.map(({ id }) => id))].toSorted(), Object.keys(JUDGED).toSorted())
})

test('of every table it is written down what bounds it', () => {
  const sql = MIGRATIONS.flatMap(({ migrations }) => migrations.flatMap((migration) => statementsOf(migration.sql)))
  const made = sql.flatMap((text) => /^create table (?:if not exists )?([\w.]+)/.exec(text)?.[1] ?? [])
  const written = readFileSync(join(import.meta.dirname, '../../../deploy/README.md'), 'utf8')
  const told = [...written.matchAll(/^\| (`[^|]+`) \|/gm)].flatMap(([, names = '']) => names.match(/\w+/g) ?? [])
  assert.ok(made.length > 40)
  assert.deepEqual(
    made.filter((table) => !told.includes(table)),
    [],
    'tables that deploy/README.md says nothing of',
  )
})
