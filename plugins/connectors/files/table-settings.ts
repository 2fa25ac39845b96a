/** One table of files, as a connection or a file beside them describes it. */
import { isLogicalType, type JsonSchema, type LogicalType, SluiceError } from '@sluice/sdk'
import { Glob } from './glob.ts'

export const FORMATS = ['csv', 'jsonl', 'parquet', 'avro'] as const
export type Format = (typeof FORMATS)[number]

/** As it is written; snake_case because people write it. */
export interface TableSettings {
  readonly glob?: string
  readonly format: Format
  readonly header?: boolean
  readonly delimiter?: string
  readonly quote?: string
  readonly null_text?: string
  readonly columns?: readonly NamedType[]
  readonly optional_columns?: readonly string[]
  readonly primary_key?: readonly string[]
  readonly cursor_column?: string
}

/** How the values of a CSV file are told apart. */
export interface Dialect {
  readonly header: boolean
  readonly delimiter: string
  /** Null: nothing is quoted. */
  readonly quote: string | null
  /** What stands, unquoted, in place of a value that there is none of. */
  readonly nullText: string
}

export interface NamedType {
  readonly name: string
  readonly type: LogicalType
}

export interface TableOfFiles {
  readonly name: string
  readonly glob: Glob
  readonly format: Format
  readonly dialect: Dialect
  /** Null: found out from the first rows of some files. */
  readonly columns: readonly NamedType[] | null
  /** Columns that a file may lack which names its columns. */
  readonly optionalColumns: ReadonlySet<string>
  readonly primaryKey: readonly string[]
  readonly cursorColumn: string | null
}

const names = (description: string): JsonSchema => ({
  type: 'array',
  items: { type: 'string', minLength: 1, maxLength: 128 },
  maxItems: 32,
  uniqueItems: true,
  description,
})

export const tableSchema: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['glob', 'format'],
  properties: {
    glob: {
      type: 'string',
      minLength: 1,
      maxLength: 1024,
      description:
        'Which files: * and ? within a name, ** for folders of any depth. Names that begin with a dot are left out.',
      examples: ['orders/*.csv', 'events/**/*.jsonl.gz', 'sales/*.parquet'],
    },
    format: {
      type: 'string',
      enum: FORMATS,
      description: 'How they are written. A name that ends in .gz is unpacked, but for parquet.',
    },
    header: {
      type: 'boolean',
      default: true,
      description: 'csv: whether the first record of each file names the columns.',
    },
    delimiter: {
      type: 'string',
      minLength: 1,
      maxLength: 1,
      default: ',',
      description: 'csv: what stands between values.',
    },
    quote: {
      type: 'string',
      maxLength: 1,
      default: '"',
      description: 'csv: what values are quoted by, doubled within; empty: nothing is.',
    },
    null_text: {
      type: 'string',
      maxLength: 64,
      default: '',
      description: 'csv: the text that is no value where it is not quoted.',
    },
    columns: {
      type: 'array',
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['name', 'type'],
        properties: {
          name: { type: 'string', minLength: 1, maxLength: 128, description: 'As the files have it.' },
          type: { type: 'string', maxLength: 32, description: 'A logical type: long, decimal(12,2), timestamptz.' },
        },
      },
      minItems: 1,
      maxItems: 2000,
      description:
        'The columns, in order. Absent: found out from the first rows of some files, or as the files say themselves.',
      examples: [[{ name: 'id', type: 'long' }]],
    },
    optional_columns: names('csv, parquet, avro: columns that a file may lack; they are null there.'),
    primary_key: names('Columns that tell rows apart.'),
    cursor_column: {
      type: 'string',
      minLength: 1,
      maxLength: 128,
      description: 'The column by which the newest of several rows with one key is told.',
    },
  },
}

const MAX_COLUMNS = 2000
export const TABLE_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/

