import type { KeyTemplate, LogicalType, Value } from '@sluice/sdk'
import type { KeyedParts } from './guard/keyed-parts.ts'
import type { ColumnLineage, ComparableColumn } from './lineage/lineage.ts'
import type { StorageRoom } from './room-watch.ts'

/**
 * A *job* is what one engine child does in its life: it makes the job's tables, takes the streamed input, runs the
 * steps in order, streams the output, and ends. Nothing of a job outlives its child.
 */

/** A relation over parquet files that the child makes before any statement of the job runs. */
export interface EngineTable {
  /** `['orders']`, or `['sales', 'orders']` for a schema and a table. Any text: the engine quotes it. */
  readonly name: readonly string[]
  /** Absolute paths of parquet files. None gives an empty relation with the columns. */
  readonly files: readonly string[]
  /** Columns are found in the files by field id; a file without one gives null there. */
  readonly columns: readonly EngineColumn[]
  /** Iceberg position delete files. A row is left out when one of them names its file and position. */
  readonly deletes?: readonly string[]
  /** Files of the same shape. Where there are any, a row is there only when one of them names its file and position. */
  readonly only?: readonly string[]
  /** What these files call each of `files`, in the same order. Default: the paths themselves. */
  readonly deletedFrom?: readonly string[]
  /** More files, with lists of their own. */
  readonly also?: Pick<EngineTable, 'files' | 'deletes' | 'only' | 'deletedFrom'>
  /** The rows themselves, in place of files: a value for each column. */
  readonly rows?: readonly (readonly (string | number | null)[])[]
}

/** All that a relation is read from. */
export function filesOf(table: Pick<EngineTable, 'files' | 'deletes' | 'only' | 'also'>): readonly string[] {
  const { files, deletes = [], only = [], also } = table
  return [...files, ...deletes, ...only, ...(also === undefined ? [] : filesOf(also))]
}

export interface EngineColumn {
  readonly name: string
  readonly type: LogicalType
  readonly fieldId: number
}

/**
 * Rows that the parent streams into the child as CSV: RFC 4180, no header, every value quoted, null an empty field
 * without quotes, so that `""` and null stay apart, bytes as `\x` and hexadecimal digits
 * (`COPY … TO STDOUT (FORMAT csv, FORCE_QUOTE *)`).
 */
export interface CsvInput {
  /** The relation that a step or the output reads it by. It can be read once. */
  readonly name: string
  readonly columns: readonly { readonly name: string; readonly type: LogicalType }[]
  readonly source: AsyncIterable<Uint8Array>
}

/**
 * SQL (ours) on both sides of a tenant's text, which is judged alone before: what then stands between the two is the
 * guard's own writing of it. `condition`: the text is one boolean expression, of no tables of its own.
 */
export interface Within {
  readonly before: string
  readonly after: string
  readonly as: 'query' | 'condition'
}

export interface EngineStep {
  /** One statement. In a tenant's job it passes the guard. */
  readonly sql: string
  readonly within?: Within
  /** Values of `$1`, `$2`, … */
  readonly parameters?: readonly Value[]
  /** `collect` hands the rows back in `EngineRun.results`; `none` (default) drops them. */
  readonly rows?: 'none' | 'collect'
  /** Of a collecting step: every cell is the text that CSV has of it, no longer than so many characters; null stays null. */
  readonly textCharacters?: number
  /** Rows that a collecting step may give; one more fails the job. Default 10,000. */
  readonly maxRows?: number
  /**
   * Of a collecting step of an own job: its one row counts what must not be there. Where a count is above 0 the job ends
   * with it, well, and without the results of what would have followed.
   */
  readonly gate?: boolean
}

/** The last statement of a job, whose rows leave through a pipe as fast as the reader takes them. */
export type EngineOutput = StreamOutput | ParquetFilesOutput | InspectOutput

export type StreamOutput = PlainOutput | KeyedOutput

