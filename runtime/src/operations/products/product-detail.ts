/** A product with all that is known of it: owner, versions, columns, endpoints, quality, freshness, lineage. */
import type { TenantCall } from '../../flow.ts'
import { productOfInput } from '../../manifest/context.ts'
import { type ContractConfig, contractConfig } from '../../manifest/contract-config.ts'
import { keepsMissing, type ManifestSet } from '../../manifest/manifest-set.ts'
import { isInScope } from '../../policy/classification.ts'
import { type ChangeTopicState, changeTopicsOf } from '../../registry/change-topics.ts'
import { readAtOf } from '../../registry/data-ages.ts'
import { type EndpointState, endpointStates } from '../../registry/endpoint-states.ts'
import { productsMadeOf } from '../../registry/lineage.ts'
import { latestEpoch } from '../../registry/materializations.ts'
import { PRODUCTS } from '../../registry/product-sources.ts'
import { findProductsByName } from '../../registry/products.ts'
import { findVersion, listVersions } from '../../registry/versions.ts'
import { requireMember } from '../permissions.ts'
import { freshnessOf } from '../served/freshness.ts'
import { accessOrNull } from '../served/served-product.ts'
import { clearColumns } from './clear-columns.ts'
import { shownDashboards } from './dashboards.ts'
import type { ProductsDeps } from './deps.ts'
import { inputExpectations } from './input-expectations.ts'
import { actualReads, isOfOneMoment, missingText, readJson } from './input-reads.ts'
import { noticesOf } from './product-notices.ts'
import { productSchedule } from './product-schedules.ts'
import { connectionsOf, productOf } from './products.ts'
import { isReader } from './readable-product.ts'
import { shownColumns } from './shown-columns.ts'
import { shownPreview } from './shown-preview.ts'
import { visibleRows } from './violating-rows.ts'
import { shownQuality, sightOf } from './visible-quality.ts'

/** Of a product without a version in service. */
const UNSAID: Pick<ManifestSet['product'], 'owner' | 'tags' | 'slo'> = {
  owner: { team: null, email: null },
  tags: [],
  slo: { freshnessMs: null, availabilityPercent: null },
}

export async function productDetail(platform: ProductsDeps, call: TenantCall, reference: string) {
  requireMember(call.principal)
  const product = await productOf(platform, call, reference)
  const live =
    product.currentVersion === null
      ? null
      : await findVersion<ManifestSet>(platform.pool, product.id, product.currentVersion)
  const [versions, states, newest, topics] = await Promise.all([
    listVersions(platform.pool, product.id),
    endpointStates(platform.pool, product.id),
    latestEpoch(platform.pool, product.id),
    changeTopicsOf(platform.pool, product.id),
  ])
  // Of a product without a version in service there is nothing to tell.
  const isTold = live !== null && (await isReader(platform, call, product))
  const sight = isTold && newest !== null ? await sightOf(platform, call, product.id) : null
  const shown = sight && newest && shownQuality(sight, newest)
  const rowsOf = sight && (await visibleRows(platform, call, product, sight))
  const scheduled = await productSchedule(platform.pool, product.id, isTold ? newest : null)
  const fresh = newest === null || !isTold ? null : freshnessOf(readAtOf(newest).toISOString())
  const { owner, tags, slo } = live?.normalised.product ?? UNSAID
  const wantedMs = slo.freshnessMs
  const isClear = await clearColumns(platform, call, product.id)
  const unseen = live === null ? new Set<string>() : await outOfScope(platform, call, live.normalised)
  const served = live === null ? null : await platform.served.find(call.tenant, product.id)
  const access = served === null ? null : accessOrNull(served, call.principal, platform.rules)
  return {
    product,
    readable: access !== null,
    scheduled,
    owner,
    tags,
    versions,
    schema: live === null ? [] : shownColumns(live.normalised, access),
    endpoints: (live?.normalised.serving.endpoints ?? []).map((endpoint) =>
      endpointOf(endpoint, states, { newest: newest?.epoch ?? null, version: product.currentVersion, isTold, isClear }),
    ),
    change_topics: topics.map((topic) => changeTopicOf(topic, newest?.epoch ?? null, isTold)),
    dashboards: await shownDashboards(platform, product.id),
    quality: shown && rowsOf && { score: shown.qualityScore, result: shown.quality, rows: rowsOf(shown) },
    expectations: await inputExpectations(platform, call, product, live, unseen),
    freshness: {
      read_at: fresh?.read_at ?? null,
      age_s: fresh?.age_s ?? null,
      objective_s: wantedMs === null ? null : wantedMs / 1000,
      met: fresh === null || wantedMs === null ? null : fresh.age_s * 1000 <= wantedMs,
    },
    preview: await shownPreview(platform, call, product),
    availability: { objective_percent: slo.availabilityPercent },
    materialization: shown,
    content: contentOf(live?.normalised, isTold ? (newest?.inputs ?? {}) : null),
    reads: live === null ? [] : await readsOf(platform, call, live.normalised, { isTold, unseen }),
    isClear,
    notices: await noticesOf(platform, product, live),
    lineage: {
      inputs: (live?.normalised.inputs ?? []).map(({ name, connection, table }) =>
        connection !== PRODUCTS
          ? { name, connection, table }
          : { name, ...(unseen.has(table) ? {} : { product: table }) },
      ),
      downstream: (await productsMadeOf(platform.pool, product))
        .filter(({ id }) => isInScope(call.principal, id))
        .map(({ full }) => full),
    },
  }
}

