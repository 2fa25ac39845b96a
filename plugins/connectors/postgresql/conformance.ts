/** What the conformance suite needs to try this connector: a server of its own, written to as its owner does. */

import type { SourceFixture } from '@sluice/conformance'
import { escapeIdentifier } from 'pg'
import { loggedSource } from './conformance-log.ts'
import { alterSql, baseOf, createSql, keySql, putSql } from './conformance-sql.ts'
import { startCluster } from './source-server.ts'

export async function start(): Promise<SourceFixture> {
  const source = await startCluster({ wal_level: 'logical' })
  const { settings, sql } = source
  const reader = escapeIdentifier(settings.user)
  await sql(`CREATE ROLE sees_nothing LOGIN PASSWORD 'open sesame'; ALTER ROLE ${reader} REPLICATION;
    GRANT CREATE ON DATABASE ${escapeIdentifier(settings.database)} TO ${reader}; ALTER SCHEMA public OWNER TO ${reader}`)
  const own = `usename = '${settings.user}'`
  const [told] = await sql('SHOW server_version')
  return {
    settings,
    server: `PostgreSQL ${String(told?.['server_version']).split(' ')[0]}`,
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
    putWithout: async (table, row) => {
      await sql(putSql(table, [row]))
      const id = String(row[table.columns.findIndex(({ name }) => name === 'id')])
      await sql(`UPDATE ${baseOf(table)} SET amount = 'NaN' WHERE id = ${id}`)
      return 'amount'
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
    log: loggedSource(source),
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
