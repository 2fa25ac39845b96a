/** A statement over products: the operation that queries are, with its text and parameters as a query has them. */
import type { TenantCall } from '../../flow.ts'
import type { Platform } from '../../operations/platform.ts'
import { type QueryAnswer, runQuery } from '../../operations/queries/query.ts'
import type { ParameterValue } from '../protocol/client-messages.ts'
import { formatAt } from '../protocol/server-messages.ts'
import { WireError } from '../protocol/wire-error.ts'
import { withNames } from '../sql/plain-names.ts'
import { type ResultNames, resultNames, type Statement } from '../sql/words.ts'
import { columnOf, oidOf, type TypedColumn } from '../values/column-types.ts'
import { rowsOfCsv } from '../values/csv-rows.ts'
import { castText, isMoment, parameterOids, parameterPlaces, toldOids, typedValueOf } from '../values/parameters.ts'
import type { RowPlan } from './row-plans.ts'

/** Their number has 16 bits in messages, and readers take it for a signed one. */
const MOST_COLUMNS = 32_767

export function productPlan(platform: Platform, given: Statement, declared: readonly number[]): RowPlan {
  const statement = withNames(given)
  // What is kept of a statement is small: its words are many times its text.
  const { sql, words } = statement
  const places = parameterPlaces(statement)
  const names = resultNames(words)
  const asked = { oids: parameterOids(words, declared), areInferred: false }
  const run = async (call: TenantCall, values: readonly ParameterValue[], timeoutMs: number | undefined) => {
    const { oids } = asked
    if (values.length !== oids.length) throw new TypeError('parameters are checked where they are bound')
    const typed = values.map((value, at) => typedValueOf(oids[at] ?? 0, value))
    const text = castText(
      sql,
      places,
      typed.map(({ type }) => type),
    )
    return runQuery(platform, call, {
      sql: text,
      format: 'csv',
      ...(typed.length === 0 ? {} : { params: typed.map(({ value }) => value) }),
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
    })
  }
  /** Of an answer without parameters' values; what the statement asks for of types that nobody declared is known then. */
  const describe = async (call: TenantCall): Promise<readonly TypedColumn[]> => {
    const ended = new AbortController()
    const signal = AbortSignal.any([call.signal, ended.signal])
    const nulls = asked.oids.map(() => ({ format: 0, bytes: null }) as const)
    const answer = await run({ ...call, signal }, nulls, undefined)
    const { parameterTypes = [] } = answer.run
    asked.oids = asked.oids.map((oid, at) => oid || oidOf(parameterTypes[at] ?? ''))
    asked.areInferred = true
    // Only the columns were wanted.
    answer.run.finished.catch(() => undefined)
    ended.abort()
    await drain(answer.run.output)
    return columnsOf(answer, names)
  }
  return {
    tag: (rows) => `SELECT ${rows}`,
    async describe(call) {
      const columns = await describe(call)
      return { parameterOids: toldOids(asked.oids), columns }
    },
    async open(call, { values, formats, timeoutMs }) {
      const isInferred = asked.areInferred || !values.some((value, at) => isMoment(asked.oids[at] ?? 0, value))
      if (!isInferred) await describe(call)
      const answer = await run(call, values, timeoutMs)
      // Whoever reads the output is told there.
      answer.run.finished.catch(() => undefined)
      const columns = columnsOf(answer, names)
      const sent = columns.map((column, at) => ({ column, isBinary: formatAt(formats, at) === 1 }))
      return { columns, rows: rowsOfCsv(answer.run.output, sent), heldBytes: 0 }
    },
  }
}

/** Throws 54011 for more than can be told. */
export function columnsOf({ columns }: Pick<QueryAnswer, 'columns'>, names: ResultNames): readonly TypedColumn[] {
  if (columns.length <= MOST_COLUMNS) return columns.map((column) => columnOf(column, names))
  throw new WireError(
    '54011',
    `the statement gives ${columns.length} columns, and at most ${MOST_COLUMNS} can be told`,
    {
      hint: 'Name the columns that you want.',
    },
  )
}

async function drain(output: AsyncIterable<Uint8Array>): Promise<void> {
  try {
    for await (const _ of output) break
  } catch {
    // It was ended by us.
  }
}
