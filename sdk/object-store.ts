/**
 * Where the files of the lake lie, when that is no folder of the runtime's machine: files by path in buckets, behind a
 * network. What the runtime needs beside that (copies on its machine for engines, files on their way out, tables) it has
 * of its own.
 */
import type { Readable } from 'node:stream'
import type { JsonSchema } from './plugin.ts'
import type { ServicePlugin } from './service.ts'

export interface ObjectStorePlugin<Settings = unknown> extends ServicePlugin<'object-store', Settings, Buckets> {
  /**
   * Of a place that only files of exports are written to, where fewer settings make sense there; the same `open` takes
   * them. Default: `settingsSchema`.
   */
  readonly destinationSchema?: JsonSchema
}

/**
 * A *path* is `bucket/segment/…/name`; `isObjectPath` says which there are, and every method refuses others (INTERNAL
 * `object_path_invalid`: such a path is a bug or an attack, never a person's mistake). A tenant has a bucket; the
 * runtime names it.
 *
 * Files are written once and never changed. What `put` has returned from survives a crash of the store's machines, and
 * the next `get`, `stat` and `list` of any client see it.
 *
 * Each method tries again what may pass, within a deadline that the settings say; a body that can be read only once may be
 * tried once. A signal ends it with its reason. Beside
 * what each names they throw TRANSIENT `object_store_unavailable` once the deadline is over, CONFIG `object_store_refused`
 * where the login is not taken, UNSUPPORTED `object_store_unsupported`. No message says a path; a cause may.
 */
export interface Buckets {
  /** Idempotent. */
  ensureBucket(bucket: string): Promise<void>
  /** Those that the login may see; none where it may not ask. */
  buckets(): Promise<readonly string[]>
  /** Removes a bucket that holds nothing. Idempotent. */
  dropBucket(bucket: string): Promise<void>

  /**
   * Writes a whole file; a reader sees all of it or none. With `ifAbsent` a path that is taken throws CONFLICT
   * `object_exists` and stays as it was, also where several write at once; without, the file is replaced. A body that is
   * shorter or longer than announced, or fails, leaves no file.
   */
  put(path: string, body: Uint8Array | AsyncIterable<Uint8Array>, options?: BucketPutOptions): Promise<StoredObject>

  /** The whole file. Throws INTERNAL `object_missing`, `object_too_large` or `object_truncated`. */
  get(path: string, options: BucketGetOptions): Promise<Uint8Array>

  /**
   * Brings the whole file, however large, into the target, and goes on from what has arrived where the way broke. Resolves
   * once all of it is there, or early where the target has failed. Throws INTERNAL `object_missing`. Deadlines are
   * counted from the last bytes that came.
   */
  copy(path: string, target: CopyTarget, signal: AbortSignal): Promise<void>

  /** Null where there is none. */
  stat(path: string): Promise<StoredObject | null>

  /** Every file below the prefix, which is a bucket or a folder in one; in no order. None where there is no such bucket. */
  list(prefix: string, signal?: AbortSignal): AsyncIterable<StoredObject>

  /** Idempotent. */
  remove(path: string): Promise<void>

  /** The address that table metadata names the path by, for all engines: `s3://bucket/…`. Does no I/O. */
  uri(path: string): string

  /** The path of a URI of this store; null for one of any other place. Does no I/O. */
  pathOf(uri: string): string | null

  /**
   * Present where clients without a login of their own can reach files. Called once, where the operator wants that. Throws
   * CONFIG `catalog_signing_unsafe` where the server would take what is lent for more than it is for.
   */
  lend?(): Promise<LentAccess>

  /** As `RunningService` says. */
  ping?(signal: AbortSignal): Promise<void>

  /** One that returns a promise is waited for. */
  close(): void
}

export interface StoredObject {
  readonly path: string
  readonly sizeBytes: number
  readonly modifiedAt: Date
}

export interface BucketPutOptions {
  readonly ifAbsent?: boolean
  /** A body of another length is refused (INTERNAL `object_truncated`). */
  readonly sizeBytes?: number
  /** Of the body, in hex, where the caller knows it: kept with the file, and compared when it is read, by stores that can. */
  readonly sha256?: string
  readonly signal?: AbortSignal
}

export interface BucketGetOptions {
  /** A larger file is refused, before its bytes are held. */
  readonly maxBytes: number
  /** A file of another length is refused as `object_truncated`. */
  readonly sizeBytes?: number
  readonly signal?: AbortSignal
}

