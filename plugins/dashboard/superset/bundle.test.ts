import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { inflateRawSync } from 'node:zlib'
import type { DashboardColumn, DashboardDataset, DashboardTable } from '@sluice/sdk'
import { bundleOf } from './bundle.ts'
import { assetUuid, dashboardSlug, ruleName } from './names.ts'
import { chartsOf, DASHBOARD_TEMPLATES } from './templates.ts'

const column = (name: string, type: string, role = 'attribute'): DashboardColumn =>
  ({ name, type, role, classification: 'public', nullable: true, description: '' }) as DashboardColumn

const COLUMNS = [
  column('id', 'integer', 'identity'),
  column('at', 'timestamptz', 'time'),
  column('city', 'string', 'dimension'),
  column(`am"ount'; drop`, 'decimal(10,2)', 'measure'),
]

const table: DashboardTable = {
  schema: 'sluice_view_0',
  name: 'orders',
  columns: [
    { name: 'id', type: 'integer' },
    { name: 'at', type: 'timestamp with time zone' },
    { name: 'city', type: 'text' },
    { name: `am"ount'; drop`, type: 'numeric(10,2)' },
  ],
  tenantColumn: '__tenant',
}

const dataset: DashboardDataset = {
  productId: 'prd_1',
  variant: 'clear',
  tenant: 'acme',
  domain: 'sales',
  product: 'orders',
  description: '',
  template: 'trend',
  refreshIntervalMs: 900_000,
  hasHistory: false,
  columns: COLUMNS,
  table,
  address: 'postgresql://u:p@h:5432/d?sslmode=disable',
}

/** Reads an archive as any reader of the format does: by its directory at the end. */
function unzipped(archive: Buffer): ReadonlyMap<string, unknown> {
  const end = archive.lastIndexOf(Buffer.from('PK\x05\x06'))
  const files = new Map<string, unknown>()
  let at = archive.readUInt32LE(end + 16)
  for (let left = archive.readUInt16LE(end + 10); left > 0; left -= 1) {
    const [method, size] = [archive.readUInt16LE(at + 10), archive.readUInt32LE(at + 20)]
    const [nameLength, local] = [archive.readUInt16LE(at + 28), archive.readUInt32LE(at + 42)]
    const name = archive.subarray(at + 46, at + 46 + nameLength).toString()
    const begin = local + 30 + archive.readUInt16LE(local + 26) + archive.readUInt16LE(local + 28)
    const body = archive.subarray(begin, begin + size)
    files.set(name, JSON.parse((method === 0 ? body : inflateRawSync(body)).toString()))
    at += 46 + nameLength + archive.readUInt16LE(at + 30) + archive.readUInt16LE(at + 32)
  }
  return files
}

// biome-ignore lint/suspicious/noExplicitAny: looked into where it is used
const fileOf = (name: string, change: Partial<DashboardDataset> = {}): any =>
  unzipped(bundleOf({ ...dataset, ...change }).archive).get(`sluice/${name}.yaml`)

describe('a bundle', () => {
  test('holds connection, dataset, charts and dashboard, which refer to each other', () => {
    const [database, shown, dashboard] = ['databases/own', 'datasets/own/own', 'dashboards/own'].map((name) =>
      fileOf(name),
    )
    assert.equal(database.sqlalchemy_uri, 'postgresql+psycopg2://u:p@h:5432/d?sslmode=disable')
    for (const right of ['expose_in_sqllab', 'allow_ctas', 'allow_cvas', 'allow_dml', 'allow_csv_upload']) {
      assert.equal(database[right], false, right)
    }
    assert.equal(shown.database_uuid, database.uuid)
    assert.equal(shown.cache_timeout, 900)
    assert.equal(shown.main_dttm_col, 'at')
    assert.deepEqual(dashboard.metadata, { refresh_frequency: 900, timed_refresh_immune_slices: [] })
    for (const key of ['total', 'trend', 'rows']) {
      const chart = fileOf(`charts/${key}`)
      assert.equal(chart.dataset_uuid, shown.uuid)
      assert.equal(dashboard.position[`CHART-${key}`].meta.uuid, chart.uuid)
    }
  })

  test('is the same for the same product, and another for another copy', () => {
    const archive = (variant: string) => bundleOf({ ...dataset, variant }).archive
    assert.deepEqual(archive('clear'), archive('clear'))
    assert.notEqual(fileOf('dashboards/own').uuid, fileOf('dashboards/own', { variant: 'masked' }).uuid)
    assert.match(fileOf('dashboards/own').uuid, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/)
  })

  test('names columns and never writes SQL of them', () => {
    const { params } = fileOf('charts/trend')
    assert.equal(params.metrics[0].expressionType, 'SIMPLE')
    assert.deepEqual(params.metrics[0].column, { column_name: `am"ount'; drop` })
    assert.deepEqual(
      fileOf('datasets/own/own').metrics.map((metric: { expression: string }) => metric.expression),
      ['COUNT(*)'],
    )
  })

  test('leaves out charts of columns that a mask took away, and counts current rows of histories only', () => {
    const columns = table.columns.filter(({ name }) => name !== 'at')
    const masked = { variant: 'masked', table: { ...table, columns } }
    assert.equal(fileOf('charts/trend', masked), undefined)
    assert.deepEqual(fileOf('charts/rows', masked).params.all_columns, ['id', 'city', `am"ount'; drop`])
    const [filter] = fileOf('charts/total', { hasHistory: true }).params.adhoc_filters
    assert.deepEqual([filter.subject, filter.operator], ['is_current', 'IS TRUE'])
  })

  test('has no dashboard where no template is asked for', () => {
    assert.equal(fileOf('dashboards/own', { template: null }), undefined)
    assert.notEqual(fileOf('datasets/own/own', { template: null }), undefined)
  })
})

describe('a template', () => {
  test('says what it needs', () => {
    const { missing } = DASHBOARD_TEMPLATES
    assert.equal(missing('trend', COLUMNS), null)
    assert.match(missing('trend', [column('id', 'integer', 'identity')]) ?? '', /date, timestamp/)
    assert.match(missing('breakdown', [column('id', 'string', 'identity')]) ?? '', /dimension/)
    assert.deepEqual(chartsOf('nothing', COLUMNS), [])
  })
})

test('names differ between datasets, and tell nothing of the tenant', () => {
  const [id, other] = ['clear', 'masked'].map((variant) => ({ productId: 'prd_1', variant })) as [Id, Id]
  for (const name of [dashboardSlug, (of: Id) => ruleName('tenant', of), (of: Id) => assetUuid('dataset', of)]) {
    assert.notEqual(name(id), name(other))
    assert.equal(name(id), name({ ...id }))
  }
})

type Id = Pick<DashboardDataset, 'productId' | 'variant'>
