/**
 * Rows for training a model: to each label what was known of its keys at its time. It reads as a statement of the caller's
 * does (`query.ts`): the same tables, masks and pasts, the same guard, limits and end.
 */
import { foldName, quoteTable } from '@sluice/engine'
import { isSluiceError, type LogicalType, SluiceError, typeName } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import { parseDuration } from '../../manifest/durations.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { findEpoch } from '../../registry/materializations.ts'
import { findVersion } from '../../registry/versions.ts'
import { parseValue } from '../reads/parse-value.ts'
import { findReadable } from '../reads/read-keys.ts'
import { columnMasked } from '../reads/read-request.ts'
import { accessOrNull, NO_PRODUCT, notMaterialized, type ServedProduct } from '../served/served-product.ts'
import type { QueryFormat, QueryRequest, Visible } from './asked-query.ts'
import type { QueriesDeps } from './deps.ts'
import { NamedTables } from './named-tables.ts'
import { answerOver, type QueryAnswer, wholeLimits } from './query.ts'
import { type LabelKey, type LabelRow, labelColumns, labelTable } from './training-labels.ts'
import { invalidSet } from './training-refusals.ts'
import { type FeatureRelation, type LabelRelation, type TrainingPlan, trainingSql } from './training-sql.ts'
import { type Named, visibleTables } from './visible-tables.ts'

/** A column of the product, several, or each with the column of the labels that it has to equal. */
export type AskedFeatureKey = string | readonly string[] | Readonly<Record<string, string>>

export interface AskedFeature {
  readonly product: string
  /** What its columns begin with; default: the product's own name. */
  readonly name?: string
  readonly key: AskedFeatureKey
  readonly time_column: string
  /** Default: all but the key and the time. */
  readonly columns?: readonly string[]
  readonly max_age?: string
}

export interface AskedProductLabels {
  readonly product: string
  readonly columns?: readonly string[]
}

export interface AskedTrainingSet {
  readonly labels: readonly LabelRow[] | AskedProductLabels
  /** Of the labels. */
  readonly time_column: string
  readonly features: readonly AskedFeature[]
  readonly known_by?: string
  readonly timeout_ms?: number
  /** The first rows alone; the answer says where there are more. Default: whole, or refused. */
  readonly limit?: number
  readonly format: QueryFormat
}

export const MAX_FEATURES = 10
export const MAX_KEY_COLUMNS = 10

export async function runTrainingSet(
  platform: QueriesDeps,
  call: TenantCall,
  asked: AskedTrainingSet,
): Promise<QueryAnswer> {
  const startedAtMs = performance.now()
  const relations = await relationsOf(platform, call, asked)
  const { plan, keys } = planOf(asked, relations)
  const sent = isSent(asked.labels) ? [await labelTable(labelColumns(asked.labels), asked.time_column, keys)] : []
  const request: QueryRequest = {
    sql: trainingSql(plan),
    format: asked.format,
    ...(asked.timeout_ms === undefined ? {} : { timeoutMs: asked.timeout_ms }),
    ...(asked.limit === undefined ? {} : { limit: asked.limit }),
  }
  const visible = [...new Set(relations.all.map(({ table }) => table))]
  const limits = wholeLimits(platform, request)
  // The as-of join is of the engine's own SQL, whoever runs other statements.
  const where = { absent: relations.absent, distributedQueries: null, startedAtMs }
  return answerOver(platform, call, { request, visible, described: sent, limits }, where)
}

const isSent = (labels: AskedTrainingSet['labels']): labels is readonly LabelRow[] => Array.isArray(labels)

/** A product as this reader is shown it. */
interface Relation {
  readonly product: ServedProduct
  readonly table: Visible
  /** Tells any two of its rows apart that differ in what the reader is shown. */
  readonly order: readonly string[]
}

interface Relations {
  readonly labels: Relation | null
  readonly features: readonly Relation[]
  readonly all: readonly Relation[]
  readonly absent: Named['absent']
}

