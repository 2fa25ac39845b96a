/** What tests of tables share: a folder, a catalog, an engine and short ways to commit and to read. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createEngine, type Engine, type EngineLimits, type EngineTable } from '@sluice/engine'
import { testEngineProgram } from '@sluice/engine/testing'
import type { Row, TableSchema } from '@sluice/sdk'
import type { Catalog } from './catalog.ts'
import type { CommitRequest, StagedCommit } from './commit.ts'
import { KeptChild } from './kept-child.fixture.ts'
import { Lake } from './lake.ts'
import { engineTable, type Scan } from './scan.ts'
import { FolderStore } from './store/folder-store.ts'
import { StoreCatalog } from './store-catalog.ts'
import type { TableRef } from './table-ref.ts'
import type { JobRunner } from './write.ts'

export const LIMITS: EngineLimits = { memoryBytes: 1024 ** 3, timeoutMs: 600_000, threads: 2 }

export interface TestLake extends AsyncDisposable {
  readonly lake: Lake
  readonly catalog: Catalog
  readonly store: FolderStore
  readonly engine: Engine
  readonly dir: string
  /** For what a test lays down and looks at: its jobs share a process. */
  readonly aside: Aside
  /** Moves the lake's clock. */
  setTime(ms: number): void
  /** Makes the commits visible. */
  publish(staged: readonly StagedCommit[]): Promise<void>
}

/** What stands for a lake or an engine; one that the test has made stands for itself. */
export interface Aside {
  lakeFor(lake: Lake): Lake
  engineFor(engine: Engine): JobRunner
}

/** Tables in a folder of their own, with the pointers beside them. */
export function startTestLake(): Promise<TestLake> {
  return startLakeOver((store) => new StoreCatalog(store))
}

/** The same with a catalog of the caller's, for as long as the lake is not disposed of. */
export async function startLakeOver(open: (store: FolderStore) => Catalog): Promise<TestLake> {
  const dir = await mkdtemp(join(tmpdir(), 'sluice-lake-'))
  const store = new FolderStore(join(dir, 'store'))
  const catalog = open(store)
  const children = { maxChildren: 2, warmChildren: 0, maxQueued: 10, ...(await testEngineProgram()) }
  const engine = createEngine({ scratchDir: join(dir, 'scratch'), ...children })
  const other = createEngine({ scratchDir: join(dir, 'scratch-aside'), ...children })
  const kept = new KeptChild(other, dir, LIMITS)
  let now: number | null = null
  const lakeOf = (runner: JobRunner) => new Lake({ store, catalog, engine: runner, clock: () => now ?? Date.now() })
  const [lake, lakeAside] = [lakeOf(engine), lakeOf(kept)]
  return {
    lake,
    aside: {
      lakeFor: (asked) => (asked === lake ? lakeAside : asked),
      engineFor: (asked) => (asked === engine ? kept : asked),
    },
    catalog,
    store,
    engine,
    dir,
    setTime(ms) {
      now = ms
    },
    publish: (staged) => lake.publish(catalog, staged),
    async [Symbol.asyncDispose]() {
      await Promise.all([engine.close(), other.close()])
      await rm(dir, { recursive: true, force: true })
    },
  }
}

export interface Step {
  readonly select: string
  readonly schema: TableSchema
  readonly operation: 'append' | 'replace' | 'overwrite'
  readonly removed?: readonly string[]
  readonly renames?: Readonly<Record<string, string>>
  readonly partitioning?: readonly { readonly column: string; readonly transform: string }[]
  readonly summary?: Readonly<Record<string, string>>
  /** See `WriteTarget.marks`. */
  readonly marks?: boolean
}

/** Writes and stages one change against the table as it is. */
export async function stageStep(test: TestLake, ref: TableRef, step: Step): Promise<StagedCommit> {
  const lake = test.aside.lakeFor(test.lake)
  const base = await lake.load(ref)
  const { select, schema, operation, removed, renames, partitioning, marks } = step
  const target = {
    ref,
    base,
    select,
    schema,
    rows: operation === 'replace' ? 'rewrite' : 'keep',
    ...(renames === undefined ? {} : { renames }),
    ...(partitioning === undefined ? {} : { partitioning }),
    ...(marks === undefined ? {} : { marks }),
  } as const
  const { written } = await lake.write({ limits: LIMITS }, [target], AbortSignal.timeout(600_000))
  const [data] = written
  if (data === undefined) throw new Error('nothing was written')
  const request: CommitRequest = {
    base,
    plan: data.plan,
    operation,
    files: data.files,
    writeId: data.writeId,
    summary: step.summary ?? {},
    ...(removed === undefined ? {} : { removed }),
  }
  return lake.stage(ref, request)
}

export async function publish(test: TestLake, ...staged: readonly StagedCommit[]): Promise<void> {
  await test.publish(staged)
}

export async function commitStep(test: TestLake, ref: TableRef, step: Step): Promise<StagedCommit> {
  const staged = await stageStep(test, ref, step)
  await publish(test, staged)
  return staged
}

/** All rows of a scan, sorted. */
export async function readScan(test: TestLake, scan: Scan): Promise<readonly Row[]> {
  const [rows] = await readScans(test, [scan])
  return rows ?? []
}

/** All rows of each scan, sorted; one job for all. */
export async function readScans(
  { aside, engine }: TestLake,
  scans: readonly Scan[],
): Promise<readonly (readonly Row[])[]> {
  const tables = scans.map((scan, at) => engineTable(scan, [`t${at}`]))
  return collect(
    aside.engineFor(engine),
    tables,
    scans.map((_, at) => `SELECT * FROM t${at} ORDER BY ALL`),
  )
}

/** The rows of each statement, all in one job. */
export async function collect(
  engine: JobRunner,
  tables: readonly EngineTable[],
  statements: readonly string[],
): Promise<readonly (readonly Row[])[]> {
  const steps = statements.map((sql) => ({ sql, rows: 'collect' }) as const)
  const run = await engine.run({ trust: 'own', tables, steps, limits: LIMITS }, AbortSignal.timeout(600_000))
  return run.results.map((result) => result.rows as readonly Row[])
}
