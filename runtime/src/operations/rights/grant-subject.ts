/** Whom a grant is for, as requests name it. */
import { SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import { identityIn } from '../../policy/identity.ts'
import type { GrantSubject } from '../../registry/grants.ts'
import type { RightsDeps } from './deps.ts'

export interface SubjectRequest {
  readonly subject: { readonly user?: string; readonly team?: string }
  /** Of the user, by its address or identity; absent: the one of whoever grants. */
  readonly issuer?: string | undefined
}

/** Throws INVALID_DATA `invalid_grant`, also for people of an issuer that may not claim the tenant. */
export function subjectOf(
  { issuers }: Pick<RightsDeps, 'issuers'>,
  { tenant, principal }: Pick<TenantCall, 'tenant' | 'principal'>,
  { subject: { user, team }, issuer: named }: SubjectRequest,
): GrantSubject {
  if (team !== undefined && user === undefined) {
    if (named === undefined) return { subjectType: 'team', subject: team, issuer: null }
    throw invalid('teams are the tenant’s, whichever issuer names them', 'Send issuer with subject.user only.')
  }
  if (user === undefined || team !== undefined) {
    throw invalid('a grant is for one user or for one team', 'Send subject.user or subject.team.')
  }
  const issuer = identityIn(tenant, issuers, named ?? principal.issuer)
  if (issuer !== null) return { subjectType: 'user', subject: user, issuer }
  throw invalid(
    named === undefined ? 'your issuer names nobody of this tenant' : 'no such issuer names people of this tenant',
    'Send as issuer what tokens of the user have in iss; access.users are granted by who is of the tenant itself.',
  )
}

function invalid(message: string, remedy: string): SluiceError {
  return new SluiceError('INVALID_DATA', message, { code: 'invalid_grant', remedy })
}
