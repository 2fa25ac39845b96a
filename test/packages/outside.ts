/** A project outside of this repository, into which the packed workspaces are installed as anybody would. */
import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

const ROOT = join(import.meta.dirname, '../..')
const run = promisify(execFile)
const MAX_OUTPUT_BYTES = 64 << 20

/** What packages are made of: the published workspaces, what compiles and describes them, and every manifest. */
const PACKED = [
  'sdk/**',
  'runtime/**',
  'plugins/**',
  'conformance-tests/**',
  'packaging/**',
  'package.json',
  'acceptance/package.json',
  'bench/package.json',
  'examples/plugins/*/package.json',
  'tsconfig.json',
  'LICENSE',
  '.gitignore',
]

export interface Outside {
  readonly folder: string
  /** By package name: the tarball that it was installed from. */
  readonly tarballs: ReadonlyMap<string, string>
  remove(): Promise<void>
}

interface PackResult {
  readonly name: string
  readonly filename: string
}

/** Packs every published workspace and installs all of them, with what they depend on, in a new folder. */
export async function installOutside(): Promise<Outside> {
  const work = await mkdtemp(join(tmpdir(), 'sluice-packages-'))
  const remove = () => rm(work, { recursive: true, force: true })
  try {
    const tarballs = await pack(await copyRepository(join(work, 'repository')), join(work, 'tarballs'))
    await rm(join(work, 'repository'), { recursive: true })
    // As people name folders, who do not know what that breaks.
    const folder = join(work, 'a project – für Züge')
    await mkdir(folder)
    await writeFile(join(folder, 'package.json'), JSON.stringify({ name: 'outside', private: true, type: 'module' }))
    await npm(
      ['install', '--prefer-offline', '--no-audit', '--no-fund', ...tarballs.values(), ...(await tools())],
      folder,
    )
    return { folder, tarballs, remove }
  } catch (error) {
    await remove()
    throw error
  }
}

/** What authors of plugins work with, in the versions of this repository. */
async function tools(): Promise<readonly string[]> {
  const { devDependencies } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as {
    readonly devDependencies: Readonly<Record<string, string>>
  }
  return ['typescript', '@types/node'].map((name) => `${name}@${devDependencies[name]}`)
}

/** Packing rewrites package.json for a moment, which must not happen under tests that run beside this one. */
async function copyRepository(target: string): Promise<string> {
  const globs = PACKED.map((glob) => `:(glob)${glob}`)
  const list = await run('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard', ...globs], {
    cwd: ROOT,
    maxBuffer: MAX_OUTPUT_BYTES,
  })
  for (const file of list.stdout.split('\0').filter(Boolean)) {
    await mkdir(join(target, dirname(file)), { recursive: true })
    await cp(join(ROOT, file), join(target, file)).catch(ignoreAbsent)
  }
  await linkModules(target)
  return target
}

/** A file that git knows may have been deleted. */
function ignoreAbsent(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}

/** The dependencies are the repository's own, but the workspaces among them are the copy's. */
async function linkModules(target: string): Promise<void> {
  const modules = join(target, 'node_modules')
  await mkdir(modules)
  for (const name of await readdir(join(ROOT, 'node_modules'))) {
    if (name === '@sluice')
      await cp(join(ROOT, 'node_modules', name), join(modules, name), { recursive: true, verbatimSymlinks: true })
    else await symlink(join(ROOT, 'node_modules', name), join(modules, name))
  }
}

async function pack(repository: string, target: string): Promise<ReadonlyMap<string, string>> {
  await mkdir(target)
  const workspaces = (await publishedWorkspaces(repository)).flatMap((folder) => ['-w', folder])
  const printed = await npm(['pack', '--json', '--pack-destination', target, ...workspaces], repository)
  const listed = JSON.parse(printed.slice(printed.search(/^[[{]/m))) as
    | readonly PackResult[]
    | Record<string, PackResult>
  return new Map(Object.values(listed).map(({ name, filename }) => [name, join(target, filename)]))
}

async function publishedWorkspaces(repository: string): Promise<readonly string[]> {
  const listed = await npm(['query', '.workspace'], repository)
  const workspaces = JSON.parse(listed) as readonly { readonly location: string }[]
  const published = []
  for (const { location } of workspaces) {
    const manifest = JSON.parse(await readFile(join(repository, location, 'package.json'), 'utf8')) as {
      private?: true
    }
    if (!manifest.private) published.push(location)
  }
  return published
}

async function npm(args: readonly string[], cwd: string): Promise<string> {
  const { stdout } = await run('npm', [...args], { cwd, maxBuffer: MAX_OUTPUT_BYTES })
  return stdout
}
