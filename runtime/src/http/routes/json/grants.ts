/** Rights as JSON. */
import type { EndedGrant } from '../../../registry/grant-bases.ts'
import type { ProductGrant, RawTableGrant } from '../../../registry/grants.ts'
import type { Reply } from '../../route.ts'
import { iso } from './times.ts'

export function grantJson(grant: ProductGrant) {
  return {
    id: grant.id,
    subject: grant.subjectType === 'user' ? { user: grant.subject } : { team: grant.subject },
    issuer: grant.issuer,
    may: grant.may,
    classes: grant.classes,
    grantable: grant.grantable,
    granted_by: grant.grantedBy.subject,
    created_at: iso(grant.createdAt),
  }
}

/** What ended with a grant that was taken back. */
export function endedReply(ended: readonly EndedGrant[]): Reply {
  if (ended.length === 0) return { empty: true }
  const told = ended.map(({ id, productId, connectionId, subjectType, subject, isGone, classes }) => ({
    id,
    product_id: productId,
    connection_id: connectionId,
    subject: subjectType === 'user' ? { user: subject } : { team: subject },
    whole: isGone,
    classes: isGone ? [] : classes,
  }))
  return { body: { ended: told } }
}

export function rawGrantJson(grant: RawTableGrant) {
  return {
    id: grant.id,
    subject: grant.subjectType === 'user' ? { user: grant.subject } : { team: grant.subject },
    issuer: grant.issuer,
    table: grant.tableName,
    grantable: grant.grantable,
    granted_by: grant.grantedBy.subject,
    created_at: iso(grant.createdAt),
  }
}
