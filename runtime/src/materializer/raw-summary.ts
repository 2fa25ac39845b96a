/** What a snapshot of a raw table says of itself, for those who read it and for the next read of its source. */
import { hasMarks, MARKED_COLUMNS, type Scan } from '@sluice/iceberg'
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
/** Of a table whose rows have marks: those of the columns without values that rows of before are not marked for. */
const UNMARKED = 'sluice.columns-unmarked'

/** Columns that hold null in place of values which could not be carried. */
export function columnsWithoutValues(summary: Summary): readonly string[] {
  return namesIn(summary, WITHOUT_VALUES)
}

/** Columns that the product uses, and that some rows are marked to have no value of: the product is made without these rows. */
export function markedUsed(summary: Summary, manifests: ManifestSet, input: Input): readonly string[] {
  return usedOf(markedColumns(summary), manifests, input)
}

/**
 * Whether it holds null in place of values of columns that the product uses, and the product cannot be made without these rows:
 * nothing says which they are, or they are read where marks are not.
 */
export function lacksValues(summary: Summary, manifests: ManifestSet, input: Input): boolean {
  const inTheWay = heedsMarks(manifests) ? unmarkedColumns(summary) : columnsWithoutValues(summary)
  return usedOf(inTheWay, manifests, input).length > 0
}

/** An engine outside reads the tables by their schemas. */
export function heedsMarks({ compute }: Pick<ManifestSet, 'compute'>): boolean {
  return compute.engine !== 'distributed'
}

function markedColumns(summary: Summary): readonly string[] {
  return namesIn(summary, MARKED_COLUMNS)
}

/** A release that knows nothing of marks has kept none, and says so by leaving their key out. */
function unmarkedColumns(summary: Summary): readonly string[] {
  return hasMarks(summary) ? namesIn(summary, UNMARKED) : columnsWithoutValues(summary)
}

/** Columns whose use decided about rows. */
export interface ColumnsAtFault {
  /** Null in rows that came without their value. */
  readonly withoutValue: Iterable<string>
  /** Used, and so rows were left out for them. */
  readonly rejectedFor: Iterable<string>
  /** Whether rows that lack values say so. */
  readonly marks?: boolean
}

/** `before`: the snapshot whose rows stay; null: none do. */
export function faultsSummary(faults: ColumnsAtFault, before: Summary | null): Summary {
  const { rejectedFor, marks = false } = faults
  const withoutValue = [...faults.withoutValue]
  const all = { ...namesOf(WITHOUT_VALUES, withoutValue, before), ...namesOf(REJECTED_FOR, rejectedFor, before) }
  if (!marks && !(before !== null && hasMarks(before))) return all
  const former =
    before === null
      ? { marked: [], unmarked: [] }
      : { marked: markedColumns(before), unmarked: unmarkedColumns(before) }
  const marked = new Set([...former.marked, ...(marks ? withoutValue : [])])
  const unmarked = new Set([...former.unmarked, ...(marks ? [] : withoutValue)])
  return {
    ...all,
    [MARKED_COLUMNS]: JSON.stringify([...marked].toSorted()),
    ...(unmarked.size === 0 ? {} : { [UNMARKED]: JSON.stringify([...unmarked].toSorted()) }),
  }
}

/** Columns of which a row may lack the value, as products use them by now. */
export interface Dispensable {
  /** No product uses them. */
  readonly optional: readonly string[]
  /** Those who use them heed marks. */
  readonly marked: readonly string[]
}

/** Whether a read of what has changed is enough. */
export function isReadAsUsed(summary: Summary, { optional, marked }: Dispensable): boolean {
  const may = [...optional, ...marked]
  const isRejectedFor = (name: string) => optional.includes(name) || (hasMarks(summary) && marked.includes(name))
  return (
    unmarkedColumns(summary).every((name) => optional.includes(name)) &&
    markedColumns(summary).every((name) => may.includes(name)) &&
    !namesIn(summary, REJECTED_FOR).some(isRejectedFor)
  )
}

/** The same of a table that is read on by a log. `marks`: all its products heed them. */
export function isLoggedAsUsed(summary: Summary, marks: boolean): boolean {
  return marks ? namesIn(summary, REJECTED_FOR).length === 0 : markedColumns(summary).length === 0
}

/** Whether rows were left out that a read with marks would bring. */
export function lacksMarkedRows(summary: Summary, marked: readonly string[]): boolean {
  return namesIn(summary, REJECTED_FOR).some((name) => marked.includes(name))
}

function namesIn(summary: Summary, key: string): readonly string[] {
  return JSON.parse(summary[key] ?? '[]') as readonly string[]
}

function namesOf(key: string, names: Iterable<string>, before: Summary | null): Summary {
  const all = new Set([...(before === null ? [] : namesIn(before, key)), ...names])
  return all.size === 0 ? {} : { [key]: JSON.stringify([...all].toSorted()) }
}
