/** Statements that give rows, by where the rows are: products, by the operation that queries are; or the catalogue. */
import { checkText } from '@sluice/engine'
import type { TenantCall } from '../../flow.ts'
import type { Platform } from '../../operations/platform.ts'
import { runQuery } from '../../operations/queries/query.ts'
import { CATALOGUE, checkCatalogueWords, needsTables } from '../catalogue/allowed-words.ts'
import { askCatalogue, describeByCatalogue } from '../catalogue/catalogue-link.ts'
import type { CatalogueServer } from '../catalogue/catalogue-server.ts'
import { type OpenCursor, ownText } from '../catalogue/own-views.ts'
import type { Format, ParameterValue } from '../protocol/client-messages.ts'
import { batchOf, type RowBatch } from '../protocol/row-batch.ts'
import { dataRow, formatAt, type WireColumn } from '../protocol/server-messages.ts'
import { notSupported, readOnly, WireError } from '../protocol/wire-error.ts'
import { commandOf, doorOf, isWrite } from '../sql/commands.ts'
import { resultNames, type Statement } from '../sql/words.ts'
import { columnOf } from '../values/column-types.ts'
import { rowsOfCsv } from '../values/csv-rows.ts'
import { parameterOids, valueOf } from '../values/parameters.ts'

export interface RowPlan {
  /** What a client is told before it binds anything. */
  describe(
    call: TenantCall,
  ): Promise<{ readonly parameterOids: readonly number[]; readonly columns: readonly WireColumn[] }>
  open(call: TenantCall, bound: Bound): Promise<OpenRows>
  /** How its end is told. */
  tag(rows: number): string
}

export interface Bound {
  readonly values: readonly ParameterValue[]
  readonly formats: readonly Format[]
  /** Milliseconds; undefined: as long as the configuration allows. */
  readonly timeoutMs: number | undefined
}

export interface OpenRows {
  readonly columns: readonly WireColumn[]
  /** Read once. */
  readonly rows: AsyncIterable<RowBatch>
  /** Of rows that are in memory before they are read. */
  readonly heldBytes: number
}

export interface PlanParts {
  readonly platform: Platform
  readonly catalogue: CatalogueServer
}

export interface SessionPlanParts extends PlanParts {
  cursors(): readonly OpenCursor[]
}

export function rowPlan(parts: SessionPlanParts, statement: Statement, declared: readonly number[]): RowPlan {
  return doorOf(statement.words, CATALOGUE) === 'products'
    ? productPlan(parts.platform, statement, declared)
    : cataloguePlan(parts, statement, declared)
}

const selected = (rows: number): string => `SELECT ${rows}`

function productPlan(platform: Platform, { sql, words }: Statement, declared: readonly number[]): RowPlan {
  // What is kept of a statement is small: its words are many times its text.
  const oids = parameterOids(words, declared)
  const names = resultNames(words)
  const run = (call: TenantCall, values: readonly ParameterValue[], timeoutMs: number | undefined) => {
    if (values.length !== oids.length) throw new TypeError('parameters are checked where they are bound')
    const params = values.map((value, at) => valueOf(oids[at] ?? 0, value))
    return runQuery(platform, call, {
      sql,
      format: 'csv',
      ...(params.length === 0 ? {} : { params }),
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
    })
  }
  return {
    tag: selected,
    async describe(call) {
      const own = new AbortController()
      const asked = { ...call, signal: AbortSignal.any([call.signal, own.signal]) }
      const nulls = oids.map(() => ({ format: 0, bytes: null }) as const)
      const answer = await run(asked, nulls, undefined)
      // Only the columns were wanted.
      answer.run.finished.catch(() => undefined)
      own.abort()
      await drain(answer.run.output)
      return { parameterOids: oids, columns: answer.columns.map((column) => columnOf(column, names)) }
    },
    async open(call, { values, formats, timeoutMs }) {
      const answer = await run(call, values, timeoutMs)
      // Whoever reads the output is told there.
      answer.run.finished.catch(() => undefined)
      const columns = answer.columns.map((column) => columnOf(column, names))
      const sent = columns.map((column, at) => ({ column, isBinary: formatAt(formats, at) === 1 }))
      return { columns, rows: rowsOfCsv(answer.run.output, sent), heldBytes: 0 }
    },
  }
}

async function drain(output: AsyncIterable<Uint8Array>): Promise<void> {
  try {
    for await (const _ of output) break
  } catch {
    // It was ended by us.
  }
}

function cataloguePlan(
  { platform, catalogue, cursors }: SessionPlanParts,
  { sql, words }: Statement,
  declared: readonly number[],
): RowPlan {
  checkText({ text: sql, leadBytes: 0 })
  checkCommand(commandOf({ words }))
  checkCatalogueWords(words)
  // Its own words again: what was judged is what is run, but for views in place of what tells more.
  const text = ownText(words)
  const statement = () => ({ sql: text(cursors()), parameterOids: declared })
  const ask = { platform, needsTables: needsTables(words) }
  return {
    tag: selected,
    describe: (call) => catalogue.within(ask, call, (link) => describeByCatalogue(link, statement(), call.signal)),
    async open(call, bound) {
      const { timeoutMs } = bound
      const signal = timeoutMs === undefined ? call.signal : AbortSignal.any([call.signal, timeoutSignal(timeoutMs)])
      const { columns, rows } = await catalogue.within(ask, { ...call, signal }, (link) =>
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

/** One row of a text, as SHOW gives it. */
export function shownPlan(name: string, value: () => string): RowPlan {
  const columns = [{ name, oid: 25, size: -1, modifier: -1 }]
  return {
    tag: () => 'SHOW',
    describe: async () => ({ parameterOids: [], columns }),
    open: async () => ({ columns, rows: inBatches([dataRow([Buffer.from(value())])]), heldBytes: 0 }),
  }
}