export interface PlainOutput {
  /**
   * - `rows`: for `rowsOf(run)`.
   * - `json-rows`: JSON arrays of values, separated by `,\n`: `[` + all bytes + `]` is the list of rows.
   * - `ndjson`: one JSON object a line.
   * - `csv`: RFC 4180 with a header line; null is empty, the empty string is `""`.
   * - `copy-csv`: what PostgreSQL's `COPY … FROM STDIN (FORMAT csv)` takes, without a header.
   * - `parquet`: one parquet file.
   * - `shape`: nothing. The statement is planned and not run, for its columns and what it asks of its parameters.
   */
  readonly kind: 'rows' | 'json-rows' | 'ndjson' | 'csv' | 'copy-csv' | 'parquet' | 'shape'
  readonly sql: string
  readonly parameters?: readonly Value[]
  /**
   * Of `csv`. `micros`: timestamps down to the microsecond are the number of those since 1970, which takes a fifth of the time
   * that their text does; infinities have their names.
   */
  readonly timestamps?: 'text' | 'micros'
  /** Of a tenant's statement: what it is written in. Default: the engine's own. */
  readonly dialect?: 'postgresql'
}

/**
 * The SDK's `KeyedChunk`s. The statement's last columns are those of the template, one for each of its parts; the others
 * make the object.
 */
export interface KeyedOutput {
  readonly kind: 'keyed-json'
  readonly sql: string
  readonly parameters?: readonly Value[]
  readonly template: KeyTemplate
}

/** Streamed outputs that would be wrong, not just short, when rows are left out. */
export const WHOLE_KINDS: ReadonlySet<StreamOutput['kind']> = new Set(['copy-csv', 'keyed-json'])

/** Whether rows beyond `maxRows` fail the output. */
export function failsBeyondRows(kind: StreamOutput['kind'], limits: EngineLimits): boolean {
  return limits.wholeOrFailed === true || WHOLE_KINDS.has(kind)
}

/** The rows of `sql`, written into new parquet files in `dir`. The files stay only if the whole job succeeds. */
export interface ParquetFilesOutput {
  readonly kind: 'parquet-files'
  readonly sql: string
  readonly within?: Within
  readonly parameters?: readonly Value[]
  /** Absolute path of an existing folder, on the file system where it shall stay. */
  readonly dir: string
  /** The columns to write, in order: taken from the statement by name, cast to the type, marked with the field id. */
  readonly columns: readonly EngineColumn[]
  /** A new file is begun when one has grown past this. Default: one file a thread. */
  readonly fileSizeBytes?: number
  readonly rowGroupRows?: number
  /** Counts the values that lose something by the cast, for `lostValues`. */
  readonly countsLosses?: boolean
  /** SQL (ours) put after FROM and in front of nothing else: `ORDER BY "day"`. */
  readonly orderBy?: readonly string[]
}

/** Nothing is written: the statement passes the guard and is bound to its tables, and `EngineRun.lineage` is filled. */
export interface InspectOutput {
  /** `inspect-condition`: `sql` is one boolean expression over the job's first table, without tables of its own. */
  readonly kind: 'inspect' | 'inspect-condition'
  readonly sql: string
  readonly within?: Within
  /** Of what the lineage leaves out some uses. */
  readonly comparable?: readonly ComparableColumn[]
  readonly parameters?: readonly Value[]
}

export interface EngineLimits {
  /**
   * Memory of the child beyond what it holds before the job; a tenant's child is killed over it, one of the runtime's
   * own jobs a little later, because it may spill.
   */
  readonly memoryBytes: number
  /** From the call of `run` to the last byte of output. */
  readonly timeoutMs: number
  readonly threads: number
  /**
   * Rows of a streamed output. `rows`, `json-rows`, `ndjson` and `csv` stop there (`truncated`); so does `parquet`, which
   * cannot tell that there were more; others fail.
   */
  readonly maxRows?: number
  /** More rows than `maxRows` fail the output (`query_result_too_large`), whatever its kind, instead of being left out. */
  readonly wholeOrFailed?: boolean
  readonly maxOutputBytes?: number
  /** Disk that an own job may use to spill. Tenants' jobs never spill. */
  readonly tempBytes?: number
  /** What the job writes is looked at while it does: it fails with the room's error where it needs more. Absent: any. */
  readonly room?: StorageRoom
}

/** What a session begins with: the runtime's own statements. */
export type SessionJob = Pick<EngineJob, 'tables' | 'steps' | 'writeDirs' | 'limits' | 'tenant'> & {
  readonly trust: 'own'
  /** For how long nobody may ask before it ends. Default: a second. */
  readonly idleMs?: number
}

/** What an open session can hand back: an output that needs no header and holds nothing of other columns. */
export type SessionOutput = (PlainOutput & { readonly kind: 'rows' | 'copy-csv' }) | KeyedOutput

