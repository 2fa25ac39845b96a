/** The read path: two look-ups, no waiting, and the text goes out as it lies there. */
import {
  batchFromRows,
  checkReadPlan,
  columnMasked,
  type Host,
  type ReadBatch,
  type ReadPlan,
  type RowPredicate,
  rowPasses,
  SluiceError,
  type TableSchema,
  type Target,
} from '@sluice/sdk'
import { cellTexts, cellValue, isWhole, type Layout, projectedJson } from './cells.ts'
import { capabilities, type RealtimeConfig } from './config.ts'
import type { Environment } from './environment.ts'
import { physicalKey, prefixOf } from './keys.ts'
import { factsOf, type Marker } from './markers.ts'
import { type Version, visibleVersion } from './versions.ts'
import { markerOf } from './writing.ts'

export function read(environment: Environment, host: Host, target: Target<RealtimeConfig>, plan: ReadPlan): ReadBatch {
  const prefix = prefixOf(target)
  checkReadPlan(plan, capabilities)
  const marker = markerOf(environment, prefix)
  checkKeyColumns(marker, plan)
  if (plan.signal.aborted) throw new SluiceError('TRANSIENT', 'the read was ended by its caller', { code: 'aborted' })
  const { applied } = marker
  const { endsAtMs } = factsOf(marker)
  if (applied === null || endsAtMs === null) throw notMaterialized()
  const remainingMs = endsAtMs - host.clock.nowMs()
  const version = marker.policy === null || remainingMs <= 0 ? undefined : lookUp(environment, prefix, marker, plan)
  const found = version && isAllowed(marker, version, plan) ? version : undefined
  const ttlRemainingS = Math.max(0, Math.floor(remainingMs / 1000))
  return { ...batchOf(marker, found, plan), epoch: applied.epoch, ttlRemainingS }
}

/** A key over a masked column would tell whether the hidden value is what was guessed. */
function checkKeyColumns(marker: Marker, { policy }: ReadPlan): void {
  if (policy.maskedColumns.length === 0) return
  for (const { column } of factsOf(marker).template.parts) {
    if (policy.maskedColumns.includes(column)) throw columnMasked(column)
  }
}

function notMaterialized(): SluiceError {
  return new SluiceError('TRANSIENT', 'nothing was materialized here yet', {
    code: 'not_materialized',
    remedy: 'Wait for the first materialization.',
  })
}

function lookUp({ entries }: Environment, prefix: string, marker: Marker, plan: ReadPlan): Version | undefined {
  const key = physicalKey(prefix, plan.key ?? '')
  if (factsOf(marker).isKeyedByIdentity) {
    const record = entries.getBinaryFast(key)
    return record && visibleVersion(record, marker)
  }
  // Identities begin with `v`, so these two bounds hold all of them; the last one that counts is the answer.
  for (const { value } of entries.getRange({ start: [key, 'w'], end: [key, 'u'], reverse: true })) {
    const version = visibleVersion(value, marker)
    if (version && version.value !== null) return version
  }
  return undefined
}

function isAllowed(marker: Marker, { value, layout: index }: Version, { policy }: ReadPlan): boolean {
  const { rows } = policy
  if (value === null || rows.op === 'none') return false
  if (rows.op === 'all') return true
  const layout = marker.layouts[index] ?? []
  const stored = new Set(marker.layouts.flatMap((columns) => columns.map((column) => column.name)))
  if (!columnsOf(rows).every((name) => stored.has(name))) return false
  const texts = cellTexts(value)
  const row = layout.map(({ type }, column) => cellValue(texts[column] ?? 'null', type))
  const schema: TableSchema = { columns: layout.map((column) => ({ ...column, nullable: true })), primaryKey: [] }
  return rowPasses(rows, schema, row, policy.claims)
}

/** A predicate over a column that is not stored is not known to hold, so it denies. */
function columnsOf(predicate: RowPredicate): readonly string[] {
  switch (predicate.op) {
    case 'all':
    case 'none':
      return []
    case 'and':
    case 'or':
      return predicate.of.flatMap(columnsOf)
    case 'not':
      return columnsOf(predicate.of)
    default:
      return [predicate.column]
  }
}

function batchOf({ layouts }: Marker, found: Version | undefined, plan: ReadPlan) {
  const value = found?.value
  const layout: Layout = layouts[found?.layout ?? 0] ?? []
  if (plan.encoding === 'json') {
    if (value == null) return { rowCount: 0, json: '[]' }
    const object = isWhole(layout, plan.columns) ? value : projectedJson(value, layout, plan.columns)
    return { rowCount: 1, json: `[${object}]` }
  }
  if (value == null) return batchFromRows([], plan.columns.length)
  const texts = cellTexts(value)
  const row = plan.columns.map((name) => {
    const index = layout.findIndex((column) => column.name === name)
    return cellValue(texts[index] ?? 'null', layout[index]?.type ?? 'string')
  })
  return batchFromRows([row], plan.columns.length)
}
