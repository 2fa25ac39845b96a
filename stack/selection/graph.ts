/** Everything that some files rest on: what they name, what that names, and so on. */
import { posix } from 'node:path'
import { referencesOf } from './references.ts'
import type { Tree } from './tree.ts'
import { Workspaces } from './workspaces.ts'

export class SourceGraph {
  readonly tree: Tree
  readonly #workspaces: Workspaces
  readonly #references = new Map<string, ReadonlySet<string>>()

  constructor(tree: Tree) {
    this.tree = tree
    this.#workspaces = new Workspaces(tree)
  }

  /** Sorted, the entries among them. What `isApart` holds for is neither in it nor followed. */
  reachedFrom(entries: Iterable<string>, isApart: (path: string) => boolean = () => false): readonly string[] {
    const reached = new Set<string>()
    const waiting = [...entries]
    for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
      if (reached.has(path) || isApart(path) || !this.tree.files.has(path)) continue
      reached.add(path)
      waiting.push(...this.#referencesOf(path), ...this.#manifestOf(path))
    }
    return [...reached].sort()
  }

  #referencesOf(path: string): ReadonlySet<string> {
    const known = this.#references.get(path) ?? referencesOf(path, this.tree, this.#workspaces)
    this.#references.set(path, known)
    return known
  }

  /** It says how Node takes the file. */
  #manifestOf(path: string): readonly string[] {
    for (let folder = posix.dirname(path); ; folder = posix.dirname(folder)) {
      const manifest = posix.join(folder, 'package.json')
      if (this.tree.files.has(manifest)) return [manifest]
      if (folder === '.') return []
    }
  }
}
