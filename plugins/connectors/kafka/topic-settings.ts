/** One topic as a table: how its records are written, and what tells its rows apart. */
import { isLogicalType, type JsonSchema, type LogicalType } from '@sluice/sdk'
import { type AvroField, fieldsOf } from '../files/avro/values.ts'
import { asObject, expectNoOthers, invalid } from '../files/settings.ts'
import { isColumnName } from '../files/table-settings.ts'

export const FORMATS = ['json', 'avro'] as const
export const MODES = ['append', 'upsert'] as const
export const KEY_FORMATS = ['text', 'json', 'avro'] as const
const FRAMINGS = ['none', 'confluent'] as const

export interface NamedType {
  readonly name: string
  readonly type: LogicalType
}

/** As it is written; snake_case because people write it. */
export interface TopicSettings {
  readonly format?: (typeof FORMATS)[number]
  readonly mode?: (typeof MODES)[number]
  readonly key_format?: (typeof KEY_FORMATS)[number]
  readonly primary_key?: readonly string[]
  readonly columns?: readonly NamedType[]
  readonly metadata?: boolean
  readonly avro_schema?: string
  readonly framing?: (typeof FRAMINGS)[number]
  readonly schema_id?: number
  readonly subject?: string
  readonly key_subject?: string
}

export interface Defaults {
  readonly format: (typeof FORMATS)[number]
  readonly mode: (typeof MODES)[number]
  readonly keyFormat: (typeof KEY_FORMATS)[number]
  /** Whether there is one that says schemas. */
  readonly hasRegistry: boolean
}

/** Whose latest schemas say what there is; null: that part is not read by a registry. */
export interface Subjects {
  readonly value: string | null
  readonly key: string | null
}

export interface AvroFormat {
  readonly fields: readonly AvroField[]
  /** What stands before each value: nothing, or a zero and the number of this schema. */
  readonly schemaId: number | null
  readonly text: string
}

export interface TopicTable extends Omit<Defaults, 'hasRegistry'> {
  readonly name: string
  /** Null where values are JSON, or of schemas that a registry has. */
  readonly avro: AvroFormat | null
  readonly subjects: Subjects
  /** Null: found out from some records. */
  readonly columns: readonly NamedType[] | null
  readonly primaryKey: readonly string[]
  /** Whether there are columns of where a record stood. */
  readonly metadata: boolean
}

/** Where a record stood and when it was written: columns of every table that does not do without. */
export const METADATA_COLUMNS = [
  { name: '_partition', type: 'integer', nullable: false },
  { name: '_offset', type: 'long', nullable: false },
  { name: '_timestamp', type: 'timestamptz', nullable: true },
  { name: '_headers', type: 'json', nullable: true },
] as const
/** The key of a record as a text: of tables whose rows it does not tell apart. */
export const KEY_COLUMN = { name: '_key', type: 'string', nullable: true } as const
const OWN_NAMES: ReadonlySet<string> = new Set([...METADATA_COLUMNS, KEY_COLUMN].map(({ name }) => name))

