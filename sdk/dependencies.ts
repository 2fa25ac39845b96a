/**
 * What a plugin's package depends on, as a lockfile of npm says: names, versions and checksums of everything that is
 * loaded with it. Files are read by whoever asks, so that this package still does no I/O.
 */
import { createHash } from 'node:crypto'
import { dirname, join, relative, sep } from 'node:path'

/** What of a package.json says what the package depends on. */
export interface DependingManifest {
  readonly dependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>
}

export interface DependencyFiles {
  /** The text of a file; null where it is not there. */
  read(path: string): Promise<string | null>
  /** Of the files in a folder, as of a package's; null where they are too many. */
  digest(folder: string): Promise<string | null>
}

/** As a certificate carries them. */
export interface CertifiedDependencies {
  /** Of every package's name, version and checksum. */
  readonly sha256: string
  /** `name@version`, in order. */
  readonly packages: readonly string[]
}

interface LockEntry extends DependingManifest {
  readonly version?: string
  readonly integrity?: string
  /** It stands elsewhere in the same repository. */
  readonly link?: boolean
  readonly resolved?: string
  /** Of packages for some machines alone. */
  readonly os?: readonly string[]
  readonly cpu?: readonly string[]
}

type Entries = Readonly<Record<string, LockEntry>>

interface Lock {
  readonly folder: string
  readonly entries: Entries
}

interface Wanted {
  readonly name: string
  readonly isOptional: boolean
  /** Of the package that asks for it, from the lock's folder. */
  readonly from: string
}

/** What npm has installed stands before what it was asked to. */
const LOCKFILES = ['node_modules/.package-lock.json', 'package-lock.json', 'npm-shrinkwrap.json']

/** Of the contract and its suite a certificate names the versions; the runtime brings its own. */
const OWN = ['@sluice/sdk', '@sluice/conformance']

const MAX_PACKAGES = 2000

/**
 * Everything that a package is loaded with, and what that is loaded with in turn. Packages for some machines alone
 * are left out: which version of them is loaded is fixed by what asks for them.
 * @param folder the package's own, absolute
 */
export async function dependenciesOf(
  folder: string,
  manifest: DependingManifest,
  files: DependencyFiles,
): Promise<CertifiedDependencies | { readonly problem: string }> {
  if (wantedBy(manifest, '').length === 0) return digestOf([])
  const lock = await lockAbove(folder, files)
  if (lock === null) return { problem: 'no lockfile of npm stands beside it or above it' }
  const start = relative(lock.folder, folder).split(sep).join('/')
  const found = new Map<string, string>()
  const seen = new Set<string>()
  const left = [...wantedBy(manifest, start)]
  for (let wanted = left.pop(); wanted !== undefined; wanted = left.pop()) {
    const path = resolved(lock.entries, wanted)
    if (path === null && wanted.isOptional) continue
    if (path === null) return { problem: `the lockfile does not have ${wanted.name}, which it depends on` }
    if (seen.has(path)) continue
    seen.add(path)
    if (seen.size > MAX_PACKAGES) return { problem: `it depends on more than ${MAX_PACKAGES} packages` }
    const entry = lock.entries[path] ?? {}
    if (entry.os !== undefined || entry.cpu !== undefined) continue
    const checksum = await checksumOf(lock, path, entry, files)
    if (checksum === null) return { problem: `the lockfile has no checksum of ${wanted.name}` }
    found.set(
      `${wanted.name}@${entry.version ?? 'unknown'} ${checksum}`,
      `${wanted.name}@${entry.version ?? 'unknown'}`,
    )
    left.push(...wantedBy(entry, path))
  }
  return digestOf([...found])
}

function digestOf(found: readonly (readonly [line: string, name: string])[]): CertifiedDependencies {
  const sorted = found.toSorted(([left], [right]) => (left < right ? -1 : 1))
  const sha256 = createHash('sha256')
    .update(sorted.map(([line]) => `${line}\n`).join(''))
    .digest('hex')
  return { sha256, packages: [...new Set(sorted.map(([, name]) => name))] }
}

/** In words, how what is installed differs from what a plugin was tried with; null where it does not. */
export function dependencyDifference(tried: CertifiedDependencies, installed: CertifiedDependencies): string | null {
  if (tried.sha256 === installed.sha256) return null
  const added = installed.packages.filter((name) => !tried.packages.includes(name))
  const gone = tried.packages.filter((name) => !installed.packages.includes(name))
  if (added.length + gone.length === 0) return 'a package of the same version has other contents'
  const listed = (names: readonly string[]) =>
    names.length > 3 ? `${names.slice(0, 3).join(', ')} and ${names.length - 3} more` : names.join(', ')
  const parts = [
    gone.length > 0 ? `tried with ${listed(gone)}` : '',
    added.length > 0 ? `installed: ${listed(added)}` : '',
  ]
  return parts.filter((part) => part !== '').join('; ')
}

/** Of the folder that holds `node_modules`, where the package is installed in one. */
async function lockAbove(folder: string, files: DependencyFiles): Promise<Lock | null> {
  const installed = folder.split(sep).indexOf('node_modules')
  const first = installed < 0 ? folder : folder.split(sep).slice(0, installed).join(sep) || sep
  for (let above = first; ; above = dirname(above)) {
    for (const name of LOCKFILES) {
      const text = await files.read(join(above, name))
      const entries = text === null ? null : entriesOf(text)
      if (entries !== null) return { folder: above, entries }
    }
    if (dirname(above) === above) return null
  }
}

function entriesOf(text: string): Entries | null {
  try {
    const { packages } = JSON.parse(text) as { readonly packages?: Entries }
    return typeof packages === 'object' && packages !== null ? packages : null
  } catch {
    // Half written, or of another tool: it says nothing, and the next one is looked at.
    return null
  }
}

function wantedBy(manifest: DependingManifest, from: string): readonly Wanted[] {
  const { dependencies = {}, optionalDependencies = {}, peerDependencies = {}, peerDependenciesMeta = {} } = manifest
  const peers = Object.keys(peerDependencies).filter((name) => peerDependenciesMeta[name]?.optional !== true)
  const names = new Set([...Object.keys(dependencies), ...peers, ...Object.keys(optionalDependencies)])
  return [...names]
    .filter((name) => !OWN.includes(name))
    .map((name) => ({ name, from, isOptional: Object.hasOwn(optionalDependencies, name) }))
}

/** As Node looks for it: in the package's own node_modules, and then in those of every folder above. */
function resolved(entries: Entries, { name, from }: Wanted): string | null {
  for (let folder = from; ; folder = folder.includes('/') ? dirname(folder) : '') {
    const path = folder === '' ? `node_modules/${name}` : `${folder}/node_modules/${name}`
    const entry = entries[path]
    if (entry?.link === true) return entry.resolved ?? null
    if (entry !== undefined) return path
    if (folder === '') return null
  }
}

/** Of what is installed from a registry, the registry's; of a folder beside, that of its files. */
async function checksumOf(lock: Lock, path: string, entry: LockEntry, files: DependencyFiles): Promise<string | null> {
  if (entry.integrity !== undefined) return entry.integrity
  if (path.startsWith('node_modules/') || path.includes('/node_modules/')) return null
  const digest = await files.digest(join(lock.folder, path))
  return digest === null ? null : `files-${digest}`
}
