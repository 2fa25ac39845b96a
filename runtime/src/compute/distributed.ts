/** Transforms in Trino, over the lake's own tables; their rows come back in pages. */

import {
  catalogOf,
  ensureCatalog,
  type TrinoClient,
  TrinoFailure,
  type TrinoSettings,
} from '@sluice/analytics/trino/statements'
import { isSluiceError, openTenantScope, SluiceError } from '@sluice/sdk'
import type { TableRef } from '../lake/lake.ts'
import { csvOf, type InputRelation, type TransformSql, type TransformText, transformSql } from './transform-sql.ts'

export interface DistributedInput extends Omit<InputRelation, 'table'> {
  readonly table: TableRef
  readonly snapshotId: string
}

export interface DistributedTransform extends Omit<TransformText, 'inputs'> {
  readonly tenant: string
  readonly inputs: readonly DistributedInput[]
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

export interface UncheckedTransform extends Omit<TransformText, 'inputs'> {
  readonly inputs: readonly Omit<InputRelation, 'table'>[]
}

const CHECK_TIMEOUT_MS = 60_000

/** Rows of one transform; a product's table is for far fewer. */
const MAX_ROWS = Number.MAX_SAFE_INTEGER

export class DistributedCompute {
  readonly #client: TrinoClient
  readonly #catalog: TrinoSettings['catalog']

  constructor(client: TrinoClient, catalog: TrinoSettings['catalog']) {
    this.#client = client
    this.#catalog = catalog
  }

  /**
   * Whether Trino could run the transform over such inputs, which need not be there yet. Throws INVALID_DATA with the
   * guard's reason or Trino's name of the problem and its place; TRANSIENT where Trino does not answer.
   */
  async check(transform: UncheckedTransform, signal: AbortSignal): Promise<void> {
    const text = transformSql({ ...transform, inputs: transform.inputs.map((input) => ({ ...input, table: null })) })
    await this.#ask(`EXPLAIN (TYPE VALIDATE)\n${text.sql}`, shifted(text), CHECK_TIMEOUT_MS, signal)
  }

  /**
   * The transform's rows as CSV in the columns of `csvColumns`, page by page. Leaving early cancels the statement; one
   * whose reader has died is given up by Trino. Throws as `check` does, and QUOTA `query_timeout`.
   */
  async *rows(transform: DistributedTransform): AsyncGenerator<Uint8Array> {
    const { tenant, timeoutMs, signal } = transform
    const scope = openTenantScope(tenant)
    const inputs = transform.inputs.map((input) => {
      const place = { catalog: catalogOf(scope), ...placeOf(input.table), snapshotId: input.snapshotId }
      return { ...input, table: place }
    })
    const text = transformSql({ ...transform, inputs })
    try {
      await ensureCatalog(this.#client, scope, this.#catalog)
    } catch (error) {
      throw explained(error, null, timeoutMs)
    }
    await this.#checkTables(text, inputs, timeoutMs, signal)
    try {
      const pages = this.#client.pages({ sql: text.sql, maxRows: MAX_ROWS, timeoutMs, signal })
      for await (const rows of pages) yield csvOf(rows)
    } catch (error) {
      throw explained(error, text, timeoutMs)
    }
  }

  /** Trino's own word for what the statement would read: the guard is not believed alone. */
  async #checkTables(
    text: TransformSql,
    inputs: readonly { readonly table: { readonly catalog: string; readonly schema: string; readonly name: string } }[],
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<void> {
    const answer = await this.#ask(`EXPLAIN (TYPE IO, FORMAT JSON)\n${text.sql}`, shifted(text), timeoutMs, signal)
    const plan = JSON.parse(String(answer[0]?.[0])) as IoPlan
    const declared = new Set(
      inputs.map(({ table: { catalog, schema, name } }) => JSON.stringify([catalog, schema, name])),
    )
    for (const { table } of plan.inputTableColumnInfos) {
      const { schema, table: name } = table.schemaTable
      if (!declared.has(JSON.stringify([table.catalog, schema, name]))) {
        throw invalid('the transform reads a table that is none of its inputs', 'Read what inputs.yaml names.')
      }
    }
  }

  async #ask(sql: string, text: TransformSql, timeoutMs: number, signal: AbortSignal) {
    try {
      return await this.#client.rows({ sql, maxRows: 1, timeoutMs, signal })
    } catch (error) {
      throw explained(error, text, timeoutMs)
    }
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

/** EXPLAIN stands in a line of its own. */
const shifted = (text: TransformSql): TransformSql => ({ ...text, firstLine: text.firstLine + 1 })

/** Trino knows lower case only. */
function placeOf({ domain, table }: TableRef): { readonly schema: string; readonly name: string } {
  if (domain === domain.toLowerCase() && table === table.toLowerCase()) return { schema: domain, name: table }
  throw new SluiceError('INVALID_DATA', 'Trino knows tables in lower case only, and an input’s is not', {
    code: 'unusable_name',
    remedy: 'Use engine: embedded for this product.',
  })
}

/** What Trino's refusals mean to the author; its messages may hold values and go into the log alone. */
function explained(error: unknown, text: TransformSql | null, timeoutMs: number): unknown {
  if (!isSluiceError(error)) return error
  if (error.code === 'deadline_exceeded') {
    return new SluiceError('QUOTA', `the transform took longer than ${timeoutMs} ms`, {
      code: 'query_timeout',
      remedy: 'Read fewer rows, or raise resources.timeout where that is allowed.',
      details: { timeout_ms: timeoutMs },
      cause: error,
    })
  }
  const failure = error.cause
  if (!(failure instanceof TrinoFailure) || text === null) return error
  const name = /^[A-Z][A-Z0-9_]{0,79}$/.test(failure.code) ? failure.code : 'an error'
  if (failure.type === 'INSUFFICIENT_RESOURCES') {
    return new SluiceError('QUOTA', `Trino has not enough for the transform: ${name}`, {
      code: 'query_memory_exceeded',
      remedy: 'Aggregate earlier, read fewer columns, or give Trino more.',
      cause: error,
    })
  }
  if (failure.type !== 'USER_ERROR' || name === 'PERMISSION_DENIED') return error
  return invalid(
    `Trino cannot run the transform: ${name}${placeIn(failure, text)}`,
    'Correct the SQL in compute.yaml.',
    error,
  )
}

function placeIn({ location }: TrinoFailure, { firstLine }: TransformSql): string {
  if (location === undefined || location.lineNumber < firstLine) return ''
  return ` at line ${location.lineNumber - firstLine + 1}, column ${location.columnNumber}`
}

function invalid(message: string, remedy: string, cause?: unknown): SluiceError {
  return new SluiceError('INVALID_DATA', message, { code: 'sql_invalid', remedy, cause })
}
