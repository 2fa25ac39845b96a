/** How the columns of a source's table have changed: their names and types, nothing of rows. */
import { type NamedColumn, schemaHistory, type TableState } from '@sluice/iceberg'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import { sourceText } from '../manifest/context.ts'
import type { Input, ManifestSet } from '../manifest/manifest-set.ts'

export interface ColumnChanges {
  readonly added: readonly NamedColumn[]
  readonly gone: readonly NamedColumn[]
  readonly retyped: readonly { readonly name: string; readonly from: string; readonly to: string }[]
}

export function columnChanges(before: readonly NamedColumn[], now: readonly NamedColumn[]): ColumnChanges {
  const known = new Map(before.map(({ name, type }) => [name, type]))
  const there = new Set(now.map(({ name }) => name))
  return {
    added: now.filter(({ name }) => !known.has(name)),
    gone: before.filter(({ name }) => !there.has(name)),
    retyped: now.flatMap(({ name, type }) => {
      const from = known.get(name)
      return from === undefined || from === type ? [] : [{ name, from, to: type }]
    }),
  }
}

/**
 * Against every schema that its raw table has had; null: there is no raw table. New is what came when a column that is gone
 * now was there last: it may be that one under another name.
 */
export function changesSince(state: TableState | null, now: readonly NamedColumn[]): ColumnChanges {
  const history = state === null ? [] : schemaHistory(state)
  const all = new Map(history.at(-1)?.map(({ name, type }) => [name, type]))
  for (const { name, type } of history.slice(0, -1).flat()) all.set(name, type)
  const { gone, retyped } = columnChanges(
    [...all].map(([name, type]) => ({ name, type })),
    now,
  )
  const last = history.findLast((columns) => gone.some(({ name }) => columns.some((column) => column.name === name)))
  return { added: last === undefined ? [] : columnChanges(last, now).added, gone, retyped }
}

/** `new: town (string); gone: city (string); of another type: price (integer, now string)`; empty without changes. */
export function changesText({ added, gone, retyped }: ColumnChanges): string {
  const named = (columns: readonly NamedColumn[]) => columns.map(({ name, type }) => `${name} (${type})`).join(', ')
  const types = retyped.map(({ name, from, to }) => `${name} (${from}, now ${to})`).join(', ')
  return [
    ...(added.length === 0 ? [] : [`new: ${named(added)}`]),
    ...(gone.length === 0 ? [] : [`gone: ${named(gone)}`]),
    ...(retyped.length === 0 ? [] : [`of another type: ${types}`]),
  ].join('; ')
}

export interface ChangedInput {
  readonly input: Input
  readonly changes: ColumnChanges
  /** Names of those that it was read with; absent: nobody has looked. */
  readonly columns?: readonly string[]
}

/** Words of an author's text; no more than to find a name in it. */
function mentions(text: string, name: string): boolean {
  return ` ${text.toLowerCase().replace(/[^\p{L}\p{N}_$]+/gu, ' ')} `.includes(` ${name.toLowerCase()} `)
}

/** Columns that the sources have lost and the manifests go on naming, with where they are named. */
export function lostColumns(
  { compute, output }: ManifestSet,
  inputs: readonly ChangedInput[],
): readonly {
  readonly input: Input
  readonly changes: ColumnChanges
  readonly column: string
  readonly file: string
}[] {
  return inputs.flatMap(({ input, changes }) =>
    changes.gone.flatMap(({ name: column }) => {
      const isRead = compute.transform !== null && mentions(compute.transform, column)
      const isChosen = mentions(input.where ?? '', column) || (input.columns ?? []).includes(column)
      const isCopied = compute.transform === null && output.columns.some(({ name }) => name === column)
      const file = isChosen ? 'inputs.yaml' : isRead ? 'compute.yaml' : 'output.yaml'
      return isRead || isChosen || isCopied ? [{ input, changes, column, file }] : []
    }),
  )
}

/** In words, with what may have come in a lost column's place. */
export function lostText(lost: ReturnType<typeof lostColumns>): string {
  return lost
    .map(({ input, changes, column, file }) => {
      const others = changes.added.map(({ name }) => name)
      const renamed = others.length === 0 ? '' : `; new there: ${others.join(', ')}`
      return `the column "${column}", which ${file} names, is gone from ${sourceText(input)}${renamed}`
    })
    .join('; ')
}

/** Columns of output.yaml that its table has not, where it is taken as it is. In words; null where it has all. */
function unseenColumns({ compute, output }: ManifestSet, [first]: readonly ChangedInput[]): string | null {
  const { columns } = first ?? {}
  if (compute.transform !== null || first === undefined || columns === undefined) return null
  const unseen = output.columns.flatMap(({ name }) => (columns.includes(name) ? [] : [`"${name}"`]))
  return unseen.length === 0 ? null : `${sourceText(first.input)} comes without ${unseen.join(', ')}`
}

export const LOST_REMEDY =
  'Deploy a version that does without the column or reads it by its new name, or bring it back at the source and sync again.'

/** Codes of statements that no longer fit the columns or their types. */
const OF_COLUMNS: ReadonlySet<string> = new Set([
  'column_not_found',
  'sql_invalid',
  'sql_conversion_error',
  'sql_invalid_input',
])

/** What the transform ran into, with what has changed at its sources; errors of other kinds as they are. */
export function withSourceChanges(error: unknown, manifests: ManifestSet, inputs: readonly ChangedInput[]): unknown {
  if (!isSluiceError(error, 'INVALID_DATA') || !OF_COLUMNS.has(error.code)) return error
  const product = `${manifests.product.domain}.${manifests.product.name}`
  const lost = lostColumns(manifests, inputs)
  if (lost.length > 0) {
    return new SluiceError('INVALID_DATA', `${product} cannot be made: ${lostText(lost)}`, {
      code: 'source_column_gone',
      remedy: LOST_REMEDY,
      details: { columns: lost.map(({ input, column }) => ({ input: input.name, column })) },
      cause: error,
    })
  }
  const unseen = unseenColumns(manifests, inputs)
  if (unseen !== null) {
    return new SluiceError('INVALID_DATA', `${product} cannot be made: ${unseen}`, {
      code: 'column_not_found',
      remedy: 'Take it out of output.yaml, or have the source show it and sync again. Then deploy a new version.',
      cause: error,
    })
  }
  const retyped = inputs.flatMap(({ input, changes: { retyped: columns } }) =>
    columns.map(({ name, from, to }) => `${name} of ${sourceText(input)} was ${from} and is ${to} now`),
  )
  const since = retyped.length === 0 ? '' : `; ${retyped.join('; ')}`
  return new SluiceError('INVALID_DATA', `${product} cannot be made: ${error.message}${since}`, {
    code: error.code,
    remedy: `${error.remedy ?? 'Correct the transform in compute.yaml.'} Then deploy a new version.`,
    ...(error.details === undefined ? {} : { details: error.details }),
    cause: error,
  })
}
