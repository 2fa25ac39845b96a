/**
 * What a reader is told of a product, by generated clients and by its OpenAPI document: its columns as the caller sees them,
 * and what it can be read by.
 */
import { createHash } from 'node:crypto'
import { parseKeyTemplate } from '@sluice/sdk'

/** As `GET /api/v1/products/{id}` shows it to the caller. Servers of former releases say neither `readable` nor masks. */
export interface ProductAnswer {
  readonly name: string
  readonly namespace: string
  readonly current_version: string | null
  readonly description: string
  readonly readable?: boolean
  readonly schema: readonly {
    readonly name: string
    readonly type: string
    readonly role: string | null
    readonly classification: string
    readonly nullable: boolean
    readonly description?: string | null
    readonly mask?: string | null
  }[]
  readonly endpoints: readonly { readonly type: string; readonly config: Readonly<Record<string, unknown>> }[]
}

export interface SchemaColumn {
  readonly name: string
  /** A logical type, as manifests name it. */
  readonly type: string
  readonly nullable: boolean
  /** Of the product's identity, in the order of the columns. */
  readonly key: boolean
  /** hash, redact, partial, null or omit; null: in clear. */
  readonly mask: string | null
}

/** Plain data: it stands in the file, and its digest says whether the runtime's is the same. */
export interface ProductSchema {
  readonly namespace: string
  readonly name: string
  /** Those that are omitted for the caller, too. */
  readonly columns: readonly SchemaColumn[]
  readonly lookup: {
    readonly by: readonly string[]
    readonly history: string
    readonly tracked: readonly string[]
  } | null
  readonly realtime: { readonly key: readonly string[]; readonly columns: readonly string[] } | null
  readonly timeseries: { readonly time: string; readonly intervals: readonly string[] } | null
}

/** What is said in comments, and may become another without the client being wrong. */
export interface ProductWords {
  readonly version: string
  readonly description: string
  readonly columns: Readonly<Record<string, { readonly class: string; readonly description: string }>>
}

export interface DescribedProduct {
  readonly schema: ProductSchema
  readonly words: ProductWords
}

export const fullName = ({ namespace, name }: Pick<ProductSchema, 'namespace' | 'name'>): string =>
  `${namespace}.${name}`

export function describe(answer: ProductAnswer): DescribedProduct {
  const { namespace, name, description, current_version: version } = answer
  const columns = answer.schema.map((column) => ({
    name: column.name,
    type: column.type,
    nullable: column.nullable,
    key: column.role === 'identity',
    mask: column.mask ?? null,
  }))
  const words = answer.schema.map((column) => {
    const said = { class: column.classification, description: column.description ?? '' }
    return [column.name, said] as const
  })
  return {
    schema: { namespace, name, columns, ...endpointsOf(answer, columns) },
    words: { version: version ?? '', description, columns: Object.fromEntries(words) },
  }
}

/** Of the types that the contract knows, whatever store serves them. */
function endpointsOf({ endpoints }: ProductAnswer, columns: readonly SchemaColumn[]) {
  const configOf = (type: string) => endpoints.find((endpoint) => endpoint.type === type)?.config
  const [lookup, realtime, timeseries] = ['lookup', 'realtime', 'timeseries'].map(configOf)
  const names = columns.map((column) => column.name)
  const key = columns.filter((column) => column.key).map((column) => column.name)
  return {
    lookup: lookup === undefined ? null : lookupOf(lookup, key),
    realtime: realtime === undefined ? null : realtimeOf(realtime, names),
    timeseries: timeseries === undefined ? null : timeseriesOf(timeseries, columns),
  }
}

function lookupOf(config: Readonly<Record<string, unknown>>, key: readonly string[]): ProductSchema['lookup'] {
  const by = new Set([...textsOf(config['index_columns']), ...key])
  return {
    by: [...by],
    history: String(config['history_mode'] ?? 'current'),
    tracked: textsOf(config['tracked_columns']),
  }
}

function realtimeOf(config: Readonly<Record<string, unknown>>, names: readonly string[]): ProductSchema['realtime'] {
  const template = parseKeyTemplate(String(config['key_template'] ?? ''))
  const included = Array.isArray(config['include_columns']) ? textsOf(config['include_columns']) : names
  const key = 'problem' in template ? [] : template.parts.map(({ column }) => column)
  return { key, columns: names.filter((name) => included.includes(name)) }
}

function timeseriesOf(
  { time_column: time, continuous_aggregates: aggregates }: Readonly<Record<string, unknown>>,
  columns: readonly SchemaColumn[],
): ProductSchema['timeseries'] {
  const first = columns.find(({ type }) => ['date', 'timestamp', 'timestamptz'].includes(type))?.name ?? ''
  const kept: readonly { readonly interval: unknown }[] = Array.isArray(aggregates) ? aggregates : []
  return {
    time: typeof time === 'string' ? time : first,
    intervals: kept.map(({ interval }) => String(interval)),
  }
}

const textsOf = (value: unknown): readonly string[] => (Array.isArray(value) ? value.map(String) : [])

/** `sha256:…` of the products in the order of their names. */
export function digestOf(products: readonly ProductSchema[]): string {
  const lines = inOrder(products).map(schemaLine)
  return `sha256:${createHash('sha256').update(lines.join('\n')).digest('hex')}`
}

const byName = (left: ProductSchema, right: ProductSchema): number => (fullName(left) < fullName(right) ? -1 : 1)

export const inOrder = (products: readonly ProductSchema[]): readonly ProductSchema[] => products.toSorted(byName)

export function describedInOrder(products: readonly DescribedProduct[]): readonly DescribedProduct[] {
  return products.toSorted((left, right) => byName(left.schema, right.schema))
}

/** JSON of ASCII alone, on one line in every language: no sign of a name ends a comment. */
export function schemaLine({ namespace, name, columns, lookup, realtime, timeseries }: ProductSchema): string {
  const ordered = {
    namespace,
    name,
    columns: columns.map((column) => {
      const { name, type, nullable, key, mask } = column
      return { name, type, nullable, key, mask }
    }),
    lookup: lookup && { by: lookup.by, history: lookup.history, tracked: lookup.tracked },
    realtime: realtime && { key: realtime.key, columns: realtime.columns },
    timeseries: timeseries && { time: timeseries.time, intervals: timeseries.intervals },
  }
  const escaped = (sign: string): string => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`
  return JSON.stringify(ordered).replace(/[\u007f-\uffff]/g, escaped)
}
