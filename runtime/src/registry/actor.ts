import type { Principal } from '../flow.ts'

/** Who did something. Identity is issuer and subject together. */
export interface Actor {
  readonly issuer: string
  readonly subject: string
}

export function actorOf(principal: Principal): Actor {
  return { issuer: principal.issuer, subject: principal.subject }
}

/** Whether the principal is who did it. */
export function isActor(principal: Pick<Principal, 'issuer' | 'subject'>, { issuer, subject }: Actor): boolean {
  return principal.issuer === issuer && principal.subject === subject
}
