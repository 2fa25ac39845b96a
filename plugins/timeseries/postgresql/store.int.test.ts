import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { planOf, rowsRead, testHost } from '@sluice/lookup/row-secured-postgresql/test-data'
import { openTenantScope } from '@sluice/sdk'
import { testSeries } from '../row-secured-series/store.contract.fixture.ts'
import { fillWalled, IDS, walledTarget } from '../row-secured-series/walled.fixture.ts'
import { native } from './series-under-test.fixture.ts'

describe('rows in native partitions', () => testSeries(native))

test('every chunk is walled, and other tenants see nothing of it', async () => {
  const fixture = await native.start()
  const store = await native.plugin.open(fixture.settings, testHost())
  const ids = async (tenant: keyof typeof IDS) => {
    const of = walledTarget(tenant)
    return (await rowsRead(store, of, planOf(of, { operation: 'range', limit: 10 }))).map(({ id }) => id)
  }
  try {
    await fillWalled(store)
    const open = await fixture.admin(
      `select relname from pg_class where relkind in ('r', 'p') and not (relrowsecurity and relforcerowsecurity)
         and relnamespace in ('sluice_partitions'::regnamespace, 'series'::regnamespace, 'sluice_store'::regnamespace)`,
    )
    assert.deepEqual(open, [])
    const granted = await fixture.admin(
      `select relname from pg_class where relnamespace = 'sluice_partitions'::regnamespace
         and relkind in ('r', 'p') and relacl is not null`,
    )
    assert.deepEqual(granted, [])
    for (const tenant of ['one', 'two'] as const) assert.deepEqual(await ids(tenant), IDS[tenant])
    const parents = `select count(*)::int as n from pg_class where relkind = 'p' and relname like 'walled%'`
    assert.equal((await fixture.admin(parents))[0]?.n, 3)
    await store.dropTenant(openTenantScope('one'))
    assert.deepEqual(await ids('two'), IDS.two)
    const left = `select count(*)::int as n from sluice_store.datasets where tenant_id = 'one'`
    assert.equal((await fixture.admin(left))[0]?.n, 0)
  } finally {
    await store.close()
    await fixture.stop()
  }
})
