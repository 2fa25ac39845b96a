import { lakeNameRefusal } from '@sluice/iceberg/names'
import type { LogicalType } from '@sluice/sdk'
import { typeName } from '@sluice/sdk'
import { didYouMean } from '../parsing/suggestion.ts'
import { PRODUCTS } from '../registry/product-sources.ts'
import { type CheckedFile, type Item, repeated } from './checked-file.ts'
import { DEFAULT_SCHEMA, fullName, isNamed, type ManifestContext, rawTableName, type SourceTable } from './context.ts'
import type { InputFields } from './files/inputs.ts'
import type { Archetype, Input } from './manifest-set.ts'
import { nameRefusal, sourceColumnsRefusal } from './names.ts'
import type { Finding, Path } from './problem.ts'
import { contractFindings } from './schema-contract.ts'

export interface InputsDraft {
  /** The usable ones. */
  readonly value: readonly Input[]
  /** Every alias that is written, also of inputs that are wrong. */
  readonly aliases: ReadonlySet<string>
  /** By alias, where the connection's tables are known. */
  readonly sources: ReadonlyMap<string, SourceTable>
  /** How many inputs are written, wrong ones included. */
  readonly count: number
  readonly findings: readonly Finding[]
}

/**
 * inputs.yaml with its defaults, held against what the connections are known to have.
 * @param archetype null: it could not be read
 */
export function readInputs(file: CheckedFile, context: ManifestContext, archetype: Archetype | null): InputsDraft {
  const items = file.items<InputFields>('inputs')
  const list = file.raw('inputs')
  const written = Array.isArray(list) ? list.map((_, index) => file.raw('inputs', index, 'name')) : []
  const inputs: Input[] = []
  const sources = new Map<string, SourceTable>()
  const findings: Finding[] = repeated(items, (input) => input.name.toLowerCase()).map((item) => ({
    manifest: 'inputs',
    path: [...item.path, 'name'],
    message: `the alias "${item.value.name}" stands here twice`,
  }))
  for (const item of items) {
    const wrong = [...fieldFindings(item), ...productFindings(item, context, archetype)]
    const looked = wrong.some((finding) => finding.warning !== true) ? null : lookUp(item, context.connections)
    findings.push(...wrong, ...(looked?.findings ?? []))
    if (looked?.source) {
      sources.set(item.value.name, looked.source)
      findings.push(...sourceFindings(item, looked.source))
    }
    const input = normalised(item.value)
    if (input) inputs.push(input)
  }
  const aliases = new Set(written.filter((name) => typeof name === 'string'))
  return { value: inputs, aliases, sources, count: written.length, findings }
}

function normalised(fields: InputFields): Input | null {
  if (fields.product !== undefined) return productInput(fields, fields.product)
  if (fields.connection === undefined || fields.table === undefined) return null
  return {
    name: fields.name,
    connection: fields.connection,
    table: fields.table,
    mode: fields.mode ?? 'auto',
    cursorColumn: fields.cursor_column ?? null,
    primaryKey: fields.primary_key ?? [],
    columns: fields.columns ?? null,
    where: fields.where ?? null,
    onSchemaChange: fields.on_schema_change ?? 'evolve',
    ...(fields.schema_contract === undefined ? {} : { schemaContract: fields.schema_contract }),
    // The log tells them.
    ...(fields.mode === 'cdc' ? {} : { deletes: fields.deletes ?? 'key_sweep' }),
    ...(fields.deletes === 'key_sweep' ? { saysDeletes: true } : {}),
    ...(fields.deletes_reason === undefined ? {} : { deletesReason: fields.deletes_reason }),
  }
}

/** It has no choice of how it is read: its table in the lake is there as a whole. */
function productInput({ name, columns, where, epoch }: InputFields, product: string): Input {
  return {
    name,
    connection: PRODUCTS,
    table: product,
    mode: 'full',
    cursorColumn: null,
    primaryKey: [],
    columns: columns ?? null,
    where: where ?? null,
    onSchemaChange: 'evolve',
    epoch: epoch ?? 'same_wave',
  }
}

const OF_SOURCES = [
  'connection',
  'table',
  'mode',
  'cursor_column',
  'primary_key',
  'deletes',
  'deletes_reason',
  'on_schema_change',
  'schema_contract',
] as const