export const topicSchema: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  properties: {
    format: { type: 'string', enum: FORMATS, description: 'How values are written.' },
    mode: {
      type: 'string',
      enum: MODES,
      description: 'append: each record is a row. upsert: the newest of each key is.',
    },
    key_format: {
      type: 'string',
      enum: KEY_FORMATS,
      description:
        'text: the key is the value of the one key column; json: an object with a field for each; avro: by its schema in the registry.',
    },
    primary_key: {
      type: 'array',
      items: { type: 'string', minLength: 1, maxLength: 128 },
      minItems: 1,
      maxItems: 32,
      uniqueItems: true,
      description:
        'upsert: the columns that the key of a record holds, _key by default. append: _partition and _offset by default.',
    },
    columns: {
      type: 'array',
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['name', 'type'],
        properties: {
          name: { type: 'string', minLength: 1, maxLength: 128, description: 'As the records have it.' },
          type: { type: 'string', maxLength: 32, description: 'A logical type: long, decimal(12,2), timestamptz.' },
        },
      },
      minItems: 1,
      maxItems: 2000,
      description:
        'The columns, in order; other fields are left out. Absent: found out from some records, or from avro_schema.',
    },
    metadata: {
      type: 'boolean',
      default: true,
      description: 'Whether _partition, _offset, _timestamp and _headers, and of append _key, are columns, too.',
    },
    avro_schema: {
      type: 'string',
      minLength: 2,
      maxLength: 262144,
      description: 'avro: the schema that values are written by, a record. Absent: those of the registry.',
    },
    framing: {
      type: 'string',
      enum: FRAMINGS,
      default: 'none',
      description: 'avro: confluent where a zero and the number of the schema stand before each value.',
    },
    schema_id: {
      type: 'integer',
      minimum: 0,
      maximum: 2147483647,
      description: 'avro with framing confluent: the number of avro_schema. Values of another are rejected.',
    },
    subject: {
      type: 'string',
      minLength: 1,
      maxLength: 512,
      description: 'Of the registry: whose latest schema says the columns; by default the topic with -value behind it.',
    },
    key_subject: {
      type: 'string',
      minLength: 1,
      maxLength: 512,
      description: 'Of the registry: that of keys; by default the topic with -key behind it.',
    },
  },
}

const MAX_COLUMNS = 2000
const isText = (value: unknown): value is string => typeof value === 'string'

/** Throws CONFIG. */
export function parseTopic(name: string, value: unknown, defaults: Defaults): TopicTable {
  const where = `topic ${JSON.stringify(name.slice(0, 64))}`
  const wrong = (what: string, remedy: string) => invalid(`${where}: ${what}`, remedy)
  const {
    format = defaults.format,
    mode = defaults.mode,
    key_format = defaults.keyFormat,
    ...rest
  } = asObject(value, where)
  const {
    primary_key,
    columns,
    metadata = true,
    avro_schema,
    framing,
    schema_id,
    subject,
    key_subject,
    ...others
  } = rest
  expectNoOthers(others, where)
  const chosen = <T extends string>(given: unknown, among: readonly T[], what: string): T => {
    const found = among.find((one) => one === given)
    if (found === undefined) throw wrong(`${what} is not known`, `Use one of ${among.join(', ')}.`)
    return found
  }
  if (typeof metadata !== 'boolean') throw wrong('metadata is neither true nor false', 'Write true or false.')
  if (primary_key !== undefined && !(Array.isArray(primary_key) && primary_key.length > 0 && primary_key.every(isText)))
    throw wrong('primary_key is no list of names', 'Write names of columns.')
  const shape = {
    ...{ name, metadata, format: chosen(format, FORMATS, 'its format'), mode: chosen(mode, MODES, 'its mode') },
    keyFormat: chosen(key_format, KEY_FORMATS, 'its key_format'),
    columns: columns === undefined ? null : columnsOf(columns, wrong),
  }
  const isOfRegistry = shape.format === 'avro' && avro_schema === undefined && defaults.hasRegistry
  const framed = chosen(framing ?? (isOfRegistry ? 'confluent' : 'none'), FRAMINGS, 'its framing')
  if (isOfRegistry && (framed !== 'confluent' || schema_id !== undefined))
    throw wrong('values of a registry say the number of their schema', 'Leave out framing and schema_id.')
  const avro = isOfRegistry ? null : avroOf({ format: shape.format, avro_schema, framing: framed, schema_id }, wrong)
  if (shape.keyFormat === 'avro' && !defaults.hasRegistry)
    throw wrong('keys of Avro are read by a registry, and there is none', 'Name it in registry_url.')
  const subjects: Subjects = {
    value: subjectOf(subject, isOfRegistry, `${name}-value`, wrong),
    key: subjectOf(key_subject, shape.keyFormat === 'avro', `${name}-key`, wrong),
  }
  const usual = shape.mode === 'upsert' ? [KEY_COLUMN.name] : metadata ? ['_partition', '_offset'] : []
  const primaryKey: readonly string[] = primary_key ?? usual
  if (shape.mode === 'upsert' && shape.keyFormat === 'text' && primaryKey.length !== 1)
    throw wrong('a key that is a text is one column', 'Name one column in primary_key, or set key_format to json.')
  const taken = metadata ? OWN_NAMES : new Set<string>()
  const isOwn = (column: string) => taken.has(column) && !(shape.mode === 'upsert' && column === KEY_COLUMN.name)
  const named = shape.columns ?? avro?.fields ?? null
  const isOfRecord = shape.mode === 'upsert' && primaryKey.some(isOwn)
  if (isOfRecord || named?.some((column) => isOwn(column.name)) === true)
    throw wrong(
      'a column has the name of one that says where a record stood',
      'Set metadata to false, or leave it out.',
    )
  const isKnown = (column: string) => named === null || named.some((one) => one.name === column) || isOwn(column)
  if (shape.mode === 'append' && !primaryKey.every(isKnown))
    throw wrong('primary_key names a column that there is not', 'Name columns of the table.')
  return { ...shape, avro, subjects, primaryKey }
}

