/**
 * How the columns of a copy were masked when it was written. That a column is masked is not enough: what shows a value's last
 * characters, or which values are equal, is no mask for who is to be shown nothing.
 */
import type { MaskStrategy } from '../config.ts'
import { type EpochMasks, GONE } from '../registry/materializations.ts'
import type { ColumnMask } from './masking.ts'

/** What stands for the values of a masked column; null where nobody knows it, which counts as more than any mask shows. */
export type MadeMasks = Pick<ReadonlyMap<string, MaskStrategy | null>, 'get'>

export const NO_MASKS: MadeMasks = new Map()

/** Of rows that are made by these masks. */
export const plannedMasks = (masks: readonly ColumnMask[]): ReadonlyMap<string, MaskStrategy> =>
  new Map(masks.map(({ column, strategy }) => [column, strategy]))

/** What an epoch keeps of its masks. */
export interface MaskedEpoch {
  /** By variant. */
  readonly maskedColumns: Readonly<Record<string, readonly string[]>>
  /** By variant and column. Null of epochs that were made before it was noted, until it has been (`former-masks.ts`). */
  readonly masks: EpochMasks | null
}

/** As an epoch keeps it. */
export function epochMasks(
  variants: readonly { readonly variant: string; readonly masks: readonly ColumnMask[] }[],
): EpochMasks {
  const of = (masks: readonly ColumnMask[]) =>
    Object.fromEntries(masks.map(({ column, strategy }) => [column, strategy]))
  return Object.fromEntries(variants.map(({ variant, masks }) => [variant, of(masks)]))
}

export function madeMasks(
  { maskedColumns, masks }: MaskedEpoch,
  variant: string,
): ReadonlyMap<string, MaskStrategy | null> {
  const noted = new Map(Object.entries(masks?.[variant] ?? {}))
  const known = (name: string) => {
    const mask = noted.get(name) ?? null
    return mask === GONE ? null : mask
  }
  return new Map((maskedColumns[variant] ?? []).map((name) => [name, known(name)]))
}

/**
 * As `madeMasks`, of rows that a version with those columns made: of one that it has not, they show nothing. Names that differ by
 * case alone are of one column: whoever wrote the one may have meant the other.
 */
export function rowMasks(
  epoch: MaskedEpoch,
  variant: string,
  columns: readonly { readonly name: string }[],
): MadeMasks {
  const own = madeMasks(epoch, variant)
  const had = new Set(columns.map(({ name }) => name.toLowerCase()))
  return { get: (name) => (own.has(name) || had.has(name.toLowerCase()) ? own.get(name) : 'omit') }
}

/** Whether all of it is known. */
export function areNoted(epoch: MaskedEpoch): boolean {
  return Object.keys(epoch.maskedColumns).every((variant) => [...madeMasks(epoch, variant).values()].every(Boolean))
}

/** These show nothing of a value, and not whether there is one. */
const SHOWS_NOTHING: readonly MaskStrategy[] = ['redact', 'null', 'omit']

/** Whether what was made shows no more than the mask that is asked for. */
export function isAsStrict(
  made: MaskStrategy | null,
  { strategy, elsewhere }: Pick<ColumnMask, 'strategy' | 'elsewhere'>,
): boolean {
  return made !== null && (made === strategy || made === elsewhere || SHOWS_NOTHING.includes(made))
}

/** Those of the masks that the copy does not have, or has in a way that shows more. */
export function missingMasks(masks: readonly ColumnMask[], made: MadeMasks): readonly ColumnMask[] {
  return masks.filter((mask) => {
    const own = made.get(mask.column)
    return own === undefined || !isAsStrict(own, mask)
  })
}
