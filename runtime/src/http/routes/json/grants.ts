/** Rights as JSON. */
import type { EndedGrant } from '../../../registry/grant-bases.ts'
import type { GrantSubject, ProductGrant, RawTableGrant } from '../../../registry/grants.ts'
import type { Reply } from '../../route.ts'
import { iso } from './times.ts'

export function grantJson(grant: ProductGrant) {
  return grantedJson(grant, { may: grant.may, classes: grant.classes })
}

export function rawGrantJson(grant: RawTableGrant) {
  return grantedJson(grant, { table: grant.tableName })
}

/** What ended with a grant that was taken back. */
export function endedReply(ended: readonly EndedGrant[]): Reply {
  if (ended.length === 0) return { empty: true }
  const told = ended.map((grant) => ({
    id: grant.id,
    product_id: grant.productId,
    connection_id: grant.connectionId,
    subject: subjectJson(grant),
    whole: grant.isGone,
    classes: grant.isGone ? [] : grant.classes,
  }))
  return { body: { ended: told } }
}

/** Whom, what, and by whom. */
function grantedJson<Granted extends object>(grant: ProductGrant | RawTableGrant, granted: Granted) {
  return {
    id: grant.id,
    subject: subjectJson(grant),
    issuer: grant.issuer,
    ...granted,
    grantable: grant.grantable,
    granted_by: grant.grantedBy.subject,
    created_at: iso(grant.createdAt),
  }
}

function subjectJson({ subjectType, subject }: Pick<GrantSubject, 'subjectType' | 'subject'>) {
  return subjectType === 'user' ? { user: subject } : { team: subject }
}
