/** Rows for an agent: some of one product, or what a statement gives. Both are statements, under the policy of statements. */
import { type EngineRun, quoteName } from '@sluice/engine'
import { SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import type { QueryRequest } from '../queries/asked-query.ts'
import { type QueryAnswer, runQuery } from '../queries/query.ts'
import type { AgentFindings } from './agent-call.ts'
import { BoundedAnswer } from './bounded-answer.ts'
import type { AgentsDeps } from './deps.ts'
import { productForAgent } from './find-products.ts'

export const MAX_ROWS = 100
export const MAX_SAMPLE = 20
/** Of one statement, whatever the configuration allows others. */
export const STATEMENT_MS = 30_000
/** Of what a statement gives, as much as is looked at; a multiple of what fits an answer. */
const MAX_READ_BYTES = 64 * 1024
const NEWLINE = 10

export type AskedStatement = Required<Pick<QueryRequest, 'sql'>> & Pick<QueryRequest, 'params'>

export function queryForAgent(platform: AgentsDeps, call: TenantCall, asked: AskedStatement): Promise<AgentFindings> {
  return rowsOfStatement(platform, call, asked, MAX_ROWS)
}

export interface AskedSample {
  readonly product: string
  readonly columns?: readonly string[]
  readonly limit?: number
}

/** Any rows of it, in no order. */
export async function sampleRows(platform: AgentsDeps, call: TenantCall, asked: AskedSample): Promise<AgentFindings> {
  const { domain, name } = await productForAgent(platform, call, asked.product)
  const columns = asked.columns === undefined ? '*' : asked.columns.map(quoteName).join(', ')
  const limit = Math.min(asked.limit ?? MAX_SAMPLE, MAX_SAMPLE)
  const sql = `SELECT ${columns} FROM ${quoteName(domain)}.${quoteName(name)} LIMIT ${limit}`
  return rowsOfStatement(platform, call, { sql }, limit)
}

async function rowsOfStatement(
  platform: AgentsDeps,
  call: TenantCall,
  { sql, params }: AskedStatement,
  limit: number,
): Promise<AgentFindings> {
  requireQueries(call)
  const given = await runQuery(platform, call, {
    sql,
    ...(params === undefined ? {} : { params }),
    format: 'json',
    limit,
    timeoutMs: STATEMENT_MS,
  })
  return boundedRows(given, (shown, isWhole) => nextStep(shown, limit, isWhole))
}

/** The first rows of an answer as JSON, with the epochs that they are of. */
export async function boundedRows(
  given: QueryAnswer,
  next: (shown: number, isWhole: boolean) => string,
): Promise<AgentFindings> {
  const { rows, isCut } = await firstRows(given.run)
  const answer = new BoundedAnswer()
  const epochs = Object.fromEntries(Object.entries(given.made).map(([name, { epoch }]) => [name, epoch]))
  answer.add('epochs', epochs)
  const columns = given.columns.map(({ name, type, masked }) => ({ name, type, ...(masked ? { masked } : {}) }))
  const told = answer.addList('columns', columns)
  const shown = told < columns.length ? 0 : answer.addList('rows', rows)
  const isWhole = shown === rows.length && !isCut
  answer.add('row_count', shown)
  answer.add('truncated', !isWhole)
  const products = Object.keys(given.made)
  return { answer: answer.finish(next(shown, isWhole)), rows: shown, products }
}

function nextStep(shown: number, limit: number, isWhole: boolean): string {
  if (isWhole) return 'These are all rows of this statement.'
  if (shown === limit) return `Only ${limit} rows are shown. Aggregate or filter in SQL instead of reading more rows.`
  if (shown === 0)
    return 'Not one row fits an answer: name few, short columns, or cut long texts with left(column, 100).'
  return `Only ${shown} rows fit an answer. Name fewer columns, aggregate, or filter in SQL.`
}

/** Keys of applications are for what they were made for. */
export function requireQueries({ principal: { key } }: TenantCall): void {
  if (key === undefined || key.operations.includes('query')) return
  throw new SluiceError('PERMISSION', 'the application key was not made for the operation query', {
    code: 'key_not_allowed',
    remedy: 'Use a token of a person, or a key that is made for queries.',
  })
}

/** Whole rows from the beginning; of a statement that gives much, the rest is not read. */
async function firstRows(run: EngineRun): Promise<{ readonly rows: readonly unknown[]; readonly isCut: boolean }> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of run.output) {
    chunks.push(chunk)
    bytes += chunk.byteLength
    if (bytes > MAX_READ_BYTES) break
  }
  const all = Buffer.concat(chunks)
  if (bytes <= MAX_READ_BYTES) {
    const { truncated } = await run.finished
    return { rows: rowsIn(all), isCut: truncated }
  }
  // It was ended by us: that is all that it could say.
  run.finished.catch(() => undefined)
  // A row a line: the last one may lack its end.
  const end = all.subarray(0, MAX_READ_BYTES).lastIndexOf(NEWLINE)
  return { rows: end < 0 ? [] : rowsIn(all.subarray(0, end)), isCut: true }
}

function rowsIn(lines: Buffer): readonly unknown[] {
  return JSON.parse(`[${lines.toString('utf8').trimEnd().replace(/,$/, '')}]`) as unknown[]
}