function productFindings(
  { path, value }: Item<InputFields>,
  { product: own }: ManifestContext,
  archetype: Archetype | null,
): readonly Finding[] {
  const finding = (field: string, message: string, hint: string): Finding => {
    return { manifest: 'inputs', path: [...path, field], message, hint }
  }
  const { product } = value
  if (product === undefined) {
    return value.epoch === undefined ? [] : [finding('epoch', 'is of inputs that are products', 'Remove it.')]
  }
  const [domain = '', name = '', ...rest] = product.split('.')
  const isName = rest.length === 0 && nameRefusal(domain, 'namespace') === null && nameRefusal(name, 'name') === null
  return [
    ...(isName ? [] : [finding('product', `"${product}" is no name of a product`, 'Write namespace.name.')]),
    ...(domain === own.domain && name === own.name
      ? [finding('product', 'a product cannot be made of itself', 'Name the product that its rows come from.')]
      : []),
    ...(archetype === 'source_aligned'
      ? [
          finding(
            'product',
            'a product of the archetype source_aligned is made of tables of connections alone',
            'Write archetype: aggregate or consumer_aligned in product.yaml.',
          ),
        ]
      : []),
    ...OF_SOURCES.filter((field) => value[field] !== undefined).map((field) =>
      finding(field, 'is of tables of connections, and this input is a product', 'Remove it.'),
    ),
  ]
}

function fieldFindings({ path, value }: Item<InputFields>): readonly Finding[] {
  const findings: Finding[] = []
  const say = (field: string | null, message: string, hint?: string, warning = false): void => {
    const at = field === null ? path : [...path, field]
    findings.push({ manifest: 'inputs', path: at, message, ...(hint === undefined ? {} : { hint }), warning })
  }
  if (value.name.toLowerCase() === 'this') say('name', '"this" means the product itself', 'Choose another alias.')
  if (value.product !== undefined) return findings
  if (value.connection === PRODUCTS) {
    say(
      'connection',
      `there is no connection "${PRODUCTS}"`,
      'Name a product by product, in place of connection and table.',
    )
    return findings
  }
  if (value.connection === undefined || value.table === undefined) {
    const absent = value.connection === undefined ? 'connection' : 'table'
    say(null, `"${absent}" is missing`, 'An input names a connection and a table of it, or a product.')
  }
  if (value.mode === 'cdc' && value.cursor_column !== undefined) {
    say('cursor_column', 'is of no use in mode cdc: the log says what has changed', 'Remove it.')
  }
  if (value.mode === 'cdc' && value.primary_key !== undefined) {
    say('primary_key', 'mode cdc goes by the key that the source declares', 'Remove it, or use mode incremental.')
  }
  if (value.mode === 'full' && value.cursor_column !== undefined) {
    say('cursor_column', 'is not used in mode full', 'Remove it, or use mode incremental.', true)
  }
  const refusal = value.table === undefined ? null : lakeNameRefusal(rawTableName(value.table))
  if (refusal !== null) say('table', `the name ${refusal}, and the lake keeps the table under it`, VIEW_HINT)
  findings.push(...deleteFindings(path, value), ...contractFindings(path, value))
  return findings
}

const VIEW_HINT = 'Read a view of it that has another name.'

/** Rows that stay though they are gone are somebody's decision, and say whose reason. */
function deleteFindings(path: Path, value: InputFields): readonly Finding[] {
  const finding = (field: string, message: string, hint: string): Finding => {
    return { manifest: 'inputs', path: [...path, field], message, hint }
  }
  if (value.mode === 'cdc' && (value.deletes !== undefined || value.deletes_reason !== undefined)) {
    const field = value.deletes === undefined ? 'deletes_reason' : 'deletes'
    return [finding(field, 'the log of the source tells which rows are gone', 'Remove it, or use mode incremental.')]
  }
  const hasReason = (value.deletes_reason ?? '').trim() !== ''
  if (value.deletes === 'unseen' && value.mode === 'full') {
    const message = 'a table that is read in full loses the rows that are gone'
    return [finding('deletes', message, 'Remove it, or use mode incremental.')]
  }
  if (value.deletes === 'unseen' && !hasReason) {
    const hint = 'Add deletes_reason, such as "rows are only ever added", or use key_sweep.'
    return [finding('deletes', 'unseen leaves rows that are gone at the source, and does not say why', hint)]
  }
  if (value.deletes !== 'unseen' && value.deletes_reason !== undefined) {
    return [finding('deletes_reason', 'is of use only with deletes: unseen', 'Remove it, or add deletes: unseen.')]
  }
  return []
}