/** What a file is copied into. */
export interface CopyTarget {
  /** Where the next bytes belong. */
  readonly receivedBytes: number
  /** Of all that was received, in hex. */
  readonly sha256: string
  /** Why bytes could not be kept: a fault on the runtime's side, which no further attempt mends. Null for none. */
  readonly failure: unknown
  /** Resolved when the bytes are kept, or `failure` is set: whether there were never so many before. */
  take(chunk: Uint8Array): Promise<boolean>
  /** Other bytes came than should have: all of them count as not received. */
  restart(): void
}

/**
 * How clients of the table catalogue that have no login of the store's reach files: they say which request they mean to
 * send, in the store's own protocol, the runtime decides whether they may have that file, and a read is lent, while a
 * write is sent through the runtime. All refusals throw PERMISSION `catalog_signing_refused`.
 */
export interface LentAccess {
  /**
   * Settings that go with a loaded table, as clients of that protocol know them; no secret.
   * @param catalog the catalogue's address, and where below it requests are asked for
   */
  settings(catalog: { readonly address: string; readonly signing: string }): Readonly<Record<string, string>>
  /** Throws where the request does more than read one file of this store. */
  read(request: ClientRequest): LentRead
  /** Throws where the request does more than write, or remove, one file of this store. */
  write(request: ClientRequest): AskedWrite
  /**
   * A write as it comes, in the runtime's hands. Throws as `write` does.
   * @param headers as the client sent them
   */
  take(
    method: WriteMethod,
    place: WritePlace,
    headers: Readonly<Record<string, string | readonly string[] | undefined>>,
  ): LentWrite
  /** What the runtime has against a write, as clients of that protocol read it. */
  refusal(reason: WriteRefusal, message: string): StoreAnswer
  close(): void
}

export type WriteMethod = 'PUT' | 'POST' | 'DELETE'

/** Too many at once; not allowed; not now; the file is there already; a body without a length; too many bytes. */
export type WriteRefusal = 'busy' | 'denied' | 'unavailable' | 'exists' | 'length_missing' | 'too_large'

export interface ClientRequest {
  readonly method: string
  readonly uri: string
  /** Where the client takes the bucket to be. */
  readonly region: string
  readonly headers?: Readonly<Record<string, readonly string[]>>
}

export interface LentRead {
  readonly path: string
  /** The request that the client may send, for some minutes. Throws as `lend` does, and TRANSIENT `object_store_unavailable`. */
  sign(): Promise<SignedRequest>
}

export interface SignedRequest {
  readonly uri: string
  /** To be added to the request; each may have several values. */
  readonly headers: Readonly<Record<string, readonly string[]>>
}

/** Where a write is to be sent. */
export interface WritePlace {
  readonly path: string
  /** The store's own parameters: those of an upload in parts, or none. */
  readonly parameters: Readonly<Record<string, string>>
}

/** Of a file that comes whole `make` alone; of one in parts `begin`, `part` for each, and `end` or `abandon`. */
export type WriteStep = 'make' | 'begin' | 'part' | 'end' | 'abandon' | 'remove'

export interface AskedWrite extends WritePlace {
  readonly step: WriteStep
}

export interface LentWrite {
  readonly step: WriteStep
  /** Of the body as it is sent; null where it does not say. */
  readonly sizeBytes: number | null
  /**
   * Sends a request of the runtime's own with those bytes, once: the client knows when to send again. `make` and `end`
   * never replace a file. Throws TRANSIENT `object_store_unavailable`.
   */
  send(bytes: Readable | null, signal: AbortSignal): Promise<StoreAnswer>
}

/** What the store answered, good or bad. */
export interface StoreAnswer {
  readonly status: number
  readonly etag: string | null
  readonly contentType: string | null
  readonly body: Buffer
}

const MAX_PATH_BYTES = 900

/** True for `bucket/a/b`: no segment that is empty or starts with a dot, no backslash, no control character. */
export function isObjectPath(path: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
  if (path === '' || Buffer.byteLength(path) > MAX_PATH_BYTES || /[\u0000-\u001f\\]/.test(path)) return false
  return path.isWellFormed() && path.split('/').every((segment) => segment !== '' && !segment.startsWith('.'))
}

/** Returns the plugin as it is; gives its parts their types. */
export function defineObjectStore<Settings>(
  plugin: Omit<ObjectStorePlugin<Settings>, 'kind'>,
): ObjectStorePlugin<Settings> {
  return { ...plugin, kind: 'object-store' }
}
