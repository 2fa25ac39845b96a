/** The processes and threads that work for the runtime: engines, readers of sources, parsers; and who pays for their CPU time. */
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { bundleChild, bundleProgram, codeFolder, createEngine, type PooledEngine, type WallName } from '@sluice/engine'
import type { Logger } from '@sluice/sdk'
import type pg from 'pg'
import type { Config } from '../config.ts'
import { FolderRules } from '../ingestion/folder-rules.ts'
import { ProgramRules } from '../ingestion/programs/program-rules.ts'
import { SourceReaders } from '../ingestion/source-readers.ts'
import { ParseThreads } from '../parsing/parse-threads.ts'
import type { CpuAccounts, CpuLedger } from '../registry/cpu-accounts.ts'
import { chargeCpu, spentBudgets } from '../registry/cpu-budgets.ts'
import type { ProcessFolders } from './process-shares.ts'
import { tenantFolders } from './storage.ts'

const MB = 1024 * 1024

export const codeFolderOf = ({ data_dir: dataDirectory }: Config) => codeFolder(join(dataDirectory, 'code-cache'))

/** The limit is one for all runtimes: what each has counted is added up in the registry. */
export function cpuLedger(pool: pg.Pool, { limits: { cpu_seconds: limits } }: Config): CpuLedger {
  return {
    charge: (charges) => chargeCpu(pool, charges, limits),
    debts: () => spentBudgets(pool, limits),
  }
}

/** A dashboard asks for the same tables again within seconds; a table's next epoch is other files, which nobody waits with. */
const KEEP_ENGINES_MS = 5_000

export async function openEngine(
  config: Config,
  accounts: CpuAccounts,
  neededWalls: readonly WallName[],
  folders: ProcessFolders,
  logger: Logger,
): Promise<PooledEngine> {
  const { engine_processes: processes, query_cache_mb: cacheMb } = config.limits
  const codeCacheDir = codeFolderOf(config)
  const childBundle = await bundleChild(codeCacheDir).catch((error: unknown) => {
    const message = error instanceof Error ? error.message : String(error)
    logger.warn('the program of engine processes could not be bundled: each starts slower than it could', { message })
    return undefined
  })
  return createEngine({
    scratchDir: folders.scratch,
    tenantFolders: tenantFolders(config, folders),
    codeCacheDir,
    ...(childBundle === undefined ? {} : { childBundle }),
    maxChildren: processes,
    warmChildren: Math.min(2, processes),
    warmAtFirst: 1,
    maxQueued: 1000,
    keepMs: KEEP_ENGINES_MS,
    resultBytes: cacheMb * MB,
    neededWalls,
    accounts,
  })
}

const PARSE_PROGRAM = new URL(
  import.meta.url.endsWith('.ts') ? '../http/parse-tasks.ts' : '../http/parse-tasks.js',
  import.meta.url,
)

/** As one file the program takes a third of the memory, and of the time to start, that its modules take one by one. */
export function openThreads(config: Config, logger: Logger): ParseThreads {
  const dir = codeFolderOf(config)
  const options = { dir, name: 'parse-tasks', requiring: fileURLToPath(PARSE_PROGRAM) }
  return new ParseThreads({
    program: () =>
      bundleProgram(PARSE_PROGRAM, options).then(pathToFileURL, (error: unknown) => {
        const message = error instanceof Error ? error.message : String(error)
        logger.warn('the program of the threads that parse could not be bundled: they start slower', { message })
        return PARSE_PROGRAM
      }),
  })
}

/** Connectors at work beside those of runs: tests of connections, and lists of their tables. A process has two at least. */
const READERS_BESIDE_RUNS = 4
const LEAST_READERS = 2

/** Which folders and programs connections may name. Throws CONFIG for what may not be lent to anybody. */
export function sourceRules({ data_dir, folders, programs, secrets_dir }: Config) {
  const own = [data_dir, secrets_dir]
  return {
    folders: new FolderRules(folders.allow, own),
    ...(programs === undefined ? {} : { programs: new ProgramRules(programs, own) }),
  }
}

export function openSources(config: Config, accounts: CpuAccounts, neededWalls: readonly WallName[]): SourceReaders {
  const { data_dir, limits, secrets_dir, http } = config
  const besideRuns = Math.max(LEAST_READERS, Math.floor(READERS_BESIDE_RUNS / http.processes))
  const privateFolders = [data_dir, secrets_dir, process.cwd()]
  return new SourceReaders({
    maxReaders: limits.workers + limits.followed_connections + besideRuns,
    memoryBytes: limits.source_memory_mb * MB,
    silenceMs: limits.source_silence_ms,
    callMs: limits.source_call_timeout_ms,
    readMs: limits.source_read_timeout_ms,
    codeCacheDir: codeFolderOf(config),
    privateFolders,
    ...sourceRules(config),
    neededWalls,
    accounts,
  })
}
