import type { Capabilities, Column, ConfigProblem, HistoryMode, ServingPlugin, TableSchema } from '@sluice/sdk'
import { PRODUCTS } from '../registry/product-sources.ts'
import type { Input, OutputColumn, SharedChecks } from './manifest-set.ts'
import type { Schema } from './shape-check.ts'

/** What manifests are held against, beside themselves. Plain data: validation does no I/O. */
export interface ManifestContext {
  /** The product as it was registered; its manifests must name the same. */
  readonly product: { readonly name: string; readonly domain: string }
  readonly servingTypes: ServingTypes
  /** Absent or null: there is no dashboard server, and a product that wants one is told so. */
  readonly dashboards?: DashboardSupport | null
  /** Whether an engine outside is configured for transforms. */
  readonly distributed?: boolean
  /** The least between two runs of a schedule; absent: what the contract of manifests says by itself, a second. */
  readonly leastScheduleMs?: number
  /** Classes that are masked besides `pii.*`, as configured. */
  readonly sensitiveClasses?: readonly string[]
  /**
   * The tenant's connections by name, with the tables each last discovered; null where none were discovered yet.
   * Without it, what inputs.yaml says of sources is not checked: a caller may parse once to learn which connections
   * are named, discover those, and parse again.
   */
  readonly connections?: ReadonlyMap<string, readonly SourceTable[] | null>
  /**
   * By product (`namespace.name`), the checks that others may use; null: it has no version in service. Without it, what quality.yaml
   * uses is not looked at, and is no check of the result.
   */
  readonly sharedChecks?: ReadonlyMap<string, SharedChecks | null>
}

/** What the dashboard server of this deployment can show. */
export interface DashboardSupport {
  /** The types of endpoints whose rows it can read, the preferred first. */
  readonly endpoints: readonly string[]
  readonly templates: {
    readonly names: readonly string[]
    /** What the template needs and these columns have not, as the end of a sentence; null where nothing is missing. */
    missing(template: string, columns: readonly OutputColumn[]): string | null
  }
}

export interface SourceTable {
  readonly schema: string
  readonly name: string
  readonly columns: readonly Column[]
  readonly primaryKey: readonly string[]
  /** A column that grows with every change of a row; null where the source has none that is safe. */
  readonly suggestedCursor: string | null
}

/** The product that an input is; null: it is a table of a connection. */
export function productOfInput({
  connection,
  table,
}: {
  readonly connection: string
  readonly table: string
}): { readonly domain: string; readonly name: string } | null {
  if (connection !== PRODUCTS) return null
  const [domain = '', name = ''] = table.split('.')
  return { domain, name }
}

/** `public.orders of the connection "shop" (input "orders")` */
export function sourceText(input: Pick<Input, 'name' | 'connection' | 'table'>): string {
  if (input.connection === PRODUCTS) return `the product ${input.table} (input "${input.name}")`
  return `${qualified(input.table)} of the connection "${input.connection}" (input "${input.name}")`
}

/** Where a table lies that inputs.yaml names without a schema. */
export const DEFAULT_SCHEMA = 'public'

/** `schema.table`: what a table of a source is called in runs, states, grants and classes. */
export function fullName({ schema, name }: Pick<SourceTable, 'schema' | 'name'>): string {
  return `${schema}.${name}`
}

/** Whether the table is the one of that full name: its first dot ends the schema, so that none with a dot is ever meant. */
export function isNamed(table: Pick<SourceTable, 'schema' | 'name'>, full: string): boolean {
  return fullName(table) === full && !table.schema.includes('.')
}

/** What the lake calls it among those of its connection. A dot says that a schema stands before it. */
export function rawTableName(table: string): string {
  const own = table.startsWith(`${DEFAULT_SCHEMA}.`) ? table.slice(DEFAULT_SCHEMA.length + 1) : table
  return own.includes('.') ? table : own
}

/** The full name of a table that is written as `table` or `schema.table`. */
export function qualified(table: string): string {
  return table.includes('.') ? table : fullName({ schema: DEFAULT_SCHEMA, name: table })
}

/** The endpoint types of the stores that this deployment has. */
export interface ServingTypes {
  readonly names: readonly string[]
  get(type: string): ServingType | undefined
}

export interface ServingType {
  readonly configSchema: Schema
  readonly types?: Capabilities['types']
  readonly histories?: readonly HistoryMode[]
  /** What the schema cannot say. Called with defaults filled in, and only where the schema was met. */
  check?(config: unknown, schema: TableSchema): readonly ConfigProblem[]
}

/** The types of a set of plugins; where two serve one type, the first counts. */
export function servingTypesOf(plugins: Iterable<ServingPlugin>): ServingTypes {
  const types = new Map<string, ServingType>()
  for (const plugin of plugins) {
    if (types.has(plugin.type)) continue
    const { configSchema, capabilities } = plugin
    types.set(plugin.type, {
      configSchema,
      types: capabilities.types,
      ...(capabilities.histories === undefined ? {} : { histories: capabilities.histories }),
      check: (config, schema) => [...(plugin.checkConfig?.(config, schema) ?? []), ...addedTwice(plugin, schema)],
    })
  }
  return { names: [...types.keys()], get: (type) => types.get(type) }
}

/** A row has one value of a name: a column of the product, or what an operation adds. */
function addedTwice({ capabilities }: ServingPlugin, { columns }: TableSchema): readonly ConfigProblem[] {
  const own = new Set(columns.map(({ name }) => name))
  return Object.entries(capabilities.declared ?? {}).flatMap(([operation, { adds = [] }]) =>
    adds
      .filter(({ name }) => own.has(name))
      .map(({ name }) => ({
        pointer: '',
        message: `the operation ${operation} of this store adds a column "${name}", and the product has one of that name`,
        hint: 'Name the column of the product otherwise, for example in the transform.',
      })),
  )
}
