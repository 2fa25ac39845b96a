/** What a snapshot of a raw table says of itself, for those who read it and for the next read of its source. */
import type { Scan } from '@sluice/iceberg'
import type { Input, ManifestSet } from '../manifest/manifest-set.ts'
import { usedOf } from '../manifest/used-columns.ts'

type Summary = Scan['summary']

/** Equal in tables that were read as of one instant of their source. */
export const MOMENT = 'sluice.moment'

/** When the read of the source began that the rows are of: RFC 3339, by the database's clock. */
export const READ_AT = 'sluice.read-at'

/** Rows that could not be carried since the table was last read whole. */
export const ROWS_REJECTED = 'sluice.rows-rejected'

/** Names in JSON, since the table was last read whole. */
const WITHOUT_VALUES = 'sluice.columns-without-values'
const REJECTED_FOR = 'sluice.columns-rejected-for'

/** Columns that hold null in place of values which could not be carried: no product used them. */
export function columnsWithoutValues(summary: Summary): readonly string[] {
  return namesIn(summary, WITHOUT_VALUES)
}

/** Whether it holds null in place of values of columns that the product uses. */
export function lacksValues(summary: Summary, manifests: ManifestSet, input: Input): boolean {
  return usedOf(columnsWithoutValues(summary), manifests, input).length > 0
}

/** Columns whose use decided about rows. */
export interface ColumnsAtFault {
  /** Null in rows that came without their value. */
  readonly withoutValue: Iterable<string>
  /** Used, and so rows were left out for them. */
  readonly rejectedFor: Iterable<string>
}

/** `before`: the snapshot whose rows stay; null: none do. */
export function faultsSummary({ withoutValue, rejectedFor }: ColumnsAtFault, before: Summary | null): Summary {
  return {
    ...namesOf(WITHOUT_VALUES, withoutValue, before),
    ...namesOf(REJECTED_FOR, rejectedFor, before),
  }
}

/** Whether a read of what has changed is enough, where no product uses these columns by now. */
export function isReadAsUsed(summary: Summary, unused: readonly string[]): boolean {
  return (
    columnsWithoutValues(summary).every((name) => unused.includes(name)) &&
    !namesIn(summary, REJECTED_FOR).some((name) => unused.includes(name))
  )
}

function namesIn(summary: Summary, key: string): readonly string[] {
  return JSON.parse(summary[key] ?? '[]') as readonly string[]
}

function namesOf(key: string, names: Iterable<string>, before: Summary | null): Summary {
  const all = new Set([...(before === null ? [] : namesIn(before, key)), ...names])
  return all.size === 0 ? {} : { [key]: JSON.stringify([...all].toSorted()) }
}
