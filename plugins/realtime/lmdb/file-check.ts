/**
 * Whether a file may be opened. LMDB maps it into memory and believes what stands there, so that a file which was cut off or
 * overwritten ends the process that reads it, without a word and at each start again. One that is not as its last owner
 * closed it is therefore read by a process of its own first.
 */
import { execFile } from 'node:child_process'
import { readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Below the folder of the store: LMDB's own. */
export const DATA_FOLDER = 'data'
const FILE = join(DATA_FOLDER, 'data.mdb')
/** What the file was when it was closed; only there while nobody has it open. */
const MARK = 'closed.json'
/** A file that takes longer to read is opened unread, as one always was. */
const CHECK_TIMEOUT_MS = 120_000
const BROKEN = 3
/** How a process ends that reads such a file. */
const CRASHES: readonly unknown[] = ['SIGSEGV', 'SIGBUS', 'SIGABRT', 'SIGILL', 'SIGFPE']

/** What LMDB says of such a file, where it says anything: page not found, corrupted, panic, invalid, problem. */
const LMDB_FAULTS = [-30797, -30796, -30795, -30793, -30779]

/**
 * Reads every page: keys and values of all databases, and, by a write that is given up, the list of free ones. Text, since it
 * is run by a bare process; what neither LMDB nor the system has a number for is a key or a marker that makes no sense.
 */
const READ_ALL = `
const [url, path] = process.argv.slice(1)
const { open, ABORT } = await import(url)
try {
  const root = open({ path, maxDbs: 8, encoding: 'binary' })
  for (const name of [...root.getKeys()]) {
    for (const { value } of root.openDB({ name, encoding: 'binary' }).getRange()) if (name === 'markers') JSON.parse(value)
  }
  root.transactionSync(() => { root.put('checked', Buffer.alloc(1)); return ABORT })
} catch ({ code }) {
  const isBroken = code === undefined || ${JSON.stringify(LMDB_FAULTS)}.includes(code)
  process.exit(isBroken ? ${BROKEN} : 0)
}
process.exit(0)`

/** Of the file of a store that nobody has open; takes away what its last owner has said of it. */
export async function isBroken(folder: string): Promise<boolean> {
  const [said, is] = [await readFile(join(folder, MARK), 'utf8').catch(() => ''), await lookOf(folder)]
  await rm(join(folder, MARK), { force: true })
  return is !== null && is !== said && (await endsItsReader(join(folder, DATA_FOLDER)))
}

/** Says what the file is, for whoever opens it next. Where that cannot be said, it is read then. */
export async function noteClosed(folder: string): Promise<void> {
  const is = await lookOf(folder)
  if (is !== null) await writeFile(join(folder, MARK), is, { mode: 0o600 }).catch(() => undefined)
}

/** Null where there is none. */
async function lookOf(folder: string): Promise<string | null> {
  const found = await stat(join(folder, FILE)).catch(() => null)
  return found?.isFile() ? JSON.stringify({ bytes: found.size, changedMs: found.mtimeMs }) : null
}

function endsItsReader(path: string): Promise<boolean> {
  const args = ['--input-type=module', '-e', READ_ALL, import.meta.resolve('lmdb'), path]
  return new Promise((resolve) => {
    execFile(process.execPath, args, { timeout: CHECK_TIMEOUT_MS, killSignal: 'SIGKILL', env: {} }, (error) => {
      resolve(error !== null && (error.code === BROKEN || CRASHES.includes(error.signal)))
    })
  })
}