function subjectOf(given: unknown, isRead: boolean, usual: string, wrong: Wrong): string | null {
  if (given === undefined) return isRead ? usual : null
  if (!isRead) throw wrong('a subject is of what a registry has', 'Set registry_url, and the format avro.')
  if (isText(given) && given !== '' && given.isWellFormed() && !/^\.\.?$/.test(given)) return given
  throw wrong('a subject has no name that there can be', 'Write it as the registry has it.')
}

type Wrong = (what: string, remedy: string) => ReturnType<typeof invalid>

function avroOf(
  {
    format,
    avro_schema,
    framing,
    schema_id,
  }: Readonly<Record<'format' | 'avro_schema' | 'framing' | 'schema_id', unknown>>,
  wrong: Wrong,
): AvroFormat | null {
  if (format !== 'avro') {
    if (avro_schema === undefined && schema_id === undefined && framing === 'none') return null
    throw wrong('avro_schema, framing and schema_id are of the format avro', 'Set format to avro, or leave them out.')
  }
  if (!isText(avro_schema))
    throw wrong('there is no avro_schema', 'Write the schema of the values, as JSON; or name a registry.')
  const isNumber = typeof schema_id === 'number' && Number.isInteger(schema_id) && schema_id >= 0 && schema_id < 2 ** 31
  if ((framing === 'confluent') !== (schema_id !== undefined) || (schema_id !== undefined && !isNumber))
    throw wrong(
      'schema_id and framing do not go together',
      'Give with framing confluent the number of the schema, and else none.',
    )
  try {
    return {
      fields: fieldsOf(JSON.parse(avro_schema)),
      schemaId: (schema_id as number | undefined) ?? null,
      text: avro_schema,
    }
  } catch {
    throw wrong('avro_schema is no schema of a record', 'Write it as JSON, as the producer has it.')
  }
}

function columnsOf(value: unknown, wrong: Wrong): readonly NamedType[] {
  if (!Array.isArray(value) || value.length === 0 || value.length > MAX_COLUMNS)
    throw wrong('columns is no list, or one of too many', `List 1 to ${MAX_COLUMNS} columns by name and type.`)
  const columns = value.map((column: Partial<NamedType> | null): NamedType => {
    const { name, type, ...others } = column ?? {}
    if (!isText(name) || !isColumnName(name) || Object.keys(others).length > 0)
      throw wrong('a column has no name that can be used', 'Use up to 128 characters, none of control.')
    if (!isText(type) || !isLogicalType(type))
      throw wrong(
        `the type of ${JSON.stringify(name)} is not known`,
        'Use a logical type, such as long or decimal(12,2).',
      )
    return { name, type }
  })
  if (new Set(columns.map(({ name }) => name)).size === columns.length) return columns
  throw wrong('it lists a column twice', 'List each once.')
}
