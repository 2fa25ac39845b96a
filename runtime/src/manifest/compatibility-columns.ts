import { type LogicalType, parseDecimal, type TableSchema, typeName } from '@sluice/sdk'
import type { Change } from './compatibility-change.ts'
import { canonical } from './digest.ts'
import { type Input, keepsMissing, type ManifestSet, type OutputColumn, type OutputManifest } from './manifest-set.ts'
import { asWritten } from './open-modes.ts'

/** What a new output.yaml means to readers, and to the rows that are there already. */
export function compareColumns(live: OutputManifest, next: OutputManifest): readonly Change[] {
  const after = new Map(next.columns.map((column) => [column.name, column]))
  const before = new Map(live.columns.map((column) => [column.name, column]))
  return [
    ...live.columns.flatMap((column) => {
      const now = after.get(column.name)
      return now === undefined ? [removed(column)] : compareColumn(column, now)
    }),
    ...next.columns.filter((column) => !before.has(column.name)).map((column) => added(column)),
    ...compareKeys(live.primaryKey, next.primaryKey),
  ]
}

function removed({ name }: OutputColumn): Change {
  return { verdict: 'breaking', subject: `output.schema.${name}`, column: name, reason: `the column ${name} goes away` }
}

function added({ name, nullable }: OutputColumn): Change {
  const at = { subject: `output.schema.${name}`, column: name }
  if (nullable) return { verdict: 'additive', ...at, reason: `the column ${name} is added` }
  const reason = `the column ${name} is added and must not be empty, which it is in the rows that are there`
  return { verdict: 'breaking', ...at, reason }
}

function compareColumn(old: OutputColumn, now: OutputColumn): readonly Change[] {
  const at = { subject: `output.schema.${old.name}`, column: old.name }
  const changes: Change[] = []
  if (old.type !== now.type) {
    const wider = isWider(old.type, now.type)
    const reason = `${old.name} changes from ${old.type} to ${now.type}`
    changes.push({ verdict: wider ? 'additive' : 'breaking', ...at, reason })
  }
  if (!old.nullable && now.nullable) {
    changes.push({ verdict: 'additive', ...at, reason: `${old.name} may now be empty` })
  }
  if (old.nullable && !now.nullable) {
    const reason = `${old.name} must not be empty any more, which it may be in the rows that are there`
    changes.push({ verdict: 'breaking', ...at, reason })
  }
  if (old.classification !== now.classification) {
    const reason = `the class of ${old.name} changes from ${old.classification} to ${now.classification}`
    changes.push({ verdict: 'compatible', ...at, reason })
  }
  return changes
}

/** The promotions that Iceberg allows: every value that was there is a value of the new type. */
function isWider(from: LogicalType, to: LogicalType): boolean {
  if (from === 'integer' && to === 'long') return true
  if (from === 'float' && to === 'double') return true
  const [old, now] = [parseDecimal(from), parseDecimal(to)]
  return old !== null && now !== null && old.scale === now.scale && now.precision >= old.precision
}

/**
 * Whether rows of the former schema can stand in one history with those of the next: under the same key, and with every
 * value told by the types of the next.
 */
export function sharesHistory(former: TableSchema, next: TableSchema): boolean {
  if (canonical([...former.primaryKey].sort()) !== canonical([...next.primaryKey].sort())) return false
  const types = new Map(former.columns.map(({ name, type }) => [name, type]))
  return next.columns.every(({ name, type }) => tells(types.get(name) ?? type, type))
}

/** Pairs of which the second holds every value of the first, be it in another form. Texts hold all but bytes. */
const TOLD: readonly string[] = [
  'integer double',
  'date timestamp',
  'date timestamptz',
  'timestamp timestamptz',
  'timestamptz timestamp',
]

const INTEGER_DIGITS: Readonly<Record<string, number>> = { integer: 10, long: 19 }

function tells(from: LogicalType, to: LogicalType): boolean {
  if (from === to || isWider(from, to) || TOLD.includes(`${from} ${to}`)) return true
  if (to === 'string') return typeName(from) !== 'binary'
  const [old, now] = [parseDecimal(from) ?? { precision: INTEGER_DIGITS[from], scale: 0 }, parseDecimal(to)]
  if (old.precision === undefined || now === null) return false
  return now.scale >= old.scale && now.precision - now.scale >= old.precision - old.scale
}

function compareKeys(before: readonly string[], after: readonly string[]): readonly Change[] {
  if (canonical(before) === canonical(after)) return []
  const named = (key: readonly string[]): string => (key.length === 0 ? 'none' : key.join(', '))
  const reason = `the primary key changes from ${named(before)} to ${named(after)}`
  return [{ verdict: 'breaking', subject: 'output.primary_key', reason }]
}

/** How the product is made and kept: its readers see other rows at most, never another shape. */
export function compareWriting(live: ManifestSet, next: ManifestSet): readonly Change[] {
  const parts: readonly (readonly [string, unknown, unknown, string])[] = [
    ['product.classification', live.product.classification, next.product.classification, 'others may read the product'],
    ['inputs', live.inputs.map(withoutDeletes), next.inputs.map(withoutDeletes), 'it is made from other inputs'],
    ['inputs.deletes', deletesOf(live), deletesOf(next), 'rows that are gone at the source are found in another way'],
    ['output.partitioning', live.output.partitioning, next.output.partitioning, 'files are laid out in another way'],
    ['output.write_mode', live.output.writeMode, next.output.writeMode, 'rows are written in another way'],
    [
      'output.keep_missing',
      keepsMissing(live.output),
      keepsMissing(next.output),
      keepsMissing(next.output)
        ? 'rows that the output no longer has stay'
        : 'rows that the output no longer has leave',
    ],
    ['quality', live.quality, next.quality, 'other checks are made'],
    ['compute', live.compute, next.compute, 'it is computed in another way'],
  ]
  return parts
    .filter(([, before, after]) => canonical(before) !== canonical(after))
    .map(([subject, , , reason]): Change => ({ verdict: 'compatible', subject, reason }))
}

function withoutDeletes(input: Input): unknown {
  const { deletes, deletesReason, ...rest } = asWritten(input)
  return rest
}

function deletesOf({ inputs }: ManifestSet): unknown {
  return inputs
    .map(asWritten)
    .map(({ name, deletes = 'unseen', deletesReason = null }) => [name, deletes, deletesReason])
}
