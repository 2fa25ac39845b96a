import { randomUUID } from 'node:crypto'
import { SluiceError } from '@sluice/sdk'
import { createLocalJWKSet, importJWK, type JSONWebKeySet, type JWK, SignJWT } from 'jose'
import type { Level } from '../flow.ts'
import { ENGINE_LOGIN_CLAIM, ENGINE_USER_CLAIM, engineLogin, engineUser } from './engine-user.ts'
import { DEFAULT_CLAIMS, type KeySource, type TrustedIssuer } from './issuers.ts'
import { EMBEDDED_ALGORITHM, type IssuerKeyFile, isPublished, openKeyFile, readKeyFile } from './key-file.ts'

/** Its address changes with the server's port; whom it names does not. */
const EMBEDDED_IDENTITY = 'urn:sluice:embedded'

/** Below the server's own address: where the documents of the embedded issuer are. */
export const EMBEDDED_ISSUER_PATH = '/oidc'

export const MAX_TOKEN_TTL_S = 24 * 60 * 60
const MIN_TOKEN_TTL_S = 1
/** The command may rotate keys beside a running server: a token of an unknown key makes it look again, this often. */
const RELOAD_PAUSE_MS = 1_000

/** An administrator of the platform, or a person of one tenant. */
export type TokenSubject =
  | { readonly role: 'admin'; readonly user?: string }
  | {
      readonly tenant: string
      readonly groups: readonly string[]
      readonly user: string
      readonly clearance?: Level
      readonly email?: string
    }

export interface IssueOptions {
  /** Seconds; at most a day. */
  readonly ttlS: number
  readonly nowMs?: number
}

/** The issuer inside the runtime: it signs with keys of the data folder and is verified like any other. */
export class EmbeddedIssuer {
  readonly #dataDirectory: string
  readonly #nowMs: () => number
  #file: IssuerKeyFile
  #reloadedAtMs = 0

  private constructor(dataDirectory: string, file: IssuerKeyFile, nowMs: () => number) {
    this.#dataDirectory = dataDirectory
    this.#file = file
    this.#nowMs = nowMs
  }

  /** Makes the keys where there are none. `issuer` is the address at which its documents are served. */
  static async open(options: {
    readonly dataDirectory: string
    readonly issuer: string
    readonly audience: string
    readonly nowMs?: () => number
  }): Promise<EmbeddedIssuer> {
    const file = await openKeyFile(options.dataDirectory, options.issuer, options.audience)
    return new EmbeddedIssuer(options.dataDirectory, file, options.nowMs ?? Date.now)
  }

  get issuer(): string {
    return this.#file.issuer
  }

  /** The public halves of the keys that are still valid. */
  jwks(): JSONWebKeySet {
    const nowMs = this.#nowMs()
    return {
      keys: this.#file.keys.filter((key) => isPublished(key, nowMs)).map((key) => publicJwk(key.kid, key.privateJwk)),
    }
  }

  /** OpenID Connect discovery: what verifies tokens needs; there is no interactive login. */
  discovery(): Readonly<Record<string, unknown>> {
    return {
      issuer: this.issuer,
      jwks_uri: `${this.issuer}/jwks`,
      response_types_supported: [],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: [EMBEDDED_ALGORITHM],
      claims_supported: ['iss', 'sub', 'aud', 'exp', 'iat', 'tenant_id', 'groups', 'roles', 'clearance', 'email'],
    }
  }

  /** This issuer as the verifier sees it; it may claim every tenant and the admin role. */
  trusted(): TrustedIssuer {
    return {
      issuer: this.issuer,
      identity: EMBEDDED_IDENTITY,
      audience: this.#file.audience,
      algorithms: [EMBEDDED_ALGORITHM],
      tenants: 'all',
      mayClaimAdmin: true,
      claims: DEFAULT_CLAIMS,
      keys: this.#keySource(),
    }
  }

  issue(subject: TokenSubject, options: IssueOptions): Promise<string> {
    return sign(this.#file, subject, options)
  }

  #keySource(): KeySource {
    return {
      getKey: async (header, token) => {
        if (!this.#file.keys.some((key) => key.kid === header.kid)) await this.#reload()
        return createLocalJWKSet(this.jwks())(header, token)
      },
      check: async () => {
        await readKeyFile(this.#dataDirectory)
      },
    }
  }

  async #reload(): Promise<void> {
    const nowMs = this.#nowMs()
    // A clock that was set back would make the pause as long as it was set back by.
    const sinceMs = nowMs - this.#reloadedAtMs
    if (sinceMs >= 0 && sinceMs < RELOAD_PAUSE_MS) return
    this.#reloadedAtMs = nowMs
    this.#file = await readKeyFile(this.#dataDirectory)
  }
}

/**
 * Signs a token with the keys of a data folder, for the command line: the server need not run. Throws CONFIG
 * `issuer_keys_missing` where no server has started in that folder yet, and INVALID_DATA `token_ttl_invalid`.
 */
export async function issueToken(dataDirectory: string, subject: TokenSubject, options: IssueOptions): Promise<string> {
  return sign(await readKeyFile(dataDirectory), subject, options)
}

async function sign(file: IssuerKeyFile, subject: TokenSubject, options: IssueOptions): Promise<string> {
  const { ttlS, nowMs = Date.now() } = options
  if (!Number.isInteger(ttlS) || ttlS < MIN_TOKEN_TTL_S || ttlS > MAX_TOKEN_TTL_S) {
    throw new SluiceError('INVALID_DATA', `a token lives between ${MIN_TOKEN_TTL_S} and ${MAX_TOKEN_TTL_S} seconds`, {
      code: 'token_ttl_invalid',
      remedy: 'Ask for a shorter life, such as 1h.',
    })
  }
  const key = file.keys[0]
  if (key === undefined)
    throw new SluiceError('INTERNAL', 'the issuer has no signing key', { code: 'issuer_keys_broken' })
  const issuedAtS = Math.floor(nowMs / 1000)
  return new SignJWT(claimsOf(subject, issuedAtS + ttlS))
    .setProtectedHeader({ alg: EMBEDDED_ALGORITHM, kid: key.kid, typ: 'at+jwt' })
    .setIssuer(file.issuer)
    .setAudience(file.audience)
    .setSubject(subject.user ?? 'admin')
    .setIssuedAt(issuedAtS)
    .setExpirationTime(issuedAtS + ttlS)
    .setJti(randomUUID())
    .sign(await importJWK(key.privateJwk, EMBEDDED_ALGORITHM))
}

function claimsOf(subject: TokenSubject, expiresAtS: number): Record<string, unknown> {
  const forEngines = (user: string) => ({
    [ENGINE_USER_CLAIM]: user,
    [ENGINE_LOGIN_CLAIM]: engineLogin(user, expiresAtS),
  })
  if ('role' in subject) {
    return { roles: [subject.role], ...forEngines(engineUser({ subject: subject.user ?? 'admin', admin: true })) }
  }
  const { user, tenant, groups, clearance } = subject
  return {
    tenant_id: tenant,
    ...forEngines(engineUser({ subject: user, tenant, groups, ...(clearance && { clearance }) })),
    groups: subject.groups,
    ...(subject.clearance === undefined ? {} : { clearance: subject.clearance }),
    ...(subject.email === undefined ? {} : { email: subject.email }),
  }
}

function publicJwk(kid: string, { kty, crv, x, y }: JWK): JWK {
  return {
    kid,
    use: 'sig',
    alg: EMBEDDED_ALGORITHM,
    ...(kty && { kty }),
    ...(crv && { crv }),
    ...(x && { x }),
    ...(y && { y }),
  } as JWK
}
