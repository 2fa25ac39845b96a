import type { Column } from '@sluice/sdk'
import { SluiceError, typeName } from '@sluice/sdk'
import { type TSchema, Type } from 'typebox'
import type { ConnectionsDeps } from '../../operations/connections/deps.ts'
import type { ReadDeps } from '../../operations/reads/read-endpoint.ts'
import {
  type OfferedOperation,
  type OperationRequest,
  offeredOperations,
  readOperation,
} from '../../operations/reads/read-operation.ts'
import { ageS } from '../../operations/served/freshness.ts'
import { MAX_CURSOR_LENGTH } from '../cursor.ts'
import { FRESHNESS } from '../freshness-header.ts'
import { defineRoute, type Reply, type Route } from '../route.ts'
import { ReadResult } from './answers/reads.ts'
import { ENDPOINT_ERRORS } from './reads.ts'
import { InNamespace, Reference } from './requests/paths.ts'
import { ColumnNames } from './requests/reads.ts'

/**
 * A route for each operation that the store of an endpoint type declares. Throws CONFIG `plugin_invalid` for one whose path
 * `others` have: a plugin does not stand in for what the runtime does.
 */
export function declaredOperationRoutes(
  { plugins }: Pick<ConnectionsDeps, 'plugins'>,
  deps: ReadDeps,
  others: readonly Route[],
): readonly Route[] {
  const taken = new Set(others.map(({ path }) => path.replace(/\{\w+\}/g, '{}')))
  return offeredOperations(plugins).map((offered) => {
    const route = operationRoute(offered, deps)
    if (taken.has(route.path.replace(/\{\w+\}/g, '{}'))) {
      throw new SluiceError('CONFIG', `the store of ${offered.type} declares an operation ${offered.name}`, {
        code: 'plugin_invalid',
        remedy: `${route.path} is an address of the runtime itself: the plugin needs another name for its operation.`,
      })
    }
    return route
  })
}

function operationRoute(offered: OfferedOperation, deps: ReadDeps): Route {
  const { name, type, declared } = offered
  const body = Type.Object(
    {
      input: Type.Unsafe<OperationRequest['input']>(declared.inputSchema as TSchema),
      columns: ColumnNames,
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, default: 20 })),
      cursor: Type.Optional(
        Type.String({ maxLength: MAX_CURSOR_LENGTH, description: 'next_cursor of the page before.' }),
      ),
    },
    { additionalProperties: false },
  )
  return defineRoute({
    method: 'POST',
    path: `/api/v1/products/{name}/${name}`,
    name: operationId(name),
    summary: declared.summary,
    description: `An operation of the store of ${type} endpoints.${addedWords(declared.adds ?? [])} Who is not shown a column that rows are chosen by in clear is refused.`,
    tags: ['Serving'],
    auth: 'tenant',
    forKeys: 'read',
    isRead: true,
    params: Type.Object({ name: Reference }),
    query: InNamespace,
    body,
    example: { params: { name: 'crm.customers' }, body: { input: declared.example } },
    responses: {
      200: {
        description: 'Rows in data; what was read, in meta.',
        headers: { [FRESHNESS]: 'How many seconds ago the source was read that the rows are of.' },
        schema: ReadResult,
      },
    },
    errors: [...ENDPOINT_ERRORS, 'unknown_column'],
    async handler(call): Promise<Reply> {
      const at = { reference: call.params.name, domain: call.query.namespace }
      const { json, readAt } = await readOperation(offered, call, at, call.body as OperationRequest, deps)
      return { json, headers: { [FRESHNESS]: String(ageS(readAt)) } }
    },
  })
}

const operationId = (name: string) =>
  `operation_${name}`.replace(/_+(\w)/g, (_, letter: string) => letter.toUpperCase())

function addedWords(columns: readonly Column[]): string {
  const named = columns.map(({ name, type }) => `\`${name}\` (${typeName(type)})`)
  return named.length === 0 ? '' : ` Rows have ${named.join(', ')} besides the columns of the product.`
}
