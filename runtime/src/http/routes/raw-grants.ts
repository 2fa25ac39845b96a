import { Type } from 'typebox'
import type { ConnectionsDeps } from '../../operations/connections/deps.ts'
import { addRawGrant, listRawGrants, removeRawGrant } from '../../operations/connections/raw-grants.ts'
import { requireDeveloper } from '../../operations/permissions.ts'
import type { RawTableGrant } from '../../registry/grants.ts'
import type { PageRequest } from '../../registry/paging.ts'
import type { Cursors } from '../cursor.ts'
import { keptAnswer } from '../idempotency.ts'
import { defineRoute, type Route } from '../route.ts'
import { EndedGrants, RawGrant } from './answers/grants.ts'
import { pageOf } from './answers/parts.ts'
import { endedReply, rawGrantJson } from './json/grants.ts'
import { listReply } from './lists.ts'
import { RawGrantRequest } from './requests/grants.ts'
import { Page, Reference } from './requests/paths.ts'

const Params = Type.Object({ connection_id: Reference })
const tags = ['Connections']
const path = '/api/v1/connections/{connection_id}/grants'

/** Grants on the raw tables of a connection. */
export function rawGrantRoutes(deps: ConnectionsDeps, cursors: Cursors): readonly Route[] {
  return [
    defineRoute({
      method: 'POST',
      path,
      name: 'createRawGrant',
      summary: 'Let a user or a team read raw tables of a connection',
      tags,
      auth: 'tenant',
      params: Params,
      body: RawGrantRequest,
      idempotent: true,
      authorize: (call) => requireDeveloper(call.principal),
      responses: { 201: { description: 'The grant.', schema: RawGrant } },
      errors: ['invalid_grant', 'raw_table_forbidden', 'connection_not_found'],
      async handler(call) {
        const { subject, issuer, table = null, grantable = false } = call.body
        const answer = keptAnswer(call, (grant: RawTableGrant) => ({ status: 201, body: rawGrantJson(grant) }))
        const wanted = { subject, issuer, table, grantable }
        return answer.reply(await addRawGrant(deps, call, call.params.connection_id, wanted, answer.keep))
      },
    }),
    defineRoute({
      method: 'GET',
      path,
      name: 'listRawGrants',
      summary: 'Grants on the raw tables of a connection, newest first',
      tags,
      auth: 'tenant',
      params: Params,
      query: Page,
      responses: { 200: { description: 'A page of grants.', schema: pageOf(RawGrant) } },
      errors: ['connection_not_found'],
      handler(call) {
        const read = (page: PageRequest) => listRawGrants(deps, call, call.params.connection_id, page)
        return listReply(call, cursors, 'raw-grants', read, rawGrantJson)
      },
    }),
    defineRoute({
      method: 'DELETE',
      path: `${path}/{grant_id}`,
      name: 'deleteRawGrant',
      summary: 'Take a grant on raw tables back, with what its holder has granted on by it',
      tags,
      auth: 'tenant',
      params: Type.Object({ connection_id: Reference, grant_id: Reference }),
      responses: {
        200: { description: 'It is gone, and with it these.', schema: EndedGrants },
        204: { description: 'It is gone, and nothing rested on it.' },
      },
      errors: ['grant_not_found', 'raw_table_forbidden', 'connection_not_found'],
      async handler(call) {
        return endedReply(await removeRawGrant(deps, call, call.params.connection_id, call.params.grant_id))
      },
    }),
  ]
}
