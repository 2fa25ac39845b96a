/** Tarballs of the published workspaces, made from a copy of the repository: packing rewrites package.json for a moment. */
import { execFile } from 'node:child_process'
import { cp, mkdir, readdir, readFile, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

const MAX_OUTPUT_BYTES = 64 << 20

interface PackResult {
  readonly name: string
  readonly filename: string
}

/** What a program of the repository printed; throws with what it said where it did not end with 0. */
export async function printedBy(
  cwd: string,
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Promise<string> {
  try {
    return (await promisify(execFile)(program, [...args], { cwd, env, maxBuffer: MAX_OUTPUT_BYTES })).stdout
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { readonly stdout?: string; readonly stderr?: string }
    throw new Error(`${program} ${args.join(' ')} failed:\n${stdout}${stderr}`, { cause: error })
  }
}

/** Files of the repository, those that git does not know yet among them. */
export async function filesOf(root: string, globs: readonly string[] = []): Promise<readonly string[]> {
  const options = ['ls-files', '-z', '--cached', '--others', '--exclude-standard']
  const listed = await printedBy(root, 'git', [...options, ...globs.map((glob) => `:(glob)${glob}`)])
  return [...new Set(listed.split('\0').filter(Boolean))]
}

/** Copies the files, and links the repository's dependencies; the workspaces among them are the copy's own. */
export async function copyRepository(root: string, files: readonly string[], target: string): Promise<string> {
  for (const file of files) {
    await mkdir(join(target, dirname(file)), { recursive: true })
    await cp(join(root, file), join(target, file)).catch(ignoreAbsent)
  }
  const [from, modules] = [join(root, 'node_modules'), join(target, 'node_modules')]
  await mkdir(modules)
  for (const name of await readdir(from)) {
    if (name === '@sluice') await cp(join(from, name), join(modules, name), { recursive: true, verbatimSymlinks: true })
    else await symlink(join(from, name), join(modules, name))
  }
  return target
}

/** A file that git knows may have been deleted. */
function ignoreAbsent(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}

/** By package name, those that others depend on first. The repository has to be a copy. */
export async function packPublished(repository: string, target: string): Promise<ReadonlyMap<string, string>> {
  await mkdir(target, { recursive: true })
  const published = await publishedWorkspaces(repository)
  const workspaces = published.flatMap(({ location }) => ['-w', location])
  const printed = await printedBy(repository, 'npm', ['pack', '--json', '--pack-destination', target, ...workspaces])
  const listed = JSON.parse(printed.slice(printed.search(/^[[{]/m))) as
    | readonly PackResult[]
    | Record<string, PackResult>
  const files = new Map(Object.values(listed).map(({ name, filename }) => [name, join(target, filename)]))
  return new Map(dependenciesFirst(published).map((name) => [name, files.get(name) as string]))
}

interface Workspace {
  readonly location: string
  readonly name: string
  readonly needs: readonly string[]
}

async function publishedWorkspaces(repository: string): Promise<readonly Workspace[]> {
  const listed = JSON.parse(await printedBy(repository, 'npm', ['query', '.workspace'])) as readonly {
    readonly location: string
  }[]
  const workspaces = await Promise.all(
    listed.map(async ({ location }) => {
      const text = await readFile(join(repository, location, 'package.json'), 'utf8')
      const manifest = JSON.parse(text) as { private?: true; name: string; dependencies?: Record<string, string> }
      return { ...manifest, location, needs: Object.keys(manifest.dependencies ?? {}) }
    }),
  )
  return workspaces.filter((workspace) => !workspace.private)
}

function dependenciesFirst(workspaces: readonly Workspace[]): readonly string[] {
  const ordered = new Set<string>()
  const visit = (name: string): void => {
    const workspace = workspaces.find((one) => one.name === name)
    if (workspace === undefined || ordered.has(name)) return
    workspace.needs.forEach(visit)
    ordered.add(name)
  }
  for (const { name } of workspaces) visit(name)
  return [...ordered]
}
