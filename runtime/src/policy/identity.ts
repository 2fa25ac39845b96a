/** Who is who: identity is issuer and subject together, and a subject alone names nobody. */

/** Group names that carry rights in a tenant. */
export const DEVELOPERS = 'svc-developers'
export const VIEWERS = 'svc-viewers'

/** An issuer as far as it names people. */
export interface NamingIssuer {
  /** Compared with `iss` as it stands, no slash added or taken away. */
  readonly issuer: string
  /**
   * Under which name its subjects are known; default: `issuer`. For an issuer whose address may change while its
   * people stay the same.
   */
  readonly identity?: string
  /** Tenants that it may claim. */
  readonly tenants: 'all' | ReadonlySet<string>
}

/**
 * The issuer of principals that are service passwords; their subject is the password's id. No token can name it, for it is no
 * address, and no grant can: what they read is their group's.
 */
export const PASSWORD_ISSUER = 'urn:sluice:service-password'

/** The issuer of a principal's: what grants of people are bound to. */
export function identityOf({ identity, issuer }: NamingIssuer): string {
  return identity ?? issuer
}

/** The identity of the issuer of that address or identity. Null: there is none, or it may not claim the tenant. */
export function identityIn(tenant: string, issuers: readonly NamingIssuer[], named: string): string | null {
  const found = issuers.find((one) => one.issuer === named || identityOf(one) === named)
  if (found === undefined || (found.tenants !== 'all' && !found.tenants.has(tenant))) return null
  return identityOf(found)
}
