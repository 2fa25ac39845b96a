/**
 * Ways to read that a plugin has beside those of the contract: a search, the nearest neighbours of a vector. They are
 * declared in the capability table, mounted by the runtime at `POST /products/{name}/{operation}`, and go the way of
 * every other read: policy, masks, limits, records.
 */
import type { JsonSchema, ServingPlugin } from './plugin.ts'
import type { ReadPolicy } from './policy.ts'
import type { Column, TableSchema, Value } from './schema.ts'

/** What the name of a declared operation must match; it is the last segment of a path. */
export const OPERATION_NAME = /^[a-z][a-z0-9_]{0,39}$/

export interface DeclaredOperation {
  /** One line for the reference of the API. */
  readonly summary: string
  /** Of an object: what is asked. The runtime checks it before the store sees it; members that it does not name are refused. */
  readonly inputSchema: JsonSchema
  /** An input that fits the schema, for the reference. */
  readonly example: Readonly<Record<string, unknown>>
  /** Columns that its rows have besides those of the dataset, such as `score`. */
  readonly adds?: readonly Column[]
}

/** What `ServingPlugin.selects` is asked. */
export interface OperationInput<Config = unknown> {
  readonly operation: string
  readonly input: Readonly<Record<string, unknown>>
  readonly config: Config
  readonly schema: TableSchema
}

/** One bounded read by a declared operation. `input` fits its schema; all else is as in a `ReadPlan`. */
export interface OperationPlan {
  readonly operation: string
  readonly input: Readonly<Record<string, unknown>>
  /** The projection, in answer order: columns of the dataset that are visible, and columns that the operation adds. */
  readonly columns: readonly string[]
  /** Rows at most, 1 … the declared `maxReadRows`. */
  readonly limit: number
  /** A former answer's `next`: the page begins after that row. */
  readonly after?: readonly Value[]
  readonly policy: ReadPolicy
  /** How long it may take; the store ends it then with TRANSIENT `deadline_exceeded`. At 0 its time is over. */
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/** What is wrong with a plugin's declared operations, in words; empty where nothing is. The examples are not looked into. */
export function declarationProblems({
  capabilities,
  selects,
}: Pick<ServingPlugin, 'capabilities' | 'selects'>): string[] {
  const { declared = {}, operations } = capabilities
  const problems = Object.entries(declared).flatMap(([name, { inputSchema, adds = [] }]) => {
    const about = `the declared operation "${name.slice(0, 64)}"`
    const names = adds.map((column) => column.name)
    return [
      ...(OPERATION_NAME.test(name) ? [] : [`${about} has a name that is not of the form ${OPERATION_NAME.source}`]),
      ...(operations.some((one) => one === name) ? [`${about} is one of the contract`] : []),
      ...(inputSchema?.type === 'object' ? [] : [`${about} has an input that is no object`]),
      ...(new Set(names).size === names.length ? [] : [`${about} adds two columns of one name`]),
    ]
  })
  const isSilent = Object.keys(declared).length > 0 && typeof selects !== 'function'
  return isSilent ? [...problems, 'it declares operations and has no selects()'] : problems
}
