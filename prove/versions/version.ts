/** A version of a product as data: what the generator changes, the oracle evaluates, and manifests say. */

export type TypeName =
  | 'integer'
  | 'long'
  | 'double'
  | 'string'
  | 'decimal(9,2)'
  | 'decimal(12,2)'
  | 'decimal(9,1)'
  | 'timestamp'
  | 'date'

export type SourceColumn = 'id' | 'code' | 'grp' | 'city' | 'email' | 'phone' | 'note' | 'score' | 'price' | 'seen'

/** How a column is made. The last three are of groups of rows. */
export type Made = 'copy' | 'upper' | 'twice' | 'region' | 'count' | 'sum' | 'newest'

export interface VersionColumn {
  readonly name: string
  readonly of: SourceColumn
  readonly made: Made
  readonly type: TypeName
  /** Null: public. */
  readonly classification: string | null
  readonly isKey: boolean
  readonly nullable: boolean
}

/** Of rows of the source. */
export interface Condition {
  readonly column: 'id' | 'grp' | 'score'
  readonly operator: '>=' | '<=' | '<>'
  readonly value: number | string
}

export interface Check {
  readonly kind: 'range' | 'accepted'
  /** Of the version; no row is without a value of it. */
  readonly column: string
  readonly least: number
  readonly values: readonly string[]
  readonly onError: 'block' | 'quarantine' | 'publish'
}

export interface Version {
  readonly columns: readonly VersionColumn[]
  /** With the table of places, by `grp`. */
  readonly join: 'inner' | 'left' | null
  readonly isGrouped: boolean
  /** Of the transform. */
  readonly filter: Condition | null
  /** Of the input. */
  readonly where: Condition | null
  readonly writeMode: 'replace' | 'merge'
  readonly keepsMissing: boolean
  readonly lookup: {
    readonly mode: 'current' | 'type_2' | 'type_3'
    readonly tracked: readonly string[]
    readonly index: readonly string[]
  } | null
  readonly timeseries: { readonly chunk: string } | null
  readonly realtime: { readonly prefix: string; readonly include: readonly string[] | null } | null
  readonly hasAnalytics: boolean
  readonly checks: readonly Check[]
  readonly classification: 'internal' | 'confidential' | 'restricted'
  readonly description: string
}

export const keyOf = ({ columns }: Version): readonly VersionColumn[] => columns.filter(({ isKey }) => isKey)

/** Of the realtime endpoint: all of the key. */
export const templateOf = (version: Version, prefix: string): string =>
  `${prefix}${keyOf(version)
    .map(({ name }) => `{${name}}`)
    .join(':')}`

export type Files = Readonly<Record<'product' | 'inputs' | 'output' | 'quality' | 'serving' | 'compute', string>>

const head = (kind: string): string => `apiVersion: svc/v1\nkind: ${kind}\n`

export interface Named {
  readonly name: string
  readonly connection: string
  readonly table: string
  readonly places: string
}

export function filesOf(version: Version, { name, connection, table, places }: Named): Files {
  const where = version.where === null ? '' : `, where: ${JSON.stringify(conditionSql(version.where))}`
  const second =
    version.join === null
      ? ''
      : `  - { name: places, connection: ${connection}, table: public.${places}, mode: full }\n`
  const lossy = version.columns.filter(isLossy).map((column) => column.name)
  const transform = transformOf(version)
  return {
    product: `${head('Product')}name: ${name}\nnamespace: made\narchetype: source_aligned\nclassification: ${version.classification}\ndescription: ${JSON.stringify(version.description)}\n`,
    inputs: `${head('Inputs')}inputs:\n  - { name: source, connection: ${connection}, table: public.${table}, mode: full${where} }\n${second}`,
    output: `${head('Output')}format: iceberg\nschema:\n${version.columns.map(columnLine).join('')}write_mode: ${version.writeMode}\n${version.keepsMissing ? 'keep_missing: true\n' : ''}${lossy.length > 0 ? `allow_lossy: [${lossy.join(', ')}]\n` : ''}`,
    quality: `${head('Quality')}checks:${version.checks.length === 0 ? ' []\n' : `\n${version.checks.map(checkLine).join('')}`}`,
    serving: `${head('Serving')}endpoints:${endpointsOf(version)}`,
    compute: `${head('Compute')}engine: auto\ntrigger: on_ingestion\n${transform === null ? '' : `transform: ${JSON.stringify(transform)}\n`}`,
  }
}

