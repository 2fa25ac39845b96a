import { createHash, randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { lstat, mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fromDriver } from '@sluice/engine'
import { type Buckets, isObjectPath, SluiceError } from '@sluice/sdk'
import { ObjectCache } from './object-cache.ts'
import { ObjectDraft } from './object-draft.ts'
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

export interface BucketStoreOptions {
  /** Closed with the store. */
  readonly buckets: Buckets
  /** A folder on this machine for copies of objects that engines read, and for files on their way out. */
  readonly cacheDir: string
  readonly maxCacheBytes: number
}

const REMOVED_AT_ONCE = 8

/**
 * An object store behind a network, as a plugin of the SDK's kind `object-store` reaches it. Engine processes have no
 * network: they are lent copies on this machine, see `ObjectCache`.
 */
export class BucketStore implements ObjectStore {
  readonly cache: ObjectCache
  readonly #options: BucketStoreOptions

  constructor(options: BucketStoreOptions) {
    this.#options = options
    this.cache = new ObjectCache({
      dir: BucketStore.foldersOf(options.cacheDir).files,
      maxBytes: options.maxCacheBytes,
      fetch: (path, file, signal) => this.#download(path, file, signal),
    })
  }

  /** Where buckets have copies of their files, and their workspaces: each in a folder of its name. */
  static foldersOf(cacheDir: string): { readonly files: string; readonly workspaces: string } {
    return { files: join(cacheDir, 'objects'), workspaces: join(cacheDir, 'work') }
  }

  ensureBucket(bucket: string): Promise<void> {
    return this.#options.buckets.ensureBucket(bucket)
  }

  buckets(): Promise<readonly string[]> {
    return this.#options.buckets.buckets()
  }

  async dropBucket(bucket: string): Promise<void> {
    await this.removeAll(bucket)
    await this.#options.buckets.dropBucket(bucket)
  }

  put(path: string, body: Uint8Array | AsyncIterable<Uint8Array>, options: PutOptions = {}): Promise<ObjectStat> {
    return this.#options.buckets.put(path, body, options)
  }

  async adopt(localFile: string, path: string, options: AdoptOptions = {}): Promise<ObjectStat> {
    const found = await lstat(localFile)
    // A link would bring a file into the store that somebody else can still change, or must not be read at all.
    if (!found.isFile() || found.nlink !== 1) throw storeError('object_suspect', 'is not a plain file', path)
    if (options.sizeBytes !== undefined && found.size !== options.sizeBytes) {
      throw storeError('object_truncated', 'has not the length it should have', path)
    }
    const sha256 = await hashOf(createReadStream(localFile))
    const how = { ifAbsent: true, sizeBytes: found.size, sha256 }
    const body = createReadStream(localFile)
    const stat = await this.#options.buckets.put(path, body, how).finally(() => body.destroy())
    // What was just written is read next: twins are made from it, and stores.
    await this.cache.take(localFile, path, found.size)
    return stat
  }

  get(path: string, options: GetOptions = {}): Promise<Uint8Array> {
    return this.#options.buckets.get(path, { ...options, maxBytes: options.maxBytes ?? DEFAULT_MAX_GET_BYTES })
  }

  stat(path: string): Promise<ObjectStat | null> {
    return this.#options.buckets.stat(path)
  }

  list(prefix: string, signal?: AbortSignal): AsyncIterable<ObjectStat> {
    return this.#options.buckets.list(prefix, signal)
  }

  async remove(path: string): Promise<void> {
    await this.#options.buckets.remove(path)
    await this.cache.forget(path)
  }

  async removeAll(folder: string): Promise<void> {
    let some: Promise<void>[] = []
    for await (const { path } of this.list(folder)) {
      some.push(this.remove(path))
      if (some.length < REMOVED_AT_ONCE) continue
      await Promise.all(some)
      some = []
    }
    await Promise.all(some)
  }

  uri(path: string): string {
    return this.#options.buckets.uri(path)
  }

  pathOf(uri: string): string | null {
    return this.#options.buckets.pathOf(uri)
  }

  /** Where the copy lies, or will lie once `ObjectCache.hold` has fetched it. */
  localPath(path: string): string {
    return this.cache.fileOf(checked(path))
  }

  async workspace(bucket: string): Promise<Workspace> {
    const dir = join(BucketStore.foldersOf(this.#options.cacheDir).workspaces, checked(bucket), randomUUID())
    await mkdir(dir, { recursive: true, mode: 0o700 })
    return { dir, dispose: () => rm(dir, { recursive: true, force: true }) }
  }

  /**
   * Removes what a crash left, and shuts others out of the cache's folder. Call it when no other process uses that. Throws
   * CONFIG `folder_not_private`.
   */
  async recover(): Promise<void> {
    await rm(this.#options.cacheDir, { recursive: true, force: true })
    await keepPrivate(this.#options.cacheDir)
  }

  async close(): Promise<void> {
    await this.#options.buckets.close()
  }

  /** The whole object into a file that nobody sees before it is complete; its length. */
  async #download(path: string, file: string, signal: AbortSignal): Promise<number> {
    const draft = await ObjectDraft.open(file)
    try {
      await this.#options.buckets.copy(path, draft, signal)
      await draft.publish(file)
      return draft.receivedBytes
    } catch (error) {
      await draft.discard()
      throw draft.failure === null ? error : fromDriver(draft.failure, null)
    }
  }
}

async function hashOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of body) hash.update(chunk)
  return hash.digest('hex')
}

function checked(path: string): string {
  if (isObjectPath(path)) return path
  throw storeError('object_path_invalid', 'has a path that cannot be used', path)
}

/** The path goes into the cause, which stays in the process's log. */
function storeError(code: string, what: string, path: string): SluiceError {
  return new SluiceError('INTERNAL', `a file of the object store ${what}`, {
    code,
    cause: new Error(`object store path ${JSON.stringify(path)}`),
  })
}
