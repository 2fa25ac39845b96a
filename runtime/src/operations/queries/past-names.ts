/** Time travel in SQL: `sales."orders@v1.2.0"`, `sales."orders@2026-11-01"`, `sales."orders@4611686018427387905"`. */
import { SluiceError } from '@sluice/sdk'
import { QUARANTINE } from '../../materializer/variants.ts'
import { PREVIEW } from '../../registry/previews.ts'

/** More pasts of one product in one statement than anybody compares. */
const MAX_PASTS = 20
const PAST_NAME = /^([a-z_][a-z0-9_]{0,254})@([^"@]{1,64})$/i

/** The versions, times and snapshots of the product among the tables that a statement names in its namespace, each once. */
export function pastsNamed(tables: readonly string[], product: string): readonly string[] {
  const pasts = new Set<string>()
  for (const [, name = '', past = ''] of tables.flatMap((table) => [PAST_NAME.exec(table) ?? []])) {
    if (name.toLowerCase() === product && !isPreviewName(past)) pasts.add(past)
  }
  if (pasts.size <= MAX_PASTS) return [...pasts]
  throw new SluiceError('INVALID_DATA', `the statement names more than ${MAX_PASTS} pasts of one product`, {
    code: 'invalid_value',
    remedy: 'Compare fewer at once.',
  })
}

/** Beside the times, versions and snapshots of a product stands its preview, which is a product of its own. */
const isPreviewName = (past: string) => PREVIEW_NAMES.includes(`@${past.toLowerCase()}`)
const PREVIEW_NAMES: readonly string[] = [PREVIEW, `${PREVIEW}${QUARANTINE}`]

/** The version of a tag: `v1.2.0` → `1.2.0`; null where the text is a time or a snapshot. */
export function versionOfTag(past: string): string | null {
  return past.startsWith('v') ? past.slice(1) : null
}
