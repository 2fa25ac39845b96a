import type { Value } from '@sluice/sdk'
import type { Grounds } from './grounds.ts'
import type { KeyedParts } from './guard/keyed-parts.ts'
import type {
  CsvInput,
  EngineLimits,
  EngineStep,
  EngineTable,
  InspectOutput,
  KeyedOutput,
  ParquetFilesOutput,
  PlainOutput,
  ResultColumn,
  SessionOutput,
  Within,
} from './job.ts'
import type { ColumnLineage } from './lineage/lineage.ts'
import type { Wall, WallName } from './walls/walls.ts'
import type { WireError } from './walls/wire-error.ts'

/** What parent and child say to each other over Node's IPC channel, as JSON. */

/** A Value as JSON: a bigint is `{n}`, bytes are `{b}` in base64, a number that JSON lacks is `{f}`. */
export type WireValue = null | boolean | number | string | { n: string } | { b: string } | { f: string }

export function toWire(value: Value): WireValue {
  if (typeof value === 'bigint') return { n: value.toString() }
  if (typeof value === 'number' && !Number.isFinite(value)) return { f: String(value) }
  if (value instanceof Uint8Array) return { b: Buffer.from(value).toString('base64') }
  return value
}

export function fromWire(value: WireValue): Value {
  if (value === null || typeof value !== 'object') return value
  if ('n' in value) return BigInt(value.n)
  if ('f' in value) return Number(value.f)
  return new Uint8Array(Buffer.from(value.b, 'base64'))
}

export interface WireStep {
  readonly sql: string
  readonly within: Within | null
  readonly parameters: readonly WireValue[]
  readonly collect: boolean
  readonly textCharacters: number | null
  readonly maxRows: number
  readonly gate: boolean
}

const DEFAULT_STEP_ROWS = 10_000

export function toWireSteps(steps: readonly EngineStep[] = []): WireStep[] {
  return steps.map((step) => ({
    sql: step.sql,
    within: step.within ?? null,
    parameters: (step.parameters ?? []).map(toWire),
    collect: step.rows === 'collect',
    textCharacters: step.textCharacters ?? null,
    maxRows: step.maxRows ?? DEFAULT_STEP_ROWS,
    gate: step.gate ?? false,
  }))
}

interface WireParameters {
  readonly parameters: readonly WireValue[]
}
export type WireStreamOutput = (Omit<PlainOutput, 'parameters'> | Omit<KeyedOutput, 'parameters'>) & WireParameters
export type WireFilesOutput = Omit<ParquetFilesOutput, 'parameters'> & WireParameters
export type WireInspectOutput = Omit<InspectOutput, 'parameters'> & WireParameters
export type WireOutput = WireStreamOutput | WireFilesOutput | WireInspectOutput

export interface ChildJob {
  readonly trust: 'tenant' | 'own'
  readonly tables: readonly EngineTable[]
  readonly csvInput: Omit<CsvInput, 'source'> | null
  readonly steps: readonly WireStep[]
  readonly output: WireOutput | null
  readonly readPaths: readonly string[]
  readonly writeDirs: readonly string[]
  /** Of a tenant’s: without these it is not begun. */
  readonly neededWalls: readonly WallName[]
  readonly limits: Omit<EngineLimits, 'room'>
  /** Of an own job: it takes requests when its job is done, and writes their outputs into `tempDir`. */
  readonly stays: boolean
  /**
   * Of an own job: all that the child may open for as long as it lives, besides `tempDir`. When the job is done it takes another one
   * with the same.
   */
  readonly grounds: Pick<Grounds, 'readTrees' | 'writeTrees'> | null
  /** Of a tenant's: it takes statements when its job is done, and writes this behind each output. In base64. */
  readonly mark: string | null
  /** Where an own job spills; null where nothing may be spilled. */
  readonly tempDir: string | null
  /** The user and group to become, where the parent may give them away. */
  readonly userId: number | null
}

export interface WireResult {
  readonly columns: readonly ResultColumn[]
  /** Rows in the `rows` encoding, joined as by `json-rows`. */
  readonly rowsJson: string
}

export type WireSessionOutput = Extract<WireStreamOutput, { kind: SessionOutput['kind'] }>

export interface ChildRequest {
  readonly tables: readonly EngineTable[]
  readonly steps: readonly WireStep[]
  readonly output: WireSessionOutput | null
  /** Where the output goes; a name that nothing has yet. */
  readonly path: string
}

/** Another statement over the tables of the job that the child has done, within its memory and threads. */
export interface ChildStatement {
  readonly output: WireStreamOutput
  readonly limits: ChildJob['limits']
}

export type ToChild =
  | { readonly kind: 'job'; readonly job: ChildJob }
  | { readonly kind: 'statement'; readonly statement: ChildStatement }
  | { readonly kind: 'request'; readonly request: ChildRequest }

/** What is known of the output before its first byte. */
export interface Opening {
  readonly columns: readonly ResultColumn[]
  readonly lineage: readonly ColumnLineage[]
  readonly textColumns?: readonly ResultColumn[]
  /** Of a tenant's statement: whether it says the same whenever it is asked of the same rows. */
  readonly isStable?: boolean
  /** Of a streamed output with parameters: see `EngineRun`. */
  readonly parameterTypes?: readonly (string | null)[]
  readonly isRowWise?: boolean
  readonly parts?: KeyedParts | null
}

export type FromChild =
  | { readonly kind: 'ready' }
  | { readonly kind: 'walls'; readonly walls: readonly Wall[] }
  /** Steps are done and the output's statement is prepared; its bytes follow on the pipe. */
  | ({ readonly kind: 'opened'; readonly results: readonly WireResult[] } & Opening)
  | { readonly kind: 'done'; readonly rows: number; readonly files: readonly WireFile[] }
  | { readonly kind: 'failed'; readonly error: WireError }
  /** To the request that was sent first of those without an answer. */
  | ({ readonly kind: 'answered'; readonly results: readonly WireResult[]; readonly rows: number } & Opening)
  | { readonly kind: 'refused'; readonly error: WireError }

export interface WireFile {
  readonly name: string
  readonly rows: number
  readonly sizeBytes: number
  readonly footerSizeBytes: number
  readonly columnStatistics: Readonly<Record<string, Readonly<Record<string, string>>>>
}

/** The child's descriptors: where the streamed input comes from and where the output goes to. */
export const INPUT_FD = 4
export const OUTPUT_FD = 5