/** The labels as they are now; features as they were known. */
async function relationsOf(platform: QueriesDeps, call: TenantCall, asked: AskedTrainingSet): Promise<Relations> {
  const past = asked.known_by === undefined ? '' : `@${parseValue(asked.known_by, 'timestamptz', 'known_by')}`
  const wanted = [
    ...(isSent(asked.labels) ? [] : [{ product: await readable(platform, call, asked.labels.product), past: '' }]),
    ...(await Promise.all(
      asked.features.map(async ({ product }) => ({ product: await readable(platform, call, product), past })),
    )),
  ]
  const nameOf = ({ product, past }: (typeof wanted)[number]) => [product.domain, `${product.name}${past}`] as const
  const names = new NamedTables(wanted.map((one) => quoteTable(nameOf(one))).join(' '))
  const { visible, absent } = await visibleTables(platform, call, {
    names,
    asOf: undefined,
    action: 'read.training_set',
  })
  const all: Relation[] = []
  for (const one of wanted) {
    const { product } = one
    const table = visible.find(({ name }) => name === nameOf(one).join('.'))
    if (table === undefined) throw absent.get(foldName(`${product.domain}.${product.name}`)) ?? notMaterialized(product)
    all.push({ product, table, order: await orderOf(platform, product, table) })
  }
  const labels = isSent(asked.labels) ? null : (all[0] as Relation)
  return { labels, features: labels === null ? all : all.slice(1), all, absent }
}

/** What may not be read is answered like what is not there. */
async function readable(platform: QueriesDeps, call: TenantCall, reference: string): Promise<ServedProduct> {
  const none = () =>
    new SluiceError('INVALID_DATA', NO_PRODUCT.message, { ...NO_PRODUCT, details: { product: reference } })
  const find: Parameters<typeof findReadable>[2]['find'] = (...by) => platform.served.find(...by)
  const found = await findReadable(reference, call, { find, rules: platform.rules }).catch((error: unknown) => {
    throw isSluiceError(error) && error.code === NO_PRODUCT.code ? none() : error
  })
  if (accessOrNull(found, call.principal, platform.rules) === null) throw none()
  return found
}

/** The key of the version that made the rows, where the reader is shown it as it is; else every column. */
async function orderOf(platform: QueriesDeps, product: ServedProduct, { table, maskedColumns, made }: Visible) {
  const columns = table.columns.map(({ name }) => name)
  const epoch = made === undefined ? null : await findEpoch(platform.pool, product.id, made.epoch)
  const version = epoch === null ? null : await findVersion<ManifestSet>(platform.pool, product.id, epoch.version)
  const key = (version?.normalised.output.primaryKey ?? []).filter((name) => columns.includes(name))
  const isWhole = key.length > 0 && key.every((name) => !maskedColumns.includes(name))
  if (isWhole) return key
  const isMasked = (name: string) => maskedColumns.includes(name)
  return [...new Set([...key, ...columns.filter((name) => !isMasked(name)), ...columns])]
}

interface Planned {
  readonly plan: TrainingPlan
  readonly keys: readonly LabelKey[]
}

function planOf(asked: AskedTrainingSet, relations: Relations): Planned {
  const keys: LabelKey[] = []
  const place = (key: LabelKey): number => {
    const known = keys.findIndex(({ label, type }) => label === key.label && type === key.type)
    return known < 0 ? keys.push(key) - 1 : known
  }
  const names = isSent(asked.labels) ? labelColumns(asked.labels).names : shownColumns(relations.labels, asked.labels)
  const known = new Set(isSent(asked.labels) ? names : columnNames(relations.labels))
  if (!known.has(asked.time_column)) throw noLabelColumn(asked.time_column)
  const features = asked.features.map((feature, at) => {
    const relation = relations.features[at] as Relation
    for (const { label } of keyPairs(feature.key)) if (!known.has(label)) throw noLabelColumn(label)
    return featureOf(feature, relation, place)
  })
  refuseClashes([...names, ...features.flatMap(({ columns }) => columns.map(({ as }) => as))])
  const labels = relations.labels === null ? null : labelsOf(relations.labels, asked.time_column, names, keys)
  return { plan: { labels, labelColumns: names, features }, keys }
}

function labelsOf(
  relation: Relation,
  time: string,
  columns: readonly string[],
  keys: readonly LabelKey[],
): LabelRelation {
  timeOf(relation, time)
  for (const { label, type } of keys) {
    const own = selecting(relation, label).type
    if (!isComparable(own, type))
      throw invalidSet(`"${label}" of the labels is ${own}, and of a feature ${type}`, ALIKE)
  }
  const { table, order } = relation
  return { name: table.table.name, time, columns, keys: keys.map(({ label }) => label), order }
}

const ALIKE = 'Join by columns of one type.'
const isWholeNumber = (type: LogicalType) => ['integer', 'long'].includes(typeName(type))
const isComparable = (one: LogicalType, other: LogicalType) =>
  one === other ||
  (isWholeNumber(one) && isWholeNumber(other)) ||
  (typeName(one) === 'decimal' && typeName(other) === 'decimal')

