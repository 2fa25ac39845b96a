/** A statement over products: the operation that queries are, with its text and parameters as a query has them. */
import type { TenantCall } from '../../flow.ts'
import type { QueryRequest } from '../../operations/queries/asked-query.ts'
import { describeQuery, type QueryAnswer, runQuery, type Settle } from '../../operations/queries/query.ts'
import type { ParameterValue } from '../protocol/client-messages.ts'
import { formatAt } from '../protocol/server-messages.ts'
import { WireError } from '../protocol/wire-error.ts'
import { withNames } from '../sql/plain-names.ts'
import { type ResultNames, resultNames, type Statement } from '../sql/words.ts'
import { columnOf, oidOf, type TypedColumn } from '../values/column-types.ts'
import { rowsOfCsv } from '../values/csv-rows.ts'
import { castText, isMoment, parameterOids, parameterPlaces, toldOids, typedValueOf } from '../values/parameters.ts'
import type { PlanParts, RowPlan } from './row-plans.ts'

/** Their number has 16 bits in messages, and readers take it for a signed one. */
const MOST_COLUMNS = 32_767

export function productPlan(
  { platform, types }: Pick<PlanParts, 'platform' | 'types'>,
  given: Statement,
  declared: readonly number[],
): RowPlan {
  const statement = withNames(given)
  // What is kept of a statement is small: its words are many times its text.
  const { sql, words } = statement
  const places = parameterPlaces(statement)
  const names = resultNames(words)
  const known = parameterOids(words, declared)
  /** What a client was told it sends its values by, whatever has become of the tables since. */
  let told = known
  /** Before it is admitted: names and number of its values say as much. */
  const untyped: QueryRequest = { sql, format: 'csv', ...(known.length === 0 ? {} : { params: known.map(() => null) }) }

  /** Of the parameters, what is not told yet is found out where the tables are known. */
  const settle = (
    call: TenantCall,
    values: readonly ParameterValue[],
    found: (oids: readonly number[]) => void,
  ): Settle => {
    if (values.length !== known.length) throw new TypeError('parameters are checked where they are bound')
    return async (tables) => {
      const oids = told.includes(0) ? await types.oidsOf(call, { tables, sql, known: told }) : told
      found(oids)
      const typed = values.map((value, at) => typedValueOf(oids[at] ?? 0, value))
      const text = castText(
        sql,
        places,
        typed.map(({ type }) => type),
      )
      return { sql: text, ...(typed.length === 0 ? {} : { params: typed.map(({ value }) => value) }) }
    }
  }

  const describe = async (call: TenantCall): Promise<readonly TypedColumn[]> => {
    const nulls = known.map(() => ({ format: 0, bytes: null }) as const)
    let oids = told
    const { columns, parameterTypes } = await describeQuery(
      platform,
      call,
      untyped,
      settle(call, nulls, (found) => {
        oids = found
      }),
    )
    told = oids.map((oid, at) => oid || oidOf(parameterTypes[at] ?? ''))
    return columnsOf({ columns }, names)
  }
  return {
    tag: (rows) => `SELECT ${rows}`,
    async describe(call) {
      // Told anew: columns may have other types than when it was told before.
      told = known
      const columns = await describe(call)
      return { parameterOids: toldOids(told), columns }
    },
    async open(call, { values, formats, timeoutMs }) {
      if (values.some((value, at) => isMoment(told[at] ?? 0, value))) await describe(call)
      const request = timeoutMs === undefined ? untyped : { ...untyped, timeoutMs }
      const answer = await runQuery(
        platform,
        call,
        request,
        settle(call, values, () => undefined),
      )
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
