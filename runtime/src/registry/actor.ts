import type { Principal } from '../flow.ts'

/** Who did something. Identity is issuer and subject together. */
export interface Actor {
  readonly issuer: string
  readonly subject: string
}

/** For what the runtime does by itself, such as a retry after a crash. */
export const RUNTIME_ACTOR: Actor = { issuer: 'sluice', subject: 'runtime' }

export function actorOf(principal: Principal): Actor {
  return { issuer: principal.issuer, subject: principal.subject }
}

export function sameActor(left: Actor, right: Actor): boolean {
  return left.issuer === right.issuer && left.subject === right.subject
}
