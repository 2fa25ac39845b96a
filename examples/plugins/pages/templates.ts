/** What a page can show, and the statements that give it. Names of columns are quoted, values of rows are never in a statement. */
import type { DashboardColumn, DashboardDataset, DashboardTemplates } from '@sluice/sdk'

export interface Chart {
  readonly kind: 'number' | 'bars' | 'table'
  readonly title: string
  /** `$1` is the tenant. */
  readonly sql: string
}

type ChartOf = (dataset: DashboardDataset, rows: number) => Chart | null

const DAYS_SHOWN = 60
const TIMES = ['date', 'timestamp', 'timestamptz']

const CHARTS: ReadonlyMap<string, readonly ChartOf[]> = new Map([
  ['list', [total, latest]],
  ['days', [total, days, latest]],
])

export const TEMPLATES: DashboardTemplates = {
  names: [...CHARTS.keys()],
  missing: (template, columns) =>
    template !== 'days' || columns.some(isTime) ? null : `a column of type ${TIMES.join(', ')}`,
}

/** None for a template that another driver knew. */
export function chartsOf(dataset: DashboardDataset, rows: number): readonly Chart[] {
  const charts = CHARTS.get(dataset.template ?? '') ?? []
  return charts.flatMap((chart) => chart(dataset, rows) ?? [])
}

function total(dataset: DashboardDataset): Chart {
  return { kind: 'number', title: 'Rows', sql: `select count(*) as rows from ${source(dataset)}` }
}

function latest(dataset: DashboardDataset, rows: number): Chart {
  const names = dataset.table.columns.map(({ name }) => quoted(name)).join(', ')
  const time = timeOf(dataset)
  const order = time === undefined ? '' : ` order by ${quoted(time.name)} desc nulls last`
  return { kind: 'table', title: 'Latest rows', sql: `select ${names} from ${source(dataset)}${order} limit ${rows}` }
}

/** Null where a mask has taken the column away. */
function days(dataset: DashboardDataset): Chart | null {
  const time = timeOf(dataset)
  if (time === undefined) return null
  const counted = `select ${quoted(time.name)}::date::text as day, count(*) as rows from ${source(dataset)}`
  const sql = `select * from (${counted} group by 1 order by 1 desc nulls last limit ${DAYS_SHOWN}) d order by 1`
  return { kind: 'bars', title: `Rows by day of ${time.name}`, sql }
}

function timeOf({ columns, table }: DashboardDataset): DashboardColumn | undefined {
  return columns.find((column) => isTime(column) && table.columns.some(({ name }) => name === column.name))
}

const isTime = ({ type }: DashboardColumn): boolean => TIMES.includes(type)

function source({ table, hasHistory }: DashboardDataset): string {
  const own = `${quoted(table.schema)}.${quoted(table.name)} where ${quoted(table.tenantColumn)} = $1`
  return hasHistory ? `${own} and is_current` : own
}

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`
