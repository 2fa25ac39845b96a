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
  | { readonly allowed: false; readonly reason: string; readonly remedy: string; readonly isHidden?: boolean }

/** The classes a reader sees in clear. */
export type ClearClasses = 'all' | ReadonlySet<string>

/** The grants that are the principal's own or one of its teams'. */
export function grantsOf(principal: Principal, grants: readonly ProductGrant[]): readonly ProductGrant[] {
  return grants.filter((grant) => isSubject(principal, grant))
}

/** Whether the subject is the principal itself, or a team of its. */
export function isSubject(principal: Principal, { subjectType, subject, issuer }: GrantSubject): boolean {
  if (subjectType === 'team') return principal.groups.includes(subject)
  const person = personOf(principal)
  return subject === person.subject && issuer === person.issuer
}

/** Whose grants hold: of an application key, those of whoever made it. */
export function personOf(principal: Principal): Pick<Principal, 'issuer' | 'subject'> {
  return principal.key?.maker ?? principal
}

/** Not so whoever an agent asks for with a token of his own: he is within a scope, too, and is who made it. */
export function isApplicationKey({ issuer, subject, key }: Principal): boolean {
  return key !== undefined && (key.maker.subject !== subject || key.maker.issuer !== issuer)
}

/** Whether the product exists for the principal: of an application key, whether it was made for it. */
export function isInScope({ key }: Pick<Principal, 'key'>, productId: string): boolean {
  return key === undefined || key.products === null || key.products.has(productId)
}

/** Whether there are previews for the principal: for developers themselves, and for no key of theirs. */
export function seesPreviews({
  isAdmin,
  isDeveloper,
  key,
}: Pick<Principal, 'isAdmin' | 'isDeveloper' | 'key'>): boolean {
  return isAdmin || (isDeveloper && key === undefined)
}

export interface DecidedProduct {
  readonly id: string
  readonly classification: Classification
  /** Whether it is a version beside the one in service, which readers have not been given yet. */
  readonly isPreview: boolean
}

/** `isHidden` of a refusal: for this principal there is no such product. */
export function decideRead(
  principal: Principal,
  { id, classification, isPreview }: DecidedProduct,
  grants: readonly ProductGrant[],
): ReadDecision {
  const own = grantsOf(principal, grants)
  if (isPreview && !seesPreviews(principal)) {
    return { ...deny('previews are for developers', 'Ask a developer to promote it.'), isHidden: true }
  }
  if (principal.isAdmin) return { allowed: true, audit: true, clearClasses: 'all' }
  if (!isInScope(principal, id)) return { ...deny('the key is not for it', 'Make a key for it.'), isHidden: true }
  const refusal = refusalOf(principal, classification, own)
  if (refusal) return refusal
  return { allowed: true, audit: classification === 'restricted', clearClasses: clearClassesOf(principal, own) }
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
      if (principal.key?.isAgents === true)
        return deny('it is restricted, and agents read none of those', 'Read it without one.')
      if (principal.key?.products === null) {
        return deny('it is restricted, and the key does not name it', 'Make a key that names the product.')
      }
      if (isMember && own.some((grant) => grant.subjectType === 'user')) return null
      return deny('it is restricted to named individuals', 'Ask its owner for a grant in your name.')
  }
}

function deny(reason: string, remedy: string): Extract<ReadDecision, { allowed: false }> {
  return { allowed: false, reason, remedy }
}

/** Of an application key, those that it was made for among its maker's. */
function clearClassesOf({ key }: Principal, own: readonly ProductGrant[]): ClearClasses {
  const classes = new Set(own.filter((grant) => grant.may === 'unmask').flatMap((grant) => grant.classes))
  if (key === undefined || key.unmask.has('*')) return classes.has('*') ? 'all' : classes
  return classes.has('*') ? key.unmask : new Set([...classes].filter((name) => key.unmask.has(name)))
}

/** Of two product levels the one that fewer may read: a read obeys the stricter of today's and the snapshot's. */
export function stricter(left: Classification, right: Classification): Classification {
  return CLASSIFICATIONS.indexOf(left) >= CLASSIFICATIONS.indexOf(right) ? left : right
}
