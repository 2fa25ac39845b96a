/** Who a key of an application is, at a door and behind it: its maker as of now, within what the key is for. */
import type { Level, Principal } from '../flow.ts'
import type { PresentedKey } from '../registry/application-keys.ts'
import { stricter } from './classification.ts'
import { DEVELOPERS, VIEWERS } from './identity.ts'

/** The issuer of principals that are keys; their subject is the key's id. No token can name it: it is no address. */
const KEY_ISSUER = 'urn:sluice:application-key'

/** A token that asked for less than its bearer has makes keys that have no more, whatever its maker shows later. */
function narrower(left: Level | null, right: Level | null): Level | null {
  if (left === null || right === null) return left ?? right
  return stricter(left, right) === left ? right : left
}

/** It is a member where its maker is one, and never a developer. */
export function principalOfKey(key: PresentedKey): Principal {
  return {
    issuer: KEY_ISSUER,
    subject: key.id,
    tenant: key.tenant,
    groups: key.makerGroups,
    isAdmin: false,
    isDeveloper: false,
    isViewer: key.makerGroups.includes(DEVELOPERS) || key.makerGroups.includes(VIEWERS),
    claimedClearance: narrower(key.makerClearance, key.clearance),
    email: null,
    tokenExpiresAtMs: key.expiresAt.getTime(),
    tokenIssuedAtMs: key.createdAt.getTime(),
    key: {
      maker: key.createdBy,
      products: key.products === null ? null : new Set(key.products),
      operations: key.operations,
      unmask: new Set(key.unmask),
    },
  }
}
