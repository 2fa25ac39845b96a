/**
 * What the contract of an input says of its table as it is now, against the shape that it is held to: which columns its product
 * goes without, which have another type, and what a row must be like. Nothing of rows is read here.
 */
import type { Column } from '@sluice/sdk'
import { SluiceError } from '@sluice/sdk'
import { SANDBOX } from '../lake/tenant-layout.ts'
import type { ContractWord } from '../manifest/files/schema-contract.ts'
import type { Input, ManifestSet } from '../manifest/manifest-set.ts'
import { contractOf, takesAnyShape } from '../manifest/schema-contract.ts'
import type { HeldColumn } from '../registry/versions.ts'
import { type LakeColumn, type LakeState, UNKNOWN_FIELD } from './lake-state.ts'
import { changesText, columnChanges } from './source-changes.ts'

/** A column of another type than the product is given. */
export interface RetypedColumn {
  readonly name: string
  readonly from: Column['type']
  readonly to: Column['type']
  readonly word: Exclude<ContractWord, 'evolve' | 'fail'>
}

/** What every row is held against. `fail`: a row that breaks it ends the materialization. */
export interface RowTerm {
  readonly column: string
  readonly kind: 'unknown' | 'missing'
  readonly word: 'quarantine_row' | 'fail'
}

export interface ContractTerms {
  /** All that the table has, also what the product is not given. */
  readonly whole: readonly LakeColumn[]
  /** As the product is given them; none of before `columns` of `whole` are read. */
  readonly columns: readonly LakeColumn[]
  readonly retyped: readonly RetypedColumn[]
  readonly rows: readonly RowTerm[]
  /** How the table differs from the shape, in words; empty where it does not. */
  readonly changes: string
  /** By kind, as inputs.yaml has it. */
  readonly said: Readonly<Record<'columns' | 'types' | 'nullability', string>>
  /** Equal where the same rows would be held alike. */
  readonly text: string
}

/**
 * Null where the product is given the table as it lies, whatever its rows are. Throws INVALID_DATA `source_schema_changed` where
 * the contract cannot be kept.
 *
 * @param state as the product would be given it
 * @param whole all columns of the table
 */
export function contractTerms(
  input: Input,
  { compute }: Pick<ManifestSet, 'compute'>,
  shape: readonly HeldColumn[],
  state: Pick<LakeState, 'columns'>,
  whole: readonly LakeColumn[],
): ContractTerms | null {
  if (takesAnyShape(input)) return null
  const contract = contractOf(input)
  const chosen = (name: string) => input.columns === null || input.columns.includes(name)
  const found = columnChanges(
    shape.filter(({ name }) => chosen(name)),
    whole.filter(({ name }) => chosen(name)),
  )
  const changes = {
    added: input.columns === null && contract.columns !== 'evolve' ? found.added : [],
    gone: contract.columns === 'evolve' ? [] : found.gone,
    retyped: contract.types === 'evolve' ? [] : found.retyped,
  }
  const said = saidBy(input)
  const { added, gone, retyped } = changes
  const known = new Map(shape.map((column) => [column.name, column]))
  const areFixed = input.connection === SANDBOX || compute.engine === 'distributed'
  const isRequired = ({ name }: { readonly name: string }) =>
    contract.columns !== 'null_value' && known.get(name)?.nullable === false
  const broken = [
    ...(contract.columns === 'fail' && added.length + gone.length > 0 ? ['columns' as const] : []),
    ...(contract.types === 'fail' && retyped.length > 0 ? ['types' as const] : []),
  ]
  if (broken.length > 0)
    throw brokenContract(
      input,
      changesText(changes),
      broken.map((kind) => said[kind]),
    )
  const lost = gone.filter((column) => areFixed || isRequired(column)).map(({ name }) => name)
  if (lost.length > 0) {
    const why = areFixed ? 'which rows cannot be given null for as they lie' : 'which had a value in every row'
    throw brokenContract(input, `${changesText({ added: [], gone, retyped: [] })}, ${why}`, [said.columns])
  }
  if (areFixed && retyped.length > 0) {
    const text = changesText({ added: [], gone: [], retyped })
    throw brokenContract(input, `${text}, and rows are read as they lie`, [said.types])
  }
  const isRead = ({ name }: LakeColumn) => contract.columns === 'evolve' || known.has(name)
  const former = new Map(retyped.map((one) => [one.name, one.from as Column['type']]))
  const own = state.columns
    .filter(isRead)
    .map((column) => ({ ...column, type: former.get(column.name) ?? column.type }))
  const absent = gone.flatMap(({ name }, index): readonly LakeColumn[] => {
    const type = known.get(name)?.type
    return type === undefined ? [] : [{ name, type, nullable: true, id: UNKNOWN_FIELD - index }]
  })
  const required = shape.filter(({ name, nullable }) => {
    // What the raw table itself requires nobody has to look for.
    return !nullable && chosen(name) && own.some((column) => column.name === name && column.nullable)
  })
  const unknown = contract.columns === 'quarantine_row' ? added : []
  const rows: readonly RowTerm[] = [
    ...unknown.map(({ name }) => ({ column: name, kind: 'unknown', word: 'quarantine_row' }) as const),
    ...(contract.nullability === 'evolve' || input.connection === SANDBOX ? [] : required).map(
      ({ name }): RowTerm => ({
        column: name,
        kind: 'missing',
        word: contract.nullability === 'quarantine_row' ? 'quarantine_row' : 'fail',
      }),
    ),
  ]
  const terms = {
    columns: [...own, ...absent],
    retyped: retyped.map(({ name, from, to }) => ({
      name,
      from: to as Column['type'],
      to: from as Column['type'],
      word: contract.types as RetypedColumn['word'],
    })),
    rows,
    changes: changesText(changes),
    said,
  }
  if (terms.changes === '' && rows.length === 0) return null
  return { ...terms, whole, text: JSON.stringify(terms) }
}

/** `schema_contract.columns: freeze`, or the short form that it comes of. */
function saidBy(input: Input): ContractTerms['said'] {
  const contract = contractOf(input)
  const by = (kind: 'columns' | 'types' | 'nullability') =>
    input.schemaContract?.[kind] === undefined
      ? `on_schema_change: ${contract[kind]}`
      : `schema_contract.${kind}: ${contract[kind]}`
  return { columns: by('columns'), types: by('types'), nullability: by('nullability') }
}

/** Of a contract that its table does not keep: what has changed, and what is to be done. */
export function brokenContract({ name, table, connection }: Input, text: string, said: readonly string[]): SluiceError {
  const message = `the columns of ${table} of the connection "${connection}", the input "${name}", have changed in the source: ${text}`
  return new SluiceError('INVALID_DATA', message, {
    code: 'source_schema_changed',
    remedy: `inputs.yaml says ${[...new Set(said)].join(' and ')}, so that the product is as it was; what was read is kept. Undo the change at the source, or deploy the version again, or one with another contract: it takes the table as it is then.`,
  })
}
