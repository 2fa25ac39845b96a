import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Connector, isSluiceError, type ReadEvent } from '@sluice/sdk'
import { createConnector } from './connector.ts'
import { parseSettings } from './settings.ts'
import { gather, sourceHost } from './source-host.ts'
import { type SourceServer, startCluster } from './source-server.ts'

let source: SourceServer

before(async () => {
  source = await startCluster()
  await source.sql(`CREATE TABLE one (id int PRIMARY KEY, v int); CREATE TABLE other (id int PRIMARY KEY, v int);
    INSERT INTO one SELECT i, 0 FROM generate_series(1, 4) i; INSERT INTO other SELECT * FROM one;
    GRANT SELECT ON ALL TABLES IN SCHEMA public TO ${source.settings.user}`)
})
after(() => source?.stop())

function open(oneMoment: boolean): Connector {
  return createConnector(parseSettings({ ...source.settings, one_moment: oneMoment }), sourceHost())
}

function read(connector: Connector, table: string, mode: 'full' | 'incremental' = 'full'): AsyncIterable<ReadEvent> {
  const signal = new AbortController().signal
  const keys = { columns: [], primaryKey: ['id'], cursorColumn: null, state: null }
  return connector.read({ schema: 'public', table, mode, ...keys, signal })
}

const values = async (connector: Connector, table: string, mode?: 'incremental') =>
  (await gather(read(connector, table, mode))).rows.map(([, v]) => v).join()

test('tables of one opened connector are read as of the first read; without the setting each as of its own', async () => {
  for (const [oneMoment, expected] of [
    [true, '0,0,0,0'],
    [false, '1,1,1,1'],
  ] as const) {
    await source.sql('UPDATE one SET v = 0; UPDATE other SET v = 0')
    const connector = open(oneMoment)
    assert.equal(await values(connector, 'one'), '0,0,0,0')
    await source.sql('UPDATE one SET v = 1; UPDATE other SET v = 1')
    assert.equal(await values(connector, 'other', 'incremental'), expected)
    await connector.close()
  }
})

test('the next one opened sees what has come since, and nothing is left at the source', async () => {
  const connector = open(true)
  assert.equal(await values(connector, 'one'), '1,1,1,1')
  await connector.close()
  const mine = `SELECT FROM pg_stat_activity WHERE usename = '${source.settings.user}'`
  for (;;) if ((await source.sql(mine)).length === 0) break
})

const lost = (error: unknown) => isSluiceError(error, 'CONFLICT') && error.code === 'source_moment_lost'

test('a table that was emptied or rewritten since is not read as if it had always been so', async () => {
  for (const change of ['TRUNCATE other', 'ALTER TABLE other ALTER v TYPE bigint', 'VACUUM FULL other']) {
    await source.sql('TRUNCATE other; INSERT INTO other SELECT * FROM one')
    const connector = open(true)
    await values(connector, 'one')
    await source.sql(change)
    await assert.rejects(values(connector, 'other'), lost, change)
    await connector.close()
  }
})

test('a column that came since changes nothing; the moment’s columns are read', async () => {
  const connector = open(true)
  await values(connector, 'one')
  await source.sql('ALTER TABLE other ADD w int DEFAULT 7')
  const { schema } = await gather(read(connector, 'other'))
  assert.deepEqual(
    schema.columns.map(({ name }) => name),
    ['id', 'v'],
  )
  await connector.close()
})

test('where the session that holds the snapshot is gone, the next read says so', async () => {
  const connector = open(true)
  await values(connector, 'one')
  await source.sql(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${source.settings.user}'`)
  for (;;) {
    const gone = await values(connector, 'one').then(
      () => false,
      (error: unknown) => lost(error),
    )
    if (gone) break
  }
  await connector.close()
})
