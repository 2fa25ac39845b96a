/** A folder of the machine. What is listed is opened only if it is still that file, within the folder, and a plain one. */
import { constants } from 'node:fs'
import { type FileHandle, open, opendir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { type CheckStep, SluiceError } from '@sluice/sdk'
import { fileChanged, quotedPath, stopIfAborted, tooMany } from './failure.ts'
import type { FileStore, OpenFile, SourceFile } from './file-store.ts'
import type { Glob } from './glob.ts'

const MAX_ENTRIES = 200_000
const MAX_FILES = 50_000
const MAX_DEPTH = 32
const CHUNK_BYTES = 256 * 1024
/** A pipe would wait for somebody who writes to it, and a link leads elsewhere. */
const PLAIN_READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

export class Folder implements FileStore {
  readonly openedAtOnce = 64
  readonly #folder: string
  /** Where the folder really is; found out when it is first looked into. */
  #root: Promise<string> | null = null

  constructor(folder: string) {
    this.#folder = folder
  }

  async check(signal: AbortSignal): Promise<readonly CheckStep[]> {
    stopIfAborted(signal)
    try {
      await (await opendir(await this.#rootPath())).close()
      return [{ name: 'privileges', ok: true, message: 'the folder can be read' }]
    } catch (error) {
      const { message, remedy = '' } = unreadableFolder(error)
      return [{ name: 'privileges', ok: false, message, remedy }]
    }
  }

  async folders(signal: AbortSignal): Promise<readonly string[]> {
    const found: string[] = []
    for await (const entry of this.#entries('', { left: MAX_ENTRIES }, signal))
      if (entry.isDirectory && !entry.name.startsWith('.')) found.push(entry.name)
    return found.sort()
  }

  async list(glob: Glob, signal: AbortSignal): Promise<readonly SourceFile[]> {
    const found: SourceFile[] = []
    const budget = { left: MAX_ENTRIES }
    const { prefix } = glob
    let folders: string[] = [prefix]
    for (let depth = 0; folders.length > 0; depth += 1) {
      if (depth > MAX_DEPTH) throw tooMany('the folders lie too deep', `Let the glob name at most ${MAX_DEPTH} levels.`)
      const next: string[] = []
      for (const folder of folders) {
        for await (const { name, isDirectory } of this.#entries(folder, budget, signal)) {
          const path = folder === '' ? name : `${folder}/${name}`
          if (isDirectory && glob.entersFolder(path)) next.push(path)
          if (isDirectory || !glob.matches(path)) continue
          const file = await this.find(path, signal)
          if (file !== null) found.push(file)
          if (found.length > MAX_FILES)
            throw tooMany(
              'the glob matches too many files',
              `Let it match at most ${MAX_FILES}, or move old files away.`,
            )
        }
      }
      folders = next
    }
    return found.sort((left, right) => (left.path < right.path ? -1 : 1))
  }

  /** Links are none of its files, wherever they lead. */
  async find(path: string, signal: AbortSignal): Promise<SourceFile | null> {
    stopIfAborted(signal)
    let opened: OpenedFile
    try {
      opened = await this.#open(path)
    } catch (error) {
      if (isGone(error)) return null
      throw unreadableFile(path, error)
    }
    try {
      return opened.file
    } finally {
      await opened.handle.close()
    }
  }

  async open(file: SourceFile, signal: AbortSignal): Promise<OpenFile> {
    stopIfAborted(signal)
    let opened: OpenedFile
    try {
      opened = await this.#open(file.path)
    } catch (error) {
      throw isGone(error) ? fileChanged(file.path, error) : unreadableFile(file.path, error)
    }
    const { handle, file: now } = opened
    if (now?.version === file.version && now.bytes === file.bytes) return openedFile(handle, now)
    await handle.close()
    throw fileChanged(file.path)
  }

  /** `file` is null for what is no plain file. */
  async #open(path: string): Promise<OpenedFile> {
    const root = await this.#rootPath()
    const whole = join(root, path)
    // A folder on the way may be a link by now, be it one that was none when it was listed.
    if ((await realpath(whole)) !== whole) return { handle: NO_FILE, file: null }
    const handle = await open(whole, PLAIN_READ)
    try {
      return { handle, file: await fileOf(handle, path) }
    } catch (error) {
      await handle.close()
      throw error
    }
  }

  async *#entries(folder: string, budget: { left: number }, signal: AbortSignal) {
    stopIfAborted(signal)
    const root = await this.#rootPath().catch((error: unknown) => {
      throw unreadableFolder(error)
    })
    const whole = folder === '' ? root : join(root, folder)
    let entries: Awaited<ReturnType<typeof opendir>>
    try {
      if ((await realpath(whole)) !== whole) return
      entries = await opendir(whole)
    } catch (error) {
      if (folder !== '' && isGone(error)) return
      throw folder === '' ? unreadableFolder(error) : unreadableFile(folder, error)
    }
    for await (const entry of entries) {
      stopIfAborted(signal)
      budget.left -= 1
      if (budget.left < 0) throw tooMany('there are too many files', `Let the glob look at at most ${MAX_ENTRIES}.`)
      if (entry.isDirectory() || entry.isFile()) yield { name: entry.name, isDirectory: entry.isDirectory() }
    }
  }

  #rootPath(): Promise<string> {
    this.#root ??= realpath(this.#folder)
    this.#root.catch(() => {
      this.#root = null
    })
    return this.#root
  }
}

