/** DuckDB behind walls: statements run in child processes that have their job's files and nothing else. */
export { lossCondition } from './cast-loss.ts'
export { bundleChild } from './child-bundle.ts'
export { fromDriver } from './driver-error.ts'
export { createEngine, type Engine, type EngineOptions, type JobAccounts, type PooledEngine } from './engine.ts'
export type { ChildProgram } from './engine-child.ts'
export type { TenantFolders } from './grounds.ts'
export { INFORMATION_SCHEMA } from './guard/information-schema.ts'
export type { KeyedParts, PartColumn, PartLink } from './guard/keyed-parts.ts'
export { type QualifiedName, qualifiedNames } from './guard/names.ts'
export { isStableText } from './guard/stability.ts'
export { foldName } from './guard/tree.ts'
export type * from './job.ts'
export { filesOf } from './job.ts'
export type { ColumnLineage, ComparableColumn, SourceColumn } from './lineage/lineage.ts'
export type { StorageRoom } from './room-watch.ts'
export { rowsOf } from './rows.ts'
export {
  BEYOND_LONG,
  copyToFile,
  FILE_COLUMN,
  fileCell,
  fileNames,
  fileType,
  fromFile,
  parquetOptions,
  quoteName,
  quoteTable,
  quoteText,
  sqlType,
} from './sql-text.ts'
export type { PoolLimits, PoolLoad } from './walls/child-pool.ts'
export { codeFolder } from './walls/code-folder.ts'
export { kernelWalls } from './walls/kernel-walls.ts'
export { bundleProgram } from './walls/program-bundle.ts'
export { NEEDED_WALLS, WALL_NAMES, type Wall, type WallName } from './walls/walls.ts'
export { lostValues } from './written-losses.ts'
