import { randomUUID } from 'node:crypto'
import type { Dirent } from 'node:fs'
import {
  constants,
  copyFile,
  type FileHandle,
  link,
  lstat,
  mkdir,
  open,
  opendir,
  readFile,
  rename,
  rm,
  stat,
  unlink,
} from 'node:fs/promises'
import { basename, dirname, join, resolve, sep } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { isObjectPath, isSluiceError, SluiceError } from '@sluice/sdk'
import {
  type AdoptOptions,
  DEFAULT_MAX_GET_BYTES,
  type GetOptions,
  type ObjectStat,
  type ObjectStore,
  type PutOptions,
  type Workspace,
} from './object-store.ts'
import { keepPrivate } from './private-folder.ts'

/** Holds half-written files and workspaces; no bucket can have this name, because names with a leading dot are refused. */
const WORK = '.work'
/** Names the places that the folder has had: addresses in its files are absolute, and those of then stay in them. */
const PLACES = '.places.json'

/** An object store in a folder of one machine. The folder must be on one file system and belong to one process. */
export class FolderStore implements ObjectStore {
  readonly #root: string
  /** Where the folder lay before; addresses there mean this one. */
  #formerRoots: readonly string[] = []

  constructor(root: string) {
    this.#root = resolve(root)
  }

  /** Where buckets have their files, and their workspaces: each in a folder of its name. */
  static foldersOf(root: string): { readonly files: string; readonly workspaces: string } {
    return { files: resolve(root), workspaces: join(resolve(root), WORK) }
  }

