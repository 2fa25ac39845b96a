/** An endpoint's config in serving.yaml, which is the same for every store of values by key. */
import {
  type ConfigProblem,
  canStandInKey,
  type JsonSchema,
  type KeyTemplate,
  parseKeyTemplate,
  parseTtl,
  SluiceError,
  type TableSchema,
} from '@sluice/sdk'

export interface RealtimeConfig {
  readonly key_template: string
  /** Default: `24h`. */
  readonly ttl?: string
  /** Default: all columns. */
  readonly include_columns?: readonly string[]
}

export const DEFAULT_TTL = '24h'

export const configSchema: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['key_template'],
  properties: {
    key_template: {
      type: 'string',
      minLength: 1,
      maxLength: 500,
      description: 'The key with {column} placeholders, without the tenant’s prefix.',
      examples: ['{customer_id}', 'order:{region}:{order_id}'],
    },
    ttl: {
      type: 'string',
      pattern: '^[1-9][0-9]{0,5}[hd]$',
      default: DEFAULT_TTL,
      description: 'How long a value stays after the commit of the newest epoch: a number and h or d.',
      examples: ['1h', '24h', '7d'],
    },
    include_columns: {
      type: 'array',
      items: { type: 'string' },
      minItems: 1,
      uniqueItems: true,
      description: 'The columns that a value holds. Default: all.',
    },
  },
}

export function checkConfig(config: RealtimeConfig, schema: TableSchema): readonly ConfigProblem[] {
  const problems: ConfigProblem[] = []
  for (const [index, name] of (config.include_columns ?? []).entries()) {
    if (hasColumn(schema, name)) continue
    problems.push({ pointer: `/include_columns/${index}`, message: `the product has no column ${name}` })
  }
  if (config.ttl !== undefined && parseTtl(config.ttl) === null) {
    problems.push({
      pointer: '/ttl',
      message: 'the ttl is not a number of hours or days, at most ten years',
      hint: 'Write a number and h or d, for example 24h.',
    })
  }
  return [...problems, ...templateProblems(config.key_template, schema)]
}

function templateProblems(text: string, schema: TableSchema): readonly ConfigProblem[] {
  const pointer = '/key_template'
  const template = parseKeyTemplate(text)
  if ('problem' in template) return [{ pointer, message: `this is no key template: ${template.problem}` }]
  return template.parts.flatMap(({ column }) => {
    const type = schema.columns.find((candidate) => candidate.name === column)?.type
    if (type === undefined) return [{ pointer, message: `the product has no column ${column}` }]
    if (canStandInKey(type)) return []
    return [{ pointer, message: `the column ${column} is of type ${type}, of which no key can be made` }]
  })
}

function hasColumn(schema: TableSchema, name: string): boolean {
  return schema.columns.some((column) => column.name === name)
}

/** The template of a config that has been checked; throws CONFIG `invalid_key_template` for any other. */
export function templateOf(config: RealtimeConfig): KeyTemplate {
  const template = parseKeyTemplate(config.key_template)
  if (!('problem' in template)) return template
  throw new SluiceError('CONFIG', `the key template cannot be used: ${template.problem}`, {
    code: 'invalid_key_template',
    remedy: 'Correct key_template in serving.yaml.',
  })
}
