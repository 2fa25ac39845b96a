/** Which columns a product's columns are made of, as the version was judged when it was deployed. */
import type { ColumnOrigin } from '../../deploy/column-classes.ts'
import { valuesOf } from '../values.ts'
import { datasetOf, type Naming } from './dataset-names.ts'
import type { ToldRun } from './told-run.ts'

/** Mentions of columns in one event; one with more is told without its columns. */
const MAX_MENTIONS = 10_000

type Transformation = {
  readonly type: 'DIRECT' | 'INDIRECT'
  readonly subtype?: 'IDENTITY' | 'TRANSFORMATION' | 'GROUP_BY'
  readonly masking: boolean
}

/**
 * Null: nothing is known, or too much for one event. A column of which nobody knows what it is made of is left out, since
 * what is guessed is more than there is. `masking` is said of values that are masked for whoever has no grant.
 */
export function columnLineage(
  { manifests, origins, masked }: Pick<ToldRun, 'manifests' | 'origins' | 'masked'>,
  naming: Naming,
) {
  const known = (origins ?? []).filter(
    ({ column, guessed }) => guessed !== true && manifests?.output.columns.some(({ name }) => name === column),
  )
  if (known.length === 0) return null
  const mentions = known.reduce((sum, origin) => sum + valuesOf(origin).length + decidingOf(origin).length, 0)
  if (mentions > MAX_MENTIONS) return null
  // What decides about the rows decides about those of each column.
  const common = commonTo(known.map(decidingOf))
  const indirect = (raw: string) => inputField(naming, raw, decides(known, raw))
  const fields = known.map((origin) => {
    const deciding = decidingOf(origin).filter((raw) => !common.includes(raw))
    const values = valuesOf(origin).map((raw) => inputField(naming, raw, computes(origin, raw, masked)))
    return [origin.column, { inputFields: [...values, ...deciding.map(indirect)] }] as const
  })
  return { fields: Object.fromEntries(fields), dataset: common.map(indirect) }
}

const decidingOf = ({ influences = [], grouped = [] }: ColumnOrigin): readonly string[] => [
  ...new Set([...influences, ...grouped]),
]

function commonTo([first = [], ...others]: readonly (readonly string[])[]): readonly string[] {
  return first.filter((raw) => others.every((other) => other.includes(raw)))
}

function computes({ column, copied = null }: ColumnOrigin, raw: string, masked: ReadonlySet<string>): Transformation {
  return {
    type: 'DIRECT',
    subtype: copied === raw ? 'IDENTITY' : 'TRANSFORMATION',
    masking: masked.has(column),
  }
}

/** It is not kept whether rows are filtered, joined or sorted by it: so it is not said. */
function decides(known: readonly ColumnOrigin[], raw: string): Transformation {
  const isGroupedOnly = known.every(({ influences = [] }) => !influences.includes(raw))
  return { type: 'INDIRECT', ...(isGroupedOnly ? { subtype: 'GROUP_BY' as const } : {}), masking: false }
}

/** @param raw as `rawColumn` names it */
function inputField(naming: Naming, raw: string, transformation: Transformation) {
  const [connection, table, field] = JSON.parse(raw) as readonly [string, string, string]
  return { ...datasetOf(naming, { connection, table }), field, transformations: [transformation] }
}