/** `under` stands before the glob: the folder of a description that lies beside its files. Throws CONFIG. */
export function parseTable(name: string, value: unknown, under: string): TableOfFiles {
  const wrong = (what: string, remedy: string) =>
    new SluiceError('CONFIG', `table ${JSON.stringify(name.slice(0, 64))}: ${what}`, {
      code: 'settings_invalid',
      remedy,
    })
  if (!TABLE_NAME.test(name)) throw wrong('that is no name for a table', 'Use letters, digits and "_".')
  if (typeof value !== 'object' || value === null) throw wrong('it is no object', 'Name its glob and its format.')
  const {
    glob,
    format,
    header,
    delimiter,
    quote,
    null_text,
    columns,
    optional_columns,
    primary_key,
    cursor_column,
    ...others
  } = value as Readonly<Record<string, unknown>>
  const [unknown] = Object.keys(others)
  if (unknown !== undefined) throw wrong(`${JSON.stringify(unknown.slice(0, 64))} is not known`, 'Leave it out.')
  if (!isFormat(format)) throw wrong('its format is not known', `Use one of ${FORMATS.join(', ')}.`)
  if (typeof glob !== 'string') throw wrong('it names no files', 'Write a glob, such as orders/*.csv.')
  const parsed = Glob.parse(under + glob)
  if (parsed === null)
    throw wrong(
      'its glob cannot be read',
      'Write a path under the folder, with * ? and at most one **, without . and ..',
    )
  const isText = (text: unknown): text is string => typeof text === 'string'
  const listOf = (list: unknown, what: string): readonly string[] => {
    if (list === undefined) return []
    if (!Array.isArray(list) || !list.every(isText))
      throw wrong(`${what} is no list of names`, 'Write names of columns.')
    return list
  }
  const table: TableOfFiles = {
    name,
    glob: parsed,
    format,
    dialect: dialectOf({ header, delimiter, quote, null_text }, wrong),
    columns: columns === undefined ? null : columnsOf(columns, wrong),
    optionalColumns: new Set(listOf(optional_columns, 'optional_columns')),
    primaryKey: listOf(primary_key, 'primary_key'),
    cursorColumn: isText(cursor_column) ? cursor_column : null,
  }
  if (cursor_column !== undefined && !isText(cursor_column)) throw wrong('cursor_column is no name', 'Name a column.')
  if (!table.dialect.header && format === 'csv' && table.columns === null)
    throw wrong('its files have no header, and it names no columns', 'List the columns in their order.')
  const { columns: known } = table
  const cursor = table.cursorColumn === null ? [] : [table.cursorColumn]
  for (const used of [...table.primaryKey, ...cursor, ...table.optionalColumns])
    if (known?.some((column) => column.name === used) === false)
      throw wrong(`${JSON.stringify(used.slice(0, 64))} is none of its columns`, 'Name columns of the table.')
  if (table.primaryKey.some((column) => table.optionalColumns.has(column)))
    throw wrong('a column of its key is optional', 'Leave it out of optional_columns.')
  return table
}

const isFormat = (text: unknown): text is Format => FORMATS.some((format) => format === text)

type Wrong = (what: string, remedy: string) => SluiceError

const ONE_CHARACTER = /^[\t\x20-\x7e]$/

function dialectOf(
  { header = true, delimiter = ',', quote = '"', null_text: nullText = '' }: Readonly<Record<string, unknown>>,
  wrong: Wrong,
): Dialect {
  if (typeof header !== 'boolean') throw wrong('header is neither true nor false', 'Write true or false.')
  if (typeof delimiter !== 'string' || !ONE_CHARACTER.test(delimiter))
    throw wrong('its delimiter is no single character of ASCII', 'Use one character, such as ";" or a tab.')
  if (typeof quote !== 'string' || (quote !== '' && !ONE_CHARACTER.test(quote)) || quote === delimiter)
    throw wrong('its quote is no single character of ASCII, or is its delimiter', 'Use one character, or none.')
  if (typeof nullText !== 'string' || nullText.length > 64) throw wrong('null_text is no short text', 'Write a text.')
  return { header, delimiter, quote: quote === '' ? null : quote, nullText }
}

function columnsOf(value: unknown, wrong: Wrong): readonly NamedType[] {
  if (!Array.isArray(value) || value.length === 0 || value.length > MAX_COLUMNS)
    throw wrong('columns is no list, or one of too many', `List 1 to ${MAX_COLUMNS} columns by name and type.`)
  const columns = value.map((column: Partial<NamedType> | null): NamedType => {
    const { name, type, ...others } = column ?? {}
    if (typeof name !== 'string' || !isColumnName(name) || Object.keys(others).length > 0)
      throw wrong('a column has no name that can be used', 'Use up to 128 characters, none of control.')
    if (typeof type !== 'string' || !isLogicalType(type))
      throw wrong(
        `the type of ${JSON.stringify(name)} is not known`,
        'Use a logical type, such as long or decimal(12,2).',
      )
    return { name, type }
  })
  if (new Set(columns.map(({ name }) => name)).size === columns.length) return columns
  throw wrong('it lists a column twice', 'List each once.')
}

const MAX_NAME_CHARACTERS = 128

export function isColumnName(name: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  return name !== '' && name.length <= MAX_NAME_CHARACTERS && !/[\u0000-\u001f\u007f]/.test(name) && name.isWellFormed()
}

export { MAX_COLUMNS }
