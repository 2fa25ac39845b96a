/**
 * A dataset as the dashboard server imports it: connection, dataset, charts, dashboard. Each is told by a UUID that
 * follows from the product, so that importing again changes what is there. All files are JSON, which is YAML too.
 */
import type { DashboardColumn, DashboardDataset } from '@sluice/sdk'
import { assetUuid, dashboardSlug } from './names.ts'
import { type ChartDraft, COUNT, chartsOf } from './templates.ts'
import { zipOf } from './zip.ts'

const VERSION = '1.0.0'
const ROW_HEIGHT = 50
const MOST_NAME_CHARACTERS = 120

export interface Bundle {
  readonly archive: Buffer
  /** The charts that are in it. */
  readonly chartKeys: readonly string[]
}

/** It holds the dataset's address, with its password: the archive is as secret as that. */
export function bundleOf(dataset: DashboardDataset): Bundle {
  const charts = dataset.template === null ? [] : chartsOf(dataset.template, columnsIn(dataset))
  const files = new Map<string, unknown>([
    ['metadata', { version: VERSION, type: 'assets', timestamp: '2026-01-01T00:00:00+00:00' }],
    ['databases/own', database(dataset)],
    ['datasets/own/own', datasetOf(dataset)],
    ...charts.map((chart) => [`charts/${chart.key}`, chartOf(dataset, chart)] as const),
    ...(charts.length === 0 ? [] : [['dashboards/own', dashboard(dataset, charts)] as const]),
  ])
  const texts = [...files].map(([name, value]) => [`sluice/${name}.yaml`, JSON.stringify(value)] as const)
  return { archive: zipOf(new Map(texts)), chartKeys: charts.map(({ key }) => key) }
}

function columnsIn({ table, columns }: DashboardDataset): readonly DashboardColumn[] {
  const there = new Set(table.columns.map(({ name }) => name))
  return columns.filter(({ name }) => there.has(name))
}

/** People read it; the end of the UUID keeps apart what is called the same after shortening. */
function databaseName(dataset: DashboardDataset): string {
  const { tenant, domain, product, variant } = dataset
  const name = `${tenant} ${domain}.${product} ${variant}`.slice(0, MOST_NAME_CHARACTERS)
  return `${name} ${assetUuid('database', dataset).slice(-8)}`
}

function database(dataset: DashboardDataset) {
  return {
    database_name: databaseName(dataset),
    sqlalchemy_uri: dataset.address.replace(/^postgres(ql)?:/, 'postgresql+psycopg2:'),
    ...cacheTimeout(dataset),
    expose_in_sqllab: false,
    allow_run_async: false,
    allow_ctas: false,
    allow_cvas: false,
    allow_dml: false,
    allow_csv_upload: false,
    impersonate_user: false,
    extra: { allows_virtual_table_explore: false, per_user_caching: true, metadata_params: {}, engine_params: {} },
    uuid: assetUuid('database', dataset),
    version: VERSION,
  }
}

function datasetOf(dataset: DashboardDataset) {
  const { table } = dataset
  return {
    table_name: table.name,
    schema: table.schema,
    main_dttm_col: table.columns.find(({ type }) => isTime(type))?.name ?? null,
    description: dataset.description,
    ...cacheTimeout(dataset),
    sql: null,
    filter_select_enabled: true,
    uuid: assetUuid('dataset', dataset),
    database_uuid: assetUuid('database', dataset),
    version: VERSION,
    columns: table.columns.map(({ name, type }) => ({
      column_name: name,
      type: type.toUpperCase(),
      is_dttm: isTime(type),
      is_active: true,
      groupby: true,
      filterable: true,
      description: dataset.columns.find((column) => column.name === name)?.description ?? '',
    })),
    metrics: [{ metric_name: COUNT, metric_type: 'count', verbose_name: 'Rows', expression: 'COUNT(*)' }],
  }
}

