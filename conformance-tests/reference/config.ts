import {
  type Capabilities,
  type ConfigProblem,
  canStandInKey,
  EXACT_TYPES,
  type HistoryMode,
  type JsonSchema,
  parseInterval,
  parseKeyTemplate,
  parseTtl,
  type TableSchema,
} from '@sluice/sdk'
import { containing } from './containing.ts'

/** The config of every endpoint type at once, all of it optional. */
export interface ReferenceConfig {
  readonly index_columns?: readonly string[]
  readonly history_mode?: HistoryMode
  readonly tracked_columns?: readonly string[]
  readonly time_column?: string
  readonly continuous_aggregates?: readonly { readonly interval: string; readonly columns: readonly string[] }[]
  readonly key_template?: string
  readonly ttl?: string
  readonly include_columns?: readonly string[]
}

const columnList: JsonSchema = { type: 'array', items: { type: 'string' }, uniqueItems: true, minItems: 1 }

export const configSchema: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  properties: {
    index_columns: columnList,
    history_mode: { type: 'string', enum: ['current', 'type_2', 'type_3'], default: 'current' },
    tracked_columns: columnList,
    time_column: { type: 'string' },
    continuous_aggregates: {
      type: 'array',
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['interval', 'columns'],
        properties: { interval: { type: 'string' }, columns: columnList },
      },
    },
    key_template: { type: 'string', minLength: 1 },
    ttl: { type: 'string', pattern: '^[1-9][0-9]*[hd]$' },
    include_columns: columnList,
  },
}

export const capabilities: Capabilities = {
  commit: 'atomic',
  operations: ['get', 'scan', 'range', 'aggregate', 'key'],
  filters: ['eq', 'ne', 'lt', 'le', 'gt', 'ge', 'in'],
  declared: { containing },
  histories: ['current', 'type_2', 'type_3'],
  ttl: { granularityMs: 1 },
  recover: true,
  validate: true,
  activate: true,
  digest: true,
  jsonBatches: true,
  types: EXACT_TYPES,
  limits: { maxReadRows: 1000, maxRowBytes: 1 << 20 },
}

/** What the schema of the config cannot say; everything at once. */
export function checkConfig(config: ReferenceConfig, schema: TableSchema): readonly ConfigProblem[] {
  const lists = ['index_columns', 'tracked_columns', 'include_columns'] as const
  const problems = lists.flatMap((list) =>
    (config[list] ?? []).flatMap((name, index) => missing(schema, name, `/${list}/${index}`)),
  )
  if (config.time_column !== undefined) problems.push(...missing(schema, config.time_column, '/time_column'))
  if ((config.history_mode ?? 'current') !== 'current' && !config.tracked_columns?.length) {
    problems.push({ pointer: '/tracked_columns', message: 'a history needs the columns that it tracks' })
  }
  if (config.ttl !== undefined && parseTtl(config.ttl) === null) {
    problems.push({ pointer: '/ttl', message: 'the ttl is not a number of hours or days', hint: 'for example 24h' })
  }
  for (const [index, { interval }] of (config.continuous_aggregates ?? []).entries()) {
    if (parseInterval(interval) !== null) continue
    problems.push({ pointer: `/continuous_aggregates/${index}/interval`, message: 'the interval cannot be read' })
  }
  return [...problems, ...templateProblems(config, schema)]
}

function missing(schema: TableSchema, name: string, pointer: string): ConfigProblem[] {
  if (schema.columns.some((column) => column.name === name)) return []
  return [{ pointer, message: `the product has no column ${name}` }]
}

function templateProblems(config: ReferenceConfig, schema: TableSchema): ConfigProblem[] {
  if (config.key_template === undefined) return []
  const pointer = '/key_template'
  const template = parseKeyTemplate(config.key_template)
  if ('problem' in template) return [{ pointer, message: template.problem }]
  return template.parts.flatMap(({ column }) => {
    const type = schema.columns.find((candidate) => candidate.name === column)?.type
    if (type === undefined) return [{ pointer, message: `the product has no column ${column}` }]
    return canStandInKey(type) ? [] : [{ pointer, message: `a ${type} such as ${column} cannot stand in a key` }]
  })
}

interface Configured {
  readonly schema: TableSchema
  readonly config: ReferenceConfig
}

/** The configured column, else the first of a date or timestamp type. */
export function timeColumn({ schema, config }: Configured): string {
  const first = schema.columns.find(({ type }) => ['date', 'timestamp', 'timestamptz'].includes(type))
  return config.time_column ?? first?.name ?? ''
}
