import { startPostgres } from '@sluice/lookup/row-secured-postgresql/fixture'
import type { SeriesUnderTest } from '../row-secured-series/series-under-test.fixture.ts'
import plugin from './index.ts'

export const native: SeriesUnderTest = {
  plugin,
  start: () => startPostgres(),
  async chunks(fixture, product) {
    const [found] = await fixture.admin(
      `select count(*)::int as n from pg_inherits i join pg_class p on p.oid = i.inhparent
         join sluice_store.datasets d on d.partition = p.relname where d.product = $1 and d.endpoint = 'timeseries'`,
      [product],
    )
    return Number(found?.n)
  },
  probe: 'partitioning',
}