function featureOf(feature: AskedFeature, relation: Relation, place: (key: LabelKey) => number): FeatureRelation {
  timeOf(relation, feature.time_column)
  const pairs = keyPairs(feature.key)
  const keys = pairs.map(({ column, label }) => ({ column, label: place({ label, type: keyType(relation, column) }) }))
  const used = new Set([feature.time_column, ...pairs.map(({ column }) => column)])
  const wanted = feature.columns ?? columnNames(relation).filter((name) => !used.has(name))
  const columns = [...new Set(wanted)].map((column) => ({
    column: columnOf(relation, column).name,
    as: `${feature.name ?? relation.product.name}__${column}`,
  }))
  if (columns.length === 0) throw invalidSet(`${feature.product} gives no column`, 'Name columns of the product.')
  // Rows that are alike in its key may differ where nobody has looked whether the key is one.
  const order = [...new Set([...relation.order, ...columns.map(({ column }) => column)])]
  return {
    name: relation.table.table.name,
    time: feature.time_column,
    keys,
    maxAgeMs: maxAgeOf(feature.max_age),
    columns,
    order: order.filter((name) => !used.has(name)),
  }
}

/** Columns of the product with those of the labels that they have to equal. */
function keyPairs(key: AskedFeatureKey): readonly { readonly column: string; readonly label: string }[] {
  const same = typeof key === 'string' ? [key] : Array.isArray(key) ? (key as readonly string[]) : null
  if (same !== null) return [...new Set(same)].map((column) => ({ column, label: column }))
  return Object.entries(key as Readonly<Record<string, string>>).map(([column, label]) => ({ column, label }))
}

function maxAgeOf(text: string | undefined): number | null {
  if (text === undefined) return null
  const ms = parseDuration(text)
  if (ms !== null) return ms
  throw new SluiceError('INVALID_DATA', '"max_age" is not a duration', {
    code: 'invalid_value',
    remedy: 'Write it as 30s, 15m, 24h or 7d.',
  })
}

const columnNames = (relation: Relation | null): readonly string[] =>
  relation?.table.table.columns.map(({ name }) => name) ?? []

function shownColumns(relation: Relation | null, { columns }: AskedProductLabels): readonly string[] {
  if (relation === null || columns === undefined) return columnNames(relation)
  return [...new Set(columns)].map((name) => columnOf(relation, name).name)
}

/** A column that the reader may not see is answered like one that does not exist. */
function columnOf({ table, product }: Relation, name: string) {
  const { columns } = table.table
  const column = columns.find((one) => one.name === name)
  if (column !== undefined) return column
  throw new SluiceError('INVALID_DATA', `${product.domain}.${product.name} has no column ${shown(name)}`, {
    code: 'unknown_column',
    remedy: `Columns: ${columns
      .slice(0, 100)
      .map((one) => one.name)
      .join(', ')}.`,
  })
}

/** One by which this reader may choose rows. */
function selecting(relation: Relation, name: string) {
  const column = columnOf(relation, name)
  if (relation.table.maskedColumns.includes(name)) throw columnMasked(name)
  return column
}

const TIMES = ['date', 'timestamp', 'timestamptz']

function timeOf(relation: Relation, name: string): void {
  const { type } = selecting(relation, name)
  if (!TIMES.includes(typeName(type)))
    throw invalidSet(`${shown(name)} is no time, but ${type}`, `Name a column of the type ${TIMES.join(', ')}.`)
}

/** Values of these have several forms, of which none is the one that somebody sends. */
const NO_KEYS = ['float', 'double', 'json', 'binary']

function keyType(relation: Relation, name: string): LogicalType {
  const { type } = selecting(relation, name)
  if (!NO_KEYS.includes(typeName(type))) return type
  throw invalidSet(`${shown(name)} is ${type}, and no key can be`, 'Join by numbers, texts, times or truths.')
}

function refuseClashes(names: readonly string[]): void {
  const seen = new Set<string>()
  for (const name of names) {
    const folded = name.toLowerCase()
    if (seen.has(folded)) {
      throw invalidSet(`the answer would have the column ${shown(name)} twice`, 'Give a feature another name.')
    }
    seen.add(folded)
  }
}

function noLabelColumn(name: string): SluiceError {
  return new SluiceError('INVALID_DATA', `the labels have no column ${shown(name)}`, {
    code: 'unknown_column',
    remedy: 'Send it with each label, or name the one that the labels have.',
  })
}

const shown = (name: string): string => JSON.stringify(name.slice(0, 64))
