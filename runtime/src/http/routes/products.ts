import { Type } from 'typebox'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { MANIFEST_NAMES } from '../../manifest/problem.ts'
import { deployProduct, planManifests } from '../../operations/deploy/deploy.ts'
import type { DeployAnswer } from '../../operations/deploy/plan.ts'
import { ROLLBACK_HOLDS, type RollbackAnswer, rollBackProduct } from '../../operations/deploy/rollback.ts'
import { notFound, type Platform, requireDeveloper, requireMember } from '../../operations/platform.ts'
import { clearColumns } from '../../operations/products/clear-columns.ts'
import { readJson } from '../../operations/products/input-reads.ts'
import { productDetail } from '../../operations/products/product-detail.ts'
import { listedNotices } from '../../operations/products/product-notices.ts'
import { productSchedules } from '../../operations/products/product-schedules.ts'
import {
  type AcceptedManifests,
  addGrant,
  changeProduct,
  productOf,
  registerProduct,
  removeGrant,
  requestMaterialization,
  resumeProduct,
  uploadManifests,
} from '../../operations/products/products.ts'
import { isReader, readableProduct, UNTOLD } from '../../operations/products/readable-product.ts'
import { removeProduct } from '../../operations/products/remove-product.ts'
import { type SharedCheck, sharedChecksOf } from '../../operations/products/shared-checks.ts'
import { visibleRows } from '../../operations/products/violating-rows.ts'
import { shownQuality, sightOf } from '../../operations/products/visible-quality.ts'
import { listDeployments } from '../../registry/deployments.ts'
import { listProductGrants, type ProductGrant } from '../../registry/grants.ts'
import { listMaterializations } from '../../registry/materializations.ts'
import { listProducts, type Product } from '../../registry/products.ts'
import type { Scheduled } from '../../registry/schedules.ts'
import { type Draft, findDraft, findVersion, type ProductVersion } from '../../registry/versions.ts'
import type { Cursors } from '../cursor.ts'
import { keptAnswer } from '../idempotency.ts'
import { defineRoute, type Reply, type Route } from '../route.ts'
import { listReply } from './lists.ts'
import {
  Deployed,
  Deployment,
  DryRun,
  EndedGrants,
  Grant,
  ListedProduct,
  ManifestTexts,
  ParsedManifests,
  ProductDetail,
  Product as ProductShape,
  pageOf,
  QualityResult,
  RolledBack,
  Run,
  Snapshot,
} from './resources.ts'
import { scheduleJson } from './schedules.ts'
import {
  Abandon,
  abandonedTypes,
  DeployRequest,
  deploymentJson,
  endedReply,
  GrantRequest,
  grantJson,
  InNamespace,
  materializationJson,
  Page,
  PageInNamespace,
  ProductChangeRequest,
  ProductRequest,
  productJson,
  productReference,
  qualityJson,
  queuedReply,
  Reference,
  RollbackRequest,
} from './shapes.ts'

const Params = Type.Object({ product_id: Reference })
const tags = ['Products']
const MANIFEST_FORM = {
  parts: MANIFEST_NAMES,
  required: [],
  maxPartBytes: 256 * 1024,
  description: 'Six YAML files.',
} as const
const developer = (call: { readonly principal: Parameters<typeof requireDeveloper>[0] }) =>
  requireDeveloper(call.principal)

export function productRoutes(platform: Platform, cursors: Cursors): readonly Route[] {
  return [
    ...registration(platform, cursors),
    ...manifests(platform),
    ...deployments(platform, cursors),
    ...grants(platform, cursors),
  ]
}

