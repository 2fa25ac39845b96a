import { randomUUID } from 'node:crypto'
import { basename } from 'node:path'
import type { EngineJob, EngineRun, StepResult } from '@sluice/engine'
import type { TableSchema } from '@sluice/sdk'
import type { TablePlan } from './commit.ts'
import {
  type DataRequest,
  isTooLarge,
  parseSplit,
  parseWritten,
  splitStep,
  type WrittenFile,
  writeSteps,
} from './data-writer.ts'
import type { DataFile } from './format/data-file.ts'
import { schemaById } from './format/metadata.ts'
import { type PartitionColumn, planSpec } from './format/partitioning.ts'
import { planSchema } from './format/schema-change.ts'
import { planSortOrder } from './format/sort-order.ts'
import { fromIceberg } from './format/table-schema.ts'
import type { ObjectStore } from './store/object-store.ts'
import { TableFiles } from './table-files.ts'
import { type Layout, type TableRef, tablePath } from './table-ref.ts'
import { chooseSnapshot, isToBegin, type SnapshotId, type TableState } from './table-state.ts'
import type { WriteLeases } from './write-leases.ts'

/** Whatever runs engine jobs. */
export interface JobRunner {
  run(job: EngineJob, signal: AbortSignal): Promise<Pick<EngineRun, 'results'>>
}

/** Rows for one table, as one statement of a job. */
export interface WriteTarget {
  readonly ref: TableRef
  /** The state that the commit will be made against; null for a new table. */
  readonly base: TableState | null
  /** See `DataRequest.select`. */
  readonly select: string
  readonly schema: TableSchema
  readonly renames?: Readonly<Record<string, string>>
  /** What is said of columns, by name. Default: what the table says. */
  readonly comments?: ReadonlyMap<string, string>
  /** Default: the table's own, and none for a new table. */
  readonly partitioning?: readonly PartitionColumn[]
  /** `keep` where files of the current snapshot stay in the table (append, overwrite), `rewrite` for replace. */
  readonly rows: 'keep' | 'rewrite'
  readonly targetFileBytes?: number
  readonly sortBy?: readonly string[]
  /** The rows of `select` have the column `MARKS`, too. */
  readonly marks?: boolean
}

/** What the job reads and does first: the engine's own words. Its trust is the runtime's. */
export interface WriteJob
  extends Pick<EngineJob, 'tables' | 'csvInput' | 'steps' | 'readPaths' | 'writeDirs' | 'limits'> {
  /** Given the results of its own collecting steps, those after a gate that has closed left out; what it throws ends the write. */
  readonly judge?: (results: readonly StepResult[]) => void
}

/** Files that are in the object store and in no snapshot yet. */
export interface WrittenData {
  readonly ref: TableRef
  readonly plan: TablePlan
  readonly files: readonly DataFile[]
  readonly rows: number
  readonly sizeBytes: number
  /** The lease that keeps the cleaner away. */
  readonly writeId: string
}

export interface WriteRun {
  /** One for each target, in order. */
  readonly written: readonly WrittenData[]
  /** Of the job's own collecting steps. */
  readonly results: readonly StepResult[]
}

/** How long written files are safe from the cleaner after their job's deadline; staging and publishing lie in it. */
const LEASE_AFTER_JOB_MS = 60 * 60 * 1000

/** The ids that the target's columns and partition fields have or get. Throws CONFIG where the table cannot become that. */
export function planTable(
  target: Pick<WriteTarget, 'base' | 'schema' | 'renames' | 'comments' | 'partitioning' | 'rows' | 'sortBy'>,
): TablePlan {
  const base = isToBegin(target.base) ? null : target.base
  const metadata = base?.metadata
  const schema = planSchema(
    base?.schema ?? null,
    (metadata?.schemas ?? []).map(fromIceberg),
    metadata?.['last-column-id'] ?? 0,
    {
      target: target.schema,
      rows: target.rows,
      ...(target.renames === undefined ? {} : { renames: target.renames }),
      ...(target.comments === undefined ? {} : { comments: target.comments }),
    },
  )
  const order = planSortOrder(metadata?.['sort-orders'] ?? [], schema.schema, target.sortBy ?? [])
  if (target.partitioning === undefined && base !== null) {
    const lastPartitionId = base.metadata['last-partition-id']
    return { schema, spec: { spec: base.spec, lastPartitionId, isNew: false }, order }
  }
  const specs = metadata?.['partition-specs'] ?? []
  const lastId = metadata?.['last-partition-id'] ?? 0
  return { schema, spec: planSpec(specs, lastId, schema.schema, target.partitioning ?? []), order }
}

/**
 * The shape of a table whose older snapshot is to be restored: that snapshot's schema, and the layout that the next files
 * are to have. Today's may go by columns which that schema has not. Throws CONFIG `lake_partitioning_invalid`,
 * INVALID_DATA `snapshot_not_found`.
 */
export function planRestore(
  { metadata, schema: current }: TableState,
  snapshotId: SnapshotId,
  layout: { readonly partitioning: readonly PartitionColumn[]; readonly sortBy: readonly string[] },
): TablePlan {
  const id = chooseSnapshot(metadata, { snapshotId })?.['schema-id']
  const kept = id === undefined ? null : schemaById(metadata, id)
  const schema = kept === null ? current : fromIceberg(kept)
  return {
    schema: { schema, lastColumnId: metadata['last-column-id'], isNew: false },
    spec: planSpec(metadata['partition-specs'], metadata['last-partition-id'], schema, layout.partitioning),
    order: planSortOrder(metadata['sort-orders'], schema, layout.sortBy),
  }
}

