/**
 * Queries and transforms in Trino, over the lake's own tables; their rows come back in pages. One idea from the statement to
 * what its failure is told as, and longer for that.
 */

import {
  catalogOf,
  ensureCatalog,
  type TrinoClient,
  TrinoFailure,
  type TrinoResult,
  type TrinoRow,
  type TrinoSettings,
} from '@sluice/analytics/trino/statements'
import {
  type Compute,
  type ComputedRows,
  type ComputeQuery,
  type ComputeStatements,
  type ComputeTable,
  type ComputeTransform,
  isSluiceError,
  type ReadQuery,
  type RunningTransform,
  SluiceError,
  type SurroundingNames,
  sqlTableNotFound,
  type TenantScope,
  type TextRow,
  type TransformedRows,
} from '@sluice/sdk'
import { type GivenColumn, givenColumn } from './casts.ts'
import { logicalType, textRows } from './cells.ts'
import { isCommonSql } from './common-sql.ts'
import { guardedQuery } from './guard.ts'
import { type NamedPlace, type Place, querySql } from './query-sql.ts'
import { type TablePlace, transformSql } from './transform-sql.ts'

/** What a failure is told as. */
interface Asked {
  readonly what: 'transform' | 'query'
  readonly remedy: string
  /** For one that reads another table. */
  readonly inputsRemedy: string
  readonly timeoutMs: number
  /** By the process's clock: all that is asked for it ends then. */
  readonly endsAtMs: number
  /** The author's own text. */
  readonly text: string
  placeOf(place: Place): NamedPlace | null
}

const CHECK_TIMEOUT_MS = 60_000

/** In which Trino says anything at all, a busy one too. */
const SIGN_OF_LIFE_MS = 5_000

/** Rows of one transform; a product's table is for far fewer. */
const MAX_ROWS = Number.MAX_SAFE_INTEGER

export class TrinoCompute implements Compute {
  readonly #client: TrinoClient
  readonly #catalog: TrinoSettings['catalog']
  readonly statements?: ComputeStatements

  constructor(client: TrinoClient, catalog: TrinoSettings['catalog'], statements?: ComputeStatements) {
    this.#client = client
    this.#catalog = catalog
    if (statements !== undefined) this.statements = statements
  }

  /** Nothing is held open between statements, and whoever reads one ends it. */
  async close(): Promise<void> {}

