/** What a caller has to be for an operation, whatever it is about. */
import { SluiceError } from '@sluice/sdk'
import type { Principal } from '../flow.ts'

export function requireDeveloper(principal: Principal): void {
  if (principal.isAdmin || principal.isDeveloper) return
  throw new SluiceError('PERMISSION', 'only members of svc-developers may change things', {
    code: 'developer_required',
    remedy: 'Ask for a token of the group svc-developers.',
  })
}

export function requireAdmin(principal: Principal): void {
  if (principal.isAdmin) return
  throw new SluiceError('PERMISSION', 'only administrators may do this', {
    code: 'admin_required',
    remedy: 'Use a token with the admin role.',
  })
}

/** Reading what is registered takes membership in one of the tenant's groups. */
export function requireMember(principal: Principal): void {
  if (principal.isAdmin || principal.isDeveloper || principal.isViewer) return
  throw new SluiceError('PERMISSION', 'the token names no group of this tenant', {
    code: 'member_required',
    remedy: 'Ask for a token of the group svc-viewers or svc-developers.',
  })
}
