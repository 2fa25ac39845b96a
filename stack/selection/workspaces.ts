/** The packages of the repository, and which file each of their exports is. Plugins are loaded by these names. */
import { posix } from 'node:path'
import { type Tree, textOf } from './tree.ts'

interface Manifest {
  readonly name?: string
  readonly main?: string
  readonly exports?: string | Readonly<Record<string, unknown>>
  readonly workspaces?: readonly string[]
}

interface Workspace {
  readonly folder: string
  readonly manifest: Manifest
}

export class Workspaces {
  readonly #byName = new Map<string, Workspace>()
  readonly #naming: RegExp | null

  constructor(tree: Tree) {
    for (const folder of foldersOf(tree)) {
      const manifest = manifestOf(tree, `${folder}/package.json`)
      if (manifest.name !== undefined) this.#byName.set(manifest.name, { folder, manifest })
    }
    // The longest first: of two names the one may begin with the other.
    const names = [...this.#byName.keys()].sort((left, right) => right.length - left.length)
    const wanted = names.map((name) => name.replaceAll('.', '\\.')).join('|')
    this.#naming = names.length === 0 ? null : new RegExp(`(?<![\\w@/.-])(${wanted})(?![\\w-])((?:/[\\w.-]+)*)`, 'g')
  }

  /** The files that stand for the packages and subpaths which the text names anywhere. */
  namedIn(text: string): readonly string[] {
    if (this.#naming === null) return []
    return [...text.matchAll(this.#naming)].flatMap(([, name = '', subpath = '']) => this.#filesOf(name, subpath))
  }

  #filesOf(name: string, subpath: string): readonly string[] {
    const workspace = this.#byName.get(name)
    if (workspace === undefined) return []
    const { folder, manifest } = workspace
    const module = exported(manifest, subpath === '' ? '.' : `.${subpath}`)
    const own = `${folder}/package.json`
    return module === null ? [own] : [own, posix.join(folder, module)]
  }
}

function foldersOf(tree: Tree): readonly string[] {
  if (!tree.files.has('package.json')) return []
  const patterns = manifestOf(tree, 'package.json').workspaces ?? []
  return [...tree.below.keys()].filter(
    (folder) =>
      tree.files.has(`${folder}/package.json`) && patterns.some((pattern) => posix.matchesGlob(folder, pattern)),
  )
}

function manifestOf(tree: Tree, path: string): Manifest {
  return JSON.parse(textOf(tree, path)) as Manifest
}

function exported({ exports, main }: Manifest, subpath: string): string | null {
  if (exports === undefined) return subpath === '.' ? (main ?? 'index.ts') : subpath
  const target = typeof exports === 'string' ? { '.': exports }[subpath] : exports[subpath]
  return firstPath(target)
}

/** Of conditions the first that names a file; in this repository all name the same. */
function firstPath(target: unknown): string | null {
  if (typeof target === 'string') return target
  if (typeof target !== 'object' || target === null) return null
  return Object.values(target).map(firstPath).find(Boolean) ?? null
}
