/** A statement over products: the operation that queries are, with its text and parameters as a query has them. */
import { isSluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import type { QueryRequest, Visible } from '../../operations/queries/asked-query.ts'
import { describeQuery, type QueryAnswer, runQuery, type Settle } from '../../operations/queries/query.ts'
import { formatAt } from '../protocol/server-messages.ts'
import { WireError } from '../protocol/wire-error.ts'
import { withNames } from '../sql/plain-names.ts'
import { bareTables } from '../sql/table-names.ts'
import { type ResultNames, resultNames, type Statement, wordsOf } from '../sql/words.ts'
import { withLists } from '../values/array-constants.ts'
import { columnOf, isOfOtherTypes, OID, oidOf, type TypedColumn, toldAs } from '../values/column-types.ts'
import { rowsOfCsv } from '../values/csv-rows.ts'
import {
  castText,
  isMoment,
  nullOf,
  parameterOids,
  parameterPlaces,
  sampleOf,
  type TypedValue,
  toldOids,
  typedValueOf,
} from '../values/parameters.ts'
import { foundSql } from './found-tables.ts'
import type { RowPlan, SessionPlanParts } from './row-plan.ts'

/** Their number has 16 bits in messages, and readers take it for a signed one. */
const MOST_COLUMNS = 32_767

export function productPlan(
  { platform, types, session }: Pick<SessionPlanParts, 'platform' | 'types' | 'session'>,
  given: Statement,
  declared: readonly number[],
): RowPlan {
  const statement = withLists(withNames(given))
  // What is kept of a statement is small: its words are many times its text.
  const { sql } = statement
  const names = resultNames(statement.words)
  const known = parameterOids(statement.words, declared)
  const isFound = bareTables(statement).length === 0
  /** What a client was told it sends its values by, whatever has become of the tables since. */
  let told = known
  let found: readonly Visible[] = []
  const typed = async (
    call: TenantCall,
    answer: Pick<QueryAnswer, 'columns'>,
    request: QueryRequest,
  ): Promise<readonly TypedColumn[]> => {
    const columns = columnsOf(answer, names)
    if (!isOfOtherTypes(answer.columns, names)) return columns
    const oids = await types.columnOids(call, { tables: found, sql: request.sql, known: told })
    if (oids.length !== columns.length) return columns
    return columns.map((column, at) => toldAs(column, answer.columns[at]?.type ?? '', oids[at]))
  }
  /** Before its tables are known: their names and the number of values say as much. */
  const untyped = async (call: TenantCall): Promise<QueryRequest> => {
    const asOf = await session.reads()?.instant()
    return {
      sql: isFound ? sql : await foundSql(platform, call, sql, session.searchPath()),
      format: 'csv',
      timestamps: 'micros',
      dialect: 'postgresql',
      ...(known.length === 0 ? {} : { params: known.map(() => null) }),
      ...(asOf === undefined ? {} : { asOf }),
    }
  }

  /** Of the parameters, what is not told yet is found out where the tables are known. */
  const settle =
    (call: TenantCall, request: QueryRequest, typedBy: (oids: readonly number[]) => readonly TypedValue[]): Settle =>
    async (tables) => {
      session.reads()?.check(tables)
      found = tables
      if (known.length === 0) return { sql: request.sql }
      const oids = told.includes(0) ? await types.oidsOf(call, { tables, sql: request.sql, known: told }) : told
      const values = typedBy(oids)
      const places = parameterPlaces({ words: wordsOf(request.sql) })
      const cast = values.map(({ type }) => type)
      return { sql: castText(request.sql, places, cast), params: values.map(({ value }) => value) }
    }

  const describeBy = async (
    call: TenantCall,
    valueOf: (oid: number) => TypedValue,
  ): Promise<readonly TypedColumn[]> => {
    let oids = told
    const request = await untyped(call)
    const typedBy = (found: readonly number[]): readonly TypedValue[] => {
      oids = found
      return found.map(valueOf)
    }
    const { columns, parameterTypes } = await describeQuery(platform, call, request, settle(call, request, typedBy))
    told = oids.map((oid, at) => oid || oidOf(parameterTypes[at] ?? ''))
    return typed(call, { columns }, request)
  }
  const describe = async (call: TenantCall): Promise<readonly TypedColumn[]> => {
    if (known.length === 0) return describeBy(call, nullOf)
    try {
      return await describeBy(call, sampleOf)
    } catch (error) {
      // A statement may ask more of a value than its type.
      if (!isSluiceError(error) || error.kind !== 'INVALID_DATA') throw error
      return describeBy(call, nullOf)
    }
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
      if (values.length !== known.length) throw new TypeError('parameters are checked where they are bound')
      if (values.some((value, at) => isMoment(told[at] ?? 0, value))) await describe(call)
      const request = { ...(await untyped(call)), ...(timeoutMs === undefined ? {} : { timeoutMs }) }
      const typedBy = (oids: readonly number[]) => values.map((value, at) => typedValueOf(oids[at] ?? 0, value))
      const answer = await runQuery(platform, call, request, settle(call, request, typedBy))
      // Whoever reads the output is told there.
      answer.run.finished.catch(() => undefined)
      const given = await typed(call, answer, request)
      // A null may have made one of a whole expression, which is no longer of its own type then.
      const isLost = values.some(({ bytes }) => bytes === null) && given.some(({ oid }) => LOST.has(oid))
      const columns = isLost ? await describe(call) : given
      const sent = columns.map((column, at) => ({ column, isBinary: formatAt(formats, at) === 1 }))
      return { columns, rows: rowsOfCsv(answer.run.output, sent), heldBytes: 0 }
    },
  }
}

/** What the engine tells of a null without a type. */
const LOST: ReadonlySet<number> = new Set([OID.int4, OID.text])

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
