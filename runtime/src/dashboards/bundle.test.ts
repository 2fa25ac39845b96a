import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { inflateRawSync } from 'node:zlib'
import type { OutputColumn } from '../manifest/manifest-set.ts'
import { bundleOf } from './bundle.ts'
import { assetUuid, dashboardSlug, loginName, ruleName, subjectRole } from './names.ts'
import type { ServingView } from './serving-views.ts'
import { chartsOf, DASHBOARD_TEMPLATES } from './templates.ts'
import type { WantedDashboards } from './wanted.ts'

const column = (name: string, type: string, role = 'attribute'): OutputColumn =>
  ({ name, type, role, classification: 'public', nullable: true, description: '' }) as OutputColumn

const COLUMNS = [
  column('id', 'integer', 'identity'),
  column('at', 'timestamptz', 'time'),
  column('city', 'string', 'dimension'),
  column(`am"ount'; drop`, 'decimal(10,2)', 'measure'),
]

const wanted: WantedDashboards = {
  productId: 'prd_1',
  tenant: 'acme',
  domain: 'sales',
  product: 'orders',
  description: '',
  endpoint: 'lookup',
  hasHistory: false,
  template: 'trend',
  refreshIntervalMs: 900_000,
  columns: COLUMNS,
  variants: [],
  isIncomplete: false,
}

const view: ServingView = {
  schema: 'sluice_view_0',
  name: 'orders',
  columns: [
    { name: 'id', type: 'integer' },
    { name: 'at', type: 'timestamp with time zone' },
    { name: 'city', type: 'text' },
    { name: `am"ount'; drop`, type: 'numeric(10,2)' },
  ],
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
const fileOf = (given: WantedDashboards, name: string, variant = 'clear', of = view): any =>
  unzipped(bundleOf(given, variant, of, 'postgresql://u:p@h:5432/d?sslmode=disable').archive).get(`sluice/${name}.yaml`)

describe('a bundle', () => {
  test('holds connection, dataset, charts and dashboard, which refer to each other', () => {
    const [database, dataset, dashboard] = ['databases/own', 'datasets/own/own', 'dashboards/own'].map((name) =>
      fileOf(wanted, name),
    )
    assert.equal(database.sqlalchemy_uri, 'postgresql+psycopg2://u:p@h:5432/d?sslmode=disable')
    for (const right of ['expose_in_sqllab', 'allow_ctas', 'allow_cvas', 'allow_dml', 'allow_csv_upload']) {
      assert.equal(database[right], false, right)
    }
    assert.equal(dataset.database_uuid, database.uuid)
    assert.equal(dataset.cache_timeout, 900)
    assert.equal(dataset.main_dttm_col, 'at')
    assert.deepEqual(dashboard.metadata, { refresh_frequency: 900, timed_refresh_immune_slices: [] })
    for (const key of ['total', 'trend', 'rows']) {
      const chart = fileOf(wanted, `charts/${key}`)
      assert.equal(chart.dataset_uuid, dataset.uuid)
      assert.equal(dashboard.position[`CHART-${key}`].meta.uuid, chart.uuid)
    }
  })

  test('is the same for the same product, and another for another copy', () => {
    const archive = (variant: string) => bundleOf(wanted, variant, view, 'postgresql://x').archive
    assert.deepEqual(archive('clear'), archive('clear'))
    assert.notEqual(fileOf(wanted, 'dashboards/own').uuid, fileOf(wanted, 'dashboards/own', 'masked').uuid)
    assert.match(
      fileOf(wanted, 'dashboards/own').uuid,
      /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/,
    )
  })

  test('names columns and never writes SQL of them', () => {
    const { params } = fileOf(wanted, 'charts/trend')
    assert.equal(params.metrics[0].expressionType, 'SIMPLE')
    assert.deepEqual(params.metrics[0].column, { column_name: `am"ount'; drop` })
    assert.deepEqual(
      fileOf(wanted, 'datasets/own/own').metrics.map((metric: { expression: string }) => metric.expression),
      ['COUNT(*)'],
    )
  })

  test('leaves out charts of columns that a mask took away, and counts current rows of histories only', () => {
    const masked = { ...view, columns: view.columns.filter(({ name }) => name !== 'at') }
    assert.equal(fileOf(wanted, 'charts/trend', 'masked', masked), undefined)
    assert.deepEqual(fileOf(wanted, 'charts/rows', 'masked', masked).params.all_columns, [
      'id',
      'city',
      `am"ount'; drop`,
    ])
    const [filter] = fileOf({ ...wanted, hasHistory: true }, 'charts/total').params.adhoc_filters
    assert.deepEqual([filter.subject, filter.operator], ['is_current', 'IS TRUE'])
  })

  test('has no dashboard where no template is asked for', () => {
    const none = { ...wanted, template: null }
    assert.equal(fileOf(none, 'dashboards/own'), undefined)
    assert.notEqual(fileOf(none, 'datasets/own/own'), undefined)
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

describe('names', () => {
  const dataset = { productId: 'prd_1', variant: 'clear' }

  test('differ between datasets and tell nothing of the tenant', () => {
    const other = { productId: 'prd_1', variant: 'masked' }
    for (const name of [
      loginName,
      dashboardSlug,
      (of: typeof dataset) => ruleName('tenant', of),
      (of: typeof dataset) => assetUuid('dataset', of),
    ]) {
      assert.notEqual(name(dataset), name(other))
      assert.equal(name(dataset), name({ ...dataset }))
    }
    assert.match(loginName(dataset), /^sluice_view_[0-9a-f]{24}$/)
  })

  test('of roles tell tenants, teams and users apart, and fit', () => {
    const team = { kind: 'team', name: 'svc-viewers' } as const
    assert.equal(subjectRole('acme', team), 'sluice:acme:team:svc-viewers')
    assert.notEqual(subjectRole('acme', { kind: 'user', name: 'x' }), subjectRole('acme', { kind: 'team', name: 'x' }))
    const [long, longer] = ['a'.repeat(60), 'a'.repeat(61)].map((name) => subjectRole('acme', { kind: 'user', name }))
    assert.match(long ?? '', /^sluice:[0-9a-f]{40}$/)
    assert.notEqual(long, longer)
  })
})
