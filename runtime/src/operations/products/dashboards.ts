/** What the dashboard server is to show of a product, and to whom, by the rules that the REST API reads by. */
import { isSluiceError } from '@sluice/sdk'
import type { Subject } from '../../dashboards/names.ts'
import { type DashboardState, dashboardState } from '../../dashboards/states.ts'
import type { WantedDashboards, WantedVariant } from '../../dashboards/wanted.ts'
import type { Principal } from '../../flow.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { nameInStore } from '../../materializer/places.ts'
import { findProduct, type Product } from '../../registry/products.ts'
import { findVersion } from '../../registry/versions.ts'
import { accessToCopy } from '../served/access-to-copy.ts'
import { refuseStaleMask, type ServedProduct, servedTarget } from '../served/served-product.ts'
import type { ProductsDeps } from './deps.ts'

const [DEVELOPERS, VIEWERS] = ['svc-developers', 'svc-viewers']
/** Each is a role in the dashboard server. Whom more grants name reads over REST. */
const MOST_SUBJECTS = 200

/**
 * Null for a product that is gone or retired, or wants no dashboards.
 * @param issuer whose people the dashboard server knows, by their subjects alone
 */
export async function wantedDashboards(
  platform: ProductsDeps,
  { tenant, productId }: { readonly tenant: string; readonly productId: string },
  issuer: string,
): Promise<WantedDashboards | null> {
  const product = await findProduct(platform.pool, tenant, productId)
  if (product === null || product.status === 'retired') return null
  const manifests = await manifestsInService(platform, product)
  const { visualization, endpoints } = manifests?.serving ?? {}
  const readable = platform.dashboards?.endpoints ?? []
  const endpoint = readable.flatMap((type) => endpoints?.find((declared) => declared.type === type) ?? [])[0]
  if (manifests === null || visualization?.enabled !== true || endpoint === undefined) return null
  // Policy as of now: what other requests have kept may be of a moment ago.
  platform.served.drop(tenant)
  const served = await platform.served.find(tenant, productId)
  const audiences = audiencesOf(platform, served, endpoint.type, issuer)
  return {
    productId,
    tenant,
    domain: product.domain,
    product: product.name,
    description: manifests.product.description,
    endpoint: endpoint.type,
    hasHistory: endpoint.config['history_mode'] === 'type_2',
    template: visualization.dashboardTemplate,
    refreshIntervalMs: visualization.refreshIntervalMs,
    columns: manifests.output.columns,
    ...audiences,
  }
}

async function manifestsInService(platform: ProductsDeps, product: Product): Promise<ManifestSet | null> {
  if (product.currentVersion === null) return null
  return (await findVersion<ManifestSet>(platform.pool, product.id, product.currentVersion))?.normalised ?? null
}

/** Which copies of the endpoint the tenant's teams and the issuer's people may have. */
export function audiencesOf(
  platform: Pick<ProductsDeps, 'rules'>,
  served: ServedProduct,
  endpoint: string,
  issuer: string,
): Pick<WantedDashboards, 'variants' | 'isIncomplete'> {
  const variants = new Map<string, Subject[]>()
  let isIncomplete = false
  for (const subject of subjectsOf(served, issuer)) {
    const variant = variantFor(platform, served, endpoint, standIn(served.tenant, subject, issuer))
    if (variant === 'later') isIncomplete = true
    else if (variant !== null) variants.set(variant.name, [...(variants.get(variant.name) ?? []), subject])
  }
  const sorted = [...variants].sort(([left], [right]) => (left < right ? -1 : 1))
  const wanted = sorted.map(([variant, subjects]): WantedVariant => {
    const storedAs = nameInStore(variant, served.endpoints.get(endpoint)?.targets.get(variant)?.place ?? 'first')
    return { variant, subjects, ...(storedAs !== variant && { storedAs }) }
  })
  return { variants: wanted, isIncomplete }
}

/** The two groups of every tenant, and whoever holds a grant: of persons those whom the dashboard server knows. */
function subjectsOf({ grants }: ServedProduct, known: string): readonly Subject[] {
  const subjects = new Map<string, Subject>()
  const add = (subject: Subject) => subjects.set(`${subject.kind}:${subject.name}`, subject)
  for (const name of [DEVELOPERS, VIEWERS]) add({ kind: 'team', name: name as string })
  for (const { subjectType, subject, issuer } of grants) {
    const isKnown = subjectType === 'team' || issuer === known
    if (isKnown && subjects.size < MOST_SUBJECTS) add({ kind: subjectType, name: subject })
  }
  return [...subjects.values()]
}

/** Null: nothing. `later`: it is not there yet, or not by today's rules. */
function variantFor(
  platform: Pick<ProductsDeps, 'rules'>,
  served: ServedProduct,
  endpoint: string,
  principal: Principal,
): { readonly name: string } | 'later' | null {
  try {
    const access = accessToCopy(served, served.endpoints.get(endpoint), principal, platform.rules)
    // Who reads a restricted product must be on record, which nobody keeps there.
    if (access.audit) return null
    const target = servedTarget(served, endpoint, access)
    refuseStaleMask(served, access.masks, target.masks)
    return { name: access.variant }
  } catch (error) {
    if (isSluiceError(error, 'PERMISSION')) return null
    if (isSluiceError(error, 'CONFLICT')) return 'later'
    throw error
  }
}

/** A member of the tenant who is in that team and no other, or is that user and in no team. */
function standIn(tenant: string, { kind, name }: Subject, issuer: string): Principal {
  const isDeveloper = kind === 'team' && name === DEVELOPERS
  return {
    issuer,
    subject: kind === 'user' ? name : '',
    tenant,
    groups: kind === 'team' ? [name] : [],
    isAdmin: false,
    isDeveloper,
    isViewer: !isDeveloper,
    claimedClearance: null,
    email: null,
    tokenExpiresAtMs: 0,
    tokenIssuedAtMs: 0,
  }
}

export interface ShownDashboards {
  readonly state: DashboardState['state']
  readonly error: DashboardState['error']
  readonly links: readonly { readonly variant: string; readonly url: string }[]
}

/** Null where the product has no dashboards and is to have none, and where there is no server of them. */
export async function shownDashboards(platform: ProductsDeps, productId: string): Promise<ShownDashboards | null> {
  const { dashboards } = platform
  if (dashboards === null) return null
  const state = await dashboardState(platform.pool, productId)
  if (state === null) return null
  const shown = state.state !== 'ok' ? [] : state.applied
  return {
    state: state.state,
    error: state.error,
    links: shown.flatMap(({ variant }) => {
      const url = dashboards.linkTo({ productId, variant })
      return url === null ? [] : [{ variant, url }]
    }),
  }
}
