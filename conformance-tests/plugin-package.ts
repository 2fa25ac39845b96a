/** Finds a plugin by its path or package name, the fixture beside it, and the package that it belongs to. */
import { readdir, readFile, readlink, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, parse, relative, resolve, sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import {
  type CertifiedDependencies,
  countsInPackage,
  type DependingManifest,
  dependenciesOf,
  type PluginManifest,
  packageDigest,
  publishedPart,
} from '@sluice/sdk'

export interface PluginPackage {
  /** The folder of its package.json. */
  readonly folder: string
  readonly name: string
  readonly version: string
  readonly manifest: PluginManifest | null
}

/** The module of a plugin that was named by a folder, a file or a package. Throws a plain Error where there is none. */
export async function pluginModule(specifier: string): Promise<string> {
  const path = resolve(specifier)
  if (await isFile(path)) return path
  const declared = await declaredModule(path)
  if (declared !== null) return declared
  for (const candidate of [join(path, 'index.ts'), join(path, 'index.js')]) {
    if (await isFile(candidate)) return candidate
  }
  try {
    return createRequire(join(process.cwd(), 'plugin.js')).resolve(specifier)
  } catch {
    throw new Error(`${specifier} is neither a folder or module nor an installed package`)
  }
}

/** A package's folder stands for its one plugin. */
async function declaredModule(folder: string): Promise<string | null> {
  const manifest = await readManifest(folder)
  const subpaths = Object.keys(manifest?.sluice?.plugins ?? {})
  if (subpaths.length === 0) return null
  if (subpaths.length > 1) {
    const names = subpaths.map((subpath) => join(folder, subpath))
    throw new Error(`this package holds several plugins; name one of them: ${names.join(', ')}`)
  }
  const target = manifest?.exports?.[subpaths[0] ?? '.']
  const module = typeof target === 'string' ? target : target?.default
  return module === undefined ? null : join(folder, module)
}

/** What `conformance.ts` (or .js) beside the plugin's module exports. */
export async function importBeside(modulePath: string): Promise<Readonly<Record<string, unknown>>> {
  for (const name of ['conformance.ts', 'conformance.js']) {
    const beside = join(dirname(modulePath), name)
    if (await isFile(beside)) return (await import(pathToFileURL(beside).href)) as Readonly<Record<string, unknown>>
  }
  throw new Error(`there is no conformance.ts beside ${modulePath}: export start() from one`)
}

/** The package that the module belongs to; null where no package.json with a name and a version stands above it. */
export async function packageOf(modulePath: string): Promise<PluginPackage | null> {
  for (let folder = dirname(modulePath); ; folder = dirname(folder)) {
    const manifest = await readManifest(folder)
    if (manifest?.name !== undefined && manifest.version !== undefined) {
      return { folder, name: manifest.name, version: manifest.version, manifest: manifest.sluice ?? null }
    }
    if (folder === parse(folder).root) return null
  }
}

/** The digest of the package's files as they are now. A link counts by where it points. */
export async function digestOfPackage(folder: string, modulePath: string): Promise<string> {
  const published = publishedPart(
    (await readManifest(folder))?.files,
    relative(folder, modulePath).split(sep).join('/'),
  )
  return digestOfFiles(folder, published)
}

async function digestOfFiles(folder: string, published: readonly string[] | null): Promise<string> {
  const files = new Map<string, Uint8Array>()
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    const name = relative(folder, path).split(sep).join('/')
    if (entry.isDirectory() || !countsInPackage(name, published)) continue
    files.set(name, entry.isSymbolicLink() ? Buffer.from(await readlink(path)) : await readFile(path))
  }
  return packageDigest(files, published)
}

/** What the package is loaded with, as the lockfile beside it or above it says; or why that is not known. */
export async function dependenciesOfPackage(
  folder: string,
): Promise<CertifiedDependencies | { readonly problem: string }> {
  return dependenciesOf(folder, (await readManifest(folder)) ?? {}, {
    read: (path) => readFile(path, 'utf8').catch(() => null),
    digest: (beside) => digestOfFiles(beside, null),
  })
}

interface Manifest extends DependingManifest {
  readonly name?: string
  readonly version?: string
  readonly exports?: Readonly<Record<string, string | { readonly default?: string }>>
  readonly sluice?: PluginManifest
  readonly files?: unknown
  readonly scripts?: Readonly<Record<string, string>>
}

async function readManifest(folder: string): Promise<Manifest | null> {
  const text = await readFile(join(folder, 'package.json'), 'utf8').catch(() => null)
  return text === null ? null : (JSON.parse(text) as Manifest)
}

async function isFile(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null))?.isFile() ?? false
}
