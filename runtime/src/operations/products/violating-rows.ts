/** Rows that checks found bad, as the reader of the product would see them; and what checks had to say in a run. */
import type { TenantCall } from '../../flow.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { type MadeMasks, madeMasks, missingMasks, NO_MASKS } from '../../policy/made-masks.ts'
import { type ColumnMask, masksFor, variantName } from '../../policy/masking.ts'
import type { CheckResult } from '../../quality/check-result.ts'
import { findMaterialization, type Materialization, materializationsOfRun } from '../../registry/materializations.ts'
import { findProduct, type Product } from '../../registry/products.ts'
import type { Run } from '../../registry/runs.ts'
import { findVersion } from '../../registry/versions.ts'
import { type ViolatingRows, violatingRowsOf } from '../../registry/violating-rows.ts'
import { asMadeBy } from '../served/as-made-by.ts'
import type { ProductsDeps } from './deps.ts'
import { isReader } from './readable-product.ts'
import { type KeptQuality, type Sight, seesCheck, shownQuality, sightOf } from './visible-quality.ts'

export type ShownRows = Pick<ViolatingRows, 'columns' | 'masked' | 'rows'>

/** By check; of any materialization but the product's newest there are none. */
export type RowsOf = (materialization: Materialization) => ReadonlyMap<string, ShownRows>

/**
 * What the sight's owner may see of the rows: of checks that he sees, in the variant that he reads, without what has been
 * hidden from him since.
 */
export async function visibleRows(
  platform: ProductsDeps,
  { tenant }: TenantCall,
  product: Pick<Product, 'id' | 'currentVersion'>,
  sight: Sight,
): Promise<RowsOf> {
  const none: ReadonlyMap<string, ShownRows> = new Map()
  const kept = await violatingRowsOf(platform.pool, platform.masters, tenant, product.id)
  if (kept === null) return () => none
  const made = await findMaterialization(platform.pool, tenant, kept.materializationId)
  const then = made && (await findVersion<ManifestSet>(platform.pool, product.id, made.version))
  if (!then) return () => none
  // What is in mind of the product may be from before that version.
  const { columns } = asMadeBy(await platform.served.find(tenant, product.id), then.normalised, platform.rules)
  const nameFor = (clear: Sight['clear']) => variantName(masksFor(columns, clear, sight.rules), columns, sight.rules)
  const variant = [nameFor(sight.clear), nameFor(new Set())].find((name) => kept.variants.includes(name))
  const found = variant === undefined ? [] : await kept.of(variant)
  const masks = masksFor([...sight.columns, ...columns], sight.clear, sight.rules)
  const rowMasks = madeMasks(made, variant ?? '')
  const open = (name: string, isMasked: boolean) => isOpen(name, masks, isMasked ? rowMasks : NO_MASKS)
  return (materialization) => {
    const { id, epoch, version, quality } = materialization
    // What a version before kept from being published may have had other classes.
    if (id !== kept.materializationId || (epoch === null && version !== product.currentVersion)) return none
    const checks = (quality as KeptQuality | null)?.checks ?? []
    const seen = found.filter(({ check, ofSource }) => {
      const result = checks.find(({ name }) => name === check)
      return result !== undefined && seesCheck(sight, result) && (!ofSource || sight.clear === 'all')
    })
    return new Map(seen.map((rows) => [rows.check, withoutHidden(rows, open)]))
  }
}

/** Of a column that is to be masked: whether its values are masks which show no more. */
function isOpen(name: string, masks: readonly ColumnMask[], made: MadeMasks): boolean {
  const own = masks.filter(({ column }) => column.toLowerCase() === name.toLowerCase())
  return missingMasks(own, made).length === 0
}

function withoutHidden(
  { columns, masked, rows }: ViolatingRows,
  open: (name: string, isMasked: boolean) => boolean,
): ShownRows {
  const isShown = columns.map((name) => open(name, masked.includes(name)))
  return {
    columns,
    masked: columns.filter((name, index) => masked.includes(name) || !isShown[index]),
    rows: rows.map((row) => row.map((value, index) => (isShown[index] ? value : null))),
  }
}

export interface FailedCheck {
  readonly product: string
  readonly check: string
  readonly severity: CheckResult['severity']
  readonly violations: number | null
  readonly total: number | null
  /** `prices_are_positive: 3 of 1,000 rows, first: id=7 price=-1` */
  readonly summary: string
}

/** Of all products that the run has made or tried to make, and that the caller may know it of. */
export async function failedChecks(
  platform: ProductsDeps,
  call: TenantCall,
  run: Run,
): Promise<readonly FailedCheck[]> {
  const failed: FailedCheck[] = []
  for (const materialization of await materializationsOfRun(platform.pool, call.tenant, run.id)) {
    const { checks = [] } = (materialization.quality ?? {}) as Partial<KeptQuality>
    if (checks.every(({ passed }) => passed)) continue
    const product = await findProduct(platform.pool, call.tenant, materialization.productId)
    if (product === null || !(await isReader(platform, call, product))) continue
    const sight = await sightOf(platform, call, product.id)
    const shown = shownQuality(sight, materialization).quality as KeptQuality
    const rows = (await visibleRows(platform, call, product, sight))(materialization)
    for (const { name, severity, violations, total } of shown.checks.filter(({ passed }) => !passed)) {
      const summary = summaryText({ name, violations, total }, rows.get(name))
      failed.push({ product: `${product.domain}.${product.name}`, check: name, severity, violations, total, summary })
    }
  }
  return failed
}

const MAX_SHOWN = 60

function summaryText(
  { name, violations, total }: Pick<CheckResult, 'name' | 'violations' | 'total'>,
  shown: ShownRows | undefined,
): string {
  if (violations === null) return `${name}: it could not be run`
  const [some, all] = [violations, total].map((count) => count?.toLocaleString('en-US'))
  const counted = all === undefined ? `${some} rows` : `${some} of ${all}`
  const first = shown?.rows[0]
  if (shown === undefined || first === undefined) return `${name}: violated by ${counted}`
  const cells = shown.columns.map((column, index) => `${plain(column)}=${plain(first[index] ?? 'null')}`)
  return `${name}: ${counted} rows, first: ${cells.join(' ')}`
}

/** Values are whatever the source has: nothing of them steers a terminal or a log. */
function plain(text: string): string {
  const shown = text.replace(/[\p{C}\u2028\u2029]/gu, '·')
  return shown.length <= MAX_SHOWN ? shown : `${shown.slice(0, MAX_SHOWN)}…`
}