interface Context {
  readonly store: ObjectStore
  readonly layout: Layout
  readonly leases: WriteLeases
  readonly engine: JobRunner
}

/** Runs one job that writes the data files of all targets, and takes the files into the object store. */
export async function writeData(
  context: Context,
  { judge, ...job }: WriteJob,
  targets: readonly WriteTarget[],
  signal: AbortSignal,
): Promise<WriteRun> {
  const plans = targets.map(planTable)
  const leases = targets.map(() => randomUUID())
  for (const [at, target] of targets.entries()) {
    await context.leases.leaseWrite(target.ref, leases[at] as string, job.limits.timeoutMs + LEASE_AFTER_JOB_MS)
  }
  const workspace = await context.store.workspace(context.layout.bucketOf((targets[0] as WriteTarget).ref.warehouse))
  try {
    const requests = targets.map((target, at) => dataRequest(target, plans[at] as TablePlan, workspace.dir))
    const own = (job.steps ?? []).filter((step) => step.rows === 'collect').length
    const steps = [...(job.steps ?? []), ...requests.flatMap(writeSteps)]
    const limits = orderly(job.limits, requests)
    const writeDirs = [...(job.writeDirs ?? []), workspace.dir]
    const run = await context.engine.run({ ...job, limits, trust: 'own', steps, writeDirs }, signal)
    judge?.(run.results.slice(0, own))
    const written: WrittenData[] = []
    for (const [at, target] of targets.entries()) {
      const request = requests[at] as DataRequest
      const result = run.results[own + at]
      if (result === undefined) throw new Error('the engine gave no result for a written table')
      const local = await split(context.engine, request, parseWritten(request, result), job.limits, signal)
      const files = await adoptFiles(filesOf(context, target.ref), local)
      written.push(describe(target.ref, plans[at] as TablePlan, files, leases[at] as string))
    }
    return { written, results: run.results.slice(0, own) }
  } catch (error) {
    // What was adopted already has no lease any more and goes with the next cleaning.
    for (const [at, { ref }] of targets.entries()) {
      await context.leases.endWrite(ref, leases[at] as string).catch(() => undefined)
    }
    throw error
  } finally {
    await workspace.dispose()
  }
}

function dataRequest(target: WriteTarget, plan: TablePlan, dir: string): DataRequest {
  return {
    select: target.select,
    schema: plan.schema.schema,
    spec: plan.spec.spec,
    sortOrderId: plan.order.order['order-id'],
    dir,
    ...(target.targetFileBytes === undefined ? {} : { targetFileBytes: target.targetFileBytes }),
    ...(target.sortBy === undefined ? {} : { sortBy: target.sortBy }),
    ...(target.marks === true ? { marks: true } : {}),
  }
}

/** Several threads do not keep the order of rows in files that are parted by their size. */
function orderly(limits: EngineJob['limits'], requests: readonly DataRequest[]): EngineJob['limits'] {
  const isSorted = requests.some(({ sortBy = [] }) => sortBy.length > 0)
  return isSorted ? { ...limits, threads: 1 } : limits
}

/** The files, those that are too large exchanged for several. */
async function split(
  engine: JobRunner,
  request: DataRequest,
  files: readonly WrittenFile[],
  limits: EngineJob['limits'],
  signal: AbortSignal,
): Promise<readonly WrittenFile[]> {
  const large = files.filter((file) => isTooLarge(request, file))
  if (large.length === 0) return files
  const steps = large.map((file) => splitStep(request, file))
  const readPaths = large.map(({ localFile }) => localFile)
  const job: EngineJob = {
    trust: 'own',
    steps,
    readPaths,
    writeDirs: [request.dir],
    limits: orderly(limits, [request]),
  }
  const { results } = await engine.run(job, signal)
  const parts = results.flatMap((result, at) => parseSplit(request, large[at] as WrittenFile, result))
  return [...files.filter((file) => !large.includes(file)), ...parts]
}

function filesOf({ store, layout }: Pick<Context, 'store' | 'layout'>, ref: TableRef): TableFiles {
  return new TableFiles(store, ref, tablePath(layout, ref))
}

async function adoptFiles(files: TableFiles, written: readonly WrittenFile[]): Promise<readonly DataFile[]> {
  const adopted: DataFile[] = []
  for (const { localFile, metrics } of written) {
    // The engine's names are random already; a partition's value must not show in a name.
    const uri = files.dataUri(`${randomUUID()}-${basename(localFile)}`)
    await files.store.adopt(localFile, files.pathOf(uri), { sizeBytes: metrics.sizeBytes })
    adopted.push({ ...metrics, uri })
  }
  return adopted
}

function describe(ref: TableRef, plan: TablePlan, files: readonly DataFile[], writeId: string): WrittenData {
  return {
    ref,
    plan,
    files,
    rows: files.reduce((sum, file) => sum + file.rows, 0),
    sizeBytes: files.reduce((sum, file) => sum + file.sizeBytes, 0),
    writeId,
  }
}
