/** The store against a TimescaleDB that `SLUICE_TEST_TIMESCALE_URL` names; without one, a skip that says so. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Client, Sessions } from '@sluice/lookup/row-secured-postgresql'
import { planOf, rowsRead, testHost } from '@sluice/lookup/row-secured-postgresql/test-data'
import { openTenantScope } from '@sluice/sdk'
import { testAggregates } from '../row-secured-series/aggregates.contract.fixture.ts'
import { testRanges } from '../row-secured-series/ranges.contract.fixture.ts'
import type { SeriesUnderTest } from '../row-secured-series/series-under-test.fixture.ts'
import { testSeries } from '../row-secured-series/store.contract.fixture.ts'
import { fillWalled, IDS, walledTarget } from '../row-secured-series/walled.fixture.ts'
import { start } from './conformance.ts'
import plugin from './index.ts'

const hypertable: SeriesUnderTest = {
  plugin,
  start,
  async chunks(fixture, product) {
    const [found] = await fixture.admin(
      `select count(*)::int as n from timescaledb_information.chunks c
         join sluice_store.datasets d on d.partition = c.hypertable_name
        where d.product = $1 and d.endpoint = 'timeseries'`,
      [product],
    )
    return Number(found?.n)
  },
  probe: 'timescaledb',
}

if (process.env.SLUICE_TEST_TIMESCALE_URL === undefined) {
  test('rows in hypertables', { skip: 'SLUICE_TEST_TIMESCALE_URL names no server with TimescaleDB' }, () => {})
} else {
  describe('rows in hypertables', () => testSeries(hypertable))
  describe('ranges in hypertables', () => testRanges(hypertable))
  describe('aggregates beside hypertables', () => testAggregates(hypertable))
  test('hypertables are walled, and nobody reaches their chunks', walls)
}

async function walls(): Promise<void> {
  const fixture = await start()
  const store = await plugin.open(fixture.settings, testHost())
  const sessions = await Sessions.open(fixture.settings, testHost())
  try {
    await fillWalled(store)
    const tables = await fixture.admin(
      `select hypertable_name as name, (select relrowsecurity and relforcerowsecurity from pg_class
          where oid = format('%I.%I', hypertable_schema, hypertable_name)::regclass) as walled
         from timescaledb_information.hypertables order by 1`,
    )
    assert.deepEqual(
      tables.map(({ walled }) => walled),
      [true, true],
    )
    for (const role of ['reader', 'writer'] as const) {
      for (const { name } of tables) {
        assert.deepEqual(await rowsBy(sessions, role, null, `sluice_partitions.${name}`), [])
        assert.equal((await rowsBy(sessions, role, 'one', `sluice_partitions.${name}`)).length % 2, 0)
      }
      const chunks = await fixture.admin(
        `select format('%I.%I', chunk_schema, chunk_name) as name from timescaledb_information.chunks`,
      )
      assert.ok(chunks.length >= 4)
      for (const { name } of chunks) {
        const own = rowsBy(sessions, role, null, String(name))
        if (role === 'reader') await assert.rejects(own, { code: 'store_permission' })
        else assert.deepEqual(await own, [])
      }
    }
    await store.dropTenant(openTenantScope('one'))
    const of = walledTarget('two')
    const left = await rowsRead(store, of, planOf(of, { operation: 'range', limit: 10 }))
    assert.deepEqual(
      left.map(({ id }) => id),
      IDS.two,
    )
    assert.equal((await fixture.admin('select from timescaledb_information.hypertables')).length, 1)
  } finally {
    await sessions.close()
    await store.close()
    await fixture.stop()
  }
}

/** What a login sees of a table that it names itself. */
async function rowsBy(sessions: Sessions, role: 'reader' | 'writer', tenant: string | null, table: string) {
  const seen = (client: Client) => client.query(`select tenant_id from ${table}`)
  const doing = 'naming a table'
  const found = await (tenant === null
    ? sessions.use(role, doing, seen)
    : sessions.transaction(role, tenant, doing, seen))
  return found.rows
}
