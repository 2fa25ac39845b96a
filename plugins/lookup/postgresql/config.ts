import {
  type Column,
  type ConfigProblem,
  columnNamed,
  type HistoryMode,
  type JsonSchema,
  type TableSchema,
} from '@sluice/sdk'

/** The endpoint's `config` in serving.yaml. */
export interface LookupConfig {
  readonly index_columns?: readonly string[]
  readonly history_mode?: HistoryMode
  readonly tracked_columns?: readonly string[]
}

const COLUMNS: JsonSchema = {
  type: 'array',
  minItems: 1,
  maxItems: 20,
  uniqueItems: true,
  items: { type: 'string', minLength: 1 },
}

export const CONFIG_SCHEMA: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  properties: {
    index_columns: { ...COLUMNS, description: 'Columns that rows can be looked up by; default: the primary key.' },
    history_mode: {
      type: 'string',
      enum: ['current', 'type_2', 'type_3'],
      default: 'current',
      description: 'current: the latest state; type_2: every state with its dates; type_3: previous values beside it.',
    },
    tracked_columns: { ...COLUMNS, description: 'Columns whose changes make history; needed unless current.' },
  },
}

export function historyMode(config: LookupConfig): HistoryMode {
  return config.history_mode ?? 'current'
}

export function indexColumns(config: LookupConfig, schema: TableSchema): readonly string[] {
  return config.index_columns ?? schema.primaryKey
}

/** Columns that a filter may name: the index columns and the key. */
export function filterableColumns(config: LookupConfig, schema: TableSchema): readonly string[] {
  return [...new Set([...indexColumns(config, schema), ...schema.primaryKey])]
}

export function historyColumns(config: LookupConfig): readonly string[] {
  const mode = historyMode(config)
  if (mode === 'type_2') return ['valid_from', 'valid_to', 'is_current']
  if (mode === 'type_3') return (config.tracked_columns ?? []).map((column) => `previous_${column}`)
  return []
}

/** The product's columns and those that the history adds. */
export function readColumns(config: LookupConfig, schema: TableSchema): readonly Column[] {
  return [...schema.columns, ...addedColumns(config, schema)]
}

/** What the history adds. */
function addedColumns(config: LookupConfig, schema: TableSchema): readonly Column[] {
  const types = { valid_from: 'timestamptz', valid_to: 'timestamptz', is_current: 'boolean' } as const
  if (historyMode(config) === 'type_2') {
    return Object.entries(types).map(([name, type]) => ({ name, type, nullable: name === 'valid_to' }))
  }
  const tracked = config.tracked_columns ?? []
  return historyColumns(config).map((name, index) => {
    return { name, type: columnNamed(schema, tracked[index] ?? '').type, nullable: true }
  })
}

export function checkConfig(config: LookupConfig, schema: TableSchema): readonly ConfigProblem[] {
  return [
    ...checkNames('index_columns', config.index_columns ?? [], schema),
    ...checkNames('tracked_columns', config.tracked_columns ?? [], schema),
    ...checkSortable(config, schema),
    ...checkHistory(config, schema),
  ]
}

function checkNames(field: string, names: readonly string[], schema: TableSchema): ConfigProblem[] {
  const known = schema.columns.map((column) => column.name)
  return names.flatMap((name, index) =>
    known.includes(name)
      ? []
      : [
          {
            pointer: `/${field}/${index}`,
            message: `there is no column "${name}"`,
            hint: `The columns are ${known.join(', ')}.`,
          },
        ],
  )
}

/** JSON has no order, so it cannot be in an index. */
function checkSortable(config: LookupConfig, schema: TableSchema): ConfigProblem[] {
  const json = new Set(schema.columns.filter((column) => column.type === 'json').map((column) => column.name))
  const listed = (config.index_columns ?? []).flatMap((name, index) =>
    json.has(name) ? [{ pointer: `/index_columns/${index}`, message: `"${name}" is json and cannot be indexed` }] : [],
  )
  const keys = schema.primaryKey.filter((name) => json.has(name))
  return [...listed, ...keys.map((name) => ({ pointer: '', message: `the key column "${name}" is json` }))]
}

function checkHistory(config: LookupConfig, schema: TableSchema): ConfigProblem[] {
  const mode = historyMode(config)
  if (mode === 'current') {
    if ((config.tracked_columns ?? []).length === 0) return []
    return [
      {
        pointer: '/tracked_columns',
        message: 'tracked_columns means nothing without a history',
        hint: 'Set history_mode to type_2 or type_3, or leave it out.',
      },
    ]
  }
  const problems: ConfigProblem[] = []
  if ((config.tracked_columns ?? []).length === 0) {
    problems.push({ pointer: '/tracked_columns', message: `history_mode ${mode} needs tracked_columns` })
  }
  if (schema.primaryKey.length === 0) {
    problems.push({
      pointer: '/history_mode',
      message: 'a history needs a primary key',
      hint: 'Give columns the role identity in output.yaml.',
    })
  }
  for (const [index, name] of (config.tracked_columns ?? []).entries()) {
    if (!schema.primaryKey.includes(name)) continue
    problems.push({ pointer: `/tracked_columns/${index}`, message: `"${name}" is part of the key and never changes` })
  }
  const taken = historyColumns(config).filter((name) => schema.columns.some((column) => column.name === name))
  for (const name of taken) {
    problems.push({
      pointer: '/history_mode',
      message: `${mode} adds a column "${name}", which the product has already`,
    })
  }
  return problems
}