  async ensureBucket(bucket: string): Promise<void> {
    await makeFolder(this.#root, this.localPath(bucket))
  }

  async buckets(): Promise<readonly string[]> {
    const entries = await Array.fromAsync(entriesOf(this.#root))
    return entries.flatMap(({ name }) => (name.startsWith('.') ? [] : [name]))
  }

  async dropBucket(bucket: string): Promise<void> {
    await this.removeAll(bucket)
  }

  async put(path: string, body: Uint8Array | AsyncIterable<Uint8Array>, options: PutOptions = {}): Promise<ObjectStat> {
    const target = this.localPath(path)
    const draft = await this.#draftFile()
    try {
      await writeDurably(draft, body, path, options)
      await this.#place(draft, target, options.ifAbsent === true)
    } catch (error) {
      await rm(draft, { force: true })
      throw asStoreError(error, path)
    }
    return statOf(path, target)
  }

  async adopt(localFile: string, path: string, options: AdoptOptions = {}): Promise<ObjectStat> {
    const target = this.localPath(path)
    try {
      const found = await lstat(localFile)
      // A link would bring a file into the store that somebody else can still change, or must not be read at all.
      if (!found.isFile() || found.nlink !== 1) throw storeError('object_suspect', 'is not a plain file', path)
      if (options.sizeBytes !== undefined && found.size !== options.sizeBytes) throw truncated(path)
      await syncFile(localFile)
      await this.#place(localFile, target, true)
    } catch (error) {
      throw asStoreError(error, path)
    }
    return statOf(path, target)
  }

  async get(path: string, options: GetOptions = {}): Promise<Uint8Array> {
    options.signal?.throwIfAborted()
    let file: FileHandle | undefined
    try {
      file = await open(this.localPath(path), constants.O_RDONLY)
      const { size } = await file.stat()
      if (size > (options.maxBytes ?? DEFAULT_MAX_GET_BYTES)) throw storeError('object_too_large', 'is too large', path)
      if (options.sizeBytes !== undefined && size !== options.sizeBytes) throw truncated(path)
      const body = await file.readFile({ signal: options.signal })
      if (body.byteLength !== size) throw truncated(path)
      return body
    } catch (error) {
      throw asStoreError(error, path)
    } finally {
      await file?.close()
    }
  }

  async stat(path: string): Promise<ObjectStat | null> {
    try {
      return await statOf(path, this.localPath(path))
    } catch (error) {
      if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return null
      throw asStoreError(error, path)
    }
  }

  async *list(prefix: string, signal?: AbortSignal): AsyncIterable<ObjectStat> {
    const folder = prefix.replace(/\/$/, '')
    const pending = [folder]
    for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
      for await (const entry of entriesOf(next === '' ? this.#root : this.localPath(next))) {
        signal?.throwIfAborted()
        if (entry.name.startsWith('.')) continue
        const path = next === '' ? entry.name : `${next}/${entry.name}`
        if (entry.isDirectory()) pending.push(path)
        const found = entry.isFile() ? await this.stat(path) : null
        if (found !== null) yield found
      }
    }
  }

  async remove(path: string): Promise<void> {
    const target = this.localPath(path)
    try {
      await unlink(target)
      await syncFolder(dirname(target))
    } catch (error) {
      if (codeOf(error) !== 'ENOENT' && codeOf(error) !== 'ENOTDIR') throw asStoreError(error, path)
    }
  }

  async removeAll(folder: string): Promise<void> {
    const target = this.localPath(folder)
    // Somebody may still write below it: what came meanwhile goes, too.
    await rm(target, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 })
    await syncFolder(dirname(target)).catch(ignoreMissing)
  }

  uri(path: string): string {
    return pathToFileURL(this.localPath(path)).href
  }

  pathOf(uri: string): string | null {
    let file: string
    try {
      file = fileURLToPath(uri)
    } catch {
      // The address of something else than a file.
      return null
    }
    const root = [this.#root, ...this.#formerRoots].find((one) => file.startsWith(`${one}${sep}`))
    if (root === undefined) return null
    const path = file
      .slice(root.length + 1)
      .split(sep)
      .join('/')
    return isObjectPath(path) ? path : null
  }

  localPath(path: string): string {
    if (!isObjectPath(path)) throw storeError('object_path_invalid', 'has a path that cannot be used', path)
    return join(this.#root, ...path.split('/'))
  }

  async workspace(bucket: string): Promise<Workspace> {
    const dir = join(this.#root, WORK, basename(this.localPath(bucket)), randomUUID())
    await mkdir(dir, { recursive: true, mode: 0o700 })
    return { dir, dispose: () => rm(dir, { recursive: true, force: true }) }
  }

  /**
   * Shuts others out of the folder and removes what a crash left half-written. Call it when no other process uses the
   * folder. Throws CONFIG `folder_not_private`.
   */
  async recover(): Promise<void> {
    await keepPrivate(this.#root)
    await rm(join(this.#root, WORK), { recursive: true, force: true })
  }

  /**
   * Learns where the folder lay before: from its own note, and from addresses that others have kept. True where it was
   * moved since `keepPlace` was called last.
   */
  async findPlaces(addresses: readonly string[]): Promise<boolean> {
    const noted = await readPlaces(join(this.#root, PLACES))
    const kept = addresses.flatMap((address) => (address.startsWith('file://') ? [fileURLToPath(address)] : []))
    const before = new Set([...noted, ...kept])
    this.#formerRoots = [...before].filter((root) => root !== this.#root)
    return before.size > 0 && noted.at(-1) !== this.#root && (noted.length > 0 || !kept.includes(this.#root))
  }

  /** Notes where the folder lies now. */
  async keepPlace(): Promise<void> {
    const draft = await this.#draftFile()
    await writeDurably(draft, Buffer.from(JSON.stringify([...this.#formerRoots, this.#root])), PLACES, {})
    await rename(draft, join(this.#root, PLACES))
  }

  async #draftFile(): Promise<string> {
    await mkdir(join(this.#root, WORK), { recursive: true, mode: 0o700 })
    return join(this.#root, WORK, `${randomUUID()}.draft`)
  }

  async #place(source: string, target: string, ifAbsent: boolean): Promise<void> {
    await makeFolder(this.#root, dirname(target))
    if (ifAbsent) await moveIfAbsent(source, target)
    else await rename(source, target)
    await syncFolder(dirname(target))
  }
}

/** None where the note is gone or was cut off: the catalog's addresses say most of it, too. */
async function readPlaces(file: string): Promise<readonly string[]> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    ignoreMissing(error)
    return '[]'
  })
  try {
    const places: unknown = JSON.parse(text)
    return Array.isArray(places) ? places.filter((place) => typeof place === 'string') : []
  } catch {
    return []
  }
}

/** `rename` would silently replace; a hard link fails where the name is taken, and appears with its whole content. */
async function moveIfAbsent(source: string, target: string): Promise<void> {
  try {
    await link(source, target)
  } catch (error) {
    if (codeOf(error) !== 'EXDEV') throw error
    const neighbour = `${target}.${randomUUID()}.draft`
    try {
      await copyFile(source, neighbour, constants.COPYFILE_EXCL)
      await syncFile(neighbour)
      await link(neighbour, target)
    } finally {
      await rm(neighbour, { force: true })
    }
  }
  await unlink(source)
}

async function writeDurably(
  file: string,
  body: Uint8Array | AsyncIterable<Uint8Array>,
  path: string,
  options: PutOptions,
): Promise<void> {
  const handle = await open(file, 'wx', 0o644)
  let written = 0
  try {
    for await (const chunk of body instanceof Uint8Array ? [body] : body) {
      options.signal?.throwIfAborted()
      await handle.writeFile(chunk)
      written += chunk.byteLength
    }
    if (options.sizeBytes !== undefined && written !== options.sizeBytes) throw truncated(path)
    await handle.sync()
    if ((await handle.stat()).size !== written) throw truncated(path)
  } finally {
    await handle.close()
  }
}

/** Makes the folder and its parents, and makes each new name durable in its parent. */
async function makeFolder(root: string, folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true, mode: 0o700 })
  if (first === undefined) return
  const top = dirname(first)
  for (let at = dirname(folder); at.length >= Math.max(top.length, root.length); at = dirname(at)) await syncFolder(at)
}

async function syncFile(file: string): Promise<void> {
  const handle = await open(file, 'r+')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

async function* entriesOf(folder: string): AsyncIterable<Dirent> {
  try {
    yield* await opendir(folder)
  } catch (error) {
    ignoreMissing(error)
  }
}

async function statOf(path: string, file: string): Promise<ObjectStat> {
  const found = await stat(file)
  if (!found.isFile()) throw Object.assign(new Error('no file'), { code: 'ENOENT' })
  return { path, sizeBytes: found.size, modifiedAt: found.mtime }
}

function ignoreMissing(error: unknown): void {
  if (codeOf(error) !== 'ENOENT') throw error
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined
}

const truncated = (path: string): SluiceError =>
  storeError('object_truncated', 'has not the length it should have', path)

/** The path goes into the cause, which stays in the process's log. */
function storeError(code: string, what: string, path: string, cause?: unknown): SluiceError {
  return new SluiceError('INTERNAL', `a file of the object store ${what}`, {
    code,
    cause: new Error(`object store path ${JSON.stringify(path)}`, cause === undefined ? undefined : { cause }),
  })
}

const FULL = {
  message: 'the disk of the lake is full',
  remedy: 'Free space where the data folder is; nothing that was there is lost.',
}
const FORBIDDEN = {
  message: 'the runtime’s account may not read or write the folder of the lake',
  remedy: 'Give the data folder, with all that is in it, back to the account that the runtime runs as.',
}
const TOO_MANY_FILES = {
  message: 'too many files are open',
  remedy: 'Raise the limit of open files (ulimit -n, LimitNOFILE) of the runtime, and start it again.',
}
const UNNAMED_FAULT = {
  message: 'the object store could not be read or written',
  remedy: 'Check the disk that holds the data folder: space, permissions, errors.',
}

/** By what the system says. */
const FAULTS: Readonly<Record<string, { readonly message: string; readonly remedy: string }>> = {
  ENOSPC: FULL,
  EDQUOT: FULL,
  EACCES: FORBIDDEN,
  EPERM: FORBIDDEN,
  EROFS: {
    message: 'the disk of the lake can only be read',
    remedy: 'Mount the disk of the data folder for writing; a disk that fails turns so by itself: look into its log.',
  },
  EMFILE: TOO_MANY_FILES,
  ENFILE: TOO_MANY_FILES,
  EIO: {
    message: 'the disk of the lake fails',
    remedy: 'Look into the log of the machine; the disk may have to be replaced.',
  },
}

/** Exported for who asks what the system’s refusals become. */
export function asStoreError(error: unknown, path: string): unknown {
  if (isSluiceError(error) || (error instanceof Error && error.name === 'AbortError')) return error
  switch (codeOf(error)) {
    case 'ENOENT':
    case 'ENOTDIR':
    case 'EISDIR':
      return storeError('object_missing', 'is missing', path, error)
    case 'EEXIST':
      return new SluiceError('CONFLICT', 'a file of the object store exists already', {
        code: 'object_exists',
        cause: error,
      })
    default: {
      const { message, remedy } = FAULTS[codeOf(error) ?? ''] ?? UNNAMED_FAULT
      return new SluiceError('TRANSIENT', message, { code: 'object_store_unavailable', remedy, cause: error })
    }
  }
}
