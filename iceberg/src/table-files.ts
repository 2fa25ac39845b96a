import { isSluiceError, SluiceError } from '@sluice/sdk'
import type { ObjectStore } from './store/object-store.ts'
import { describeTable, type TableRef } from './table-ref.ts'

/**
 * The files of one table. Metadata may have been written by others: every address in it is checked to lie below the
 * table's own folder before it is followed, so that no table can hand out another one's files.
 */
export class TableFiles {
  readonly ref: TableRef
  readonly store: ObjectStore
  /** `sluice-acme/acme/sales/orders`. */
  readonly root: string
  /** The same as table metadata has it. */
  readonly location: string

  /** @param root the table's folder: see `tablePath` and `filesAt` */
  constructor(store: ObjectStore, ref: TableRef, root: string) {
    this.ref = ref
    this.store = store
    this.root = root
    this.location = store.uri(this.root)
  }

  /** The store's path of an address in metadata. Throws INTERNAL `lake_path_foreign` for one outside the table. */
  pathOf(uri: string): string {
    const path = this.store.pathOf(uri)
    if (path?.startsWith(`${this.root}/data/`) || path?.startsWith(`${this.root}/metadata/`)) return path
    throw this.#broken('lake_path_foreign', uri, 'the address lies outside the table')
  }

  dataUri(name: string): string {
    return this.store.uri(`${this.root}/data/${name}`)
  }

  metadataUri(name: string): string {
    return this.store.uri(`${this.root}/metadata/${name}`)
  }

  async read(uri: string, signal?: AbortSignal, sizeBytes?: number): Promise<Uint8Array> {
    const path = this.pathOf(uri)
    try {
      return await this.store.get(path, {
        ...(signal === undefined ? {} : { signal }),
        ...(sizeBytes === undefined ? {} : { sizeBytes }),
      })
    } catch (error) {
      if (!isSluiceError(error) || error.kind !== 'INTERNAL') throw error
      throw this.#broken('lake_file_corrupted', uri, error)
    }
  }

  async write(uri: string, bytes: Uint8Array): Promise<void> {
    await this.store.put(this.pathOf(uri), bytes, { ifAbsent: true, sizeBytes: bytes.length })
  }

  /** Runs a parser over what `uri` holds; whatever it throws becomes INTERNAL `lake_file_corrupted`. */
  parse<Result>(uri: string, parser: () => Result): Result {
    try {
      return parser()
    } catch (error) {
      throw this.#unparsed(uri, error)
    }
  }

  /** The same of a parser that gives way to others. */
  async parseSlowly<Result>(uri: string, parser: () => Promise<Result>): Promise<Result> {
    try {
      return await parser()
    } catch (error) {
      throw this.#unparsed(uri, error)
    }
  }

  #unparsed(uri: string, error: unknown): unknown {
    if (isSluiceError(error) && error.kind !== 'INTERNAL') return error
    return this.#broken('lake_file_corrupted', uri, error)
  }

  #broken(code: DamageCode, uri: string, cause: unknown): SluiceError {
    const path = this.store.pathOf(uri)
    // An address that leaves the table is not repeated: it may be another tenant's, or of this machine.
    const own = path?.startsWith(`${this.root}/`) === true ? path : null
    const reason = `${this.root}: ${cause instanceof Error ? cause.message : cause}`
    return lakeDamage(code, this.ref, { path: own, snapshotId: null }, new BrokenFile(uri, reason, cause))
  }
}

const REMEDY =
  'Restore the file from a backup. Or have the table made anew: of a connection by a backfill (sluice backfill CONNECTION), of a product by materializing it, inputs first. A product that keeps rows which its inputs no longer have has to be deleted and deployed again.'

export type DamageCode = 'lake_file_corrupted' | 'lake_path_foreign' | 'lake_pointer_missing'

/**
 * A table that cannot be read. Whole addresses are in the cause alone, for the process's log.
 * @param place `path` in the object store, null where it is not known or not the table's; `snapshotId` null: all need it
 */
export function lakeDamage(
  code: DamageCode,
  ref: TableRef,
  { path, snapshotId }: { readonly path: string | null; readonly snapshotId: string | null },
  cause?: unknown,
): SluiceError {
  return new SluiceError('INTERNAL', `the lake table ${describeTable(ref)} cannot be read`, {
    code,
    remedy: REMEDY,
    details: {
      table: describeTable(ref),
      file: path === null ? null : path.slice(path.indexOf('/') + 1),
      snapshot_id: snapshotId,
    },
    ...(cause === undefined ? {} : { cause }),
  })
}

/** Its files are not looked for where they cannot be: the configuration may name another store than that of the lake. */
export function elsewhere(ref: TableRef, cause: unknown): SluiceError {
  return new SluiceError('INTERNAL', `the lake table ${describeTable(ref)} lies in another object store`, {
    code: 'lake_path_foreign',
    remedy: 'Name in the configuration the object store that has it, or bring its files into this one.',
    details: { table: describeTable(ref), file: null, snapshot_id: null },
    cause,
  })
}

/** Whether it is said of the table itself, or of a file of it, and not of the catalog, the object store or the bucket. */
export function isUnreadable(error: unknown): boolean {
  return isSluiceError(error) && (error.code === 'lake_file_corrupted' || error.code === 'lake_path_foreign')
}

/** Whether a file of the table is not there at all, as the store has said. */
export function isMissing(error: unknown): boolean {
  const cause = isUnreadable(error) ? (error as SluiceError).cause : null
  return cause instanceof BrokenFile && isSluiceError(cause.cause) && cause.cause.code === 'object_missing'
}

/** The same failure, met in the reading of one snapshot. */
export function inSnapshot(error: unknown, snapshotId: string | null): unknown {
  if (!isSluiceError(error) || error.details?.['snapshot_id'] !== null || snapshotId === null) return error
  return new SluiceError(error.kind, error.message, {
    code: error.code,
    ...(error.remedy === undefined ? {} : { remedy: error.remedy }),
    details: { ...error.details, snapshot_id: snapshotId },
    cause: error.cause,
  })
}

/** For the process's log, and for reports that name files below their table's folder. */
export class BrokenFile extends Error {
  readonly uri: string

  constructor(uri: string, reason: string, cause: unknown) {
    super(`${JSON.stringify(uri)} of ${reason}`, { cause })
    this.uri = uri
  }
}