/** Of how the source has it. */
export const isLossy = ({ type }: VersionColumn): boolean => type === 'decimal(9,1)' || type === 'date'

function columnLine({ name, type, classification, isKey, nullable }: VersionColumn): string {
  const parts = [
    `name: ${name}`,
    `type: "${type}"`,
    ...(isKey ? ['role: identity'] : []),
    ...(nullable ? [] : ['nullable: false']),
    ...(classification === null ? [] : [`classification: ${classification}`]),
  ]
  return `  - { ${parts.join(', ')} }\n`
}

function checkLine({ kind, column, least, values, onError }: Check, at: number): string {
  const what =
    kind === 'range'
      ? `range: { column: ${column}, min: ${least} }`
      : `accepted_values: { column: ${column}, values: [${values.join(', ')}] }`
  return `  - { name: check_${at}, ${what}, on_error: ${onError} }\n`
}

function endpointsOf(version: Version): string {
  const { lookup, timeseries, realtime, hasAnalytics } = version
  const list = (names: readonly string[]) => `[${names.join(', ')}]`
  const lines = [
    ...(lookup === null
      ? []
      : [
          `{ type: lookup, config: { index_columns: ${list(lookup.index)}, history_mode: ${lookup.mode}${lookup.mode === 'current' ? '' : `, tracked_columns: ${list(lookup.tracked)}`} } }`,
        ]),
    ...(timeseries === null
      ? []
      : [`{ type: timeseries, config: { time_column: seen, chunk_interval: ${timeseries.chunk} } }`]),
    ...(realtime === null
      ? []
      : [
          `{ type: realtime, config: { key_template: ${JSON.stringify(templateOf(version, realtime.prefix))}${realtime.include === null ? '' : `, include_columns: ${list(realtime.include)}`} } }`,
        ]),
    ...(hasAnalytics ? ['{ type: analytics }'] : []),
  ]
  return lines.length === 0 ? ' []\n' : `\n${lines.map((line) => `  - ${line}\n`).join('')}`
}

export function conditionSql({ column, operator, value }: Condition, of = ''): string {
  return `${of}${column} ${operator} ${typeof value === 'number' ? value : `'${value}'`}`
}

const MADE: Readonly<Record<Made, (column: string) => string>> = {
  copy: (column) => column,
  upper: (column) => `upper(${column})`,
  twice: (column) => `${column} * 2`,
  region: () => 'places.region',
  count: () => 'count(*)',
  sum: (column) => `CAST(sum(${column}) AS BIGINT)`,
  newest: (column) => `max(${column})`,
}

/** Null where columns are taken as the source has them. */
export function transformOf({ columns, join, isGrouped, filter }: Version): string | null {
  const isPlain = columns.every(({ name, of, made }) => name === of && made === 'copy')
  if (isPlain && join === null && !isGrouped && filter === null) return null
  const cells = columns.map(({ name, of, made }) => `${MADE[made](`source.${of}`)} AS ${name}`)
  const joined = join === null ? '' : ` ${join === 'left' ? 'LEFT ' : ''}JOIN places ON source.grp = places.grp`
  const filtered = filter === null ? '' : ` WHERE ${conditionSql(filter, 'source.')}`
  return `SELECT ${cells.join(', ')} FROM source${joined}${filtered}${isGrouped ? ' GROUP BY source.grp' : ''}`
}
