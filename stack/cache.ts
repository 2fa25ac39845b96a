/** Downloads and builds, kept outside of the checkout: one folder for each name and version, complete or absent. */
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rename, rm, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024

export const CACHE_FOLDER = join(
  process.env['SLUICE_TEST_CACHE_DIR'] ?? join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'sluice-ci'),
  'stack',
)

/** Fills the folder; the signal, which its long commands are given, is aborted by `interruptInstalls`. */
type Install = (folder: string, signal: AbortSignal) => Promise<unknown>

const installing = new Map<string, Promise<string>>()
const interrupted = new AbortController()

/** Of what was installed by this process. */
export const installSeconds = new Map<string, number>()

/** Ends what is being installed, and lets nothing else be. */
export function interruptInstalls(): void {
  interrupted.abort()
}

/**
 * The folder of `name`, made by `install` when it is not there yet. An interrupted install leaves nothing that a later
 * run would take for complete: it works in a folder beside, which is renamed at the end.
 */
export function installed(name: string, install: Install): Promise<string> {
  const running = installing.get(name) ?? installedNow(name, install).finally(() => installing.delete(name))
  installing.set(name, running)
  return running
}

async function installedNow(name: string, install: Install): Promise<string> {
  const folder = join(CACHE_FOLDER, name)
  if (await exists(folder)) return folder
  await mkdir(CACHE_FOLDER, { recursive: true })
  const beside = await mkdtemp(join(CACHE_FOLDER, `.${name}-`))
  const started = Date.now()
  console.log(`installing ${name}`)
  try {
    interrupted.signal.throwIfAborted()
    await install(beside, interrupted.signal)
    await rename(beside, folder)
  } catch (error) {
    if (!(await exists(folder))) throw new Error(`${name} could not be installed`, { cause: error })
  } finally {
    await rm(beside, { recursive: true, force: true })
  }
  installSeconds.set(name, Math.round((Date.now() - started) / 1000))
  console.log(`installed ${name} in ${installSeconds.get(name)} s`)
  return folder
}

/** Runs a command to its end; the error holds what it printed. */
export async function runTool(
  command: string,
  args: readonly string[],
  options: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv; readonly signal?: AbortSignal } = {},
): Promise<string> {
  const { stdout } = await run(command, [...args], { ...options, maxBuffer: MAX_OUTPUT_BYTES })
  return stdout
}

export async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}
