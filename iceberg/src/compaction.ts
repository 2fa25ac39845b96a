import type { EngineLimits } from '@sluice/engine'
import type { CommitRequest } from './commit.ts'
import type { DataFile } from './format/data-file.ts'
import { fileFields, hasMarks } from './format/marks.ts'
import { sortColumns } from './format/sort-order.ts'
import { toTableSchema } from './format/table-schema.ts'
import { deletesByFile, deletesOf } from './position-deletes.ts'
import { engineTable, type Scan, type ScanFile } from './scan.ts'
import type { TableState } from './table-state.ts'
import type { WriteJob, WriteTarget, WrittenData } from './write.ts'

export interface CompactionOptions {
  /** Files below three quarters of it count as small. Default 128 MiB. */
  readonly targetFileBytes?: number
  /** So many small files of one partition are worth a rewrite. Default 8. */
  readonly minFiles?: number
  readonly limits: EngineLimits
}

const DEFAULT_TARGET_BYTES = 128 * 1024 * 1024
const DEFAULT_MIN_FILES = 8
const SMALL_SHARE = 0.75
/** A file of which more rows are gone is written anew, however large it is. Merges let no more than twice as many be gone. */
const WORN_SHARE = 0.05
/** Of one rewrite, so that it ends in time and a conflict throws little away; the rest is taken by the next one. */
const MAX_REWRITTEN_BYTES = 2 * 1024 * 1024 * 1024
const MAX_REWRITTEN_FILES = 5_000

/** The files that are worth being rewritten: into fewer, or without rows that are gone; none where the table is well as it is. */
export function smallFiles(
  state: TableState,
  scan: Scan,
  options: Omit<CompactionOptions, 'limits'>,
): readonly ScanFile[] {
  const target = options.targetFileBytes ?? DEFAULT_TARGET_BYTES
  const worn = wornFiles(state, scan)
  const small = scan.files.filter((file) => file.sizeBytes < target * SMALL_SHARE && !worn.has(file))
  const groups = [...Map.groupBy(small, ({ file }) => partitionKey(state, file)).values()]
  const chosen: ScanFile[] = []
  let bytes = 0
  for (const file of worn) {
    const isFull = chosen.length >= MAX_REWRITTEN_FILES || bytes + file.sizeBytes > MAX_REWRITTEN_BYTES
    if (isFull && chosen.length > 0) return chosen
    chosen.push(file)
    bytes += file.sizeBytes
  }
  // Where most files are is most to win.
  for (const group of groups.toSorted((a, b) => b.length - a.length)) {
    if (group.length < (options.minFiles ?? DEFAULT_MIN_FILES)) break
    for (const file of group) {
      if (chosen.length >= MAX_REWRITTEN_FILES || bytes + file.sizeBytes > MAX_REWRITTEN_BYTES) return chosen
      chosen.push(file)
      bytes += file.sizeBytes
    }
  }
  return chosen
}

/**
 * Their readers pass over many rows that are gone; or they are as old as the history, so that rows which are gone do not lie in
 * files for longer than it is kept. Where delete files tell of several files, nobody knows of which how many.
 */
function wornFiles({ metadata }: TableState, scan: Scan): ReadonlySet<ScanFile> {
  const deletes = deletesByFile(scan)
  const known = new Set(metadata.snapshots.map((snapshot) => String(snapshot['snapshot-id'])))
  const isWorn = (file: ScanFile) => {
    const gone = deletes?.get(file.uri)?.rows ?? 0
    return gone > file.rows * WORN_SHARE || (gone > 0 && !known.has(file.addedIn))
  }
  return new Set(scan.files.filter(isWorn))
}

/** Files of former partition specs end in the present one, so they are counted together. */
function partitionKey(state: TableState, file: DataFile): string {
  if (file.specId !== state.spec['spec-id']) return 'former'
  return JSON.stringify(file.partition, (_, value) => (typeof value === 'bigint' ? `${value}n` : value))
}

const CONTENT = 'content'

/** The job that writes the rows of those files again, in the table's present schema, partitioning and order. */
export function compactionJob(
  state: TableState,
  scan: Scan,
  files: readonly ScanFile[],
  options: CompactionOptions,
): { readonly job: WriteJob; readonly target: WriteTarget } {
  const order = state.metadata['sort-orders'].find(
    (known) => known['order-id'] === state.metadata['default-sort-order-id'],
  )
  const marks = hasMarks(scan.summary)
  const columns = { ...state.schema, fields: fileFields(state.schema.fields, marks) }
  return {
    job: { tables: [engineTable({ ...scan, files }, [CONTENT], columns)], limits: options.limits },
    target: {
      ref: state.ref,
      base: state,
      select: `SELECT * FROM ${CONTENT}`,
      schema: toTableSchema(state.schema),
      rows: 'keep',
      sortBy: sortColumns(order, state.schema),
      targetFileBytes: options.targetFileBytes ?? DEFAULT_TARGET_BYTES,
      ...(marks ? { marks } : {}),
    },
  }
}

/** What the former snapshot said of its content (epoch, run, version) holds for the new one, too. */
export function compactionCommit(
  state: TableState,
  scan: Scan,
  files: readonly ScanFile[],
  written: WrittenData,
): CommitRequest {
  // Those of other engines may be of files that stay, too.
  const deletes = deletesByFile(scan) === null ? [] : deletesOf(scan, files)
  const leaving = [...files, ...deletes]
  const own = Object.entries(scan.summary).filter(([name]) => name.startsWith('sluice.'))
  return {
    base: state,
    plan: written.plan,
    operation: 'rewrite',
    files: written.files,
    removed: leaving.map((file) => file.uri),
    removedFrom: [...new Set(leaving.map((file) => file.manifest))],
    summary: { ...Object.fromEntries(own), 'sluice.upkeep': 'compact' },
    writeId: written.writeId,
  }
}