function registration(platform: Platform, cursors: Cursors): readonly Route[] {
  return [
    defineRoute({
      method: 'POST',
      path: '/api/v1/products',
      name: 'createProduct',
      summary: 'Register a product',
      tags,
      auth: 'tenant',
      body: ProductRequest,
      idempotent: true,
      authorize: developer,
      responses: { 201: { description: 'The product, a draft.', schema: ProductShape } },
      errors: ['invalid_name', 'product_exists', 'tier_limit_exceeded'],
      async handler(call) {
        const { name, namespace: domain, archetype, description = '' } = call.body
        const answer = keptAnswer(call, (product: Product) => ({ status: 201, body: productJson(product) }))
        const wanted = { name, domain, archetype, description }
        return answer.reply(await registerProduct(platform, call, wanted, answer.keep))
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/api/v1/products',
      name: 'listProducts',
      summary: 'The tenant’s products, newest first',
      tags,
      auth: 'tenant',
      forKeys: 'any',
      query: Type.Object(
        { ...Page.properties, namespace: Type.Optional(Type.String({ maxLength: 500 })) },
        { additionalProperties: false },
      ),
      responses: { 200: { description: 'A page of products.', schema: pageOf(ListedProduct) } },
      async handler(call) {
        requireMember(call.principal)
        const { namespace } = call.query
        const ids = call.principal.key?.products ?? null
        const filter = {
          ...(namespace === undefined ? {} : { domain: namespace }),
          ...(ids === null ? {} : { ids: [...ids] }),
        }
        const notices = await listedNotices(platform, call.tenant)
        return listReply(
          call,
          cursors,
          'products',
          async (page) => {
            const { items, next } = await listProducts(platform.pool, call.tenant, page, filter)
            const ids = items.map(({ id }) => id)
            const schedules = await productSchedules(platform.pool, ids)
            return {
              items: items.map((product) => ({ product, scheduled: schedules.get(product.id) as Scheduled })),
              next,
            }
          },
          ({ product, scheduled }) => ({
            ...productJson(product),
            ...scheduleJson(scheduled),
            notices: [...notices(product)],
          }),
        )
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/api/v1/products/{product_id}',
      name: 'getProduct',
      summary: 'A product with owner, versions, columns, endpoints, quality scores, objectives and lineage',
      tags,
      auth: 'tenant',
      forKeys: 'any',
      params: Params,
      query: InNamespace,
      responses: { 200: { description: 'The product.', schema: ProductDetail } },
      errors: ['product_not_found', 'ambiguous_product'],
      async handler(call) {
        const detail = await productDetail(platform, call, productReference(call))
        const { product, scheduled, materialization, versions, quality, isClear, ...rest } = detail
        return {
          body: {
            ...productJson(product),
            ...scheduleJson(scheduled),
            ...rest,
            quality: quality === null ? null : { score: quality.score, ...qualityJson(quality.result, quality.rows) },
            versions: versions.map((one) => ({
              version: one.version,
              digest: one.digest,
              deployed_by: one.deployedBy.subject,
              deployed_at: one.deployedAt.toISOString(),
            })),
            last_materialization: materialization === null ? null : materializationJson(materialization, isClear),
          },
        }
      },
    }),
    defineRoute({
      method: 'PATCH',
      path: '/api/v1/products/{product_id}',
      name: 'updateProduct',
      summary: 'Change a product’s description or archetype, until the next deployment says otherwise',
      tags,
      auth: 'tenant',
      params: Params,
      query: InNamespace,
      body: ProductChangeRequest,
      responses: { 200: { description: 'The product as it is now.', schema: ProductShape } },
      errors: ['product_not_found', 'ambiguous_product'],
      async handler(call) {
        const { description, archetype } = call.body
        const change = {
          ...(description === undefined ? {} : { description }),
          ...(archetype === undefined ? {} : { archetype }),
        }
        return { body: productJson(await changeProduct(platform, call, productReference(call), change)) }
      },
    }),
    defineRoute({
      method: 'DELETE',
      path: '/api/v1/products/{product_id}',
      name: 'deleteProduct',
      summary: 'Remove a product with every copy of its data',
      tags,
      auth: 'tenant',
      params: Params,
      query: Type.Object(
        { ...InNamespace.properties, abandon: Type.Optional(Abandon) },
        { additionalProperties: false },
      ),
      timeoutMs: 120_000,
      responses: { 204: { description: 'It is gone.' } },
      errors: ['product_not_found', 'ambiguous_product', 'product_in_use', 'preview_exists', 'store_missing'],
      async handler(call) {
        await removeProduct(platform, call, productReference(call), abandonedTypes(call.query.abandon))
        return { empty: true }
      },
    }),
  ]
}

function manifests(platform: Platform): readonly Route[] {
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
      errors: ['manifests_invalid', 'product_not_found', 'ambiguous_product'],
      async handler(call) {
        const answer = keptAnswer(call, manifestsReply)
        return answer.reply(await uploadManifests(platform, call, productReference(call), call.body, answer.keep))
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
          const product = await productOf(platform, call, productReference(call))
          const kept =
            params.version === undefined
              ? await findDraft<ManifestSet>(platform.pool, product.id)
              : await findVersion<ManifestSet>(platform.pool, product.id, params.version)
          if (kept === null) throw notFound('manifests')
          const shared = await sharedChecksOf(platform.pool, product.tenant, kept.normalised.quality)
          const told = 'version' in kept ? versionJson(kept) : draftJson(kept)
          return { body: { ...told, shared_checks: shared.map(sharedCheckJson) } }
        },
      }),
    ),
  ]
}