/** A step or an output over tables of their own, for the child that holds the session. */
export interface SessionRequest {
  /** Their files are among those of the session's job, or lie below its `writeDirs`. */
  readonly tables: readonly EngineTable[]
  readonly steps?: readonly EngineStep[]
  readonly output?: SessionOutput
}

/**
 * A child that stays when its job is done, for small requests over the same files: starting one takes longer than they
 * do. One request at a time; others wait. It ends at `close`, when nobody has asked for its `idleMs` or others
 * wait for its place, and by what ends a job.
 */
export interface EngineSession {
  /** Of the job's steps. */
  readonly results: readonly StepResult[]
  /** While it is true, a request that is made at once is taken. */
  readonly isOpen: boolean
  /**
   * The request's output is written to disk before this is fulfilled, so that whoever reads it slowly holds up nobody.
   * Rejected as `Engine.run` is; a statement that fails ends no session. May be repeated.
   */
  run(request: SessionRequest): Promise<EngineRun>
  /** Fulfilled when the child is gone. Never rejected. */
  readonly ended: Promise<unknown>
  close(): Promise<void>
}

export interface EngineJob {
  /**
   * `tenant`: statements are hostile; each passes the guard, and the child sees the job's files and nothing else.
   * `own`: statements are the runtime's own text, may also read `readPaths` and write below `writeDirs`, and may spill.
   */
  readonly trust: 'tenant' | 'own'
  /** Who asked for it: no tenant has all children at once. Absent: the runtime itself. */
  readonly tenant?: string
  readonly tables?: readonly EngineTable[]
  readonly csvInput?: CsvInput
  readonly steps?: readonly EngineStep[]
  readonly output?: EngineOutput
  /** Files, and folders with all they hold, that an own job's statements may read. */
  readonly readPaths?: readonly string[]
  /** Folders below which an own job's statements may write. */
  readonly writeDirs?: readonly string[]
  readonly limits: EngineLimits
}

/**
 * A column of a result. `type` is a logical type where one fits; others are `hugeint` (an integer), `time`, `timetz`,
 * `interval` (`1 year 2 days 00:00:01.5`), `bit`, `bignum`, `null`, `list<…>`, `struct<name:…,…>`, `map<…,…>`, `union<…>`.
 */
export interface ResultColumn {
  readonly name: string
  readonly type: string
}

export interface StepResult {
  readonly columns: readonly ResultColumn[]
  /** A cell of a logical type is a `Value`; one of another type is the JSON that stands for it. */
  readonly rows: readonly (readonly unknown[])[]
}

export interface WrittenFile {
  readonly path: string
  readonly rows: number
  readonly sizeBytes: number
  readonly footerSizeBytes: number
  /** By column (quoted as in the parquet file), then by statistic: `min`, `max`, `null_count`, `column_size_bytes` … */
  readonly columnStatistics: Readonly<Record<string, Readonly<Record<string, string>>>>
}

export interface OutputSummary {
  readonly rows: number
  readonly bytes: number
  /** True where `maxRows` left rows out. */
  readonly truncated: boolean
}

export interface EngineRun {
  /** One for each step with `rows: 'collect'`, in order. */
  readonly results: readonly StepResult[]
  /** Of a streamed or inspected output; empty without one. */
  readonly columns: readonly ResultColumn[]
  /** The streamed output's bytes, to be read once; leaving early kills the child. Ends at once without an output. */
  readonly output: AsyncIterable<Uint8Array>
  /** Settles when the output has been read to its end, or has failed as `output` did. */
  readonly finished: Promise<OutputSummary>
  /** What a `parquet-files` output wrote. */
  readonly files: readonly WrittenFile[]
  /** What the columns of an inspected statement are made of, one for each of `columns`. */
  readonly lineage: readonly ColumnLineage[]
  /** Of an inspected text that stands `within` another: what it gives by itself, where it can stand alone. */
  readonly textColumns?: readonly ResultColumn[]
  /** Of an inspected statement or condition: whether it says of each row of its only table, whatever other rows that has. */
  readonly isRowWise?: boolean
  /** Of an inspected statement over tables of one name each: by which of their columns it comes in parts. Null: by none. */
  readonly parts?: KeyedParts | null
  /** Of a tenant's streamed output: whether the statement says the same whenever it is asked of the same rows. */
  readonly isStable?: boolean
  /**
   * Of a streamed output with parameters: of each the type that the statement asks for, whatever was bound, named as those of
   * `columns`; null where it does not say.
   */
  readonly parameterTypes?: readonly (string | null)[]
}
