import type { Int64 } from './int64.ts'
import type { TableMetadata } from './metadata.ts'

/** Files of statistics that engines keep beside a snapshot. We keep the references and read none of them. */
export interface StatisticsFile {
  readonly 'snapshot-id': Int64
  readonly 'statistics-path': string
  readonly [other: string]: unknown
}

export type StatisticsUpdate =
  | { readonly action: 'set-statistics'; readonly statistics: StatisticsFile }
  | { readonly action: 'remove-statistics'; readonly 'snapshot-id': Int64 }
  | { readonly action: 'set-partition-statistics'; readonly 'partition-statistics': StatisticsFile }
  | { readonly action: 'remove-partition-statistics'; readonly 'snapshot-id': Int64 }

/** One file a snapshot and kind: setting replaces. */
export function applyStatistics(metadata: TableMetadata, update: StatisticsUpdate): TableMetadata {
  switch (update.action) {
    case 'set-statistics':
      return replaced(metadata, 'statistics', update.statistics['snapshot-id'], update.statistics)
    case 'remove-statistics':
      return replaced(metadata, 'statistics', update['snapshot-id'], null)
    case 'set-partition-statistics': {
      const file = update['partition-statistics']
      return replaced(metadata, 'partition-statistics', file['snapshot-id'], file)
    }
    case 'remove-partition-statistics':
      return replaced(metadata, 'partition-statistics', update['snapshot-id'], null)
  }
}

function replaced(
  metadata: TableMetadata,
  kind: 'statistics' | 'partition-statistics',
  snapshotId: Int64,
  file: StatisticsFile | null,
): TableMetadata {
  const others = statisticsOf(metadata, kind).filter((known) => known['snapshot-id'] !== snapshotId)
  return { ...metadata, [kind]: file === null ? others : [...others, file] }
}

/** Those of snapshots that leave go with them. */
export function withoutStatistics(metadata: TableMetadata, snapshotIds: ReadonlySet<Int64>): TableMetadata {
  const left = (['statistics', 'partition-statistics'] as const).flatMap((kind) => {
    const all = statisticsOf(metadata, kind)
    const kept = all.filter((file) => !snapshotIds.has(file['snapshot-id']))
    return kept.length === all.length ? [] : [[kind, kept] as const]
  })
  return { ...metadata, ...Object.fromEntries(left) }
}

export function statisticsOf(
  metadata: TableMetadata,
  kind: 'statistics' | 'partition-statistics',
): readonly StatisticsFile[] {
  return (metadata[kind] ?? []) as readonly StatisticsFile[]
}