export const PLAN_ERRORS = [
  'manifests_invalid',
  'unknown_connector_type',
  'class_lowering_refused',
  'product_cycle',
  'input_forbidden',
  'transform_invalid',
  'lossy_cast',
  'check_invalid',
  'invalid_grant',
  'grant_not_held',
  'product_not_found',
  'ambiguous_product',
] as const

function deployments(platform: Platform, cursors: Cursors): readonly Route[] {
  return [
    defineRoute({
      method: 'POST',
      path: '/api/v1/products/{product_id}/plan',
      name: 'planProduct',
      summary: 'What deploying the manifests of the form as a version would change; nothing is written anywhere',
      description:
        'The product need not be registered: write it as namespace.name. Where it is, the manifests uploaded last stay.',
      tags,
      auth: 'tenant',
      params: Params,
      query: Type.Object(
        {
          ...InNamespace.properties,
          version: DeployRequest.properties.version,
          lower: DeployRequest.properties.lower,
          breaks: DeployRequest.properties.breaks,
        },
        { additionalProperties: false },
      ),
      multipart: MANIFEST_FORM,
      isRead: true,
      timeoutMs: 120_000,
      responses: { 200: { description: 'The plan, as of a dry run.', schema: DryRun } },
      errors: ['invalid_name', ...PLAN_ERRORS],
      async handler(call) {
        const { version, lower, breaks } = call.query
        const wanted = { version, lower, breaks }
        return deployReply(await planManifests(platform, call, productReference(call), call.body, wanted))
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/api/v1/products/{product_id}/deploy',
      name: 'deployProduct',
      summary: 'Deploy a version, or validate it when dry_run is true',
      tags,
      auth: 'tenant',
      params: Params,
      query: InNamespace,
      body: DeployRequest,
      idempotent: true,
      authorize: developer,
      timeoutMs: 120_000,
      responses: {
        200: { description: 'The plan of a dry run.', schema: DryRun },
        201: { description: 'The deployment.', schema: Deployed },
      },
      errors: [
        'manifests_missing',
        'plan_changed',
        'draft_of_another',
        'class_lowering_unnamed',
        'classes_changed',
        'breaking_change',
        'breaks_downstream',
        'version_exists',
        'preview_exists',
        'input_not_ingested',
        ...PLAN_ERRORS,
      ],
      async handler(call) {
        const { version, dry_run: dryRun = false, digest, stores_hash: storesHash, lower, breaks, stage } = call.body
        const answer = keptAnswer(call, deployReply)
        const wanted = { version, dryRun, digest, storesHash, lower, breaks, stage }
        return answer.reply(await deployProduct(platform, call, productReference(call), wanted, answer.keep))
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/api/v1/products/{product_id}/rollback',
      name: 'rollBackProduct',
      summary:
        'Go back to the content and the manifests of a version or a snapshot, which stay until resumed or deployed',
      tags,
      auth: 'tenant',
      params: Params,
      query: InNamespace,
      body: RollbackRequest,
      idempotent: true,
      authorize: developer,
      timeoutMs: 120_000,
      responses: { 202: { description: 'The deployment and its run, queued.', schema: RolledBack } },
      errors: [
        'version_not_found',
        'snapshot_not_found',
        'class_lowering_unnamed',
        'class_lowering_refused',
        'classes_changed',
        'breaks_downstream',
        'product_cycle',
        'input_forbidden',
        'product_not_found',
        'ambiguous_product',
      ],
      async handler(call) {
        const { version, snapshot_id: snapshotId, ...named } = call.body
        const target = { ...(version === undefined ? { snapshotId: snapshotId as string } : { version }), ...named }
        const answer = keptAnswer(call, rollbackReply)
        return answer.reply(await rollBackProduct(platform, call, productReference(call), target, answer.keep))
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/api/v1/products/{product_id}/deployments',
      name: 'listDeployments',
      summary: 'Deployments of a product, newest first',
      tags,
      auth: 'tenant',
      params: Params,
      query: PageInNamespace,
      responses: { 200: { description: 'A page of deployments.', schema: pageOf(Deployment) } },
      errors: ['product_not_found', 'ambiguous_product'],
      async handler(call) {
        requireMember(call.principal)
        const product = await productOf(platform, call, productReference(call))
        const isTold = product.currentVersion === null || (await isReader(platform, call, product))
        return listReply(
          call,
          cursors,
          'deployments',
          (page) => listDeployments(platform.pool, product.id, page),
          ({ error, ...deployment }) =>
            deploymentJson({ ...deployment, error: error === null || isTold ? error : UNTOLD }),
        )
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/api/v1/products/{product_id}/materialize',
      name: 'materializeProduct',
      summary: 'Materialize a product from what the lake has of its inputs',
      tags,
      auth: 'tenant',
      params: Params,
      query: InNamespace,
      idempotent: true,
      authorize: developer,
      responses: { 202: { description: 'The run, queued.', schema: Run } },
      errors: ['not_deployed', 'product_paused', 'product_not_found', 'ambiguous_product'],
      async handler(call) {
        const answer = keptAnswer(call, queuedReply)
        return answer.reply(await requestMaterialization(platform, call, productReference(call), answer.keep))
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/api/v1/products/{product_id}/resume',
      name: 'resumeProduct',
      summary: 'Let a product that was rolled back follow its connections again',
      description:
        'Of a product that is paused because the registry is older than the lake, `right` says which of the two it goes on from.',
      tags,
      auth: 'tenant',
      params: Params,
      query: Type.Object({
        ...InNamespace.properties,
        right: Type.Optional(Type.Union([Type.Literal('lake'), Type.Literal('registry')])),
      }),
      idempotent: true,
      authorize: developer,
      responses: { 202: { description: 'The run that makes it anew, queued.', schema: Run } },
      errors: [
        'product_not_paused',
        'registry_outdated',
        'version_not_found',
        'product_not_found',
        'ambiguous_product',
      ],
      async handler(call) {
        const answer = keptAnswer(call, queuedReply)
        const { right } = call.query
        return answer.reply(await resumeProduct(platform, call, productReference(call), right, answer.keep))
      },
    }),
    ...(['snapshots', 'quality'] as const).map((what) =>
      defineRoute({
        method: 'GET',
        path: `/api/v1/products/{product_id}/${what}`,
        name: what === 'snapshots' ? 'listSnapshots' : 'listQuality',
        summary:
          what === 'snapshots'
            ? 'Snapshots of a product in the lake, newest first'
            : 'Quality scores of every materialization, newest first',
        tags,
        auth: 'tenant',
        params: Params,
        query: PageInNamespace,
        responses: { 200: { description: 'A page.', schema: pageOf(what === 'snapshots' ? Snapshot : QualityResult) } },
        errors: ['product_forbidden', 'product_not_found', 'ambiguous_product'],
        async handler(call) {
          requireMember(call.principal)
          const product = await readableProduct(platform, call, productReference(call))
          const only = what === 'snapshots' ? 'committed' : null
          const isClear = await clearColumns(platform, call, product.id)
          const sight = await sightOf(platform, call, product.id)
          const rowsOf = await visibleRows(platform, call, product, sight)
          return listReply(
            call,
            cursors,
            what,
            (page) => listMaterializations(platform.pool, product.id, page, only),
            (one) => {
              const shown = shownQuality(sight, one)
              const json = materializationJson(shown, isClear)
              return what === 'snapshots' ? json : { ...json, quality: qualityJson(shown.quality, rowsOf(shown)) }
            },
          )
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

const sharedCheckJson = ({ versionInService, ...shared }: SharedCheck) => ({
  ...shared,
  version_in_service: versionInService,
})

export function deployReply({ digest, storesHash, plan, deployment, runId }: DeployAnswer): Reply {
  const { estimatedRows, loweredClasses, reaches, downstream, sharedChecks, reads, ...same } = plan
  const told = {
    estimated_rows: estimatedRows,
    lowered_classes: loweredClasses,
    reaches: reaches.map(({ productId, isBlocked, isInService, ...reached }) => ({
      product_id: productId,
      ...reached,
      blocked: isBlocked,
      in_service: isInService,
    })),
    downstream: downstream.map(({ productId, isMoreOpen, ...made }) => ({
      product_id: productId,
      ...made,
      more_open: isMoreOpen,
    })),
    shared_checks: sharedChecks.map(sharedCheckJson),
    reads: reads.map(readJson),
  }
  const shown = { ...same, ...told }
  const hashes = { digest, stores_hash: storesHash }
  if (deployment === null) return { body: { dry_run: true, verdict: plan.verdict, ...hashes, plan: shown } }
  const body = { dry_run: false, deployment: deploymentJson(deployment), run_id: runId, ...hashes, plan: shown }
  return { status: 201, body }
}

function rollbackReply({ deployment, run, notes }: RollbackAnswer): Reply {
  return {
    status: 202,
    body: { deployment: deploymentJson(deployment), run_id: run.id, notes: [ROLLBACK_HOLDS, ...notes] },
    headers: { Location: `/api/v1/ingestion/${run.id}` },
  }
}

function grants(platform: Platform, cursors: Cursors): readonly Route[] {
  return [
    defineRoute({
      method: 'POST',
      path: '/api/v1/products/{product_id}/grants',
      name: 'createGrant',
      summary: 'Grant reading, or the unmasking of classes, to a user or a team',
      tags,
      auth: 'tenant',
      params: Params,
      query: InNamespace,
      body: GrantRequest,
      idempotent: true,
      authorize: developer,
      responses: { 201: { description: 'The grant.', schema: Grant } },
      errors: ['invalid_grant', 'grant_not_held', 'product_not_found', 'ambiguous_product'],
      async handler(call) {
        const { subject, issuer, may, classes = [], grantable = false } = call.body
        const answer = keptAnswer(call, (grant: ProductGrant) => ({ status: 201, body: grantJson(grant) }))
        const wanted = { subject, issuer, may, classes, grantable }
        return answer.reply(await addGrant(platform, call, productReference(call), wanted, answer.keep))
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/api/v1/products/{product_id}/grants',
      name: 'listGrants',
      summary: 'Grants on a product, newest first',
      tags,
      auth: 'tenant',
      params: Params,
      query: PageInNamespace,
      responses: { 200: { description: 'A page of grants.', schema: pageOf(Grant) } },
      errors: ['product_not_found', 'ambiguous_product'],
      async handler(call) {
        requireDeveloper(call.principal)
        const product = await productOf(platform, call, productReference(call))
        const read = (page: Parameters<typeof listProductGrants>[3]) =>
          listProductGrants(platform.pool, call.tenant, product.id, page)
        return listReply(call, cursors, 'grants', read, grantJson)
      },
    }),
    defineRoute({
      method: 'DELETE',
      path: '/api/v1/products/{product_id}/grants/{grant_id}',
      name: 'deleteGrant',
      summary: 'Take a grant back, with what its holder has granted on by it',
      tags,
      auth: 'tenant',
      params: Type.Object({ product_id: Reference, grant_id: Reference }),
      query: InNamespace,
      responses: {
        200: { description: 'It is gone, and with it these.', schema: EndedGrants },
        204: { description: 'It is gone, and nothing rested on it.' },
      },
      errors: ['grant_not_found', 'product_not_found', 'ambiguous_product'],
      async handler(call) {
        return endedReply(await removeGrant(platform, call, productReference(call), call.params.grant_id))
      },
    }),
  ]
}
