/** The LMDB environment, and the proof that no other process has it open. */
import { chmodSync, mkdirSync } from 'node:fs'
import { open as openFile, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { SluiceError } from '@sluice/sdk'
import { type Database, open, type RootDatabase } from 'lmdb'
import { DATA_FOLDER, isBroken, noteClosed } from './file-check.ts'
import type { EntryKey } from './keys.ts'
import { Markers } from './markers.ts'
import { WatchedFiles } from './watched-file.ts'

/** Address space, not memory or disk: the file grows with what is in it. */
const MAP_SIZE_BYTES = 256 * 2 ** 30

const CLOSE_TIMEOUT_MS = 3_000

const LOCK_FILE = 'owner.lock'

export interface Environment {
  readonly markers: Markers
  /** The values. */
  readonly entries: Database<Buffer, EntryKey>
  /** For templates that name other columns than the primary key's: under which key a row lies. */
  readonly places: Database<Buffer, string[]>
  /** To be asked before any of these is used. Throws TRANSIENT `store_lost`: from then on nothing of it is good. */
  check(): void
  readonly isLost: boolean
  /** Calls it once the file is lost. */
  onLost(listener: () => void): void
  /** One that is empty, in place of this one, whose file is lost. Not to be called again where it succeeds. */
  renewed(): Promise<Environment>
  close(): Promise<void>
}

/**
 * Throws TRANSIENT `store_in_use` where another process, or another store of this one, has it open. A file that is broken is
 * made anew, and told of: whatever lies in it lies in the lake, too.
 */
export async function openEnvironment(folder: string, onBroken = (): void => {}): Promise<Environment> {
  makeFolder(folder)
  const release = await lock(folder)
  try {
    if (await isBroken(folder)) {
      onBroken()
      await rm(join(folder, DATA_FOLDER), { recursive: true, force: true })
    }
    return openData(folder, release)
  } catch (error) {
    await release()
    throw notOpened(folder, error)
  }
}

/** What lies there is this account's alone; the lock stays until the environment is closed. */
function openData(folder: string, release: () => Promise<void>): Environment {
  const path = join(folder, DATA_FOLDER)
  mkdirSync(path, { recursive: true, mode: 0o700 })
  chmodSync(path, 0o700)
  const options = { path, maxDbs: 3, mapSize: MAP_SIZE_BYTES, encoding: 'binary', permissionsMode: 0o600 } as const
  const root: RootDatabase = open(options)
  hearFailures(root)
  const databases = {
    markers: new Markers(root.openDB<unknown, string>({ name: 'markers', encoding: 'json' })),
    entries: root.openDB<Buffer, EntryKey>({ name: 'entries', encoding: 'binary' }),
    places: root.openDB<Buffer, string[]>({ name: 'places', encoding: 'binary' }),
  }
  for (const name of ['data.mdb', 'lock.mdb']) chmodSync(join(path, name), 0o600)
  const files = new WatchedFiles(path)
  const ended = async (): Promise<boolean> => {
    if (!files.isLost) await endedOrGivenUp(root.flushed)
    const isEnded = await endedOrGivenUp(root.close())
    files.close()
    return isEnded && !files.isLost
  }
  return {
    ...databases,
    check: () => files.check(),
    get isLost() {
      return files.isLost
    },
    onLost(listener) {
      files.onLost = listener
    },
    async renewed() {
      await ended()
      await rm(path, { recursive: true, force: true })
      return openData(folder, release)
    },
    async close() {
      if (await ended()) await noteClosed(folder)
      await release()
    },
  }
}

/** In one go: where a file system says of everything in it that it is not there, the way that does not wait never ends. */
function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
  } catch (error) {
    throw notOpened(folder, error)
  }
}

/**
 * Every batch of LMDB's has a promise of its own that nobody is given, and a failed one a second: a commit that a full
 * disk refused would end the process by them, although each write that it held has been told. This listens to both.
 */
function hearFailures(root: RootDatabase): void {
  const ignore = (): void => {}
  const hear = (error: unknown): void => void (error as { commitError?: Promise<never> }).commitError?.catch(ignore)
  root.on('beforecommit', () => queueMicrotask(() => void root.committed.then(ignore, hear)))
}

/** After a write that failed LMDB waits for its flush for ever. What was committed before is safe without it. False: given up. */
async function endedOrGivenUp(ended: PromiseLike<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const givenUp = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, CLOSE_TIMEOUT_MS, false)
  })
  try {
    return await Promise.race([Promise.resolve(ended).then(() => true), givenUp])
  } catch {
    // Its writers have been told.
    return false
  } finally {
    clearTimeout(timer)
  }
}

function notOpened(folder: string, cause: unknown): SluiceError {
  return new SluiceError('CONFIG', `the realtime store cannot be opened: ${folder}`, {
    code: 'store_not_opened',
    remedy: 'Check that the folder is writable, on a local disk with space left, and written by this version.',
    details: { pointer: '/path' },
    cause,
  })
}

/** A file that names its owner; one whose owner is gone is taken over, also one that was killed and that nobody has waited for. */
async function lock(folder: string): Promise<() => Promise<void>> {
  const file = join(folder, LOCK_FILE)
  const { began: identity } = await processState(process.pid)
  for (let attempt = 0; attempt < 3; attempt += 1) {
    if (await create(file, `${process.pid}\n${identity}\n`)) return () => rm(file, { force: true })
    const [pid = '', owner = ''] = (await readFile(file, 'utf8').catch(() => '')).split('\n')
    if (await isAlive(Number(pid), owner)) throw inUse()
    await rm(file, { force: true })
  }
  throw inUse()
}

async function create(file: string, text: string): Promise<boolean> {
  try {
    const handle = await openFile(file, 'wx', 0o600)
    await handle.writeFile(text)
    await handle.close()
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

async function isAlive(pid: number, identity: string): Promise<boolean> {
  if (!Number.isSafeInteger(pid) || pid <= 0) return false
  try {
    process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
  const { state, began } = await processState(pid)
  return began === identity && !ENDED.includes(state)
}

/** As the system tells them: has ended, and is waited for; is gone. */
const ENDED = ['Z', 'X']

/** Process ids are used again, so where the system tells when a process began, that belongs to it. */
async function processState(pid: number): Promise<{ readonly state: string; readonly began: string }> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return { state: fields[0] ?? '', began: fields[19] ?? '' }
}

function inUse(): SluiceError {
  return new SluiceError('TRANSIENT', 'the realtime store is open in another process', {
    code: 'store_in_use',
    remedy: 'Stop the other process, or give this one a folder of its own.',
  })
}
