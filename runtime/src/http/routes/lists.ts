import type { AuthenticatedCall } from '../../flow.ts'
import type { Page, PagePosition, PageRequest } from '../../registry/paging.ts'
import type { Cursors } from '../cursor.ts'
import type { Reply } from '../route.ts'

interface PageQuery {
  readonly limit?: number
  readonly cursor?: string
}

/** One page of a list as JSON, with an encrypted cursor that only this caller can use on this list. */
export async function listReply<T>(
  call: AuthenticatedCall<unknown, PageQuery>,
  cursors: Cursors,
  operation: string,
  read: (page: PageRequest) => Promise<Page<T>>,
  toJson: (item: T) => unknown,
): Promise<Reply> {
  const { limit: _limit, cursor, ...filters } = call.query
  const binding = {
    tenant: call.tenant ?? '',
    issuer: call.principal.issuer,
    subject: call.principal.subject,
    policyVersion: '',
    query: { operation, params: call.params, ...filters },
  }
  const after = cursor === undefined ? null : positionOf(cursors.open(cursor, binding))
  const page = await read({ limit: call.query.limit ?? 100, after })
  const next = page.next === null ? null : cursors.seal([page.next.createdAt.toISOString(), page.next.id], binding)
  return { body: { data: page.items.map(toJson), next_cursor: next } }
}

function positionOf(position: unknown): PagePosition {
  const [createdAt, id] = position as [string, string]
  return { createdAt: new Date(createdAt), id }
}
