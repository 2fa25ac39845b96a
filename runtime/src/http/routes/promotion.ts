/** What is done with a preview of a version: put in service, or thrown away. */
import { Type } from 'typebox'
import type { DeployDeps } from '../../operations/deploy/deps.ts'
import { discardPreview, promotePreview } from '../../operations/deploy/previews.ts'
import { requireDeveloper } from '../../operations/permissions.ts'
import { keptAnswer } from '../idempotency.ts'
import { defineRoute, type Route } from '../route.ts'
import { Deployed } from './answers/deployments.ts'
import { deployReply, PLAN_ERRORS } from './product-deployments.ts'
import { PromoteRequest } from './requests/deployments.ts'
import { InNamespace, productReference, Reference } from './requests/paths.ts'

export function promotionRoutes(deps: DeployDeps): readonly Route[] {
  return [
    defineRoute({
      method: 'POST',
      path: '/api/v1/products/{product_id}/promote',
      name: 'promoteProduct',
      summary: 'Put the version of the preview in service',
      description:
        'Judged anew as a deployment by the caller, and made anew by its first run: rows and rights may be others by now. The version in service is read until then. The preview ends with it.',
      tags: ['Products'],
      auth: 'tenant',
      params: Type.Object({ product_id: Reference }),
      query: InNamespace,
      body: PromoteRequest,
      idempotent: true,
      authorize: (call) => requireDeveloper(call.principal),
      timeoutMs: 120_000,
      responses: { 201: { description: 'The deployment.', schema: Deployed } },
      errors: [
        'preview_not_found',
        'plan_changed',
        'product_being_deleted',
        'draft_of_another',
        'class_lowering_unnamed',
        'classes_changed',
        'breaking_change',
        'breaks_downstream',
        'version_exists',
        ...PLAN_ERRORS,
      ],
      async handler(call) {
        const answer = keptAnswer(call, deployReply)
        const { digest, lower, breaks, accept_differences: acceptDifferences } = call.body
        const wanted = { digest, lower, breaks, acceptDifferences }
        return answer.reply(await promotePreview(deps, call, productReference(call), wanted, answer.keep))
      },
    }),
    defineRoute({
      method: 'DELETE',
      path: '/api/v1/products/{product_id}/preview',
      name: 'discardPreview',
      summary: 'Throw the preview away: it is served no longer, and its rows are removed from the lake and all stores',
      description: 'The product tells it as `ending` until they are gone, which is tried until it is done.',
      tags: ['Products'],
      auth: 'tenant',
      params: Type.Object({ product_id: Reference }),
      query: InNamespace,
      authorize: (call) => requireDeveloper(call.principal),
      responses: { 204: { description: 'It is served no longer.' } },
      errors: ['preview_not_found', 'product_not_found', 'ambiguous_product'],
      async handler(call) {
        await discardPreview(deps, call, productReference(call))
        return { empty: true }
      },
    }),
  ]
}
