/** What a product expects of the products that it is made of, and what came of it, as the caller may know it. */
import type { TenantCall } from '../../flow.ts'
import type { DownstreamExpectations, ManifestSet, Severity } from '../../manifest/manifest-set.ts'
import type { CheckResult } from '../../quality/check-result.ts'
import { type Materialization, newestAttempts } from '../../registry/materializations.ts'
import { findProduct, type Product } from '../../registry/products.ts'
import { findVersion, type ProductVersion } from '../../registry/versions.ts'
import type { ProductsDeps } from './deps.ts'
import { isReader } from './readable-product.ts'
import { type KeptQuality, type Sight, seesCheck, sightOf } from './visible-quality.ts'

export interface InputExpectation {
  readonly input: string
  /** `namespace.name` */
  readonly product: string
  readonly name: string
  readonly severity: Severity
  /** What that product lets it do; null: it has no version in service. */
  readonly may: DownstreamExpectations | null
  /** Of the newest rows that were to be published; null: it has not been looked at, or is not shown to the caller. */
  readonly last: {
    readonly result: Pick<CheckResult, 'passed' | 'violations' | 'total'>
    readonly of: Pick<Materialization, 'state' | 'epoch' | 'committedAt'>
  } | null
}

/** @param unseen products that are not there for the caller */
export async function inputExpectations(
  platform: ProductsDeps,
  call: TenantCall,
  product: Product,
  live: ProductVersion<ManifestSet> | null,
  unseen: ReadonlySet<string>,
): Promise<readonly InputExpectation[]> {
  const { expectations = [] } = live?.normalised.quality ?? {}
  const upstreams = new Map<string, Upstream | null>()
  const told: InputExpectation[] = []
  for (const { on, name, severity } of expectations) {
    const table = live?.normalised.inputs.find((input) => input.name === on)?.table ?? ''
    if (unseen.has(table)) continue
    const id = live?.upstreams?.[on]?.productId ?? ''
    if (!upstreams.has(id)) upstreams.set(id, await upstreamOf(platform, call, id))
    const upstream = upstreams.get(id) ?? null
    told.push({
      ...{ input: on, product: table, name, severity, may: upstream?.may ?? null },
      last: upstream && lastOf(upstream, product.id, name),
    })
  }
  return told
}

interface Upstream {
  readonly may: DownstreamExpectations
  /** Null: the caller may not read the product. */
  readonly sight: Sight | null
  readonly newest: Materialization | null
}

async function upstreamOf(platform: ProductsDeps, call: TenantCall, id: string): Promise<Upstream | null> {
  const product = await findProduct(platform.pool, call.tenant, id)
  if (product === null || product.currentVersion === null) return null
  const version = await findVersion<ManifestSet>(platform.pool, id, product.currentVersion)
  const [newest = null] = await newestAttempts(platform.pool, [id])
  return {
    may: version?.normalised.quality.downstreamExpectations ?? 'warn',
    sight: (await isReader(platform, call, product)) ? await sightOf(platform, call, id) : null,
    newest,
  }
}

function lastOf({ sight, newest }: Upstream, productId: string, name: string): InputExpectation['last'] {
  const { checks = [] } = (newest?.quality ?? {}) as Partial<KeptQuality>
  const result = checks.find(({ expected }) => expected?.productId === productId && expected.name === name)
  return newest === null || sight === null || result === undefined || !seesCheck(sight, result)
    ? null
    : { result, of: newest }
}
