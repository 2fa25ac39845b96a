/** What the conformance suite needs to try this connector: a server of its own, written to as its owner does. */

import type { SourceFixture, SourceTable } from '@sluice/conformance'
import { type LogicalType, parseDecimal, type Row, typeName, type Value } from '@sluice/sdk'
import { escapeIdentifier, escapeLiteral } from 'pg'
import { startCluster } from './source-server.ts'

export async function start(): Promise<SourceFixture> {
  const source = await startCluster()
  const { settings, sql } = source
  await sql(`CREATE ROLE sees_nothing LOGIN PASSWORD 'open sesame'`)
  const own = `usename = '${settings.user}'`
  return {
    settings,
    steps: ['dns', 'tcp', 'tls', 'auth', 'privileges'],
    expected: [await made(sql, settings.user)],
    broken: {
      dns: { ...settings, host: 'absent.sluice.test' },
      // The discard port: nothing listens there on a machine that tests run on.
      tcp: { ...settings, port: 9 },
      tls: { ...settings, ssl_mode: 'verify-full' },
      auth: { ...settings, password: `not ${settings.password}` },
      privileges: { ...settings, user: 'sees_nothing', password: 'open sesame' },
    },
    schema: 'public',
    create: async (table) => {
      await sql(createSql(table, settings.user))
    },
    put: async (table, rows) => {
      if (rows.length > 0) await sql(putSql(table, rows))
    },
    remove: async (table, rows) => {
      for (const row of rows) await sql(`DELETE FROM ${baseOf(table)} WHERE ${keySql(table, row)}`)
    },
    alter: async (table, next) => {
      for (const statement of alterSql(table, next)) await sql(statement)
    },
    drop: async (table) => {
      await sql(`DROP TABLE IF EXISTS ${baseOf(table)} CASCADE`)
    },
    hold: async (table, rows) => {
      const session = await source.session()
      await session.query(`BEGIN; ${putSql(table, rows)}`)
      return async () => {
        await session.query('COMMIT')
      }
    },
    putUnfit: async (table, count) => {
      const values = Array.from({ length: count }, (_, index) => `(${-1 - index}, 'infinity')`)
      await sql(`INSERT INTO ${baseOf(table)} (id, at) VALUES ${values.join(', ')}`)
    },
    refuse: async () => {
      const user = escapeIdentifier(settings.user)
      await sql(`ALTER ROLE ${user} CONNECTION LIMIT 0`)
      return async () => {
        await sql(`ALTER ROLE ${user} CONNECTION LIMIT -1`)
      }
    },
    digest: async () => JSON.stringify(await sql(DIGEST)),
    sessions: async () => (await sql(`SELECT pid FROM pg_stat_activity WHERE ${own}`)).length,
    future: (state) =>
      state.value['strategy'] === 'cursor'
        ? { ...state, value: { ...state.value, position: FUTURE, from: FUTURE } }
        : null,
    breakNetwork: async () => {
      await sql(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${own}`)
    },
    stop: source.stop,
  }
}

/** A table of PostgreSQL's own types, as its owner has made it, and what it is read as. */
async function made(
  sql: (text: string) => Promise<unknown>,
  reader: string,
): Promise<NonNullable<SourceFixture['expected']>[number]> {
  await sql(`CREATE TABLE made_by_its_owner (id int2 PRIMARY KEY, word varchar(9), marks text[], at timestamptz);
    INSERT INTO made_by_its_owner VALUES (-32768, 'ä,"b"', '{"a,b",NULL}', '1969-12-31 23:59:59.999999-12'), (7, '', NULL, NULL);
    GRANT SELECT ON made_by_its_owner TO ${escapeIdentifier(reader)}`)
  return {
    table: {
      name: 'made_by_its_owner',
      columns: [
        { name: 'id', type: 'integer', nullable: false },
        { name: 'word', type: 'string', nullable: true },
        { name: 'marks', type: 'json', nullable: true },
        { name: 'at', type: 'timestamptz', nullable: true },
      ],
      primaryKey: ['id'],
    },
    rows: [
      [-32768, 'ä,"b"', '["a,b",null]', '1970-01-01T11:59:59.999999Z'],
      [7, '', null, null],
    ],
  }
}

const FUTURE = '9000-01-01 00:00:00+00'

/** What the server holds and what has been left there: relations, rows written so far, replication slots. */
const DIGEST = `SELECT (SELECT count(*) FROM pg_class) AS relations,
  (SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables) AS written,
  (SELECT count(*) FROM pg_replication_slots) AS slots, (SELECT count(*) FROM pg_prepared_xacts) AS prepared`

/** Where only a cursor tells what has changed, the connector is shown a view of the table. */
function baseOf(table: SourceTable): string {
  return escapeIdentifier(table.cursorColumn === undefined ? table.name : `${table.name}_base`)
}

function createSql(table: SourceTable, reader: string): string {
  const columns = table.columns.map(
    ({ name, type, nullable }) => `${escapeIdentifier(name)} ${sqlType(type)} ${nullable ? '' : 'NOT NULL'}`,
  )
  const key = table.primaryKey.map((name) => escapeIdentifier(name)).join(', ')
  const name = escapeIdentifier(table.name)
  return [
    `CREATE TABLE ${baseOf(table)} (${columns.join(', ')}, PRIMARY KEY (${key}))`,
    ...(table.cursorColumn === undefined ? [] : [`CREATE VIEW ${name} AS SELECT * FROM ${baseOf(table)}`]),
    ...(table.hidden ? [] : [`GRANT SELECT ON ${name} TO ${escapeIdentifier(reader)}`]),
  ].join('; ')
}

function putSql(table: SourceTable, rows: readonly Row[]): string {
  const names = table.columns.map(({ name }) => escapeIdentifier(name))
  const values = rows.map(
    (row) => `(${table.columns.map(({ type }, index) => literal(row[index] ?? null, type)).join(', ')})`,
  )
  const key = table.primaryKey.map((name) => escapeIdentifier(name)).join(', ')
  const set = names.map((name) => `${name} = excluded.${name}`).join(', ')
  return `INSERT INTO ${baseOf(table)} (${names.join(', ')}) VALUES ${values.join(', ')}
    ON CONFLICT (${key}) DO UPDATE SET ${set}`
}

function keySql(table: SourceTable, row: Row): string {
  const parts = table.primaryKey.map((name) => {
    const index = table.columns.findIndex((column) => column.name === name)
    return `${escapeIdentifier(name)} = ${literal(row[index] ?? null, table.columns[index]?.type ?? 'string')}`
  })
  return parts.join(' AND ')
}

function alterSql(table: SourceTable, next: SourceTable): readonly string[] {
  const added = next.columns.filter(({ name }) => !table.columns.some((column) => column.name === name))
  const dropped = table.columns.filter(({ name }) => !next.columns.some((column) => column.name === name))
  const retyped = next.columns.filter(({ name, type }) =>
    table.columns.some((one) => one.name === name && one.type !== type),
  )
  return [
    ...added.map(({ name, type }) => `ADD COLUMN ${escapeIdentifier(name)} ${sqlType(type)}`),
    ...dropped.map(({ name }) => `DROP COLUMN ${escapeIdentifier(name)}`),
    ...retyped.map(({ name, type }) => {
      const column = escapeIdentifier(name)
      return `ALTER COLUMN ${column} TYPE ${sqlType(type)} USING ${column}::${sqlType(type)}`
    }),
  ].map((change) => `ALTER TABLE ${baseOf(table)} ${change}`)
}

const TYPES: Readonly<Record<string, string>> = {
  string: 'text',
  integer: 'int4',
  long: 'int8',
  float: 'float4',
  double: 'float8',
  binary: 'bytea',
  json: 'jsonb',
}

function sqlType(type: LogicalType): string {
  const decimal = parseDecimal(type)
  if (decimal) return `numeric(${decimal.precision}, ${decimal.scale})`
  return TYPES[typeName(type)] ?? type
}

/** As JavaScript writes it, but for the sign of zero, which it leaves out. */
function textOf(value: NonNullable<Value>): string {
  return Object.is(value, -0) ? '-0' : String(value)
}

function literal(value: Value, type: LogicalType): string {
  if (value === null) return 'NULL'
  const text = value instanceof Uint8Array ? `\\x${Buffer.from(value).toString('hex')}` : textOf(value)
  return `${escapeLiteral(text)}::${sqlType(type)}`
}
