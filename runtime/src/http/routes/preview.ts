import { Type } from 'typebox'
import { TenantTurns } from '../../operations/deploy/tenant-turns.ts'
import type { PreviewsDeps } from '../../operations/previews/deps.ts'
import { previewDraft } from '../../operations/previews/preview.ts'
import { defineRoute, type Route } from '../route.ts'
import { Preview, previewReply } from './preview-shapes.ts'
import { PLAN_ERRORS } from './product-deployments.ts'
import { PreviewRequest } from './requests/deployments.ts'
import { InNamespace, productReference, Reference } from './requests/paths.ts'

const MOST_ROWS = 10

export function previewRoutes(deps: PreviewsDeps): readonly Route[] {
  const turns = new TenantTurns()
  return [
    defineRoute({
      method: 'POST',
      path: '/api/v1/products/{product_id}/preview',
      name: 'previewProduct',
      summary:
        'Rows that the manifests uploaded last would give, and what their checks say of these; nothing is published',
      description:
        'For who could deploy them and read the product then: refused as a plan is, and masked as a read would be. Made of what the lake has of the inputs now: of the first 10,000 rows of the only input where each row is made of one of it, else of all rows of all inputs, up to 256 MiB. It is put on record as reading.',
      tags: ['Products'],
      auth: 'tenant',
      params: Type.Object({ product_id: Reference }),
      query: InNamespace,
      body: PreviewRequest,
      isRead: true,
      timeoutMs: 180_000,
      responses: { 200: { description: 'Columns, rows and checks.', schema: Preview } },
      errors: [
        'manifests_missing',
        'plan_changed',
        'class_lowering_unnamed',
        'classes_changed',
        'raw_table_forbidden',
        'product_forbidden',
        'too_many_at_once',
        'input_not_ingested',
        'preview_unsupported',
        'preview_too_large',
        'too_many_rejected',
        'query_timeout',
        'query_memory_exceeded',
        'query_result_too_large',
        'query_failed',
        'cpu_time_spent',
        'right_ended',
        ...PLAN_ERRORS,
      ],
      async handler(call) {
        const { digest, rows = MOST_ROWS, lower } = call.body
        return previewReply(await previewDraft(deps, call, productReference(call), { digest, rows, lower }, turns))
      },
    }),
  ]
}
