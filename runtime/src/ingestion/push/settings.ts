/** What a connection says of the rows that are pushed to it: which tables there are, and of what columns. */
import { type Column, isLogicalType, type JsonSchema, type LogicalType, SluiceError } from '@sluice/sdk'

/** The `connector_type` of connections that rows are pushed to. */
export const PUSH_TYPE = 'push'

/** Says in a row what becomes of it: `upsert`, which it is without, or `delete`. */
export const OP_FIELD = '_op'

export interface PushTable {
  readonly name: string
  readonly columns: readonly Column[]
  /** By which a row replaces another; never empty. */
  readonly primaryKey: readonly string[]
}

const MAX_TABLES = 100
const MAX_COLUMNS = 1000
const MAX_NAME_CHARACTERS = 128
const TABLE_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/

export const settingsSchema: JsonSchema = {
  type: 'object',
  description: 'Tables whose rows are sent to the runtime.',
  additionalProperties: false,
  properties: {
    webhook_table: {
      type: 'string',
      minLength: 1,
      maxLength: 63,
      description:
        'A table of what is sent to the address of the connection’s webhooks, each as it came: webhook_id, sent_at, payload.',
      examples: ['hooks'],
    },
    webhook_secret: {
      type: 'string',
      pattern: '^whsec_[A-Za-z0-9+/]{32,88}={0,2}$',
      description: 'What webhooks are signed with: whsec_ and 24 to 64 bytes in base64.',
      'x-secret': true,
    },
    tables: {
      type: 'object',
      default: {},
      description: 'The tables, by name.',
      additionalProperties: {
        type: 'object',
        additionalProperties: false,
        required: ['columns', 'primary_key'],
        properties: {
          columns: {
            type: 'array',
            minItems: 1,
            maxItems: MAX_COLUMNS,
            description: 'The columns, in order. More may be added at the end later.',
            items: {
              type: 'object',
              additionalProperties: false,
              required: ['name', 'type'],
              properties: {
                name: { type: 'string', minLength: 1, maxLength: MAX_NAME_CHARACTERS, description: 'As rows name it.' },
                type: {
                  type: 'string',
                  maxLength: 32,
                  description: 'A logical type: long, decimal(12,2), timestamptz.',
                },
              },
            },
            examples: [[{ name: 'id', type: 'long' }]],
          },
          primary_key: {
            type: 'array',
            minItems: 1,
            maxItems: 32,
            uniqueItems: true,
            items: { type: 'string', minLength: 1, maxLength: MAX_NAME_CHARACTERS },
            description: 'Columns that tell rows apart: a row replaces the one that has the same values there.',
          },
        },
      },
      examples: [{ orders: { columns: [{ name: 'id', type: 'long' }], primary_key: ['id'] } }],
    },
  },
  examples: [
    {
      tables: {
        orders: {
          columns: [
            { name: 'id', type: 'long' },
            { name: 'placed_at', type: 'timestamptz' },
            { name: 'total', type: 'decimal(12,2)' },
          ],
          primary_key: ['id'],
        },
      },
    },
  ],
}

/** The tables by name. Throws CONFIG for what the schema lets pass and cannot be right. */
export function pushTables(settings: unknown): ReadonlyMap<string, PushTable> {
  const { tables = {}, webhook_table: webhooks } = settings as Readonly<Record<string, unknown>>
  if (typeof tables !== 'object' || tables === null || Array.isArray(tables))
    throw invalid('tables is no object', 'Write tables by name, each with columns and primary_key.')
  const entries: [string, unknown][] = Object.entries(tables)
  if (typeof webhooks === 'string') entries.push([webhooks, WEBHOOKS])
  if (entries.length === 0 || entries.length > MAX_TABLES)
    throw invalid('there is no table, or there are too many', `Describe 1 to ${MAX_TABLES} tables.`)
  const names = new Set(entries.map(([name]) => name.toLowerCase()))
  if (names.size < entries.length)
    throw invalid('two tables differ in case alone', 'The lake takes such names for one: choose others.')
  return new Map(entries.map(([name, table]) => [name, tableOf(name, table as RawTable)]))
}

/** The table of webhooks; null where the connection takes none. */
export function webhookTable(settings: Readonly<Record<string, unknown>>): PushTable | null {
  const { webhook_table: name } = settings
  return typeof name === 'string' ? (pushTables(settings).get(name) ?? null) : null
}

/** What others send has a shape of its own: it is kept as it is. */
const WEBHOOKS = {
  columns: [
    { name: 'webhook_id', type: 'string' },
    { name: 'sent_at', type: 'timestamptz' },
    { name: 'payload', type: 'json' },
  ],
  primary_key: ['webhook_id'],
}

interface RawTable {
  readonly columns?: readonly { readonly name?: unknown; readonly type?: unknown }[]
  readonly primary_key?: readonly unknown[]
}

function tableOf(name: string, { columns: raw = [], primary_key: key = [] }: RawTable): PushTable {
  const wrong = (what: string, remedy: string) => invalid(`table ${JSON.stringify(name.slice(0, 64))}: ${what}`, remedy)
  if (!TABLE_NAME.test(name)) throw wrong('that is no name for a table', 'Use letters, digits and "_".')
  const columns = raw.map(({ name: column, type }): Column => {
    if (typeof column !== 'string' || !isColumnName(column))
      throw wrong(
        'a column has no name that can be used',
        'Use up to 128 characters, none of control, none blank at an end.',
      )
    if (column === OP_FIELD)
      throw wrong(`no column is called ${OP_FIELD}`, 'That field of a row says what becomes of it: rename the column.')
    if (typeof type !== 'string' || !isLogicalType(type))
      throw wrong(
        `the type of ${JSON.stringify(column)} is not known`,
        'Use a logical type, such as long or decimal(12,2).',
      )
    return { name: column, type: type as LogicalType, nullable: !key.includes(column) }
  })
  if (new Set(columns.map((column) => column.name.toLowerCase())).size < columns.length)
    throw wrong(
      'two columns have one name, or differ in case alone',
      'The lake takes such names for one: choose others.',
    )
  const primaryKey = key.filter((column): column is string => columns.some((one) => one.name === column))
  if (primaryKey.length === 0 || primaryKey.length < key.length)
    throw wrong('primary_key names no column, or one that is not there', 'Name columns of the table.')
  return { name, columns, primaryKey }
}

function isColumnName(name: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  const hasControl = /[\u0000-\u001f\u007f]/.test(name)
  return name !== '' && name.length <= MAX_NAME_CHARACTERS && !hasControl && name.isWellFormed() && name.trim() === name
}

/** Whether rows of the former table are rows of the later one: it has the same columns, or some more after them. */
export function continues(before: PushTable, after: PushTable | undefined): boolean {
  if (after === undefined || JSON.stringify(before.primaryKey) !== JSON.stringify(after.primaryKey)) return false
  return before.columns.every((column, index) => {
    const now = after.columns[index]
    return now?.name === column.name && now.type === column.type
  })
}

function invalid(message: string, remedy: string): SluiceError {
  return new SluiceError('CONFIG', message, { code: 'settings_invalid', remedy })
}
