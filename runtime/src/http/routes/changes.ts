import { Type } from 'typebox'
import type { TenantCall } from '../../flow.ts'
import type { ChangesDeps } from '../../operations/changes/deps.ts'
import {
  type ChangePlace,
  type FollowFrom,
  followChanges,
  followedProduct,
} from '../../operations/changes/follow-changes.ts'
import { type CursorBinding, type Cursors, MAX_CURSOR_LENGTH } from '../cursor.ts'
import { eventStream, type ServerEvent } from '../event-stream.ts'
import { defineRoute, type Route } from '../route.ts'
import { Namespace, Reference } from './requests/paths.ts'

export function changeRoutes(deps: ChangesDeps, cursors: Cursors): readonly Route[] {
  return [
    defineRoute({
      method: 'GET',
      path: '/api/v1/products/{name}/changes',
      name: 'followChanges',
      summary: 'A product’s changed rows as they come, epoch by epoch',
      description:
        'Events: `upsert` with the row; `delete` with its key; `epoch` when all of one has come; `reset` where everything that came is to be forgotten, as all rows follow anew; `problem` where the stream ends, with `code`, `detail` and `remedy`: `right_ended` when its token does, at `exp`. The id of each event is where the stream goes on after it, by Last-Event-ID or `from`, for a day.',
      tags: ['Serving'],
      auth: 'tenant',
      forKeys: 'read',
      isLive: true,
      params: Type.Object({ name: Reference }),
      query: Type.Object(
        {
          namespace: Namespace,
          from: Type.Optional(
            Type.String({
              minLength: 1,
              maxLength: MAX_CURSOR_LENGTH,
              description:
                'now (default): what comes; start: all rows there are, then what comes; or the id of an event. Last-Event-ID goes before it.',
            }),
          ),
        },
        { additionalProperties: false },
      ),
      responses: {
        200: { description: 'A stream of events.', also: { 'text/event-stream': 'Server-sent events.' } },
      },
      errors: [
        'product_not_found',
        'ambiguous_product',
        'product_forbidden',
        'not_materialized',
        'mask_pending',
        'changes_need_key',
        'cursor_invalid',
        'too_many_at_once',
      ],
      async handler(call) {
        const { name } = call.params
        const { namespace: domain } = call.query
        const id = await followedProduct(deps, call, name, domain)
        const binding = bindingOf(call, id)
        const from = fromOf(call.lastEventId || (call.query.from ?? 'now'), cursors, binding)
        const changes = await followChanges(deps, call, id, from)
        const seal = (place: ChangePlace) => cursors.seal(positionOf(place), binding)
        return { stream: eventStream(eventsOf(changes, seal), call) }
      },
    }),
  ]
}

/** Of the reader and the product, whatever the policy is by then: that is decided anew. */
function bindingOf({ tenant, principal: { issuer, subject } }: TenantCall, productId: string): CursorBinding {
  return { tenant, issuer, subject, policyVersion: '', query: { changes: productId } }
}

type Position = readonly [string, number | null, number | null, number]

/** So short that its cursor fits Last-Event-ID. */
function positionOf({ shape, epoch, target, offset }: ChangePlace): Position {
  return [shape, epoch, target, offset]
}

/** Throws `cursor_invalid`. */
function fromOf(asked: string, cursors: Cursors, binding: CursorBinding): FollowFrom {
  if (asked === 'now' || asked === 'start') return asked
  // Sealed by us: it is as it was made.
  const [shape, epoch, target, offset] = cursors.open(asked, binding) as Position
  return { shape, epoch, target, offset }
}

async function* eventsOf(
  changes: AsyncIterable<{ readonly kind: string; readonly json: string; readonly place: ChangePlace }>,
  seal: (place: ChangePlace) => string,
): AsyncGenerator<ServerEvent> {
  for await (const { kind, json, place } of changes) yield { id: seal(place), event: kind, data: json }
}
