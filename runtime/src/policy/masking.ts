/**
 * Which columns are masked, how, and in which variants a product exists. The masks themselves are applied once, when
 * a twin is written; here is only the decision.
 */
import { createHash } from 'node:crypto'
import { CLEAR, type Column, type LogicalType, typeName, type Variant } from '@sluice/sdk'
import type { MaskStrategy } from '../config.ts'
import type { ClearClasses } from './classification.ts'

export interface ClassifiedColumn extends Column {
  readonly classification: string
}

export interface MaskingRules {
  /** Classes masked besides `pii.*`. */
  readonly sensitive: readonly string[]
  readonly strategies: Readonly<Record<string, string>>
}

/** What a mask leaves of a value. `hash` keeps equality, the others keep nothing (`partial`: the last characters). */
export interface ColumnMask {
  readonly column: string
  readonly classification: string
  readonly strategy: MaskStrategy
  /** How values of the class are masked where their type allows it; absent where this one does. */
  readonly elsewhere?: MaskStrategy
}

export function isSensitive(classification: string, rules: MaskingRules): boolean {
  return classification.startsWith('pii.') || rules.sensitive.includes(classification)
}

/** The masks of a variant in which only `clearClasses` are in clear, in column order. */
export function masksFor(
  columns: readonly ClassifiedColumn[],
  clearClasses: ClearClasses,
  rules: MaskingRules,
): readonly ColumnMask[] {
  if (clearClasses === 'all') return []
  return columns
    .filter((column) => isSensitive(column.classification, rules) && !clearClasses.has(column.classification))
    .map((column) => ({
      column: column.name,
      classification: column.classification,
      ...wayFor(column, rules),
    }))
}

/** Rows may be of a time when the column had another type. */
function wayFor(column: ClassifiedColumn, rules: MaskingRules): Pick<ColumnMask, 'strategy' | 'elsewhere'> {
  const strategy = strategyFor(column, rules)
  const wanted = wantedFor(column, rules)
  return strategy === wanted ? { strategy } : { strategy, elsewhere: wanted }
}

/** The configured strategy where the type can carry it; null where it cannot (a number has no redacted form). */
export function strategyFor(column: ClassifiedColumn, rules: MaskingRules): MaskStrategy {
  const wanted = wantedFor(column, rules)
  return strategyFits(wanted, column.type) ? wanted : 'null'
}

function wantedFor({ classification }: ClassifiedColumn, { strategies }: MaskingRules): MaskStrategy {
  return (strategies[classification] ?? 'redact') as MaskStrategy
}

function strategyFits(strategy: MaskStrategy, type: LogicalType): boolean {
  const name = typeName(type)
  switch (strategy) {
    case 'hash':
      return name === 'string' || name === 'uuid' || name === 'binary'
    case 'redact':
    case 'partial':
      return name === 'string'
    default:
      return true
  }
}

/** Whether a mask of the type can show something: of the others there is null, or nothing. */
export function carriesMasks(type: LogicalType): boolean {
  return strategyFits('hash', type) || strategyFits('partial', type)
}

/** Whether rows that differ in the column still differ after its mask. */
export function keepsIdentity(mask: ColumnMask): boolean {
  return mask.strategy === 'hash'
}

/**
 * The variant's name: `clear` without masks, `masked` where every sensitive class is masked, else `masked_` with a
 * hash of the masked classes, so that two readers with the same clearance share one twin.
 */
export function variantName(
  masks: readonly ColumnMask[],
  columns: readonly ClassifiedColumn[],
  rules: MaskingRules,
): Variant {
  if (masks.length === 0) return CLEAR
  const full = masksFor(columns, new Set(), rules)
  if (masks.length === full.length) return 'masked'
  const classes = [...new Set(masks.map((mask) => mask.classification))].sort()
  return `masked_${createHash('sha256').update(JSON.stringify(classes)).digest('hex').slice(0, 8)}`
}
