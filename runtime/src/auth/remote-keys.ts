import { SluiceError } from '@sluice/sdk'
import { createRemoteJWKSet, customFetch, errors, type FetchImplementation, type RemoteJWKSet } from 'jose'
import type { KeySource } from './issuers.ts'

const FETCH_TIMEOUT_MS = 5_000
const MAX_DOCUMENT_BYTES = 512 * 1024
/** An unknown key id may be a rotation or an attack: the keys are read again for it at most this often. */
const ROTATION_COOLDOWN_MS = 30_000
const MAX_KEY_AGE_MS = 10 * 60_000
/** After a failed read nobody is asked again for this long, so that an issuer that is down is not hammered. */
const FAILURE_PAUSE_MS = 5_000

export interface RemoteKeysOptions {
  readonly issuer: string
  /** Where the keys are, for issuers without a discovery document. */
  readonly jwksUri?: string
  /** Plain HTTP to other hosts than this one. Loopback is always allowed. */
  readonly allowHttp?: boolean
  readonly nowMs?: () => number
}

/** The keys of an issuer on the network, found by its discovery document and kept for ten minutes. */
export function remoteKeys(options: RemoteKeysOptions): KeySource {
  const keys = new RemoteKeys(options)
  return {
    getKey: (header, token) => keys.attempt(async (set) => set(header, token)),
    check: async (signal) => {
      signal.throwIfAborted()
      await keys.attempt(async (set) => (set.fresh ? undefined : set.reload()))
    },
  }
}

class RemoteKeys {
  readonly #options: RemoteKeysOptions
  readonly #nowMs: () => number
  #set: Promise<RemoteJWKSet> | null = null
  #pausedUntilMs = 0
  #latestMs = 0

  constructor(options: RemoteKeysOptions) {
    this.#options = options
    this.#nowMs = options.nowMs ?? Date.now
    requireSecure(options.issuer, options.allowHttp)
  }

  async attempt<Result>(use: (set: RemoteJWKSet) => Promise<Result>): Promise<Result> {
    try {
      this.#startAnewIfSetBack()
      this.#set ??= this.#discover()
      return await use(await this.#set)
    } catch (cause) {
      throw isRefusal(cause) ? cause : unavailable(cause)
    }
  }

  /** Pauses and ages of what is kept go by the machine's clock: set back, it would make them as long as that. */
  #startAnewIfSetBack(): void {
    const nowMs = this.#nowMs()
    if (nowMs < this.#latestMs) {
      this.#set = null
      this.#pausedUntilMs = 0
    }
    this.#latestMs = nowMs
  }

  async #discover(): Promise<RemoteJWKSet> {
    try {
      const address = this.#options.jwksUri ?? (await readJwksUri(this.#options, this.#fetch))
      return createRemoteJWKSet(requireSecure(address, this.#options.allowHttp), {
        timeoutDuration: FETCH_TIMEOUT_MS,
        cooldownDuration: ROTATION_COOLDOWN_MS,
        cacheMaxAge: MAX_KEY_AGE_MS,
        [customFetch]: this.#fetch,
      })
    } catch (cause) {
      this.#set = null
      throw cause
    }
  }

  /** Pauses here and not around the key set: keys that are at hand stay usable while the issuer is down. */
  readonly #fetch: FetchImplementation = async (url, options) => {
    if (this.#nowMs() < this.#pausedUntilMs) throw new Error('paused after a failed read')
    try {
      const response = await fetchBounded(url, options)
      if (response.status !== 200) throw new Error(`the issuer answered ${response.status}`)
      return response
    } catch (cause) {
      this.#pausedUntilMs = this.#nowMs() + FAILURE_PAUSE_MS
      throw cause
    }
  }
}

/** A token that names no known key, or a key of another kind, is at fault itself: its issuer is fine. */
function isRefusal(cause: unknown): boolean {
  return (
    cause instanceof errors.JWKSNoMatchingKey ||
    cause instanceof errors.JWKSMultipleMatchingKeys ||
    cause instanceof errors.JOSENotSupported
  )
}

async function readJwksUri(options: RemoteKeysOptions, fetchDocument: FetchImplementation): Promise<string> {
  const address = `${options.issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
  const response = await fetchDocument(address, {
    headers: new Headers({ accept: 'application/json' }),
    method: 'GET',
    redirect: 'manual',
    signal: AbortSignal.timeout(FETCH_TIMEOUT_MS),
  })
  const document = (await response.json()) as { readonly issuer?: unknown; readonly jwks_uri?: unknown }
  if (document.issuer !== options.issuer) throw new Error('the discovery document is that of another issuer')
  if (typeof document.jwks_uri !== 'string') throw new Error('the discovery document names no jwks_uri')
  return document.jwks_uri
}

/** Reads at most `MAX_DOCUMENT_BYTES` and follows no redirect. */
async function fetchBounded(...[url, options]: Parameters<FetchImplementation>): Promise<Response> {
  const response = await fetch(url, options)
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of response.body ?? []) {
    bytes += chunk.byteLength
    if (bytes > MAX_DOCUMENT_BYTES) throw new Error('the document is too large')
    chunks.push(chunk)
  }
  return new Response(Buffer.concat(chunks), { status: response.ok ? 200 : 502 })
}

function requireSecure(address: string, allowHttp = false): URL {
  const url = URL.canParse(address) ? new URL(address) : null
  const isLoopback = url !== null && /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname)
  if (url?.protocol === 'https:' || (url?.protocol === 'http:' && (allowHttp || isLoopback))) return url
  throw new SluiceError('CONFIG', 'an issuer and its keys must have an https address', {
    code: 'issuer_insecure',
    remedy: 'Give the issuer an https address; http is taken from this host alone.',
  })
}

function unavailable(cause: unknown): SluiceError {
  return new SluiceError('TRANSIENT', 'the keys of the issuer of this token cannot be read', {
    code: 'issuer_unavailable',
    remedy: 'Try again; if it lasts, check that this server reaches the issuer.',
    retryAfterMs: FAILURE_PAUSE_MS,
    cause,
  })
}
