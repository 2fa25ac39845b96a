/**
 * What must not grow unseen: what an install brings, what the runtime depends on, how long the README is; with
 * `--running` also how soon the embedded runtime is ready and how much memory it holds when idle. Whoever needs more
 * lifts the bound here, and says why in the same change. Ends with 1 where a bound is passed.
 */
import { lstat, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Measured, measureRunning } from './running-guards.ts'

const ROOT = join(import.meta.dirname, '..')

const MOST_PACKAGES = 600
const MOST_INSTALLED_MB = 640
const MOST_DEPENDENCIES = 28
const MOST_README_LINES = 120
/** What tests and tools keep between runs lies there too, and no install brought it. */
const KEPT_BETWEEN_RUNS = '.cache'

/** Of packages npm has put into node_modules, for this platform; workspaces are links, and no packages. */
export function installedPackages(lockText: string): number {
  const { packages } = JSON.parse(lockText) as { readonly packages: Readonly<Record<string, { link?: boolean }>> }
  return Object.entries(packages).filter(([path, { link }]) => path.includes('node_modules/') && !link).length
}

export function thirdPartyDependencies(manifestText: string): readonly string[] {
  const manifest = JSON.parse(manifestText) as Readonly<Record<string, Readonly<Record<string, string>> | undefined>>
  const direct = { ...manifest['dependencies'], ...manifest['optionalDependencies'] }
  return Object.keys(direct).filter((name) => !name.startsWith('@sluice/'))
}

export function linesOf(text: string): number {
  return text.split('\n').length - (text.endsWith('\n') ? 1 : 0)
}

/** Of the files' contents; a link counts as nothing. Decimal, as disks and downloads are told. */
async function folderMb(folder: string): Promise<number> {
  let bytes = 0
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const isKept = entry.parentPath.startsWith(join(folder, KEPT_BETWEEN_RUNS))
    if (entry.isFile() && !isKept) bytes += (await lstat(join(entry.parentPath, entry.name))).size
  }
  return Math.round(bytes / 1e6)
}

const read = (path: string) => readFile(join(ROOT, path), 'utf8')

async function measureFiles(): Promise<readonly Measured[]> {
  return [
    {
      what: 'packages in node_modules',
      figure: installedPackages(await read('node_modules/.package-lock.json')),
      most: MOST_PACKAGES,
      remedy: 'npm explain PACKAGE tells who asks for one: take a dependency that brings less, or write the few lines',
    },
    {
      what: 'MB in node_modules',
      figure: await folderMb(join(ROOT, 'node_modules')),
      most: MOST_INSTALLED_MB,
      remedy:
        'du -sm node_modules/* | sort -n tells the largest: a driver of one source belongs into an optional plugin',
    },
    {
      what: 'direct dependencies of the runtime',
      figure: thirdPartyDependencies(await read('runtime/package.json')).length,
      most: MOST_DEPENDENCIES,
      remedy: "move a driver out of runtime/package.json into a plugin's, or use what Node has",
    },
    {
      what: 'lines in README.md',
      figure: linesOf(await read('README.md')),
      most: MOST_README_LINES,
      remedy: 'move what a first reader does not need to a guide in docs/guides, and link to it',
    },
  ]
}

async function main(args: readonly string[]): Promise<void> {
  const measured = args.includes('--running') ? await measureRunning() : await measureFiles()
  for (const { what, figure, most, remedy } of measured) {
    if (figure <= most) console.log(`guards: ${figure} ${what}, of ${most} at most`)
    else {
      console.error(`guards: ${figure} ${what}, which is more than ${most}: ${remedy}`)
      process.exitCode = 1
    }
  }
}

if (import.meta.main) await main(process.argv.slice(2))
