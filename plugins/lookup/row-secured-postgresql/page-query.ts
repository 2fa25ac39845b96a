/** One page of rows as one statement: its rows as JSON, and where the next page begins. */
import type { ReadBatch, ReadPlan, Value } from '@sluice/sdk'
import { jsonExpression, parameterType, parseText, textExpression } from './column-types.ts'
import type { DatasetKey } from './datasets.ts'
import { qualified, quoteLiteral } from './identifiers.ts'
import type { Statement, TextRow } from './one-sync.ts'
import { afterCondition, type OrderTerm, orderClause, Parameters, type ServedColumn } from './predicates.ts'

/** A page ends early rather than grow beyond this; the next one goes on from there. */
const MAX_PAGE_BYTES = 32 * 1024 * 1024

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
  readonly after: readonly Value[] | undefined
  readonly encoding: ReadPlan['encoding']
}

/** What is the same for all reads of a table by its key, with the keys put in. */
export interface PointStatements {
  one(key: string): Statement
  many(keys: readonly string[]): Statement
}

/**
 * @param values what `conditions` refer to
 * @param partitions of the table
 */
export function pointStatements(
  page: Page,
  column: ServedColumn,
  values: readonly (string | null)[],
  partitions: number,
): PointStatements {
  const own = new Parameters(values)
  const where = ownConditions(page, own).join(' and ')
  const bound = [...own.values]
  const at = `$${bound.length + 1}::${parameterType(column.type)}`
  const from = `from ${qualified(page.schema, page.relation)} t where ${where} and ${column.sql} =`
  const body = rowExpression(page)
  const one = `select '1', ${body}, null ${from} ${at} limit 1`
  const many = `select ${textExpression(column.type, column.sql)}, ${body} ${from} any(${at}[])`
  return {
    one: (key) => ({ text: one, values: [...bound, key], partitions }),
    many: (keys) => ({ text: many, values: [...bound, arrayText(keys)], partitions }),
  }
}

/** `parameters` already holds what `conditions` refer to. The rows alone. */
export function pageStatement(page: Page, parameters: Parameters): Statement {
  const conditions = [...ownConditions(page, parameters)]
  if (page.after !== undefined) conditions.push(afterCondition(page.order, page.after, parameters))
  const parent = qualified(page.schema, page.relation)
  const from = `from ${page.source?.(parent) ?? parent} t where ${conditions.join(' and ')}`
  const text =
    page.order.length === 0 ? `select '1', ${rowExpression(page)}, null ${from} limit 1` : pagedRows(page, from)
  return { text, values: parameters.values }
}

/** Tells reads apart that must not share a statement; `many` is one of any keys. */
export function pointGroup(key: DatasetKey, many: Statement): string {
  return JSON.stringify([key, many.text, many.values])
}

function arrayText(items: readonly string[]): string {
  return `{${items.map((item) => `"${item.replace(/[\\"]/g, '\\$&')}"`).join(',')}}`
}

function ownConditions(page: Page, parameters: Parameters): readonly string[] {
  return [`t.tenant_id = ${parameters.add(page.key.tenant, 'text')}`, ...page.conditions]
}

/**
 * Rows become text only once they are known to be of the page or the one after it, and a position is made of the last one
 * alone. `offset 0`: else the planner would have each row's text made once more for its length.
 */
function pagedRows(page: Page, from: string): string {
  const { order, limit } = page
  const placed = new Map<string, ServedColumn>()
  for (const column of [...page.columns, ...order.map((term) => term.column)]) {
    if (!placed.has(column.sql)) placed.set(column.sql, { ...column, sql: `i.c${placed.size}` })
  }
  const place = (column: ServedColumn): ServedColumn => ({ ...column, sql: placed.get(column.sql)?.sql ?? column.sql })
  const cells = [...placed].map(([sql, { sql: alias }]) => `${sql} as ${alias.slice(2)}`).join(', ')
  const inner = `select ${cells} ${from} order by ${orderClause(order)} limit ${limit + 1}`
  const ends = order.map((term, index) => `${place(term.column).sql} as o${index}`).join(', ')
  const body = rowExpression({ ...page, columns: page.columns.map(place) })
  const rows = `select ${body} as body, ${ends} from (${inner}) i offset 0`
  const counted = `select r.*, count(*) over w as at, sum(octet_length(r.body)) over w as bytes,
    lead(octet_length(r.body)) over w as following from (${rows}) r window w as (rows unbounded preceding)`
  const judged = `select n.*, n.at <= ${limit} and (n.at = 1 or n.bytes <= ${MAX_PAGE_BYTES}) as kept,
    n.at < ${limit} and n.bytes + n.following <= ${MAX_PAGE_BYTES} as goes_on from (${counted}) n`
  const position = jsonArray(order.map((term, index) => ({ ...term.column, sql: `k.o${index}` })))
  return `select (count(*) filter (where k.kept))::text, string_agg(k.body, ',') filter (where k.kept),
    max(${position}) filter (where k.kept and k.following is not null and not k.goes_on) from (${judged}) k`
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
