/**
 * Where the lake's files lie. A *path* is `bucket/segment/…/name`, without a leading slash; every implementation
 * refuses a path that is empty, absolute, or has an empty, `.` or `..` segment, a backslash or a null byte
 * (INTERNAL: such a path is a bug or an attack, never a person's mistake).
 *
 * Files are written once and never changed. What `put` or `adopt` has returned from survives a crash of the machine.
 */
export interface ObjectStore {
  /** Idempotent. */
  ensureBucket(bucket: string): Promise<void>
  /** Those that the login may see; none where it may not ask. */
  buckets(): Promise<readonly string[]>
  /** Removes the bucket and all it holds. Idempotent. */
  dropBucket(bucket: string): Promise<void>

  /**
   * Writes a whole file; a reader sees all of it or none. With `ifAbsent` a path that is taken throws CONFLICT
   * `object_exists` and stays as it was; without, the file is replaced.
   */
  put(path: string, body: Uint8Array | AsyncIterable<Uint8Array>, options?: PutOptions): Promise<ObjectStat>

  /** Takes over a finished local file (it is gone afterwards). Throws CONFLICT `object_exists` where the path is taken. */
  adopt(localFile: string, path: string, options?: AdoptOptions): Promise<ObjectStat>

  /** The whole file. Throws INTERNAL `object_missing`, `object_too_large` or `object_truncated`. */
  get(path: string, options?: GetOptions): Promise<Uint8Array>

  /** Null where there is none. */
  stat(path: string): Promise<ObjectStat | null>

  /** Every file below the prefix, which is a folder or empty; in no order. */
  list(prefix: string, signal?: AbortSignal): AsyncIterable<ObjectStat>

  /** Idempotent. */
  remove(path: string): Promise<void>

  /** Removes every file below the folder. Idempotent. */
  removeAll(folder: string): Promise<void>

  /** The address that table metadata names the path by: `file:///…`, `s3://bucket/…`. */
  uri(path: string): string

  /** The path of a URI of this store; null for one of any other place. */
  pathOf(uri: string): string | null

  /** The absolute file that holds the path, for stores on this machine's disk. Does no I/O. */
  localPath?(path: string): string

  /**
   * A new empty folder on this machine, from which `adopt` is cheap: beside others of that bucket's and no other's. The caller
   * calls `dispose`.
   */
  workspace(bucket: string): Promise<Workspace>
}

export interface Workspace {
  readonly dir: string
  /** Removes it with all it holds. Idempotent. */
  dispose(): Promise<void>
}

export interface ObjectStat {
  readonly path: string
  readonly sizeBytes: number
  readonly modifiedAt: Date
}

export interface PutOptions {
  readonly ifAbsent?: boolean
  /** A body of another length is refused (INTERNAL `object_truncated`), and nothing is written. */
  readonly sizeBytes?: number
  readonly signal?: AbortSignal
}

export interface AdoptOptions {
  readonly sizeBytes?: number
}

export interface GetOptions {
  /** Refuses a larger file. Default 256 MiB. */
  readonly maxBytes?: number
  /** A file of another length is refused as `object_truncated`. */
  readonly sizeBytes?: number
  readonly signal?: AbortSignal
}

export const DEFAULT_MAX_GET_BYTES = 256 * 1024 * 1024