interface OpenedFile {
  readonly handle: Pick<FileHandle, 'close'> & Partial<FileHandle>
  readonly file: SourceFile | null
}

const NO_FILE = { close: async () => undefined }

async function fileOf(handle: FileHandle, path: string): Promise<SourceFile | null> {
  const stat = await handle.stat({ bigint: true })
  if (!stat.isFile()) return null
  return { path, bytes: Number(stat.size), version: `${stat.size}.${stat.mtimeNs}` }
}

function openedFile(opened: OpenedFile['handle'], file: SourceFile): OpenFile {
  const handle = opened as FileHandle
  return {
    async *chunks(signal) {
      let position = 0
      for (;;) {
        stopIfAborted(signal)
        const buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES)
        const { bytesRead } = await handle.read(buffer, 0, CHUNK_BYTES, position)
        if (bytesRead === 0) break
        position += bytesRead
        yield buffer.subarray(0, bytesRead)
      }
      const now = await fileOf(handle, file.path)
      if (position !== file.bytes || now?.version !== file.version) throw fileChanged(file.path)
    },
    async read(from, length, signal) {
      stopIfAborted(signal)
      const buffer = Buffer.allocUnsafeSlow(length)
      let done = 0
      while (done < length) {
        const { bytesRead } = await handle.read(buffer, done, length - done, from + done)
        if (bytesRead === 0) break
        done += bytesRead
      }
      const now = await fileOf(handle, file.path)
      if (done < length || now?.version !== file.version) throw fileChanged(file.path)
      return buffer
    },
    close: () => handle.close(),
  }
}

/** It is not there, or a link, or no file: a listing leaves it out. */
function isGone(error: unknown): boolean {
  return ['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO'].includes(String((error as NodeJS.ErrnoException).code))
}

function unreadableFolder(error: unknown): SluiceError {
  if (error instanceof SluiceError) return error
  const { code } = error as NodeJS.ErrnoException
  if (code === 'ENOENT' || code === 'ENOTDIR') {
    return new SluiceError('INVALID_DATA', 'the folder is not there', {
      code: 'source_folder_not_found',
      remedy: 'Name in the settings a folder that is there, from the root.',
      cause: error,
    })
  }
  return new SluiceError('PERMISSION', 'the folder may not be read', {
    code: 'source_permission_denied',
    remedy: READABLE,
    cause: error,
  })
}

const READABLE =
  'Let the user that the runtime runs as read it; where that is root, files are read by a user that owns nothing, so let everybody read them.'

function unreadableFile(path: string, error: unknown): SluiceError {
  if (error instanceof SluiceError) return error
  return new SluiceError('PERMISSION', `${quotedPath(path)} may not be read`, {
    code: 'source_permission_denied',
    remedy: READABLE,
    cause: error,
  })
}
