/** Statements that write no row, and put others in their place: the times of those say nothing, so the table is read whole. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { ConnectorState } from '@sluice/sdk'
import { gather, sourceHost } from '../postgresql/source-host.ts'
import { until } from '../postgresql/source-server.ts'
import plugin from './index.ts'
import { type SourceServer, startSource } from './source-server.ts'

/** Rows change places in one that is not the first, so that a list of numbers which is cut does not tell. */
const RANGES = `(PARTITION none VALUES LESS THAN (-100), PARTITION few VALUES LESS THAN (-50), PARTITION low VALUES LESS THAN (100),
  PARTITION high VALUES LESS THAN MAXVALUE)`
const PARTITIONS = `PARTITION BY RANGE (id) ${RANGES}`
const SUBPARTITIONS = `PARTITION BY RANGE (id) SUBPARTITION BY HASH (id) SUBPARTITIONS 2 ${RANGES}`
/** Long before any overlap. */
const OLD = `'2020-01-01 00:00:00'`

/** What is done to a table, beside which one of the same columns stands. */
const PUT_IN_PLACE = {
  exchanged: { as: PARTITIONS, sql: (t: string) => `ALTER TABLE ${t} EXCHANGE PARTITION low WITH TABLE ${t}_other` },
  truncated: { as: PARTITIONS, sql: (t: string) => `ALTER TABLE ${t} TRUNCATE PARTITION low` },
  truncated_below: { as: SUBPARTITIONS, sql: (t: string) => `ALTER TABLE ${t} TRUNCATE PARTITION low` },
  dropped: { as: PARTITIONS, sql: (t: string) => `ALTER TABLE ${t} DROP PARTITION low` },
  renamed: { as: '', sql: (t: string) => `RENAME TABLE ${t} TO ${t}_gone, ${t}_other TO ${t}` },
} as const

/** By what a table is known again. */
const KNOWN = [
  { by: 'by the numbers of the engine', grants: true, engine: 'InnoDB', setting: 'DEFAULT' },
  { by: 'by numbers that a setting of the server would cut', grants: true, engine: 'InnoDB', setting: '4' },
  { by: 'without PROCESS', grants: false, engine: 'InnoDB', setting: 'DEFAULT' },
  { by: 'in an engine without numbers', grants: true, engine: 'Aria', setting: 'DEFAULT' },
] as const

const CASES = KNOWN.flatMap((known, at) =>
  Object.entries(PUT_IN_PLACE).map(([what, how]) => ({ ...known, what, ...how, table: `${what}_${at}` })),
)
const columnsIn = (engine: string) =>
  `(id INT PRIMARY KEY, name VARCHAR(9), at TIMESTAMP(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6)) ENGINE = ${engine}`

let source: SourceServer
let reader: string

before(async () => {
  source = await startSource()
  reader = `'${source.settings.user}'@'%'`
  await source.sql(`GRANT SELECT ON \`${source.settings.database}\`.* TO ${reader}`)
  for (const { table, engine, as } of CASES) {
    await source.sql(
      `CREATE TABLE ${table} ${columnsIn(engine)} ${as}`,
      `INSERT INTO ${table} VALUES (1, 'old', ${OLD}), (200, 'newest', NOW(6))`,
    )
  }
  // What is younger is read whole anyway, where its time of creation is all that is known of it.
  const young = `CREATE_TIME > NOW() - INTERVAL 5 SECOND AND TABLE_SCHEMA = '${source.settings.database}'`
  const isYoung = async () =>
    (await source.sql(`SELECT 1 FROM information_schema.TABLES WHERE ${young} LIMIT 1`)).length > 0
  await until('the tables are old enough', async () => !(await isYoung()))
})
after(() => source?.stop())

for (const { by, grants, engine, setting, what, as, sql, table } of CASES) {
  test(`a table of which rows were ${what} is read whole, where it is known ${by}`, async () => {
    await source.sql(
      `${grants ? 'GRANT PROCESS ON *.* TO' : 'REVOKE PROCESS ON *.* FROM'} ${reader}`,
      `CREATE TABLE ${table}_other ${columnsIn(engine)}`,
      `INSERT INTO ${table}_other SELECT id, 'new', at FROM ${table} WHERE id < 100 OR ${as === ''}`,
      `SET GLOBAL group_concat_max_len = ${setting}`,
    )
    const connector = await plugin.open(source.settings, sourceHost())
    const read = (state: ConnectorState | null) =>
      gather(
        connector.read({
          ...{ schema: source.settings.database, table, mode: 'incremental', columns: [], primaryKey: ['id'] },
          ...{ cursorColumn: 'at', state, signal: new AbortController().signal },
        }),
      )
    const first = await read(null)
    await source.sql(sql(table))
    assert.equal((await read(first.last.state)).whole, true)
    await connector.close()
    await source.sql('SET GLOBAL group_concat_max_len = DEFAULT')
  })
}