interface LookUp {
  readonly source?: SourceTable
  readonly findings: readonly Finding[]
}

function lookUp({ path, value }: Item<InputFields>, connections: ManifestContext['connections']): LookUp {
  if (value.product !== undefined) return lookUpProduct(value.product, [...path, 'product'], connections)
  if (connections === undefined || value.connection === undefined || value.table === undefined) return { findings: [] }
  const tables = connections.get(value.connection)
  if (tables === undefined) {
    const named = [...connections.keys()].filter((name) => name !== PRODUCTS)
    const hint = didYouMean(value.connection, named) ?? 'Register the connection first.'
    const message = `there is no connection "${value.connection}"`
    return { findings: [{ manifest: 'inputs', path: [...path, 'connection'], message, hint }] }
  }
  if (tables === null) {
    const message = `the tables of "${value.connection}" are not known, so this input was not checked`
    const hint = 'Discover the connection first.'
    return { findings: [{ manifest: 'inputs', path: [...path, 'table'], message, hint, warning: true }] }
  }
  return tableNamed(value.table, value.connection, tables, [...path, 'table'])
}

function lookUpProduct(product: string, path: Path, connections: ManifestContext['connections']): LookUp {
  const tables = connections?.get(PRODUCTS)
  const source = tables?.find((table) => isNamed(table, product))
  if (source !== undefined || tables === undefined || tables === null)
    return source ? { source, findings: [] } : { findings: [] }
  const message = `there is no product "${product}" in service that you may read`
  const hint = 'Deploy it first, or ask its owner for a grant.'
  return { findings: [{ manifest: 'inputs', path, message, hint }] }
}

/** A bare name is one in the default schema, where it is read; those elsewhere are only for the hint. */
function tableNamed(written: string, connection: string, tables: readonly SourceTable[], path: Path): LookUp {
  const exact = tables.find((table) => isNamed(table, written))
  if (exact !== undefined) return { source: exact, findings: [] }
  const [first, ...others] = written.includes('.') ? [] : tables.filter((table) => table.name === written)
  if (first !== undefined && others.length === 0) {
    if (first.schema === DEFAULT_SCHEMA) return { source: first, findings: [] }
    const message = `"${connection}" has no table "${written}" in the schema ${DEFAULT_SCHEMA}`
    return { findings: [{ manifest: 'inputs', path, message, hint: `Write ${fullName(first)}.` }] }
  }
  if (first !== undefined) {
    const names = [first, ...others].map(fullName).slice(0, 5)
    const message = `"${connection}" has several tables "${written}"`
    return { findings: [{ manifest: 'inputs', path, message, hint: `Write one of ${names.join(', ')}.` }] }
  }
  if (tables.some((table) => fullName(table) === written)) {
    const message = `the table "${written}" lies in a schema whose name holds a dot, and cannot be told from others`
    return { findings: [{ manifest: 'inputs', path, message, hint: VIEW_HINT }] }
  }
  const names = tables.flatMap((table) =>
    table.schema === DEFAULT_SCHEMA ? [table.name, fullName(table)] : [fullName(table)],
  )
  const message = `"${connection}" has no table "${written}"`
  return { findings: [{ manifest: 'inputs', path, message, unknown: { name: written, among: names } }] }
}

function sourceFindings(item: Item<InputFields>, source: SourceTable): readonly Finding[] {
  const { path, value } = item
  const absent = (at: Path, name: string): readonly Finding[] => missingAtSource(at, name, source)
  return [
    ...togetherFindings(path, source),
    ...(value.columns ?? []).flatMap((name, index) => absent([...path, 'columns', index], name)),
    ...(value.primary_key ?? []).flatMap((name, index) => absent([...path, 'primary_key', index], name)),
    ...(value.cursor_column === undefined ? [] : absent([...path, 'cursor_column'], value.cursor_column)),
    ...unread(item),
    ...cursorFindings(item, source),
  ]
}

