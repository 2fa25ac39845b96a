/**
 * Buckets beyond the lake that files of exports are written to. Operators name them, and whose exports may go there: no key to a
 * bucket is anybody's to give, and no address.
 */
import { type Buckets, isSluiceError, SluiceError } from '@sluice/sdk'
import type { Export, ExportFormat, ExportPlace } from '../../registry/exports.ts'

export interface ExportDestination {
  /** Whose exports may go there. */
  readonly tenants: readonly string[]
  /** The bucket, and folders in it, before those of the tenants. */
  readonly folder: string
  /** The caller closes it. */
  open(): Promise<Pick<Buckets, 'put' | 'uri' | 'close'>>
}

export class ExportDestinations {
  readonly #configured: Readonly<Record<string, ExportDestination>>

  constructor(configured: Readonly<Record<string, ExportDestination>>) {
    this.#configured = configured
  }

  /** Throws INVALID_DATA `export_destination_unknown`, alike for one that is not there and one of other tenants. */
  require(tenant: string, name: string): void {
    this.#destinationOf(tenant, name)
  }

  /**
   * Writes the file under the export's own name, so that nothing of anybody's is overwritten: whole, or not at all; one that an attempt before this one has written is replaced. Throws what reading the bytes
   * threw, CONFIG `export_destination_refused`, TRANSIENT `export_destination_unavailable`.
   */
  async put(
    file: Pick<Export, 'id' | 'tenant' | 'bytes'> & { readonly format: ExportFormat },
    name: string,
    chunks: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<ExportPlace> {
    const { folder, open } = this.#destinationOf(file.tenant, name)
    const path = `${folder}/${file.tenant}/${file.id}.${file.format}`
    const store = await open()
    const body = new Body(chunks)
    try {
      await store.put(path, body, { sizeBytes: file.bytes, signal })
      return { destination: name, address: store.uri(path) }
    } catch (error) {
      signal.throwIfAborted()
      throw body.failure?.error ?? refusal(name, error)
    } finally {
      await store.close()
    }
  }

  #destinationOf(tenant: string, name: string): ExportDestination {
    const own = Object.entries(this.#configured).filter(([, { tenants }]) => tenants.includes(tenant))
    const found = own.find(([known]) => known === name)
    if (found !== undefined) return found[1]
    const names = own.map(([known]) => known)
    throw new SluiceError('INVALID_DATA', 'exports of this tenant go to no such destination', {
      code: 'export_destination_unknown',
      remedy:
        names.length === 0
          ? 'Leave "to" out and download the file, or ask an operator for a destination (exports.destinations).'
          : `Send one of ${names.join(', ')} as "to", or leave it out and download the file.`,
    })
  }
}

/** Keeps what reading failed with: a store tells of it in words of its own. */
class Body implements AsyncIterable<Uint8Array> {
  readonly #chunks: AsyncIterable<Uint8Array>
  failure: { readonly error: unknown } | null = null

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#chunks = chunks
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    try {
      yield* this.#chunks
    } catch (error) {
      this.failure = { error }
      throw error
    }
  }
}

/** In terms of the destination: a store's own words are of the lake's. */
function refusal(name: string, cause: unknown): SluiceError {
  if (isSluiceError(cause, 'TRANSIENT')) {
    return new SluiceError('TRANSIENT', `the destination ${name} does not answer`, {
      code: 'export_destination_unavailable',
      remedy: 'Try again later, or leave "to" out and download the file.',
      cause,
    })
  }
  return new SluiceError('CONFIG', `the destination ${name} does not take the file`, {
    code: 'export_destination_refused',
    remedy: `Ask an operator to look at exports.destinations.${name}: whether its bucket is there, in that region, and what its key may do.`,
    cause,
  })
}
