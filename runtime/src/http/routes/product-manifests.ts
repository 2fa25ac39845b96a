/** Manifests of a product: uploaded, and told as they were uploaded. */
import { Type } from 'typebox'
import { MANIFEST_NAMES } from '../../manifest/problem.ts'
import { requireMember } from '../../operations/permissions.ts'
import type { ProductsDeps } from '../../operations/products/deps.ts'
import { keptManifests } from '../../operations/products/kept-manifests.ts'
import { type AcceptedManifests, productOf, uploadManifests } from '../../operations/products/products.ts'
import type { SharedCheck } from '../../operations/products/shared-checks.ts'
import type { Draft, ProductVersion } from '../../registry/versions.ts'
import { keptAnswer } from '../idempotency.ts'
import { defineRoute, type Reply, type Route } from '../route.ts'
import { ManifestTexts, ParsedManifests } from './answers/deployments.ts'
import { developer, Params, tags } from './product-route.ts'
import { InNamespace, productReference, Reference } from './requests/paths.ts'

export const MANIFEST_FORM = {
  parts: MANIFEST_NAMES,
  required: [],
  maxPartBytes: 256 * 1024,
  description: 'Six YAML files.',
} as const

export function manifestRoutes(deps: ProductsDeps): readonly Route[] {
  return [
    defineRoute({
      method: 'POST',
      path: '/api/v1/products/{product_id}/manifests',
      name: 'uploadManifests',
      summary: 'Upload the six manifests',
      tags,
      auth: 'tenant',
      params: Params,
      query: InNamespace,
      multipart: MANIFEST_FORM,
      idempotent: true,
      authorize: developer,
      responses: { 200: { description: 'What they mean, with warnings.', schema: ParsedManifests } },
      errors: ['manifests_invalid', 'product_being_deleted', 'product_not_found', 'ambiguous_product'],
      async handler(call) {
        const answer = keptAnswer(call, manifestsReply)
        return answer.reply(await uploadManifests(deps, call, productReference(call), call.body, answer.keep))
      },
    }),
    ...(['', '/{version}'] as const).map((suffix) =>
      defineRoute({
        method: 'GET',
        path: `/api/v1/products/{product_id}/manifests${suffix}`,
        name: suffix === '' ? 'getManifests' : 'getManifestsOfVersion',
        summary: suffix === '' ? 'The manifests uploaded last' : 'The manifests of a deployed version',
        tags,
        auth: 'tenant',
        params:
          suffix === '' ? Params : Type.Object({ product_id: Reference, version: Type.String({ maxLength: 100 }) }),
        query: InNamespace,
        responses: { 200: { description: 'The texts as they were uploaded.', schema: ManifestTexts } },
        errors: ['product_not_found', 'manifests_not_found', 'ambiguous_product'],
        async handler(call) {
          requireMember(call.principal)
          const params = call.params as { readonly product_id: string; readonly version?: string }
          const product = await productOf(deps, call, productReference(call))
          const { kept, shared } = await keptManifests(deps, product, params.version)
          const told = 'version' in kept ? versionJson(kept) : draftJson(kept)
          return { body: { ...told, shared_checks: shared.map(sharedCheckJson) } }
        },
      }),
    ),
  ]
}

function manifestsReply({ manifests: { product, ...others }, warnings }: AcceptedManifests): Reply {
  const { domain, ...named } = product
  return { body: { manifests: { ...others, product: { ...named, namespace: domain } }, warnings } }
}

function draftJson(draft: Draft) {
  const { digest, uploadedBy, uploadedAt, manifests } = draft
  const uploaded = { uploaded_by: uploadedBy.subject, uploaded_at: uploadedAt.toISOString() }
  return { version: null, digest, ...uploaded, manifests }
}

function versionJson(kept: ProductVersion) {
  const { version, digest, deployedBy, deployedAt, manifests } = kept
  return { version, digest, deployed_by: deployedBy.subject, deployed_at: deployedAt.toISOString(), manifests }
}

export const sharedCheckJson = ({ versionInService, ...shared }: SharedCheck) => ({
  ...shared,
  version_in_service: versionInService,
})
