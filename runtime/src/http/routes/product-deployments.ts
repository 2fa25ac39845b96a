/** Versions of a product coming into service and going out of it, and its content made anew. */
import { Type } from 'typebox'
import { deployProduct, planManifests } from '../../operations/deploy/deploy.ts'
import type { DeployDeps } from '../../operations/deploy/deps.ts'
import type { AccessPlan } from '../../operations/deploy/group-columns.ts'
import type { DeployAnswer } from '../../operations/deploy/plan.ts'
import type { RowsPlan } from '../../operations/deploy/plan-rows.ts'
import { ROLLBACK_HOLDS, type RollbackAnswer, rollBackProduct } from '../../operations/deploy/rollback.ts'
import { requireMember } from '../../operations/permissions.ts'
import { clearColumns } from '../../operations/products/clear-columns.ts'
import { readJson } from '../../operations/products/input-reads.ts'
import { deploymentsOf, epochsOf } from '../../operations/products/product-history.ts'
import { productOf, requestMaterialization, resumeProduct } from '../../operations/products/products.ts'
import { readableProduct } from '../../operations/products/readable-product.ts'
import { visibleRows } from '../../operations/products/violating-rows.ts'
import { shownQuality, sightOf } from '../../operations/products/visible-quality.ts'
import type { PageRequest } from '../../registry/paging.ts'
import type { Cursors } from '../cursor.ts'
import { keptAnswer } from '../idempotency.ts'
import { defineRoute, type Reply, type Route } from '../route.ts'
import { Deployed, Deployment, DryRun, RolledBack } from './answers/deployments.ts'
import { pageOf } from './answers/parts.ts'
import { QualityResult, Snapshot } from './answers/quality.ts'
import { Run } from './answers/runs.ts'
import { deploymentJson, materializationJson } from './json/products.ts'
import { qualityJson } from './json/quality.ts'
import { queuedReply } from './json/runs.ts'
import { listReply } from './lists.ts'
import { MANIFEST_FORM, sharedCheckJson } from './product-manifests.ts'
import { developer, Params, tags } from './product-route.ts'
import { DeployRequest, RollbackRequest } from './requests/deployments.ts'
import { InNamespace, PageInNamespace, productReference } from './requests/paths.ts'

export const PLAN_ERRORS = [
  'manifests_invalid',
  'unknown_connector_type',
  'class_lowering_refused',
  'product_cycle',
  'input_forbidden',
  'mask_pending',
  'transform_invalid',
  'lossy_cast',
  'check_invalid',
  'comparison_forbidden',
  'invalid_grant',
  'grant_not_held',
  'product_not_found',
  'ambiguous_product',
] as const

export function deploymentRoutes(deps: DeployDeps, cursors: Cursors): readonly Route[] {
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
        return deployReply(await planManifests(deps, call, productReference(call), call.body, wanted))
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
        'product_being_deleted',
        'input_not_ingested',
        ...PLAN_ERRORS,
      ],
      async handler(call) {
        const {
          version,
          dry_run: dryRun = false,
          digest,
          stores_hash: storesHash,
          lower,
          breaks,
          stage,
          accept_differences,
        } = call.body
        const answer = keptAnswer(call, deployReply)
        const wanted = {
          version,
          dryRun,
          digest,
          storesHash,
          lower,
          breaks,
          stage,
          acceptDifferences: accept_differences,
        }
        return answer.reply(await deployProduct(deps, call, productReference(call), wanted, answer.keep))
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
        'plan_changed',
        'product_being_deleted',
        'product_paused',
        'class_lowering_unnamed',
        'class_lowering_refused',
        'classes_changed',
        'breaks_downstream',
        'product_cycle',
        'input_forbidden',
        'mask_pending',
        'product_not_found',
        'ambiguous_product',
      ],
      async handler(call) {
        const { version, snapshot_id: snapshotId, ...named } = call.body
        const target = { ...(version === undefined ? { snapshotId: snapshotId as string } : { version }), ...named }
        const answer = keptAnswer(call, rollbackReply)
        return answer.reply(await rollBackProduct(deps, call, productReference(call), target, answer.keep))
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
        const product = await productOf(deps, call, productReference(call))
        const read = (page: PageRequest) => deploymentsOf(deps, call, product, page)
        return listReply(call, cursors, 'deployments', read, deploymentJson)
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
      errors: ['not_deployed', 'product_paused', 'product_being_deleted', 'product_not_found', 'ambiguous_product'],
      async handler(call) {
        const answer = keptAnswer(call, queuedReply)
        return answer.reply(await requestMaterialization(deps, call, productReference(call), answer.keep))
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
        'product_being_deleted',
        'registry_outdated',
        'version_not_found',
        'product_not_found',
        'ambiguous_product',
      ],
      async handler(call) {
        const answer = keptAnswer(call, queuedReply)
        const { right } = call.query
        return answer.reply(await resumeProduct(deps, call, productReference(call), right, answer.keep))
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
          const product = await readableProduct(deps, call, productReference(call))
          const only = what === 'snapshots' ? 'committed' : null
          const isClear = await clearColumns(deps, call, product.id)
          const sight = await sightOf(deps, call, product.id)
          const rowsOf = await visibleRows(deps, call, product, sight)
          return listReply(
            call,
            cursors,
            what,
            (page) => epochsOf(deps, product, page, only),
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

export function deployReply({ digest, storesHash, plan, deployment, runId }: DeployAnswer): Reply {
  const {
    estimatedRows,
    estimatedFrom,
    rows,
    access,
    loweredClasses,
    reaches,
    downstream,
    sharedChecks,
    reads,
    ...same
  } = plan
  const told = {
    estimated_rows: estimatedRows,
    estimated_from: estimatedFrom,
    rows: rows && rowsJson(rows),
    access: access && accessJson(access),
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

function rowsJson({ before, after, leaving, coming, notCounted }: RowsPlan) {
  return { before, after, leaving, coming, not_counted: notCounted }
}

function accessJson({ groups, leftOut, changedLeftOut }: AccessPlan) {
  return { groups, groups_left_out: leftOut, changed_left_out: changedLeftOut }
}

function rollbackReply({ deployment, run, notes }: RollbackAnswer): Reply {
  return {
    status: 202,
    body: { deployment: deploymentJson(deployment), run_id: run.id, notes: [ROLLBACK_HOLDS, ...notes] },
    headers: { Location: `/api/v1/ingestion/${run.id}` },
  }
}
