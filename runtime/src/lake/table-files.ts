import { SluiceError } from '@sluice/sdk'
import type { ObjectStore } from './object-store.ts'
import { describeTable, type TableRef, tablePath } from './table-ref.ts'

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

  constructor(store: ObjectStore, ref: TableRef) {
    this.ref = ref
    this.store = store
    this.root = tablePath(ref)
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
      if (!(error instanceof SluiceError) || error.kind !== 'INTERNAL') throw error
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
      if (error instanceof SluiceError && error.kind !== 'INTERNAL') throw error
      throw this.#broken('lake_file_corrupted', uri, error)
    }
  }

  /** The file is named in the cause, for the process's log; the message is what a client may read. */
  #broken(code: string, uri: string, cause: unknown): SluiceError {
    return new SluiceError('INTERNAL', `the lake table ${describeTable(this.ref)} cannot be read`, {
      code,
      remedy: 'An operator finds the broken file in the log; restore it from a backup or materialize the product anew.',
      cause: new Error(`${JSON.stringify(uri)} of ${this.root}: ${cause instanceof Error ? cause.message : cause}`, {
        cause,
      }),
    })
  }
}
