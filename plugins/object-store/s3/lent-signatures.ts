import { type SignedRequest, SluiceError } from '@sluice/sdk'
import { type SigningKey, signRequest } from './signature.ts'

/** No tenant's bucket is called so; what is asked for in it is never there. */
const PROBED = 'sluice-0-signatures/none'
const PROBE_MS = 5_000
/** A request whose signature was not taken, whichever of its faults the store saw first. */
const REFUSALS: readonly number[] = [400, 401, 403]

/**
 * Signatures of the runtime's own key, lent to clients for reading one file each. Stores differ in what they hold a
 * request to: some obey headers that nobody has signed, so that no write is ever lent, and the store is asked first
 * whether the signature of a read is good for nothing else.
 */
export class LentSignatures {
  readonly #endpoint: string
  readonly #key: SigningKey
  #proved: Promise<void> | null = null

  /** @param endpoint with buckets in the path */
  constructor(endpoint: string, key: SigningKey) {
    this.#endpoint = endpoint
    this.#key = key
  }

  /**
   * Asked once; again where the store did not answer. Throws CONFIG `catalog_signing_unsafe` where the store takes the
   * signature of a read for more, TRANSIENT `object_store_unavailable`.
   */
  prove(): Promise<void> {
    this.#proved ??= this.#ask().catch((error: unknown) => {
      this.#proved = null
      throw error
    })
    return this.#proved
  }

  /** @param headers that the request has already, and that are to be signed; lower case */
  async forRead(
    method: 'GET' | 'HEAD',
    url: URL,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<SignedRequest> {
    await this.prove()
    return signRequest(method, url, this.#key, new Date(), headers)
  }

  async #ask(): Promise<void> {
    const url = new URL(PROBED, this.#endpoint)
    const strangers = { ...this.#key, secret_access_key: `${this.#key.secret_access_key}-` }
    const { headers } = signRequest('GET', url, this.#key, new Date())
    const unsigned = signRequest('GET', url, strangers, new Date()).headers
    // Of a store that looks for the bucket before it looks at the signature, nothing can be told without a bucket.
    if (!REFUSALS.includes(await this.#statusOf('GET', url, unsigned))) return
    const others: readonly (readonly [string, URL, Readonly<Record<string, string>>])[] = [
      ['PUT', url, { 'x-amz-copy-source': `/${PROBED}` }],
      ['PUT', url, { 'x-amz-meta-snowball-auto-extract': 'true' }],
      ['DELETE', url, {}],
      ['GET', new URL(`${url.pathname}-other`, url), {}],
      ['GET', new URL('?acl', url), {}],
      ['GET', new URL('?versionId=null', url), {}],
    ]
    for (const [method, target, more] of others) {
      if (!REFUSALS.includes(await this.#statusOf(method, target, headers, more))) throw unsafe()
    }
  }

  async #statusOf(
    method: string,
    url: URL,
    signed: SignedRequest['headers'],
    more: Readonly<Record<string, string>> = {},
  ): Promise<number> {
    const own = Object.entries(signed).map(([name, values]) => [name, values.join(',')] as const)
    try {
      const answer = await fetch(url, {
        method,
        headers: { ...Object.fromEntries(own), ...more },
        redirect: 'manual',
        signal: AbortSignal.timeout(PROBE_MS),
      })
      await answer.body?.cancel()
      return answer.status
    } catch (cause) {
      throw new SluiceError('TRANSIENT', 'the object store does not answer as it should', {
        code: 'object_store_unavailable',
        remedy: 'Check that the object store is up and reachable; the work is tried again.',
        cause,
      })
    }
  }
}

function unsafe(): SluiceError {
  return new SluiceError('CONFIG', 'the object store takes the signature of a read for another request', {
    code: 'catalog_signing_unsafe',
    remedy: 'Set catalog.file_access to direct or none, or use a store that checks signatures as S3 does.',
  })
}
