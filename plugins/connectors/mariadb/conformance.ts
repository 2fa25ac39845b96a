/** What the conformance suite needs to try this connector: a database of its own, written to as its owner does. */
import type { SourceFixture } from '@sluice/conformance'
import { alterSql, createSql, putSql, removeSql } from './conformance-sql.ts'
import { startSource } from './source-server.ts'
import { quoteName, quoteText } from './sql.ts'

export async function start(): Promise<SourceFixture> {
  const source = await startSource()
  const { settings, sql } = source
  const reader = `${quoteText(settings.user)}@'%'`
  const nobody = `${settings.user.slice(0, 20)}_none`
  await sql(
    `CREATE USER ${quoteText(nobody)}@'%' IDENTIFIED BY 'open sesame'`,
    `GRANT SHOW VIEW ON ${quoteName(settings.database)}.* TO ${quoteText(nobody)}@'%'`,
  )
  const grant = (name: string) => sql(`GRANT SELECT ON ${quoteName(settings.database)}.${quoteName(name)} TO ${reader}`)
  const [told] = await sql('SELECT version()')
  return {
    settings,
    server: `MariaDB ${String(told?.[0]).split('-')[0]}`,
    steps: ['dns', 'tcp', 'tls', 'auth', 'privileges'],
    // Without float and double, which have neither NaN nor infinities, timestamptz, which begins in 1970 and ends in 2038, and
    // uuid, of which MariaDB knows the versions 1 to 5 alone.
    types: ['string', 'boolean', 'integer', 'long', 'decimal', 'date', 'timestamp', 'binary', 'json'],
    expected: [await made(sql), await madeOfNumbers(sql)],
    broken: {
      dns: { ...settings, host: 'absent.sluice.test' },
      // The discard port: nothing listens there on a machine that tests run on.
      tcp: { ...settings, port: 9 },
      tls: { ...settings, ssl_mode: 'verify-full' },
      auth: { ...settings, password: `not ${settings.password}` },
      privileges: { ...settings, user: nobody, password: 'open sesame' },
    },
    schema: settings.database,
    // As many as checks have in a table: all lie within the overlap.
    repeatedRows: 600,
    create: async (table) => {
      await sql(createSql(table))
      if (!table.hidden) await grant(table.name)
    },
    put: async (table, rows) => {
      if (rows.length > 0) await sql(putSql(table, rows))
    },
    remove: async (table, rows) => {
      for (const row of rows) await sql(removeSql(table, row))
    },
    alter: async (table, next) => {
      await sql(...alterSql(table, next))
    },
    drop: async (table) => {
      await sql(`DROP TABLE IF EXISTS ${quoteName(table.name)}`)
    },
    hold: async (table, rows) => {
      const session = await source.session()
      await session.run('START TRANSACTION')
      await session.run(putSql(table, rows))
      return async () => {
        await session.run('COMMIT')
        await session.close()
      }
    },
    putUnfit: async (table, count) => {
      const values = Array.from({ length: count }, (_, index) => `(${-1 - index}, '2026-01-01 00:00:00', 'a\\0b')`)
      await sql(`INSERT INTO ${quoteName(table.name)} (id, at, name) VALUES ${values.join(', ')}`)
    },
    putWithout: async (table, row) => {
      await sql(putSql(table, [row]))
      const id = String(row[table.columns.findIndex(({ name }) => name === 'id')])
      await sql(`UPDATE ${quoteName(table.name)} SET name = 'a\\0b' WHERE id = ${id}`)
      return 'name'
    },
    refuse: async () => {
      // The statements of its first login use it up.
      await sql(`ALTER USER ${reader} WITH MAX_QUERIES_PER_HOUR 1`, 'FLUSH USER_RESOURCES')
      return async () => {
        await sql(`ALTER USER ${reader} WITH MAX_QUERIES_PER_HOUR 0`, 'FLUSH USER_RESOURCES')
      }
    },
    digest: async () => JSON.stringify(await sql(DIGEST(settings.database))),
    sessions: async () =>
      (await sql(`SELECT ID FROM information_schema.PROCESSLIST WHERE USER = ${quoteText(settings.user)}`)).length,
    future: (state) => ({ ...state, value: { ...state.value, position: FUTURE, from: FUTURE } }),
    breakNetwork: async () => {
      await sql(`KILL USER ${quoteText(settings.user)}`)
    },
    stop: async () => {
      await sql(`DROP USER ${quoteText(nobody)}@'%'`)
      await source.stop()
    },
  }

  async function made(run: typeof sql): Promise<Expected> {
    await run(
      `CREATE TABLE made_by_its_owner (id TINYINT PRIMARY KEY, word ENUM('', 'ä,"b"'), kinds SET('x', 'y'), big BIGINT UNSIGNED,
         wide DECIMAL(65,30), short INT(7) UNSIGNED ZEROFILL, bits BIT(12), year YEAR, clock TIME(3), at TIMESTAMP(6) NULL,
         document JSON, half FLOAT, whole DOUBLE, twice BIGINT AS (id * 2) VIRTUAL, code CHAR(4) CHARACTER SET latin1,
         own UUID)`,
      `INSERT INTO made_by_its_owner (id, word, kinds, big, wide, short, bits, year, clock, at, document, half, whole, code, own) VALUES
         (-128, 'ä,"b"', 'x,y', 18446744073709551615, 12345678901234567890123456789012345.123456789012345678901234567890,
          42, b'101000000001', 2026, '-838:59:59.000', '1970-01-01 12:00:00.000001',
          '{"n":123456789012345678901234567890}', 0.1, 1.7976931348623157e308, 'Ärg',
          '6ccd780c-baba-1026-9564-5b8c656024db'),
         (7, '', '', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)`,
    )
    await grant('made_by_its_owner')
    return {
      table: {
        name: 'made_by_its_owner',
        columns: [
          { name: 'id', type: 'integer', nullable: false },
          { name: 'word', type: 'string', nullable: true },
          { name: 'kinds', type: 'string', nullable: true },
          { name: 'big', type: 'decimal(20,0)', nullable: true },
          { name: 'wide', type: 'string', nullable: true },
          { name: 'short', type: 'long', nullable: true },
          { name: 'bits', type: 'binary', nullable: true },
          { name: 'year', type: 'integer', nullable: true },
          { name: 'clock', type: 'string', nullable: true },
          { name: 'at', type: 'timestamptz', nullable: true },
          { name: 'document', type: 'json', nullable: true },
          { name: 'half', type: 'float', nullable: true },
          { name: 'whole', type: 'double', nullable: true },
          { name: 'twice', type: 'long', nullable: true },
          { name: 'code', type: 'string', nullable: true },
          { name: 'own', type: 'uuid', nullable: true },
        ],
        primaryKey: ['id'],
      },
      rows: [
        [
          ...[-128, 'ä,"b"', 'x,y', '18446744073709551615'],
          ...['12345678901234567890123456789012345.123456789012345678901234567890', 42n],
          ...[Uint8Array.of(0x0a, 0x01), 2026, '-838:59:59.000', '1970-01-01T12:00:00.000001Z'],
          ...['{"n":123456789012345678901234567890}', Math.fround(0.1), 1.7976931348623157e308, -256n, 'Ärg'],
          '6ccd780c-baba-1026-9564-5b8c656024db',
        ],
        [7, '', '', '0', null, null, null, null, null, null, null, null, null, 14n, null, null],
      ],
    }
  }

  /** More columns than most have, with names that no program would give them. */
  async function madeOfNumbers(run: typeof sql): Promise<Expected> {
    const names = [
      'id',
      'a`b',
      "a'b",
      'a"b',
      'a\\b',
      'ä;--',
      'SELECT',
      ...Array.from({ length: 1000 }, (_, at) => `c${at}`),
    ]
    const columns = names.map((name) => `${quoteName(name)} INT ${name === 'id' ? 'PRIMARY KEY' : 'NULL'}`)
    await run(
      `CREATE TABLE ${quoteName('odd `names`')} (${columns.join(', ')})`,
      `INSERT INTO ${quoteName('odd `names`')} VALUES (${names.map((_, at) => at).join(', ')})`,
    )
    await grant('odd `names`')
    const table = {
      name: 'odd `names`',
      columns: names.map((name) => ({ name, type: 'integer' as const, nullable: name !== 'id' })),
      primaryKey: ['id'],
    }
    return { table, rows: [names.map((_, at) => at)] }
  }
}

type Expected = NonNullable<SourceFixture['expected']>[number]

const FUTURE = '9000-01-01 00:00:00.000000'

/** What the database holds: its tables, when they were last written, and what was granted. */
const DIGEST = (database: string): string =>
  `SELECT TABLE_NAME, CREATE_TIME, UPDATE_TIME, TABLE_ROWS FROM information_schema.TABLES
   WHERE TABLE_SCHEMA = ${quoteText(database)} ORDER BY TABLE_NAME`
