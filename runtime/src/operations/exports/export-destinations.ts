/**
 * Buckets beyond the lake that files of exports are written to. Operators name them, and whose exports may go there: no key to a
 * bucket is anybody's to give, and no address.
 */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { type ObjectStore, S3Store } from '@sluice/iceberg'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type { ExportDestinationConfig } from '../../config.ts'
import type { Export, ExportFormat, ExportPlace } from '../../registry/exports.ts'

const DEADLINE_MS = 120_000
const ATTEMPT_MS = 60_000

type Opened = Pick<ObjectStore, 'put' | 'uri'> & { close(): void }

export class ExportDestinations {
  readonly #configured: Readonly<Record<string, ExportDestinationConfig>>
  readonly #open: (settings: ExportDestinationConfig) => Opened

  /** @param open default: an S3-compatible store */
  constructor(
    configured: Readonly<Record<string, ExportDestinationConfig>>,
    scratchDirectory: string,
    open = (settings: ExportDestinationConfig): Opened => openStore(settings, scratchDirectory),
  ) {
    this.#configured = configured
    this.#open = open
  }

  /** Throws INVALID_DATA `export_destination_unknown`, alike for one that is not there and one of other tenants. */
  require(tenant: string, name: string): void {
    this.#settingsOf(tenant, name)
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
    const settings = this.#settingsOf(file.tenant, name)
    const { bucket, prefix } = settings
    const folders = prefix === undefined ? [bucket] : [bucket, prefix]
    const path = [...folders, file.tenant, `${file.id}.${file.format}`].join('/')
    const store = this.#open(settings)
    const body = new Body(chunks)
    try {
      await store.put(path, body, { sizeBytes: file.bytes, signal })
      return { destination: name, address: store.uri(path) }
    } catch (error) {
      signal.throwIfAborted()
      throw body.failure?.error ?? refusal(name, error)
    } finally {
      store.close()
    }
  }

  #settingsOf(tenant: string, name: string): ExportDestinationConfig {
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

function openStore(settings: ExportDestinationConfig, scratchDirectory: string): S3Store {
  return new S3Store({
    endpoint: settings.endpoint,
    region: settings.region,
    accessKeyId: settings.access_key_id,
    secretAccessKey: settings.secret_access_key,
    ...(settings.session_token === undefined ? {} : { sessionToken: settings.session_token }),
    pathStyle: settings.path_style,
    deadlineMs: DEADLINE_MS,
    attemptMs: ATTEMPT_MS,
    // Nothing is ever fetched from there.
    cacheDir: join(scratchDirectory, `export-${randomUUID()}`),
    maxCacheBytes: 0,
  })
}
