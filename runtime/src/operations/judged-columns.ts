/** What the columns of a version show of what is hidden, before it may be put in service. */
import type { TenantCall } from '../flow.ts'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import { type ColumnOrigin, comparableBy, type HiddenColumns, hiddenColumns, laundered } from './column-classes.ts'
import { checkTransform, type Sources } from './deploy-sources.ts'
import type { Platform } from './platform.ts'

export interface JudgedColumns {
  /** Null where nobody knows what the columns are made of. */
  readonly origins: readonly ColumnOrigin[] | null
  readonly hidden: HiddenColumns
  /** Output columns that show more than their class says. */
  readonly laundered: readonly string[]
}

/** What comparing concedes depends on the classes, and those on what the columns are made of: that comes first. */
export async function judgedColumns(
  platform: Platform,
  call: TenantCall,
  manifests: ManifestSet,
  sources: Sources['tables'],
): Promise<JudgedColumns> {
  const strict = await checkTransform(platform, call, manifests, sources)
  const hidden = await hiddenColumns(platform, call, manifests, strict)
  const found = laundered(platform, manifests, strict, hidden)
  if (found.length === 0) return { origins: strict, hidden, laundered: found }
  const origins = await checkTransform(platform, call, manifests, sources, comparableBy(platform, hidden))
  return { origins, hidden, laundered: laundered(platform, manifests, origins, hidden) }
}
