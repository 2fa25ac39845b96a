/** The repository's files as they are in the working tree: what git has and what it would add, without what it ignores. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { lstatSync, readFileSync, readlinkSync } from 'node:fs'
import { join, posix } from 'node:path'

const MAX_OUTPUT_BYTES = 64 * 1024 * 1024

/** Paths are from the root, with `/`. */
export interface Tree {
  readonly root: string
  readonly files: ReadonlySet<string>
  /** All that lies below each folder, at any depth. */
  readonly below: ReadonlyMap<string, readonly string[]>
}

export function repositoryTree(root: string): Tree {
  const args = ['ls-files', '--cached', '--others', '--exclude-standard', '-z']
  const listed = execFileSync('git', args, { cwd: root, encoding: 'utf8', maxBuffer: MAX_OUTPUT_BYTES })
  return treeOf(root, listed.split('\0').filter(Boolean))
}

/** A file that git has may have been deleted; it is left out. */
export function treeOf(root: string, paths: Iterable<string>): Tree {
  const files = new Set([...paths].filter((path) => isFile(join(root, path))).sort())
  const below = new Map<string, string[]>()
  for (const file of files) {
    for (let folder = posix.dirname(file); folder !== '.'; folder = posix.dirname(folder)) {
      const known = below.get(folder)
      if (known === undefined) below.set(folder, [file])
      else known.push(file)
    }
  }
  return { root, files, below }
}

function isFile(path: string): boolean {
  const stat = lstatSync(path, { throwIfNoEntry: false })
  return stat?.isFile() === true || stat?.isSymbolicLink() === true
}

export function textOf(tree: Tree, path: string): string {
  return readFileSync(join(tree.root, path), 'utf8')
}

/** A link counts by where it points. */
export function digestOf(tree: Tree, path: string): string {
  const place = join(tree.root, path)
  const content = lstatSync(place).isSymbolicLink() ? readlinkSync(place) : readFileSync(place)
  return createHash('sha256').update(content).digest('hex')
}
