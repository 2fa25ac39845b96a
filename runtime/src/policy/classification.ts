/**
 * Who may read a product, and which of its columns in clear. Pure: the product, the grants and the principal go in,
 * a decision comes out.
 */
import type { Principal } from '../flow.ts'
import type { GrantSubject } from '../registry/grants.ts'

export const CLASSIFICATIONS = ['public', 'internal', 'confidential', 'restricted'] as const

export type Classification = (typeof CLASSIFICATIONS)[number]

export interface ProductGrant extends GrantSubject {
  readonly may: 'read' | 'unmask'
  /** For `unmask`: the classes it opens; `*` opens all. */
  readonly classes: readonly string[]
}

export type ReadDecision =
  | { readonly allowed: true; readonly audit: boolean; readonly clearClasses: ClearClasses }
  | { readonly allowed: false; readonly reason: string; readonly remedy: string }

/** The classes a reader sees in clear. */
export type ClearClasses = 'all' | ReadonlySet<string>

/** The grants that are the principal's own or one of its teams'. */
export function grantsOf(principal: Principal, grants: readonly ProductGrant[]): readonly ProductGrant[] {
  return grants.filter((grant) => isSubject(principal, grant))
}

/** Whether the subject is the principal itself, or a team of its. */
export function isSubject(principal: Principal, { subjectType, subject, issuer }: GrantSubject): boolean {
  if (subjectType === 'team') return principal.groups.includes(subject)
  return subject === principal.subject && issuer === principal.issuer
}

export function decideRead(
  principal: Principal,
  classification: Classification,
  grants: readonly ProductGrant[],
): ReadDecision {
  const own = grantsOf(principal, grants)
  if (principal.isAdmin) return { allowed: true, audit: true, clearClasses: 'all' }
  const refusal = refusalOf(principal, classification, own)
  if (refusal) return refusal
  return { allowed: true, audit: classification === 'restricted', clearClasses: clearClassesOf(own) }
}

function refusalOf(
  principal: Principal,
  classification: Classification,
  own: readonly ProductGrant[],
): Extract<ReadDecision, { allowed: false }> | null {
  const isMember = principal.isDeveloper || principal.isViewer
  switch (classification) {
    case 'public':
      return null
    case 'internal': {
      const narrowed = principal.claimedClearance === 'public'
      if ((isMember && !narrowed) || own.length > 0) return null
      return deny('it is internal, and the token names no group of this tenant', 'Join svc-viewers or svc-developers.')
    }
    case 'confidential':
      if (isMember && own.length > 0) return null
      return deny('it is confidential, and neither you nor your teams hold a grant', 'Ask its owner for a grant.')
    case 'restricted':
      if (isMember && own.some((grant) => grant.subjectType === 'user')) return null
      return deny('it is restricted to named individuals', 'Ask its owner for a grant in your name.')
  }
}

function deny(reason: string, remedy: string): Extract<ReadDecision, { allowed: false }> {
  return { allowed: false, reason, remedy }
}

function clearClassesOf(own: readonly ProductGrant[]): ClearClasses {
  const classes = new Set(own.filter((grant) => grant.may === 'unmask').flatMap((grant) => grant.classes))
  return classes.has('*') ? 'all' : classes
}

/** Of two product levels the one that fewer may read: a read obeys the stricter of today's and the snapshot's. */
export function stricter(left: Classification, right: Classification): Classification {
  return CLASSIFICATIONS.indexOf(left) >= CLASSIFICATIONS.indexOf(right) ? left : right
}
