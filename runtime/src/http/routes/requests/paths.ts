/** What paths and queries of many routes hold: pages of lists, and names of products. */

import { Type } from 'typebox'
import { isId } from '../../../registry/ids.ts'
import { MAX_CURSOR_LENGTH } from '../../cursor.ts'

export const Page = Type.Object(
  {
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, default: 100 })),
    cursor: Type.Optional(Type.String({ maxLength: MAX_CURSOR_LENGTH })),
  },
  { additionalProperties: false },
)

/** No path holds these, encoded or not: the edge refuses them. */
const SEGMENT = '^[^/\\\\\\u0000-\\u001f\\u007f-\\u009f]+$'

export const Reference = Type.String({
  minLength: 1,
  maxLength: 500,
  pattern: SEGMENT,
  'x-expected': 'an id or a name, without slashes and control characters',
  description: 'An id or a name.',
})

export const Namespace = Type.Optional(
  Type.String({ maxLength: 500, description: 'Settles a name that exists in several namespaces.' }),
)

/** Of the routes of one product. */
export const InNamespace = Type.Object({ namespace: Namespace }, { additionalProperties: false })

/** Types of endpoints, parted by commas: rows in their stores may stay where the plugin is not loaded. Plugins name them. */
export const Abandon = Type.String({ maxLength: 200, pattern: '^[^,]+(,[^,]+)*$' })

export const abandonedTypes = (abandon: string | undefined): readonly string[] => abandon?.split(',') ?? []

/** Of the lists of one product. */
export const PageInNamespace = Type.Object(
  { ...Page.properties, namespace: Namespace },
  { additionalProperties: false },
)

interface ProductCall {
  readonly params: { readonly product_id: string }
  readonly query: { readonly namespace?: string }
}

/** What operations take: an id, a name, or `namespace.name`, which the query makes of a bare name. */
export function productReference({ params, query }: ProductCall): string {
  const { product_id: reference } = params
  const { namespace } = query
  const isSettled = namespace === undefined || reference.includes('.') || isId(reference, 'prd')
  return isSettled ? reference : `${namespace}.${reference}`
}

export const Anything = Type.Record(Type.String(), Type.Unknown())
