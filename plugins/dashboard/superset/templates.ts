/** The dashboards that products can ask for by name. A template uses columns by their roles and types, and no SQL. */
import type { DashboardColumn, DashboardTemplates } from '@sluice/sdk'

export interface ChartDraft {
  /** Tells the charts of a dataset apart, in every template: charts keep their identity when a template changes. */
  readonly key: ChartKey
  readonly title: string
  readonly vizType: string
  readonly params: Readonly<Record<string, unknown>>
  /** Of twelve columns. */
  readonly width: number
}

export const CHART_KEYS = ['total', 'rows', 'trend', 'breakdown'] as const
type ChartKey = (typeof CHART_KEYS)[number]

interface Template {
  readonly keys: readonly ChartKey[]
  readonly needs: string
  fits(columns: readonly DashboardColumn[]): boolean
}

const TEMPLATES: ReadonlyMap<string, Template> = new Map<string, Template>([
  ['overview', { keys: ['total', 'rows'], needs: 'a column', fits: (columns) => columns.length > 0 }],
  [
    'trend',
    {
      keys: ['total', 'trend', 'rows'],
      needs: 'a column of type date, timestamp or timestamptz',
      fits: (columns) => timeColumn(columns) !== undefined,
    },
  ],
  [
    'breakdown',
    {
      keys: ['total', 'breakdown', 'rows'],
      needs: 'a column of the role dimension, or one of type string or boolean that is no identity',
      fits: (columns) => dimension(columns) !== undefined,
    },
  ],
])

export const DASHBOARD_TEMPLATES: DashboardTemplates = {
  names: [...TEMPLATES.keys()],
  missing(name, columns) {
    const template = TEMPLATES.get(name)
    return template === undefined || template.fits(columns) ? null : template.needs
  },
}

const MOST_COLUMNS = 30
const MOST_MEASURES = 3
const SHOWN_ROWS = 100
const NUMBERS = /^(integer|long|float|double|decimal\b)/
const TIMES = ['date', 'timestamp', 'timestamptz']

/** `columns`: those that the dataset has. What a mask has taken away is left out, and a chart that needs it too. */
export function chartsOf(name: string, columns: readonly DashboardColumn[]): readonly ChartDraft[] {
  const keys = TEMPLATES.get(name)?.keys ?? []
  return keys.flatMap((key) => DRAFTS[key](columns) ?? [])
}

const DRAFTS: Readonly<Record<ChartKey, (columns: readonly DashboardColumn[]) => ChartDraft | null>> = {
  total: () => ({
    key: 'total',
    title: 'Rows',
    vizType: 'big_number_total',
    params: { metric: COUNT },
    width: 3,
  }),
  rows: (columns) => ({
    key: 'rows',
    title: 'Latest rows',
    vizType: 'table',
    params: {
      query_mode: 'raw',
      all_columns: columns.slice(0, MOST_COLUMNS).map((column) => column.name),
      row_limit: SHOWN_ROWS,
      server_page_length: 10,
    },
    width: 12,
  }),
  trend: (columns) => {
    const time = timeColumn(columns)
    if (time === undefined) return null
    const params = { x_axis: time.name, time_grain_sqla: 'P1D', metrics: metrics(columns), groupby: [] }
    return { key: 'trend', title: 'Over time', vizType: 'echarts_timeseries_line', params, width: 9 }
  },
  breakdown: (columns) => {
    const by = dimension(columns)
    if (by === undefined) return null
    const params = { groupby: [by.name], metric: metrics(columns)[0], row_limit: SHOWN_ROWS, sort_by_metric: true }
    return { key: 'breakdown', title: `By ${by.name}`, vizType: 'pie', params, width: 9 }
  },
}

/** Saved with every dataset. */
export const COUNT = 'count'

function metrics(columns: readonly DashboardColumn[]): readonly unknown[] {
  const measures = columns.filter(({ role, type }) => role === 'measure' && NUMBERS.test(type))
  if (measures.length === 0) return [COUNT]
  return measures.slice(0, MOST_MEASURES).map(({ name }) => ({
    expressionType: 'SIMPLE',
    column: { column_name: name },
    aggregate: 'SUM',
    label: `sum of ${name}`,
  }))
}

const timeColumn = (columns: readonly DashboardColumn[]): DashboardColumn | undefined =>
  columns.find(({ role, type }) => role === 'time' && TIMES.includes(type)) ??
  columns.find(({ type }) => TIMES.includes(type))

const dimension = (columns: readonly DashboardColumn[]): DashboardColumn | undefined =>
  columns.find(({ role }) => role === 'dimension') ??
  columns.find(({ role, type }) => role !== 'identity' && (type === 'string' || type === 'boolean'))
