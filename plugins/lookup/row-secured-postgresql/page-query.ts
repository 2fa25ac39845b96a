/** One page of rows as one statement: its rows as JSON, and where the next page begins. */
import type { ReadBatch, ReadPlan, Value } from '@sluice/sdk'
import { jsonExpression, parameterType, parseText, textExpression } from './column-types.ts'
import type { DatasetKey } from './datasets.ts'
import { qualified, quoteLiteral } from './identifiers.ts'
import type { Statement, TextRow } from './one-sync.ts'
import { afterCondition, type OrderTerm, orderClause, type Parameters, type ServedColumn } from './predicates.ts'

/** A page ends early rather than grow beyond this; the next one goes on from there. */
const MAX_PAGE_BYTES = 32 * 1024 * 1024

/** A key of one column; `text` is in the one notation that the column's own text has. */
export interface PointKey {
  readonly column: ServedColumn
  readonly text: string
}

export interface Page {
  readonly key: DatasetKey
  /** The parent that the register names. */
  readonly schema: string
  readonly relation: string
  /** What is read in the parent's place, as SQL: it has the parent's tenant_id, and is given the parent's name. */
  readonly source?: (parent: string) => string
  readonly conditions: readonly string[]
  readonly columns: readonly ServedColumn[]
  /** Total. Empty where the conditions leave one row at most. */
  readonly order: readonly OrderTerm[]
  readonly limit: number
  /** Where one row is asked for by its key alone: the condition that `conditions` leave out. */
  readonly point?: PointKey
  readonly after: readonly Value[] | undefined
  readonly encoding: ReadPlan['encoding']
}

/** `parameters` already holds what `conditions` refer to. The rows alone. */
export function pageStatement(page: Page, parameters: Parameters): Statement {
  const conditions = [...ownConditions(page, parameters)]
  if (page.point) {
    const { column, text } = page.point
    conditions.push(`${column.sql} = ${parameters.add(text, parameterType(column.type))}`)
  }
  if (page.after !== undefined) conditions.push(afterCondition(page.order, page.after, parameters))
  const parent = qualified(page.schema, page.relation)
  const from = `from ${page.source?.(parent) ?? parent} t where ${conditions.join(' and ')}`
  const body = rowExpression(page)
  const text = page.order.length === 0 ? `select '1', ${body}, null ${from} limit 1` : pagedRows(page, body, from)
  return { text, values: parameters.values }
}

/** Tells reads apart that must not share a statement: all but the key in question. */
export function pointGroup(page: Page, values: readonly (string | null)[]): string {
  const { key, relation, conditions, columns, encoding } = page
  const names = columns.map((column) => column.name)
  return JSON.stringify([key, relation, conditions, values, names, encoding])
}

/** As `pageStatement` for many keys at once; its rows are a key and a body each. */
export function pointsStatement(
  page: Page,
  point: PointKey,
  keys: readonly string[],
  parameters: Parameters,
): Statement {
  const { column } = point
  const conditions = ownConditions(page, parameters)
  const list = parameters.add(arrayText(keys), `${parameterType(column.type)}[]`)
  const where = [...conditions, `${column.sql} = any(${list})`].join(' and ')
  const text = `select ${textExpression(column.type, column.sql)}, ${rowExpression(page)}
    from ${qualified(page.schema, page.relation)} t where ${where}`
  return { text, values: parameters.values }
}

function arrayText(items: readonly string[]): string {
  return `{${items.map((item) => `"${item.replace(/[\\"]/g, '\\$&')}"`).join(',')}}`
}

function ownConditions(page: Page, parameters: Parameters): readonly string[] {
  return [`t.tenant_id = ${parameters.add(page.key.tenant, 'text')}`, ...page.conditions]
}

function pagedRows(page: Page, body: string, from: string): string {
  const position = jsonArray(page.order.map((term) => term.column))
  const inner = `select ${body} as body, ${position} as next ${from}
    order by ${orderClause(page.order)} limit ${page.limit + 1}`
  const numbered = `select r.*, row_number() over () as at,
    sum(octet_length(r.body)) over (rows unbounded preceding) as bytes from (${inner}) r`
  const kept = `select n.*, n.at <= ${page.limit} and (n.at = 1 or n.bytes <= ${MAX_PAGE_BYTES}) as kept from (${numbered}) n`
  return `select (count(*) filter (where k.kept))::text, string_agg(k.body, ',' order by k.at) filter (where k.kept),
    case when not bool_and(k.kept) then (array_agg(k.next order by k.at desc) filter (where k.kept))[1] end
    from (${kept}) k`
}

/** The longest part of a statement, and the same for most reads of a table. */
const rowExpressions = new Map<string, string>()

const MAX_ROW_EXPRESSIONS = 2000

function rowExpression(page: Page): string {
  let name: string = page.encoding
  for (const column of page.columns) name += `\0${column.name}\0${column.type}\0${column.sql}`
  const known = rowExpressions.get(name)
  if (known !== undefined) return known
  const made = makeRowExpression(page)
  if (rowExpressions.size >= MAX_ROW_EXPRESSIONS) rowExpressions.clear()
  rowExpressions.set(name, made)
  return made
}

function makeRowExpression(page: Page): string {
  if (page.encoding === 'columns') return jsonArray(page.columns)
  if (page.columns.length === 0) return `'{}'`
  const fields = page.columns.map((column, index) => {
    const name = quoteLiteral(`${index === 0 ? '{' : ','}${JSON.stringify(column.name)}:`)
    return `${name} || coalesce(${jsonExpression(column.type, column.sql)}, 'null')`
  })
  return `${fields.join(' || ')} || '}'`
}

/** The values' texts as a JSON array, to be read back by type. */
function jsonArray(columns: readonly ServedColumn[]): string {
  if (columns.length === 0) return `'[]'`
  const items = columns.map((column) => {
    const text = textExpression(column.type, column.sql)
    return `coalesce(to_json(${text})::text, 'null')`
  })
  return `'[' || ${items.join(` || ',' || `)} || ']'`
}

export function decodePage(page: Page, epoch: number, rows: readonly TextRow[]): ReadBatch {
  const [count, body, nextText] = rows[0] ?? []
  const next = nextText ? parsePosition(page.order, nextText) : undefined
  const common = { rowCount: Number(count ?? 0), epoch, ...(next ? { next } : {}) }
  if (page.encoding === 'json') return { ...common, json: `[${body ?? ''}]` }
  return { ...common, columns: parseColumns(page.columns, body ?? '') }
}

function parseColumns(columns: readonly ServedColumn[], body: string): readonly (readonly Value[])[] {
  const rows = JSON.parse(`[${body}]`) as (string | null)[][]
  return columns.map((column, index) => rows.map((row) => parseText(column.type, row[index] ?? null)))
}

function parsePosition(order: readonly OrderTerm[], text: string): readonly Value[] {
  const values = JSON.parse(text) as (string | null)[]
  return order.map((term, index) => parseText(term.column.type, values[index] ?? null))
}
