/** Statements that give rows, by where the rows are: products, by the operation that queries are; or the catalogue. */
import { checkSqlText } from '@sluice/sdk'
import { CATALOGUE, checkCatalogueWords, needsTables } from '../catalogue/allowed-words.ts'
import { askCatalogue, describeByCatalogue } from '../catalogue/catalogue-link.ts'
import { ownText } from '../catalogue/own-views.ts'
import { sessionCalls } from '../catalogue/session-calls.ts'
import { batchOf, type RowBatch } from '../protocol/row-batch.ts'
import { dataRow } from '../protocol/server-messages.ts'
import { notSupported, readOnly, WireError } from '../protocol/wire-error.ts'
import { commandOf, doorOf, isWrite } from '../sql/commands.ts'
import { withoutDatabase } from '../sql/table-names.ts'
import type { Statement } from '../sql/words.ts'
import { productPlan } from './product-plan.ts'
import type { RowPlan, SessionPlanParts } from './row-plan.ts'

export function rowPlan(parts: SessionPlanParts, given: Statement, declared: readonly number[]): RowPlan {
  const statement = withoutDatabase(given, parts.session.database)
  return doorOf(statement.words, CATALOGUE) === 'products'
    ? productPlan(parts, statement, declared)
    : cataloguePlan(parts, statement, declared)
}

const selected = (rows: number): string => `SELECT ${rows}`

function cataloguePlan(
  { catalogue, session }: SessionPlanParts,
  { sql, words: given }: Statement,
  declared: readonly number[],
): RowPlan {
  checkSqlText({ text: sql, leadBytes: 0 })
  checkCommand(commandOf({ words: given }))
  const { words, calls } = sessionCalls(given)
  checkCatalogueWords(words)
  // Its own words again: what was judged is what is run, but for views in place of what tells more.
  const text = ownText(words, calls)
  const statement = () => ({ sql: text(session), parameterOids: declared, searchPath: session.searchPath() })
  const asked = [...calls.values()]
  const isOfPath = asked.some(({ name }) => name.toLowerCase() === 'search_path')
  const isOfTables = isOfPath || needsTables(words)
  // Of the path of a session it depends on the tables which schema is the current one.
  const ask = () => {
    session.reads()
    return { needsTables: isOfTables || session.searchPath() !== null }
  }
  return {
    tag: selected,
    describe: (call) => catalogue.within(ask(), call, (link) => describeByCatalogue(link, statement(), call.signal)),
    async open(call, bound) {
      const { timeoutMs } = bound
      for (const call of asked) if (call.function === 'set_config') session.set(call.name, call.value, call.flag)
      const signal = timeoutMs === undefined ? call.signal : AbortSignal.any([call.signal, timeoutSignal(timeoutMs)])
      const { columns, rows } = await catalogue.within(ask(), { ...call, signal }, (link) =>
        askCatalogue(link, statement(), bound, signal),
      )
      return { columns, rows: inBatches(rows), heldBytes: rows.reduce((sum, { length }) => sum + length, 0) }
    },
  }
}

const READS: ReadonlySet<string> = new Set(['select', 'with', 'values', 'table', 'explain'])

/** Whatever holds the statement: a cursor, a copy or nothing. */
function checkCommand(command: string): void {
  if (READS.has(command)) return
  throw isWrite(command) ? readOnly(command.toUpperCase()) : notSupported('that is no statement that reads')
}

/** It is told as a time that has run out, not as a cancel. */
function timeoutSignal(ms: number): AbortSignal {
  const late = new AbortController()
  const end = (): void => late.abort(new WireError('57014', 'the statement took longer than statement_timeout'))
  setTimeout(end, ms).unref()
  return late.signal
}

const BATCH = 200

async function* inBatches(rows: readonly Buffer[]): AsyncGenerator<RowBatch> {
  for (let at = 0; at < rows.length; at += BATCH) yield batchOf(rows.slice(at, at + BATCH))
}

/** Rows of texts, as SHOW gives them. */
export function shownPlan(names: readonly string[], rows: () => readonly (readonly string[])[]): RowPlan {
  const columns = names.map((name) => ({ name, oid: 25, size: -1, modifier: -1 }))
  const told = () => rows().map((cells) => dataRow(cells.map((cell) => Buffer.from(cell))))
  return {
    tag: () => 'SHOW',
    describe: async () => ({ parameterOids: [], columns }),
    open: async () => ({ columns, rows: inBatches(told()), heldBytes: 0 }),
  }
}