const isTime = (type: string): boolean => type === 'date' || type.startsWith('timestamp')

function cacheTimeout({ refreshIntervalMs }: DashboardDataset): { readonly cache_timeout: number | null } {
  return { cache_timeout: refreshIntervalMs === null ? null : Math.ceil(refreshIntervalMs / 1000) }
}

function chartOf(dataset: DashboardDataset, { key, title, vizType, params }: ChartDraft) {
  return {
    slice_name: `${title}: ${dataset.domain}.${dataset.product}`.slice(0, MOST_NAME_CHARACTERS),
    viz_type: vizType,
    params: { ...params, viz_type: vizType, adhoc_filters: dataset.hasHistory ? [ONLY_CURRENT] : [] },
    ...cacheTimeout(dataset),
    uuid: assetUuid(`chart:${key}`, dataset),
    dataset_uuid: assetUuid('dataset', dataset),
    version: VERSION,
  }
}

const ONLY_CURRENT = {
  clause: 'WHERE',
  expressionType: 'SIMPLE',
  subject: 'is_current',
  operator: 'IS TRUE',
  operatorId: 'IS_TRUE',
  comparator: null,
}

function dashboard(dataset: DashboardDataset, charts: readonly ChartDraft[]) {
  const title = `${dataset.domain}.${dataset.product}${dataset.variant === 'clear' ? '' : ` (${dataset.variant})`}`
  const seconds = cacheTimeout(dataset).cache_timeout
  return {
    dashboard_title: title.slice(0, MOST_NAME_CHARACTERS),
    description: dataset.description,
    slug: dashboardSlug(dataset),
    uuid: assetUuid('dashboard', dataset),
    position: position(title, dataset, charts),
    metadata: seconds === null ? {} : { refresh_frequency: seconds, timed_refresh_immune_slices: [] },
    published: true,
    version: VERSION,
  }
}

/** One row for each chart that fills one; those that do not share a row. */
function position(title: string, dataset: DashboardDataset, charts: readonly ChartDraft[]): Record<string, unknown> {
  const rows: ChartDraft[][] = []
  for (const chart of charts) {
    const last = rows.at(-1)
    const taken = last?.reduce((sum, { width }) => sum + width, 0) ?? 12
    if (last !== undefined && taken + chart.width <= 12) last.push(chart)
    else rows.push([chart])
  }
  const placed: Record<string, unknown> = {
    DASHBOARD_VERSION_KEY: 'v2',
    ROOT_ID: { type: 'ROOT', id: 'ROOT_ID', children: ['GRID_ID'] },
    GRID_ID: { type: 'GRID', id: 'GRID_ID', children: rows.map((_, index) => `ROW-${index}`), parents: ['ROOT_ID'] },
    HEADER_ID: { type: 'HEADER', id: 'HEADER_ID', meta: { text: title } },
  }
  for (const [index, row] of rows.entries()) {
    const [id, parents] = [`ROW-${index}`, ['ROOT_ID', 'GRID_ID']]
    const children = row.map(({ key }) => `CHART-${key}`)
    placed[id] = { type: 'ROW', id, children, parents, meta: { background: 'BACKGROUND_TRANSPARENT' } }
    for (const chart of row) placed[`CHART-${chart.key}`] = placedChart(chart, dataset, [...parents, id], charts)
  }
  return placed
}

function placedChart(
  chart: ChartDraft,
  dataset: DashboardDataset,
  parents: readonly string[],
  charts: readonly ChartDraft[],
): unknown {
  const meta = {
    // The server puts its own number in the place of this one, which has only to differ from the others'.
    chartId: charts.indexOf(chart) + 1,
    uuid: assetUuid(`chart:${chart.key}`, dataset),
    sliceName: chart.title,
    width: chart.width,
    height: ROW_HEIGHT,
  }
  return { type: 'CHART', id: `CHART-${chart.key}`, children: [], parents, meta }
}