/** A table is read with all its columns, whichever of them a product uses. */
function togetherFindings(path: Path, { name, columns }: SourceTable): readonly Finding[] {
  const refusal = sourceColumnsRefusal(columns.map((column) => column.name))
  if (refusal === null) return []
  const hint = 'Read a view of it whose columns have other names.'
  return [{ manifest: 'inputs', path: [...path, 'table'], message: `"${name}" cannot be read: ${refusal}`, hint }]
}

function missingAtSource(path: Path, name: string, source: SourceTable): readonly Finding[] {
  const names = source.columns.map((column) => column.name)
  if (names.includes(name)) return []
  const message = `the table "${source.name}" has no column "${name}"`
  return [{ manifest: 'inputs', path, message, unknown: { name, among: names } }]
}

/** The cursor and the key must be among the columns that are read. */
function unread({ path, value }: Item<InputFields>): readonly Finding[] {
  if (value.columns === undefined) return []
  const read = new Set(value.columns)
  const needed = [
    ...(value.primary_key ?? []).map((name, index) => ({ name, at: [...path, 'primary_key', index] })),
    ...(value.cursor_column === undefined ? [] : [{ name: value.cursor_column, at: [...path, 'cursor_column'] }]),
  ]
  return needed
    .filter(({ name }) => !read.has(name))
    .map(({ name, at }) => ({
      manifest: 'inputs',
      path: at,
      message: `"${name}" is not among the columns that are read`,
      hint: 'Add it to columns.',
    }))
}

const CURSOR_TYPES: ReadonlySet<string> = new Set(['integer', 'long', 'decimal', 'date', 'timestamp', 'timestamptz'])

function cursorFindings({ path, value }: Item<InputFields>, source: SourceTable): readonly Finding[] {
  if (value.mode === 'cdc' && source.primaryKey.length === 0) {
    const message = `"${source.name}" has no primary key, and its log finds rows by none other`
    return [{ manifest: 'inputs', path: [...path, 'mode'], message, hint: 'Give it one, or use mode full.' }]
  }
  const isCursorless = value.mode === 'full' || value.mode === 'cdc'
  if (isCursorless || (value.mode === undefined && value.cursor_column === undefined)) return []
  const name = value.cursor_column ?? source.suggestedCursor
  if (name === null) {
    const message = `"${source.name}" suggests no column that grows with every change, so incremental needs one named`
    return [{ manifest: 'inputs', path: [...path, 'mode'], message, hint: 'Add cursor_column, or use mode full.' }]
  }
  const type = source.columns.find((column) => column.name === name)?.type
  const at = [...path, value.cursor_column === undefined ? 'mode' : 'cursor_column']
  return type === undefined ? [] : cursorTypeFindings(at, name, type, source, value)
}

function cursorTypeFindings(
  path: Path,
  name: string,
  type: LogicalType,
  source: SourceTable,
  { mode, primary_key: written }: InputFields,
): readonly Finding[] {
  const key = written ?? source.primaryKey
  const at = { manifest: 'inputs', path } as const
  if (!CURSOR_TYPES.has(typeName(type))) {
    return [{ ...at, message: `a column of type ${type} cannot be a cursor`, hint: 'Use a number or a time.' }]
  }
  if (key.length === 0) return [{ ...at, ...keyless(source, mode) }]
  if (key.length === 1 && key[0] === name) {
    const message = `"${name}" is the primary key: changes of rows that were read before will be missed`
    return [{ ...at, message, hint: 'Fine where rows never change.', warning: true }]
  }
  return []
}

/** Rows are read again where others commit late, whatever the cursor is; only a key can take the doubles out again. */
function keyless({ name }: SourceTable, mode: InputFields['mode']): Pick<Finding, 'message' | 'hint' | 'warning'> {
  if (mode === undefined) {
    const message = `is not used: "${name}" has no primary key, so it is read in full`
    return { message, hint: 'Add primary_key to read only what has changed.', warning: true }
  }
  const message = `incremental needs a primary key, because rows are read again with an overlap; "${name}" has none`
  return { message, hint: 'Add primary_key, or use mode full.' }
}
