/** What the columns of a version show of what is hidden, before it may be put in service. */
import type { TenantCall } from '../../flow.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { readingOf } from '../../quality/check-readings.ts'
import type { CheckReading } from '../../quality/check-result.ts'
import type { HeldShapes, JudgedColumns as KeptColumns } from '../../registry/versions.ts'
import { seesCheck } from '../products/visible-quality.ts'
import { type ColumnOrigin, comparableBy, type HiddenColumns, hiddenColumns, laundered } from './column-classes.ts'
import type { DeployDeps } from './deps.ts'
import { checkTransform, heldShapes, inputColumns, type Sources } from './sources.ts'

export interface JudgedColumns {
  /** Null where nobody knows what the columns are made of. */
  readonly strict: readonly ColumnOrigin[] | null
  /** As `strict`, but for what is conceded. */
  readonly origins: readonly ColumnOrigin[] | null
  readonly hidden: HiddenColumns
  /** Output columns that show more than their class says. */
  readonly laundered: readonly string[]
  /** As `BoundTransform` has it. */
  readonly given: readonly string[] | null
  /** Of the inputs, which all of this is said of. */
  readonly inputs: KeptColumns
  /** That contracts hold inputs to. */
  readonly shapes: HeldShapes
}

/** What comparing concedes depends on the classes, and those on what the columns are made of: that comes first. */
export async function judgedColumns(
  platform: DeployDeps,
  call: TenantCall,
  manifests: ManifestSet,
  sources: Sources['tables'],
): Promise<JudgedColumns> {
  const bound = await checkTransform(platform, call, manifests, sources)
  const strict = withAside(manifests, bound?.origins ?? null, () => false)
  const known = {
    given: bound?.given ?? null,
    inputs: await inputColumns(platform, call, manifests, sources),
    shapes: await heldShapes(platform, call, manifests, sources),
  }
  const hidden = await hiddenColumns(platform, call, manifests, strict)
  const found = laundered(platform, manifests, strict, hidden)
  if (found.length === 0) return { strict, origins: strict, hidden, laundered: found, ...known }
  const origins = await conceded(platform, call, manifests, sources, hidden)
  return { strict, origins, hidden, laundered: laundered(platform, manifests, origins, hidden), ...known }
}

/** What the columns depend on where nothing is conceded. Throws what `checkTransform` does. */
export async function strictly(
  platform: DeployDeps,
  call: TenantCall,
  manifests: ManifestSet,
  sources: Sources['tables'],
): Promise<readonly ColumnOrigin[] | null> {
  const bound = await checkTransform(platform, call, manifests, sources)
  return withAside(manifests, bound?.origins ?? null, () => false)
}

/** What they depend on but for what pseudonyms of these hidden columns concede. Throws what `checkTransform` does. */
export async function conceded(
  platform: DeployDeps,
  call: TenantCall,
  manifests: ManifestSet,
  sources: Sources['tables'],
  hidden: HiddenColumns,
): Promise<readonly ColumnOrigin[] | null> {
  const comparable = comparableBy(platform, hidden)
  const types = new Map(manifests.output.columns.map(({ name, type }) => [name, type]))
  const isComparable = ({ column, copied }: ColumnOrigin) =>
    typeof copied === 'string' && comparable(copied, types.get(column) ?? 'binary') !== null
  const bound = await checkTransform(platform, call, manifests, sources, comparable)
  return withAside(manifests, bound?.origins ?? null, isComparable)
}

/** Checks that put rows aside decide which rows are left, as a condition of the transform would. */
function withAside(
  { inputs, output, quality }: ManifestSet,
  origins: readonly ColumnOrigin[] | null,
  isComparable: (origin: ColumnOrigin) => boolean,
): readonly ColumnOrigin[] | null {
  const deciding = (quality?.checks ?? []).filter(
    ({ severity, onError }) => severity === 'error' && onError === 'quarantine',
  )
  if (origins === null || deciding.length === 0) return origins
  const raw = deciding.flatMap(({ rule }) => {
    const named = readingOf(rule, inputs) ?? { output: output.columns.map(({ name }) => name), raw: [] }
    const own = origins.filter(({ column }) => named.output.includes(column))
    // Whether a value is there is seen on its pseudonym.
    const counted = rule.kind === 'not_null' ? own.filter((origin) => !isComparable(origin)) : own
    return [...named.raw, ...counted.flatMap(({ sources }) => sources)]
  })
  return origins.map((origin) => ({ ...origin, influences: [...(origin.influences ?? []), ...raw] }))
}

/** For the plan: what is seen of checks by who may not see what they look at. */
export function checkNotes(
  platform: Pick<DeployDeps, 'rules'>,
  { output, quality }: ManifestSet,
  hidden: HiddenColumns,
  readings: ReadonlyMap<string, CheckReading | null>,
): readonly string[] {
  if (hidden.size === 0) return []
  const sight = { columns: output.columns, clear: new Set<string>(), hidden, rules: platform.rules }
  return quality.checks
    .filter(({ name }) => !seesCheck(sight, { reads: readings.get(name) ?? null }))
    .map(({ name, severity, onError }) => {
      const result = `results of the check "${name}" are shown to who may see the columns that it looks at`
      const isBlocking = severity === 'error' && onError === 'block'
      return isBlocking ? `${result}; whether it let an epoch pass is seen by everybody` : result
    })
}
