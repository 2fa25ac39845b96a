/**
 * An engine outside of the runtime that runs transforms of products, and queries of readers where it can, over the lake's
 * tables. It finds those by itself in the lake's catalogue. Authors write their SQL in the engine's dialect, and it is hostile:
 * the plugin judges it, and holds it to the relations that come with it.
 *
 * Errors of all hooks: INVALID_DATA with the codes of `sqlNotAllowed` and its siblings for what the guard refuses,
 * `sql_invalid` for what the engine cannot run, QUOTA `query_timeout` and `query_memory_exceeded`, TRANSIENT `store_failed`
 * where the engine does not answer. What the engine itself said may hold values and belongs into `cause`.
 */
import type { PolicyProtocol, PolicyTable } from './compute-policy.ts'
import type { Column, LogicalType } from './schema.ts'
import type { TenantScope } from './scope.ts'
import type { ServicePlugin } from './service.ts'

/** Opening says nothing to the engine yet: a runtime starts without it, and what needs it says so. */
export interface ComputePlugin<Settings = unknown> extends ServicePlugin<'compute', Settings, Compute> {
  /** Of engines that ask before they do something for people. Needs none of the settings: such an engine may be anybody's. */
  readonly policy?: PolicyProtocol
}

/** A table of the tenant's, as the catalogue names it, at one of its snapshots. */
export interface ComputeTable {
  readonly namespace: string
  readonly table: string
  readonly snapshotId: string
}

export interface ComputeInput {
  /** By which the transform names it. */
  readonly alias: string
  readonly columns: readonly Pick<Column, 'name' | 'type'>[]
  /** The author's condition over these columns; null: every row. */
  readonly where: string | null
}

export interface ComputeTransform {
  /** These may not be there yet. */
  readonly inputs: readonly ComputeInput[]
  /** Null: the only input as it is. */
  readonly transform: string | null
  /** What comes out, by name; each value is cast to its column's type. */
  readonly columns: readonly Column[]
}

export interface RunningTransform extends ComputeTransform {
  readonly scope: TenantScope
  readonly inputs: readonly (ComputeInput & { readonly table: ComputeTable })[]
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/**
 * Cells as texts: digits, `NaN` and `Infinity`; `true`; days and times as ISO 8601 or SQL writes them, an instant with its
 * offset; binary as `\x` and hexadecimal digits; documents as JSON. Null is null.
 */
export type TextRow = readonly (string | null)[]

export interface TransformedRows {
  /** In the transform's columns. To be read once; leaving it early cancels the statement. Memory holds a page of it. */
  readonly pages: AsyncIterable<readonly TextRow[]>
  /** Of the rows that were read so far: values that lost something by the cast to their column's type, by column. */
  lost(): Readonly<Record<string, number>>
}

/** A relation that a query may name: `['sales', 'orders']` is sales.orders, in any case. */
export interface ComputeRelation extends Pick<ComputeInput, 'columns'> {
  readonly name: readonly string[]
  /** Null where nothing was ever written. */
  readonly table: ComputeTable | null
}

/** Of each `?` in its order, or of `$1`, `$2`, … */
export type ComputeParameter = string | number | bigint | boolean | null

export interface ComputeQuery {
  readonly scope: TenantScope
  readonly sql: string
  readonly parameters: readonly ComputeParameter[]
  readonly relations: readonly ComputeRelation[]
  readonly maxRows: number
  /** For all that is asked of the engine for it. */
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

export interface ComputedRows {
  /** Types that the lake has not are documents where they hold others, and else texts. Names may come twice. */
  readonly columns: readonly { readonly name: string; readonly type: LogicalType }[]
  /** In the query's order; at most one row more than was asked for. To be read once; leaving it early cancels the statement. */
  readonly pages: AsyncIterable<readonly TextRow[]>
  /** Cancels the statement if it still runs, also one whose rows nobody began to read. May be repeated. */
  close(): Promise<void>
}

/** Names that stand around a query. */
export interface SurroundingNames {
  readonly tables: readonly string[]
  /** Of its tables, and its own. */
  readonly columns: readonly string[]
}

export interface ReadQuery {
  /** The query as another engine may be given it: with lines and columns where they were. */
  readonly sql: string
  /**
   * Whether the runtime's engine (DuckDB) is sure to mean the same by it: only then is what it says of the origin of columns
   * believed. Of any other query each column counts as made of everything.
   */
  readonly isCommon: boolean
}

/** One that the engine carries out, whoever sent it. */
export interface ComputeStatement {
  readonly id: string
  /** As the engine calls who sent it. */
  readonly user: string
  /** What the engine was told by the token, before it made the user of it; null where there was none. */
  readonly login: string | null
  /** Of all its processors, so far. */
  readonly cpuS: number
  /** In milliseconds since 1970; null while it goes on. */
  readonly endedAtMs: number | null
}

export interface StatementTable extends PolicyTable {
  /** The engine's own, of its server or of what a catalog has: none of the lake's. */
  readonly isOwn?: true
}

/** All of it throws where the engine does not answer as it should: what it says is for the log. */
export interface ComputeStatements {
  /** Two of the same text are of one engine. */
  readonly server: string
  /** Those whose rows somebody may be fetching. */
  atWork(signal: AbortSignal): Promise<readonly ComputeStatement[]>
  /** Those that have ended, too, for as long as the engine keeps them. */
  all(signal: AbortSignal): Promise<readonly ComputeStatement[]>
  /** None before the engine has planned it, and where it knows no such statement any more. */
  tables(id: string, signal: AbortSignal): Promise<readonly StatementTable[]>
  /** One that has ended stays as it is. @param why for whoever fetches its rows */
  end(id: string, why: string, signal: AbortSignal): Promise<void>
}

export interface Compute {
  /**
   * Whether the engine could run the transform over such inputs, which need not be there; the types of its columns as it
   * gives them before the cast, as `castLoss` names them. Runs nothing over rows; may be repeated.
   */
  check(transform: ComputeTransform, signal: AbortSignal): Promise<readonly string[]>
  /** How the query reads to others. Pure; throws where the guard refuses it. */
  read(query: string, names: SurroundingNames): ReadQuery
  /** Does nothing before the first page is asked for; errors come from reading. */
  transform(transform: RunningTransform): TransformedRows
  /** Absent: it answers no readers. A place in an error is one in the reader's own text. */
  query?(query: ComputeQuery): Promise<ComputedRows>
  /**
   * Of engines that people send statements to by themselves: the runtime ends those whose rights have ended, and charges
   * tenants for what they use. Absent: nobody but the runtime sends it any.
   */
  readonly statements?: ComputeStatements
  /** As `RunningService` says. */
  ping?(signal: AbortSignal): Promise<void>
  /** Ends what is under way. */
  close(): Promise<void>
}

/** Returns the plugin as it is; gives its parts their types. */
export function defineCompute<Settings>(plugin: Omit<ComputePlugin<Settings>, 'kind'>): ComputePlugin<Settings> {
  return { ...plugin, kind: 'compute' }
}
