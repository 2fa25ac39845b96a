/**
 * Where the version of a release stands. All packages of the repository have one, but the contract of plugins, whose
 * package has `SDK_VERSION`; examples and templates are somebody's own packages.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

interface Manifest {
  readonly name?: string
  readonly version?: string
  readonly dependencies?: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
}

interface Lock {
  readonly version: string
  readonly packages: Readonly<Record<string, Manifest & { readonly link?: true }>>
}

const SDK = '@sluice/sdk'

/** Beside the manifests: texts that name the version, `{}` in its place. Each has to be found at least once. */
const NAMED_IN: readonly (readonly [file: RegExp, text: string])[] = [
  [/^docker-compose\.yml$/, 'image: sluice:{}'],
  [/^plugins\/(lookup|timeseries|connectors)\/[a-z]+\/index\.ts$/, "  version: '{}',"],
  [/^runtime\/src\/command\/templates\/(?:store|connector)\/package\.json$/, '"@sluice/conformance": "^{}"'],
]

export async function versionOf(root: string): Promise<string> {
  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { readonly version: string }
  return version
}

/**
 * Writes the version everywhere, and returns the files that were changed, from the root.
 * @param files all of the repository, as git names them
 * @throws where a text that names the version is nowhere any more
 */
export async function setVersion(root: string, files: readonly string[], version: string): Promise<readonly string[]> {
  const before = await versionOf(root)
  const changes = new Map<string, string>()
  for (const file of files.filter((one) => isOwnManifest(one))) {
    const manifest = JSON.parse(await readFile(join(root, file), 'utf8')) as Manifest
    if (manifest.version === before) changes.set(file, printed(withVersion(manifest, before, version)))
  }
  changes.set('package-lock.json', printed(await lockWith(root, before, version)))
  for (const [pattern, text] of NAMED_IN) {
    const [old, next] = [text.replace('{}', before), text.replace('{}', version)]
    const naming = await filesWith(root, files, pattern, old)
    if (naming.size === 0)
      throw new Error(`no file like ${pattern} says "${old}": packaging/release-version.ts is outdated`)
    for (const [file, content] of naming) changes.set(file, content.replaceAll(old, next))
  }
  for (const [file, content] of changes) await writeFile(join(root, file), content)
  return [...changes.keys()]
}

const isOwnManifest = (file: string): boolean =>
  file.endsWith('package.json') && !/(^|\/)(examples|templates|test)\//.test(file)

const printed = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`

/** Its own version, and those of the packages that are released with it. */
function withVersion(manifest: Manifest, before: string, version: string): Manifest {
  const own = manifest.version === before && manifest.name !== SDK ? { version } : {}
  const dependencies = Object.fromEntries(
    (['dependencies', 'devDependencies'] as const)
      .filter((field) => manifest[field] !== undefined)
      .map((field) => [field, moved(manifest[field] ?? {}, before, version)]),
  )
  return { ...manifest, ...own, ...dependencies }
}

function moved(dependencies: Readonly<Record<string, string>>, before: string, version: string) {
  return Object.fromEntries(
    Object.entries(dependencies).map(([name, range]) => [
      name,
      name.startsWith('@sluice/') && name !== SDK && range === before ? version : range,
    ]),
  )
}

async function lockWith(root: string, before: string, version: string): Promise<Lock> {
  const lock = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')) as Lock
  const packages = Object.entries(lock.packages).map(([path, entry]) => {
    const isOwn = !path.includes('node_modules/') && !path.startsWith('examples/')
    return [path, isOwn ? withVersion(entry, before, version) : entry]
  })
  return { ...lock, version, packages: Object.fromEntries(packages) }
}

async function filesWith(
  root: string,
  files: readonly string[],
  pattern: RegExp,
  text: string,
): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>()
  for (const file of files.filter((one) => pattern.test(one))) {
    const content = await readFile(join(root, file), 'utf8')
    if (content.includes(text)) found.set(file, content)
  }
  return found
}
