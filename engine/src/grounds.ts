/** Own jobs over the files of one tenant, which follow each other in one child (decision 234). */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync } from 'node:fs'
import { join, normalize, sep } from 'node:path'
import { type EngineJob, filesOf } from './job.ts'

/**
 * Absolute paths of folders in which each tenant has a folder of its own, of the same name in all of them. Nothing else lies in
 * one of `written`.
 */
export interface TenantFolders {
  /** What a tenant's jobs read. */
  readonly read: readonly string[]
  /** What they read and write. Each may lie in one of `read`; a tenant's folder there is made when missing. */
  readonly written: readonly string[]
}

/** What a child may open for as long as it lives: folders of one tenant. */
export interface Grounds {
  /** Whose they are, and for what jobs: equal where a job may run in a child of the other. */
  readonly kind: string
  readonly readTrees: readonly string[]
  readonly writeTrees: readonly string[]
}

/**
 * The folders of the tenant whose files are all that the job opens. Null where it opens others or none, is a tenant's own
 * statement, or hands out rows: then it has to have a child of its own.
 *
 * @param payer of the child's processor time
 */
export function groundsOf(job: EngineJob, folders: TenantFolders, payer: string | null): Grounds | null {
  if (job.trust !== 'own' || job.output !== undefined) return null
  const { tables = [], readPaths = [], writeDirs = [], limits, tenant = null } = job
  const read = [...tables.flatMap(filesOf), ...readPaths]
  const names = new Set([
    ...read.map((path) => ownerIn([...folders.read, ...folders.written], path)),
    ...writeDirs.map((path) => ownerIn(folders.written, path)),
  ])
  const [name] = names
  if (names.size !== 1 || name === null || name === undefined) return null
  const readTrees = folders.read.map((folder) => join(folder, name))
  const writeTrees = folders.written.map((folder) => join(folder, name))
  // The walls name folders that are there; what a tenant has not got yet is not made here.
  if (!readTrees.every((tree) => existsSync(tree))) return null
  for (const tree of writeTrees) mkdirSync(tree, { recursive: true, mode: 0o700 })
  const { memoryBytes, tempBytes = null } = limits
  const told = JSON.stringify([name, memoryBytes, tempBytes, tenant, payer])
  return { kind: `grounds ${createHash('sha256').update(told).digest('base64')}`, readTrees, writeTrees }
}

/** Whose folder the path lies in, by the innermost of these that holds it; null: nobody's. */
function ownerIn(folders: readonly string[], path: string): string | null {
  if (normalize(path) !== path) return null
  const holding = folders.filter((folder) => path.startsWith(folder + sep))
  const folder = holding.reduce((inner, one) => (one.length > inner.length ? one : inner), '')
  const name = folder === '' ? '' : (path.slice(folder.length + 1).split(sep)[0] ?? '')
  // Of a name with a dot in front are folders of the store itself.
  return name === '' || name.startsWith('.') ? null : name
}
