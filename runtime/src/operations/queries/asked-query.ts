/** A query as it was asked, and the tables that its author may read. */
import type { EngineLimits, EngineTable, PlainOutput } from '@sluice/engine'
import type { TableRef } from '@sluice/iceberg'
import type { Principal, TenantCall } from '../../flow.ts'
import { isWrittenAsDouble } from '../../parsing/kept-numbers.ts'
import type { Rests } from '../../registry/rests-on.ts'

/** What a statement needs of the call that it is part of. */
export type StatementCall = Pick<TenantCall, 'tenant' | 'principal' | 'signal' | 'requestId'>

export type QueryFormat = 'json' | 'ndjson' | 'csv' | 'parquet'

type Param = string | number | boolean | null

export interface QueryRequest {
  readonly sql: string
  readonly params?: readonly Param[]
  readonly limit?: number
  readonly timeoutMs?: number
  /** A time (RFC 3339), a snapshot id, or a version as `v1.2.0`. */
  readonly asOf?: string
  /** Of the statement's one product, or by `namespace.product`: it waits until that epoch is there. */
  readonly atLeastEpoch?: number | Readonly<Record<string, number>>
  /** It waits until all products rest on the same rows of what they are made of. */
  readonly consistent?: boolean
  readonly format: QueryFormat
  /** Of `csv`: timestamps may come as microseconds since 1970 (`PlainOutput`), or as text from engines that tell no others. */
  readonly timestamps?: 'micros'
  /** In which the statement is written, where the engine is this runtime's; absent: the engine's own. */
  readonly dialect?: 'postgresql'
}

/** A request with all that its answer is made of. */
export interface AskedQuery {
  readonly request: QueryRequest
  readonly visible: readonly Visible[]
  /** Tables of `information_schema`, where the statement may be about them. */
  readonly described: readonly EngineTable[]
  readonly kind: PlainOutput['kind']
  readonly limits: EngineLimits
}

/** Plain tables are everybody's who is a member; keys are for products. */
export const readsSandbox = ({ isAdmin, isDeveloper, isViewer, key }: Principal): boolean =>
  key === undefined && (isAdmin || isDeveloper || isViewer)

/** Beyond it the engine has no whole numbers. */
const WHOLE = 2 ** 127

/**
 * A whole number beyond 53 bits is bound as one, digit by digit: compared as a double it would find rows of other numbers. What
 * was written as a double (`1e+16`) is meant so.
 */
export const parametersOf = ({ params = [] }: QueryRequest): readonly (Param | bigint)[] =>
  params.map((value, at) => (isWhole(value) && !isWrittenAsDouble(params, at) ? BigInt(value) : value))

const isWhole = (value: Param): value is number =>
  typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < WHOLE

export interface Visible {
  readonly table: EngineTable
  readonly ref: TableRef
  readonly name: string
  readonly snapshotId: string
  readonly maskedColumns: readonly string[]
  /** Whether its reader may still read it as it is read here. */
  isStillReadable(): Promise<boolean>
  /** Of a product: which epoch it is, and since when its rows are. */
  readonly made?: { readonly epoch: number; readonly readAt: string }
  /** By what it is judged again whether its reader may see these rows; absent: nothing does that later. */
  readonly origin?:
    | { readonly type: 'product'; readonly productId: string; readonly variant: string }
    | { readonly type: 'raw'; readonly connectionId: string; readonly table: string }
    | { readonly type: 'sandbox' }
  /** What its rows rest on; null: nobody knows. */
  readonly rests: Rests | null
  /** Of a raw table: columns that hold null in place of values which could not be carried. */
  readonly withoutValues?: readonly string[]
}
