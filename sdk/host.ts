import type { Value } from './schema.ts'
import type { TenantScope } from './scope.ts'

/** Structured logging; `fields` must not hold secrets or values of rows. */
export interface Logger {
  debug(message: string, fields?: Readonly<Record<string, unknown>>): void
  info(message: string, fields?: Readonly<Record<string, unknown>>): void
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void
  error(message: string, fields?: Readonly<Record<string, unknown>>): void
}

export interface Metrics {
  count(name: string, by?: number, labels?: Readonly<Record<string, string>>): void
  observe(name: string, value: number, labels?: Readonly<Record<string, string>>): void
}

/** Time as the host has it; the suite runs it ahead. Plugins use this and never `Date.now` or `setTimeout`. */
export interface Clock {
  nowMs(): number
  /** Calls back every `everyMs` until the returned function is called or the plugin is closed. */
  every(everyMs: number, run: () => void | Promise<void>): () => void
}

/** One SELECT over files of the lake, in the runtime's guarded engine. */
export interface LakeQuery {
  /** A statement that has passed the guard, with `$1` … for parameters. */
  readonly sql: string
  readonly parameters: readonly Value[]
  readonly tables: readonly LakeTable[]
  readonly limits: { readonly maxRows: number; readonly timeoutMs: number; readonly memoryBytes: number }
  readonly signal: AbortSignal
  /** Whose statement it is: tenants share the engine evenly. Statements without it have one share together. */
  readonly scope?: TenantScope
}

export interface LakeTable {
  /** `['sales', 'orders']` is addressed as sales.orders. */
  readonly name: readonly string[]
  readonly files: readonly string[]
  /** As `LakeSnapshot` has them. */
  readonly deletes?: readonly string[]
  readonly deletedFrom?: readonly string[]
  readonly columns: readonly { readonly name: string; readonly type: string; readonly fieldId: number }[]
}

export interface LakeQueryResult {
  readonly columns: readonly { readonly name: string; readonly type: string }[]
  /** JSON texts, each an array of rows, each row an array of values as `toJsonValue` writes them. */
  readonly batches: AsyncIterable<{ readonly rowCount: number; readonly json: string }>
}

export interface LakeEngine {
  query(query: LakeQuery): Promise<LakeQueryResult>
}

/** A plugin's only ways out, so that time, crashes and disks can be simulated. */
export interface Host {
  readonly clock: Clock
  readonly logger: Logger
  readonly metrics: Metrics
  /** Random bytes; seeded under the suite. */
  randomBytes(count: number): Uint8Array
  /**
   * To be awaited between the steps of a write, with a name that says what has just happened
   * (`lookup.after-stage`). Does nothing, but under test, where the process may end here or the call may throw.
   */
  faultPoint(name: string): Promise<void>
  /** A folder of the plugin's own that outlives the process; exists and is writable. */
  readonly stateDirectory: string
  /** Present in runtimes that run an engine over the lake. */
  readonly lakeEngine?: LakeEngine
}
