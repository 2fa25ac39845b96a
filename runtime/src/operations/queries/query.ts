/** SQL over the products that the caller may read, in an engine that is given nothing else. */

import { type EngineLimits, type EngineRun, foldName, type ResultColumn } from '@sluice/engine'
import { checkSqlText, isSluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import { type AskedQuery, parametersOf, type QueryRequest, type StatementCall, type Visible } from './asked-query.ts'
import { AwaitedProducts, isConsistent } from './awaited-products.ts'
import type { QueriesDeps } from './deps.ts'
import { distributedRun } from './distributed-query.ts'
import { HeldRights } from './held-rights.ts'
import { descriptionsFor } from './information-schema.ts'
import { NamedTables } from './named-tables.ts'
import { shownTables } from './shown-tables.ts'
import { type Named, visibleTables } from './visible-tables.ts'

export interface QueryAnswer {
  /** `duckdb`: of this runtime; another: outside. */
  readonly engine: string
  readonly isOutside: boolean
  readonly run: EngineRun
  readonly columns: readonly (ResultColumn & { readonly masked: boolean })[]
  readonly snapshots: Readonly<Record<string, string>>
  /** By product, and pasts of it that the statement names. */
  readonly made: Readonly<Record<string, NonNullable<Visible['made']>>>
  /** By raw table, columns that hold null in place of values which could not be carried. */
  readonly withoutValues: Readonly<Record<string, readonly string[]>>
  /** All that it could refer to. */
  readonly tables: readonly Visible[]
  /** Whether all tables are known to rest on the same rows of what they are made of. */
  readonly isConsistent: boolean
  readonly startedAtMs: number
}

const OUTPUT_KINDS = { json: 'json-rows', ndjson: 'ndjson', csv: 'csv', parquet: 'parquet' } as const

const MAX_EXPORT_BYTES = 4 * 1024 * 1024 * 1024

const QUERY_THREADS = 2

export function runQuery(
  platform: QueriesDeps,
  call: TenantCall,
  given: QueryRequest,
  settle?: Settle,
): Promise<QueryAnswer> {
  const running = { action: 'read.query', limits: limitsOf(platform, given) }
  return runStatement(platform, call, given, settle === undefined ? running : { ...running, settle })
}

/** Text and values of a request, where they hang on the columns of the tables that it names. */
export type Settle = (tables: readonly Visible[]) => Promise<Pick<QueryRequest, 'sql' | 'params'>>

export interface Shape {
  readonly columns: QueryAnswer['columns']
  /** Of each parameter the type that the engine says that the statement asks for. */
  readonly parameterTypes: readonly (string | null)[]
}

/**
 * What a statement gives and asks for. Admitted and put on record as the statement itself, and not run: once for all that may
 * read the same columns.
 */
export async function describeQuery(
  platform: QueriesDeps,
  call: TenantCall,
  given: QueryRequest,
  settle?: Settle,
): Promise<Shape> {
  const ended = new AbortController()
  const signal = AbortSignal.any([call.signal, ended.signal])
  const running = { action: 'read.query', limits: limitsOf(platform, given), isShape: true }
  const own = settle === undefined ? running : { ...running, settle }
  const { isOutside, run, columns } = await runStatement(platform, { ...call, signal }, given, own)
  // Why it ended early is told by its output, or nobody asks.
  run.finished.catch(() => undefined)
  // One outside tells by a statement that runs; of ours there is nothing to read, and its process stays for what comes next.
  if (isOutside) ended.abort()
  try {
    for await (const _ of run.output) if (isOutside) break
  } catch (error) {
    if (!isOutside) throw error
  }
  return { columns, parameterTypes: run.parameterTypes ?? [] }
}

/** Under which name reading is put on record, and what the answer may cost. */
export interface Running {
  readonly action: string
  readonly limits: Partial<EngineLimits> & Pick<EngineLimits, 'timeoutMs'>
  readonly settle?: Settle
  /** No row is wanted. */
  readonly isShape?: boolean
}

export async function runStatement(
  platform: QueriesDeps,
  call: StatementCall,
  given: QueryRequest,
  { action, limits: most, settle, isShape = false }: Running,
): Promise<QueryAnswer> {
  const startedAtMs = performance.now()
  // Before names are looked for in it, which takes time here; the engine refuses longer ones, too.
  checkSqlText({ text: given.sql, leadBytes: 0 })
  const shown = shownTables(given.sql)
  const request = shown === null ? given : { ...given, sql: shown.sql }
  const names = new NamedTables(request.sql)
  const described = names.describes ? await descriptionsFor(platform, call, given.sql, shown) : []
  const endsAtMs = startedAtMs + most.timeoutMs
  const awaited = new AwaitedProducts(platform, call, { request, names, endsAtMs })
  const { visible, absent } = await awaited.tables(() =>
    visibleTables(platform, call, { names, asOf: request.asOf, action }),
  )
  // Another engine's own descriptions are of the lake's tables, which products are copies of; ours are the embedded engine's.
  const distributedQueries = described.length > 0 ? null : platform.distributedQueries
  // What was waited for is of the statement's time.
  const timeoutMs = awaited.waits ? Math.max(1, Math.round(endsAtMs - performance.now())) : most.timeoutMs
  const limits = { ...statementLimits(platform, undefined), ...most, timeoutMs }
  const settled = settle === undefined || shown !== null ? request : { ...request, ...(await settle(visible)) }
  return answerOver(
    platform,
    call,
    { request: settled, visible, described, limits },
    { absent, distributedQueries, startedAtMs, isShape },
  )
}

interface Answering {
  readonly absent: Named['absent']
  /** Null: in the engine of this runtime. */
  readonly distributedQueries: QueriesDeps['distributedQueries']
  readonly startedAtMs: number
  readonly isShape?: boolean
}

/** Runs the statement over the tables that its author may read, for as long as he may. */
export async function answerOver(
  platform: QueriesDeps,
  call: StatementCall,
  { request, visible, described, limits }: Omit<AskedQuery, 'kind'>,
  { absent, distributedQueries, startedAtMs, isShape = false }: Answering,
): Promise<QueryAnswer> {
  const isPlanned = isShape && distributedQueries === null
  const kind = isPlanned ? 'shape' : OUTPUT_KINDS[request.format]
  const asked = { request, visible, described, kind, limits } as const
  const rights = new HeldRights(platform, call, { tables: visible, timeoutMs: limits.timeoutMs })
  const held = { ...call, signal: rights.signal }
  const running =
    distributedQueries === null
      ? embeddedRun(platform, held, asked)
      : distributedRun(platform, held, asked, distributedQueries)
  const run = await running.catch((error: unknown) => {
    rights.release()
    throw rights.explained(whyAbsent(error, absent))
  })
  return {
    engine: distributedQueries?.name ?? 'duckdb',
    isOutside: distributedQueries !== null,
    run: rights.over(run),
    columns: withMasks(run, visible),
    snapshots: Object.fromEntries(visible.map((entry) => [entry.name, entry.snapshotId])),
    made: Object.fromEntries(visible.flatMap(({ name, made }) => (made === undefined ? [] : [[name, made]]))),
    withoutValues: Object.fromEntries(
      visible.flatMap(({ name, withoutValues = [] }) => (withoutValues.length === 0 ? [] : [[name, withoutValues]])),
    ),
    tables: visible,
    isConsistent: isConsistent(visible),
    startedAtMs,
  }
}

function limitsOf(platform: QueriesDeps, { timeoutMs, format, limit }: QueryRequest): EngineLimits {
  const { limits } = platform.config
  return {
    ...statementLimits(platform, timeoutMs),
    ...(format === 'json'
      ? { maxRows: Math.min(limit ?? limits.query_rows, limits.query_rows) }
      : exportLimits(limits.export_rows, limit)),
  }
}

function statementLimits({ config: { limits } }: QueriesDeps, timeoutMs: number | undefined): EngineLimits {
  return {
    memoryBytes: limits.query_memory_mb * 1024 * 1024,
    timeoutMs: Math.min(timeoutMs ?? limits.query_timeout_ms, limits.query_timeout_ms),
    threads: QUERY_THREADS,
  }
}

/** Of an answer that would be wrong without some of its rows, as JSON too, unless its first are asked for. */
export function wholeLimits(platform: QueriesDeps, { timeoutMs, format, limit }: QueryRequest): EngineLimits {
  const { query_rows, export_rows } = platform.config.limits
  const most = exportLimits(format === 'json' ? query_rows : export_rows, limit)
  return { ...statementLimits(platform, timeoutMs), ...most }
}

/** JSON says that it was cut; nothing in the other formats could, so that they are whole or fail. */
function exportLimits(mostRows: number, limit: number | undefined) {
  if (limit !== undefined && limit <= mostRows) return { maxRows: limit, maxOutputBytes: MAX_EXPORT_BYTES }
  return { maxRows: mostRows, wholeOrFailed: true, maxOutputBytes: MAX_EXPORT_BYTES }
}

function embeddedRun(platform: QueriesDeps, call: StatementCall, asked: AskedQuery) {
  const { request, visible, described, kind, limits } = asked
  return platform.engine.run(
    {
      trust: 'tenant',
      tenant: call.tenant,
      tables: [...visible.map((entry) => entry.table), ...described],
      output: { kind, sql: request.sql, parameters: parametersOf(request), ...writtenAs(request) },
      limits,
    },
    call.signal,
  )
}

const writtenAs = ({ timestamps, dialect }: AskedQuery['request']) => ({
  ...(timestamps === undefined ? {} : { timestamps }),
  ...(dialect === undefined ? {} : { dialect }),
})

/** A column of the answer is masked where any column that it is computed from is; where that is not told, by its name. */
function withMasks({ columns, lineage }: EngineRun, visible: readonly Visible[]): QueryAnswer['columns'] {
  const names = new Set(visible.flatMap((entry) => entry.maskedColumns))
  const sourceKey = (table: readonly string[], column: string) => JSON.stringify([...table, column])
  const sources = new Set(
    visible.flatMap(({ table, maskedColumns }) => maskedColumns.map((column) => sourceKey(table.name, column))),
  )
  return columns.map((column, at) => {
    const direct = lineage[at]?.direct
    const masked = direct?.some((one) => sources.has(sourceKey(one.table, one.column))) ?? names.has(column.name)
    return { ...column, masked }
  })
}

/**
 * Names are looked for in a statement before it is understood, and one of an alias and a column looks like a table's:
 * only once the engine misses a table is it told why there is none.
 */
function whyAbsent(error: unknown, absent: Named['absent']): unknown {
  if (!isSluiceError(error) || error.code !== 'table_not_found') return error
  return absent.get(foldName(String(error.details?.['table']))) ?? error
}
