/** Whose tokens are good here: the embedded issuer's, or those of the issuers that are configured. */
import { EMBEDDED_ISSUER_PATH, EmbeddedIssuer } from '../auth/embedded-issuer.ts'
import { DEFAULT_CLAIMS, SIGNATURE_ALGORITHMS, type TrustedIssuer } from '../auth/issuers.ts'
import { remoteKeys } from '../auth/remote-keys.ts'
import type { Config, IssuerConfig } from '../config.ts'

/** Where this server is for others, as pages, links and tokens name it. */
export function ownUrl({ public_url: publicUrl, host }: Pick<Config, 'public_url' | 'host'>, port: number): string {
  return publicUrl ?? `http://${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** Null where others are configured. */
export async function embeddedIssuer(config: Config, url: string): Promise<EmbeddedIssuer | null> {
  if (config.auth.issuers.length > 0) return null
  return EmbeddedIssuer.open({
    dataDirectory: config.secrets_dir,
    issuer: `${url}${EMBEDDED_ISSUER_PATH}`,
    audience: config.auth.audience,
  })
}

export function trustedIssuer(issuer: IssuerConfig): TrustedIssuer {
  return {
    issuer: issuer.issuer,
    audience: issuer.audience,
    algorithms: SIGNATURE_ALGORITHMS,
    tenants: issuer.tenants === undefined ? 'all' : new Set(issuer.tenants),
    mayClaimAdmin: issuer.admin,
    claims: { ...DEFAULT_CLAIMS, ...issuer.claims },
    keys: remoteKeys({
      issuer: issuer.issuer,
      allowHttp: issuer.allow_http,
      ...(issuer.jwks_uri === undefined ? {} : { jwksUri: issuer.jwks_uri }),
    }),
  }
}
