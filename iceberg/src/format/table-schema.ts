import { type Column, isLogicalType, type LogicalType, SluiceError, type TableSchema } from '@sluice/sdk'

/** A column of a lake table. Its id stays when its name changes, and is never given to another column. */
export interface LakeField extends Column {
  readonly id: number
}

export interface LakeSchema {
  readonly schemaId: number
  readonly fields: readonly LakeField[]
  /** Ids of the identity columns, in the order of the fields. */
  readonly identifierFieldIds: readonly number[]
  /** What is said of columns, by field id. Beside the fields, since two shapes with other comments are the same shape. */
  readonly comments?: Readonly<Record<number, string>>
}

/** A schema as table metadata holds it. What we do not know of it is kept as it is. */
export interface IcebergSchema {
  readonly type: 'struct'
  readonly 'schema-id': number
  readonly fields: readonly IcebergField[]
  readonly 'identifier-field-ids'?: readonly number[]
}

export interface IcebergField {
  readonly id: number
  readonly name: string
  readonly required: boolean
  readonly type: unknown
  readonly doc?: string
}

/** Iceberg has no json type: such a column is a string with this doc, which other writers keep; a comment comes behind it. */
const JSON_DOC = 'json'
/** Of comments that the catalog tells: what others write behind the word is theirs, and their column a string. */
const TOLD_OF_JSON = `${JSON_DOC}; class `

const isJsonDoc = (doc: string | undefined): boolean => doc === JSON_DOC || doc?.startsWith(TOLD_OF_JSON) === true

/** The field with that comment for whoever looks at its table, `class …`, or with none, and what its doc says of its type. */
export function withComment({ doc, ...field }: IcebergField, comment: string | undefined): IcebergField {
  const isJson = field.type === 'string' && isJsonDoc(doc)
  const parts = [...(isJson ? [JSON_DOC] : []), ...(comment === undefined ? [] : [comment])]
  return parts.length === 0 ? field : { ...field, doc: parts.join('; ') }
}

const ICEBERG_NAMES = {
  integer: 'int',
  json: 'string',
} as const satisfies Partial<Record<LogicalType, string>>

export function icebergType(type: LogicalType): string {
  if (type.startsWith('decimal')) return type.replace(/\s/g, '').replace(',', ', ')
  return type in ICEBERG_NAMES ? ICEBERG_NAMES[type as keyof typeof ICEBERG_NAMES] : type
}

/** Throws UNSUPPORTED for a type that Sluice does not have: nested ones, `time`, `fixed`, nanoseconds. */
export function logicalType(type: unknown, doc?: string): LogicalType {
  if (type === 'int') return 'integer'
  if (type === 'string' && isJsonDoc(doc)) return 'json'
  const text = typeof type === 'string' ? type.replace(/\s/g, '') : ''
  if (isLogicalType(text) && text !== 'integer' && text !== 'json') return text
  throw new SluiceError('UNSUPPORTED', 'the lake table has a column of a type that Sluice cannot read', {
    code: 'lake_type_unsupported',
    remedy: 'Remove the column, or change it to one of the logical types.',
  })
}

export function fromIceberg(schema: IcebergSchema): LakeSchema {
  const comments = schema.fields.flatMap(({ id, type, doc }) =>
    doc === undefined || (type === 'string' && isJsonDoc(doc)) ? [] : [[id, doc] as const],
  )
  return {
    schemaId: schema['schema-id'],
    fields: schema.fields.map((field) => ({
      id: field.id,
      name: field.name,
      type: logicalType(field.type, field.doc),
      nullable: !field.required,
    })),
    identifierFieldIds: schema['identifier-field-ids'] ?? [],
    ...(comments.length > 0 ? { comments: Object.fromEntries(comments) } : {}),
  }
}

export function toIceberg(schema: LakeSchema): IcebergSchema {
  return {
    type: 'struct',
    'schema-id': schema.schemaId,
    fields: schema.fields.map((field) => ({
      id: field.id,
      name: field.name,
      required: !field.nullable,
      type: icebergType(field.type),
      ...docOf(field, schema.comments),
    })),
    ...(schema.identifierFieldIds.length > 0 ? { 'identifier-field-ids': schema.identifierFieldIds } : {}),
  }
}

/** A document has none but its type: a release that knows no comments would take it for a text. */
function docOf({ id, type }: LakeField, comments: LakeSchema['comments']): Pick<IcebergField, 'doc'> {
  const doc = type === 'json' ? JSON_DOC : comments?.[id]
  return doc === undefined ? {} : { doc }
}

/** The schema without its ids. The key is in the order of the fields, because Iceberg keeps it as a set. */
export function toTableSchema(schema: LakeSchema): TableSchema {
  return {
    columns: schema.fields.map(({ name, type, nullable }) => ({ name, type, nullable })),
    primaryKey: schema.fields.filter((field) => schema.identifierFieldIds.includes(field.id)).map(({ name }) => name),
  }
}