  async ping(signal: AbortSignal): Promise<void> {
    await this.#client.ping(signal).catch((error: unknown) => {
      throw absent(error)
    })
  }

  read(query: string, { tables, columns }: SurroundingNames): ReadQuery {
    const sql = guardedQuery(query)
    return { sql, isCommon: isCommonSql(sql, tables, columns) }
  }

  async check(transform: ComputeTransform, signal: AbortSignal): Promise<readonly string[]> {
    const text = transformSql({ ...transform, inputs: transform.inputs.map((input) => ({ ...input, table: null })) })
    const asked = askedTransform(text.firstLine, CHECK_TIMEOUT_MS)
    await this.#explain('TYPE VALIDATE', text.sql, asked, signal)
    return (await this.#given(text.typesSql, asked, signal)).map(({ type }) => type)
  }

  /** A statement whose reader has died is given up by Trino. */
  transform(transform: RunningTransform): TransformedRows {
    const lost = new Map<string, number>()
    return { pages: this.#transformed(transform, lost), lost: () => Object.fromEntries(lost) }
  }

  async *#transformed(transform: RunningTransform, lost: Map<string, number>): AsyncGenerator<readonly TextRow[]> {
    const { scope, timeoutMs, signal, columns } = transform
    const inputs = transform.inputs.map((input) => ({ ...input, table: placeIn(scope, input.table) }))
    const unmarked = transformSql({ ...transform, inputs })
    const asked = askedTransform(unmarked.firstLine, timeoutMs)
    try {
      await this.#withCatalog(scope, () => this.#checkTables(unmarked.tablesSql, inputs, asked, signal))
      const given = await this.#given(unmarked.typesSql, asked, signal)
      const { sql, marked } = transformSql({ ...transform, inputs, given })
      const pages = this.#client.pages({ sql, maxRows: MAX_ROWS, timeoutMs: leftOf(asked), signal })
      const counted = (row: TrinoRow): TrinoRow => {
        for (const [at, name] of marked.entries()) {
          if (row[columns.length + at] !== null) lost.set(name, (lost.get(name) ?? 0) + 1)
        }
        return row.slice(0, columns.length)
      }
      for await (const rows of pages) yield (marked.length === 0 ? rows : rows.map(counted)) as readonly TextRow[]
    } catch (error) {
      throw await this.#told(error, asked)
    }
  }

  /** A LIMIT of nothing is planned, and not carried out. */
  async #given(sql: string, asked: Asked, signal: AbortSignal): Promise<readonly GivenColumn[]> {
    try {
      const results = this.#client.results({ sql, maxRows: 1, timeoutMs: leftOf(asked), signal })
      for await (const { columns } of results) return columns.map(givenColumn)
      throw new Error('Trino names no columns')
    } catch (error) {
      throw await this.#told(error, asked)
    }
  }

  async query(query: ComputeQuery): Promise<ComputedRows> {
    const { scope, timeoutMs, signal } = query
    const relations = query.relations.map((one) => {
      return { ...one, table: one.table === null ? null : placeIn(scope, one.table) }
    })
    const text = querySql({ ...query, relations })
    const asked: Asked = {
      what: 'query',
      remedy: 'Correct the statement.',
      inputsRemedy: 'Read products and sources by their names alone.',
      timeoutMs,
      endsAtMs: performance.now() + timeoutMs,
      text: query.sql,
      placeOf: text.placeOf,
    }
    let results: AsyncGenerator<TrinoResult> | null = null
    try {
      await this.#withCatalog(scope, () => this.#checkTables(text.tablesSql, text.named, asked, signal))
      results = this.#client.results({ sql: text.sql, maxRows: MAX_ROWS, timeoutMs: leftOf(asked), signal })
      const first = await results.next()
      if (first.done) throw new Error('Trino names no columns')
      const columns = first.value.columns.map(({ name, typeSignature }) => ({ name, type: logicalType(typeSignature) }))
      const opened = results
      const pages = pagesOf(first.value, opened, query.maxRows, (error) => this.#told(error, asked))
      const close = async () => void (await opened.return(undefined))
      return { columns, pages, close }
    } catch (error) {
      await results?.return(undefined)
      throw await this.#told(error, asked)
    }
  }

  /** What a failure is told as. Time that passed while Trino was not there is nothing that the author could shorten. */
  async #told(error: unknown, asked: Asked): Promise<unknown> {
    if (!isSluiceError(error) || error.code !== 'deadline_exceeded') return explained(error, asked)
    const sign = { sql: 'SELECT 1', maxRows: 1, timeoutMs: SIGN_OF_LIFE_MS }
    const isThere = await this.#client.rows(sign).then(
      () => true,
      () => false,
    )
    return isThere ? explained(error, asked) : absent(error)
  }

  /** The tenant may be older than its catalog. */
  async #withCatalog<T>(scope: TenantScope, run: () => Promise<T>): Promise<T> {
    try {
      return await run()
    } catch (error) {
      if (failureIn(error)?.code !== 'CATALOG_NOT_FOUND') throw error
      await ensureCatalog(this.#client, scope, this.#catalog)
      return run()
    }
  }

  /** Trino's own word for what the statement would read: the guard is not believed alone. */
  async #checkTables(
    sql: string,
    relations: readonly { readonly table: Pick<TablePlace, 'catalog' | 'schema' | 'name'> | null }[],
    asked: Asked,
    signal: AbortSignal,
  ): Promise<void> {
    const answer = await this.#explain('TYPE IO, FORMAT JSON', sql, asked, signal)
    const plan = JSON.parse(String(answer[0]?.[0])) as IoPlan
    const declared = new Set(
      relations.map(({ table }) => table && JSON.stringify([table.catalog, table.schema, table.name])),
    )
    for (const { table } of plan.inputTableColumnInfos) {
      const { schema, table: name } = table.schemaTable
      if (!declared.has(JSON.stringify([table.catalog, schema, name]))) {
        throw invalid(`the ${asked.what} reads a table that is none of its inputs`, asked.inputsRemedy)
      }
    }
  }

  /** EXPLAIN stands in a line of its own. */
  async #explain(how: string, sql: string, asked: Asked, signal: AbortSignal) {
    const { placeOf } = asked
    try {
      return await this.#client.rows({ sql: `EXPLAIN (${how})\n${sql}`, maxRows: 1, timeoutMs: leftOf(asked), signal })
    } catch (error) {
      throw await this.#told(error, { ...asked, placeOf: ({ line, column }) => placeOf({ line: line - 1, column }) })
    }
  }
}

function askedTransform(firstLine: number, timeoutMs: number): Asked {
  return {
    what: 'transform',
    remedy: 'Correct the SQL in compute.yaml.',
    inputsRemedy: 'Read what inputs.yaml names.',
    timeoutMs,
    endsAtMs: performance.now() + timeoutMs,
    text: '',
    placeOf: ({ line, column }) =>
      line < firstLine ? null : { line: line - firstLine + 1, column, name: [], offsetBytes: 0 },
  }
}

