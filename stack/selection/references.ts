/**
 * What one file names of the repository: modules it imports, files and folders that it reads, copies or runs, packages.
 * It is guessed from names alone, so that nobody has to keep a list; too much is better than too little.
 */
import { posix } from 'node:path'
import { globbed } from './globbed.ts'
import { type Literal, scan } from './literals.ts'
import { type Tree, textOf } from './tree.ts'
import type { Workspaces } from './workspaces.ts'

const CODE = /\.(?:[cm]?[jt]s)$/
/** Configurations, which name plugins by their packages. Of a package.json not: it names every dependency. */
const CONFIGURATION = /\.(?:ya?ml|toml)$/
/** What is copied to somebody's folder is read here, and run there. */
const COPIED = /(?:^|\/)templates\//
/** What is offered there runs where a configuration names it. */
const OFFERED = /(?:^|\/)own-plugins\.ts$/
const PATH = /^[\w@.+\-/*?{},[\]]{1,300}$/
const GLOB = /[*{?]/

/** Files of the tree; those that it does not hold are installed packages, or made at run time. */
export function referencesOf(path: string, tree: Tree, workspaces: Workspaces): ReadonlySet<string> {
  const named = namesIn(path, tree)
  const found = new Set(workspaces.namedIn(named.text).filter((file) => tree.files.has(file)))
  for (const name of named.paths) {
    for (const file of filesNamed(name, path, tree)) found.add(file)
  }
  found.delete(path)
  return found
}

interface Names {
  /** In which names of packages are looked for. */
  readonly text: string
  readonly paths: readonly string[]
}

function namesIn(path: string, tree: Tree): Names {
  if (COPIED.test(path) || OFFERED.test(path)) return { text: '', paths: [] }
  if (CODE.test(path)) return namesInCode(textOf(tree, path))
  if (path.endsWith('.py')) return namesInPython(textOf(tree, path))
  return { text: CONFIGURATION.test(path) ? textOf(tree, path) : '', paths: [] }
}

function namesInCode(source: string): Names {
  const { code, literals } = scan(source)
  return { text: code, paths: [...literals.flatMap(pathsIn), ...joined(code)] }
}

function namesInPython(source: string): Names {
  const quoted = [...source.matchAll(/'([^'\n]*)'|"([^"\n]*)"/g)].map(([, one, two]) => one ?? two ?? '')
  const modules = [...source.matchAll(/^\s*(?:from|import)\s+(\w+)/gm)].map(([, name]) => `${name}.py`)
  return { text: quoted.join('\n'), paths: [...quoted.filter(isPath), ...modules] }
}

/** A single word is no path: it would be the name of some folder far too often. Nor is a type of media. */
const isPath = (text: string): boolean => PATH.test(text) && /[/.]/.test(text) && /\w/.test(text)

/** Before a value, as far as its last folder; after one, from the first slash. */
function pathsIn({ text, isAfterValue, isBeforeValue }: Literal): readonly string[] {
  const begun = isAfterValue ? (text.startsWith('/') ? text.slice(1) : '') : text
  const whole = isBeforeValue ? begun.slice(0, begun.lastIndexOf('/') + 1) : begun
  return isPath(whole) ? [whole] : []
}

const ANCHORED = /\b(?:const|let)\s+(\w+)\s*(?::[^=\n]+)?=[^\n]*?\bimport\.meta\b/g
const IMPORTED_CONSTANT = /\bimport\b[^'"]*?\{([^}]*)\}\s*from\s*['"]\.[^'"]*['"]/g
const CALL = /\b(?:join|resolve)\(\s*([^'"`]*?),\s*((?:(?:'[^'\n]*'|"[^"\n]*")\s*,?\s*)+)/g
const URL_CALL = /\bnew URL\(\s*['"]([^'"\n]*)['"]/g

/**
 * `join(X, 'a', 'b')` where X is a place in the repository: `import.meta.dirname`, what was made from it, or a constant of
 * another module. There a single word is a path, too.
 */
function joined(code: string): readonly string[] {
  const anchors = new Set([...code.matchAll(ANCHORED)].map(([, name]) => name as string))
  for (const [, names = ''] of code.matchAll(IMPORTED_CONSTANT)) {
    for (const name of names.split(',').map((one) => one.trim())) if (/^[A-Z][A-Z\d_]*$/.test(name)) anchors.add(name)
  }
  const isAnchored = (base: string) => base.includes('import.meta') || anchors.has(base.trim())
  const calls = [...code.matchAll(CALL)].filter(([, base = '']) => isAnchored(base))
  const paths = calls.map(([, , args = '']) =>
    Array.from(args.matchAll(/'([^']*)'|"([^"]*)"/g), ([, one, two]) => one ?? two ?? '').join('/'),
  )
  return [...paths, ...Array.from(code.matchAll(URL_CALL), ([, name]) => name as string)]
}

/** The name from the file's own folder, from the root, and from whatever folder above `../` may have meant. */
function filesNamed(name: string, from: string, tree: Tree): readonly string[] {
  const fromRoot = posix.normalize(name)
  const above = fromRoot.replace(/^(?:\.\.\/)+/, '').replace(/\/+$/, '')
  const places = [posix.join(posix.dirname(from), name), fromRoot]
  if (fromRoot.startsWith('../') && /[/.]/.test(above)) places.push(above)
  return [...new Set(places)].flatMap((place) => filesAt(place.replace(/\/+$/, ''), from, tree))
}

/** A folder stands for all below it, unless the file itself lies there: that would be everything. */
function filesAt(place: string, from: string, tree: Tree): readonly string[] {
  if (tree.files.has(place)) return [place]
  if (GLOB.test(place)) return globbedBelow(place, tree)
  if (from.startsWith(`${place}/`)) return []
  return tree.below.get(place) ?? []
}

/** Only where its first folder is named: what a glob of any folder is matched against is not known here. */
function globbedBelow(pattern: string, tree: Tree): readonly string[] {
  const [first = ''] = pattern.split('/')
  return GLOB.test(first) ? [] : globbed(pattern, tree.below.get(first) ?? [])
}