/**
 * How the version in service meets its former rows, and what becomes of those that it no longer has.
 * @param materialized null for who may not read the product
 */
function contentOf(manifests: ManifestSet | undefined, materialized: Readonly<Record<string, unknown>> | null) {
  if (manifests === undefined) return null
  const { output } = manifests
  return {
    write_mode: output.writeMode,
    keeps_missing: keepsMissing(output),
    note: missingText(output),
    one_moment: materialized && isOfOneMoment(manifests, materialized),
  }
}

/** Products that it is made of and that are not there for the caller's key: `namespace.name`. */
async function outOfScope(
  { pool }: ProductsDeps,
  { tenant, principal }: TenantCall,
  { inputs }: ManifestSet,
): Promise<ReadonlySet<string>> {
  const unseen = new Set<string>()
  if (principal.key === undefined) return unseen
  for (const input of inputs) {
    const named = productOfInput(input)
    const [found] = named === null ? [] : await findProductsByName(pool, tenant, named.name, named.domain)
    if (named !== null && (found === undefined || !isInScope(principal, found.id))) unseen.add(input.table)
  }
  return unseen
}

async function readsOf(
  platform: ProductsDeps,
  call: TenantCall,
  manifests: ManifestSet,
  { isTold, unseen }: { readonly isTold: boolean; readonly unseen: ReadonlySet<string> },
) {
  const connections = isTold ? await connectionsOf(platform, call.tenant, manifests) : new Map()
  const reads = await actualReads(platform.pool, manifests, connections)
  return reads.filter(({ connection, table }) => connection !== PRODUCTS || !unseen.has(table)).map(readJson)
}

function changeTopicOf(
  { topic, variant, refused, sentEpoch, error }: ChangeTopicState,
  newest: number | null,
  isTold: boolean,
) {
  const isBehind = newest !== null && (sentEpoch ?? 0) < newest
  return {
    topic,
    variant,
    state: refused !== null ? 'refused' : error !== null ? 'failed' : isBehind ? 'pending' : 'ok',
    reason: refused,
    epoch: isTold ? sentEpoch : null,
    error: isTold ? error : null,
  }
}

function endpointOf(
  endpoint: ManifestSet['serving']['endpoints'][number],
  states: Awaited<ReturnType<typeof endpointStates>>,
  {
    newest,
    version,
    isTold,
    isClear,
  }: {
    readonly newest: number | null
    readonly version: string | null
    readonly isTold: boolean
    readonly isClear: (column: string) => boolean
  },
) {
  const own = states.filter((state) => state.endpoint === endpoint.type)
  const behind = own.filter((state) => state.state !== 'ok')
  const epochs = own.map((state) => state.appliedEpoch ?? 0)
  return {
    type: endpoint.type,
    description: endpoint.description,
    config: endpoint.config,
    state:
      own.length === 0
        ? 'pending'
        : behind.some((state) => state.state === 'failed')
          ? 'failed'
          : behind.length > 0
            ? 'pending'
            : 'ok',
    epoch: epochs.length === 0 || !isTold ? null : Math.min(...epochs),
    behind: isTold ? newest !== null && epochs.some((epoch) => epoch < newest) : null,
    error: (isTold && behind.find((state) => state.error !== null)?.error) || null,
    rows_left_out:
      isTold && seesLeftOut(contractConfig(endpoint.type, endpoint.config), own, version, isClear)
        ? own.reduce((most, state) => Math.max(most, state.rowsLeftOut ?? 0), 0)
        : null,
  }
}

/** Rows are left out for a value that they lack, in a column of the version that made them. */
function seesLeftOut(
  config: ContractConfig,
  states: readonly Pick<EndpointState, 'appliedVersion'>[],
  version: string | null,
  isClear: (column: string) => boolean,
): boolean {
  const { time_column: column } = config
  const isOfToday = states.every(({ appliedVersion }) => appliedVersion === null || appliedVersion === version)
  return column === undefined || (isOfToday && isClear(column))
}