const leftOf = ({ endsAtMs }: Asked): number => Math.max(1, Math.round(endsAtMs - performance.now()))

async function* pagesOf(
  first: TrinoResult,
  others: AsyncGenerator<TrinoResult>,
  maxRows: number,
  told: (error: unknown) => Promise<unknown>,
): AsyncGenerator<readonly TextRow[]> {
  let left = maxRows + 1
  const taken = ({ columns, rows }: TrinoResult) => {
    const some = rows.slice(0, left)
    left -= some.length
    return textRows({ columns, rows: some })
  }
  try {
    yield taken(first)
    while (left > 0) {
      const next = await others.next()
      if (next.done) return
      yield taken(next.value)
    }
  } catch (error) {
    throw await told(error)
  } finally {
    await others.return(undefined)
  }
}

interface IoPlan {
  readonly inputTableColumnInfos: readonly {
    readonly table: {
      readonly catalog: string
      readonly schemaTable: { readonly schema: string; readonly table: string }
    }
  }[]
}

/** Trino knows lower case only. */
function placeIn(scope: TenantScope, { namespace, table, snapshotId }: ComputeTable): TablePlace {
  if (namespace === namespace.toLowerCase() && table === table.toLowerCase())
    return { catalog: catalogOf(scope), schema: namespace, name: table, snapshotId }
  throw new SluiceError('INVALID_DATA', 'Trino knows tables in lower case only, and an input’s is not', {
    code: 'unusable_name',
    remedy: 'Use engine: embedded for this product.',
  })
}

/** What Trino said, below what is told of it. */
function failureIn(error: unknown): TrinoFailure | null {
  if (error instanceof TrinoFailure) return error
  return error instanceof Error && error.cause !== undefined ? failureIn(error.cause) : null
}

/** What Trino’s refusals mean to the author; its messages may hold values and go into the log alone. */
function explained(error: unknown, { what, remedy, timeoutMs, text, placeOf }: Asked): unknown {
  if (!isSluiceError(error)) return error
  if (error.code === 'deadline_exceeded') {
    return new SluiceError('QUOTA', `the ${what} took longer than ${timeoutMs} ms`, {
      code: 'query_timeout',
      remedy:
        what === 'query' ? 'Read fewer rows.' : 'Read fewer rows, or raise resources.timeout where that is allowed.',
      details: { timeout_ms: timeoutMs },
      cause: error,
    })
  }
  const failure = error.cause
  if (!(failure instanceof TrinoFailure)) return error
  const name = /^[A-Z][A-Z0-9_]{0,79}$/.test(failure.code) ? failure.code : 'an error'
  if (failure.type === 'INSUFFICIENT_RESOURCES') {
    return new SluiceError('QUOTA', `Trino has not enough for the ${what}: ${name}`, {
      code: 'query_memory_exceeded',
      remedy: 'Aggregate earlier, read fewer columns, or give Trino more.',
      cause: error,
    })
  }
  if (failure.type !== 'USER_ERROR' || name === 'PERMISSION_DENIED') return error
  const { location } = failure
  const place = location ? placeOf({ line: location.lineNumber, column: location.columnNumber }) : null
  const where = place ? ` at line ${place.line}, column ${place.column}` : ''
  if (what === 'query' && place !== null) {
    const source = { text, leadBytes: 0 }
    if (NO_TABLE.has(name)) return sqlTableNotFound(place.name.join('.'), source, place.offsetBytes)
    if (name === 'COLUMN_NOT_FOUND') {
      const column = place.name.at(-1)
      const message = `there is no column "${column}"`
      return new SluiceError('INVALID_DATA', message, { code: 'column_not_found', details: { column }, cause: error })
    }
  }
  return invalid(`Trino cannot run the ${what}: ${name}${where}`, remedy, error)
}

/** A name that is none of ours has no catalog to be looked up in. */
const NO_TABLE: ReadonlySet<string> = new Set([
  ...['TABLE_NOT_FOUND', 'SCHEMA_NOT_FOUND', 'CATALOG_NOT_FOUND', 'MISSING_SCHEMA_NAME', 'MISSING_CATALOG_NAME'],
])

function absent(cause: unknown): SluiceError {
  return new SluiceError('TRANSIENT', 'Trino does not answer', {
    code: 'store_failed',
    remedy: 'Check that Trino is up and reachable, then send it again.',
    cause,
  })
}

function invalid(message: string, remedy: string, cause?: unknown): SluiceError {
  return new SluiceError('INVALID_DATA', message, { code: 'sql_invalid', remedy, cause })
}
