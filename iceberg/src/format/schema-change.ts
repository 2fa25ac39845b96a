import { type Column, type LogicalType, parseDecimal, SluiceError, type TableSchema } from '@sluice/sdk'
import { RESERVED_COLUMNS_PREFIX } from '../names.ts'
import type { LakeField, LakeSchema } from './table-schema.ts'

export interface SchemaChange {
  /** What the new snapshot shall have. */
  readonly target: TableSchema
  /** New name → name so far. A column that is not named here and is gone was dropped. */
  readonly renames?: Readonly<Record<string, string>>
  /** By column of the target. Absent: those that the columns have. */
  readonly comments?: ReadonlyMap<string, string>
  /**
   * - `keep`: files of the current schema stay and must be readable under the new one: new columns are nullable,
   *   types only widen.
   * - `rewrite`: no row of the current snapshot stays. A column whose type does not widen gets a new id.
   */
  readonly rows: 'keep' | 'rewrite'
}

export interface PlannedSchema {
  /** `schemaId` is that of an equal schema of the table, or the next free one. */
  readonly schema: LakeSchema
  readonly lastColumnId: number
  readonly isNew: boolean
}

/**
 * Gives every column of the target its field id. Throws CONFIG `lake_schema_change_refused` with column and reason.
 * @param known all schemas of the table, the current one included; none for a new table
 */
export function planSchema(
  current: LakeSchema | null,
  known: readonly LakeSchema[],
  lastColumnId: number,
  change: SchemaChange,
): PlannedSchema {
  checkNames(change.target)
  let lastId = lastColumnId
  const fields = change.target.columns.map((column): LakeField => {
    const before = current?.fields.find((field) => field.name === (change.renames?.[column.name] ?? column.name))
    if (before !== undefined && continues(before, column, change.rows)) return { ...asField(column), id: before.id }
    if (current !== null && change.rows === 'keep' && !column.nullable) {
      throw refused(column.name, 'a new column must be nullable, because the rows that stay have no value for it')
    }
    lastId += 1
    return { ...asField(column), id: lastId }
  })
  const comments = commentsOf(fields, change.comments, current)
  const wanted = { fields, identifierFieldIds: identifiersOf(fields, change.target.primaryKey), ...comments }
  const equal = known.find((schema) => sameSchema(schema, wanted) && sameComments(schema, wanted))
  if (equal !== undefined) return { schema: equal, lastColumnId: lastId, isNew: false }
  const schemaId = known.reduce((highest, schema) => Math.max(highest, schema.schemaId), -1) + 1
  return { schema: { schemaId, ...wanted }, lastColumnId: lastId, isNew: true }
}

const asField = ({ name, type, nullable }: Column): Column => ({ name, type, nullable })

/** True where the column stays the same one; throws where it must and cannot. */
function continues(before: LakeField, column: Column, rows: SchemaChange['rows']): boolean {
  const widens = canWiden(before.type, column.type)
  if (rows === 'rewrite') return widens
  if (!widens) throw refused(column.name, `${before.type} cannot become ${column.type} while rows stay`)
  if (before.nullable && !column.nullable) {
    throw refused(column.name, 'it cannot become required while rows stay, because they may have no value for it')
  }
  return true
}

/** Whether every value of the one type, as it lies in a file, can be read as the other. */
export function canWiden(from: LogicalType, to: LogicalType): boolean {
  if (sameType(from, to)) return true
  if (from === 'integer') return to === 'long'
  if (from === 'float') return to === 'double'
  // The other way needs proof that every string is JSON.
  if (from === 'json') return to === 'string'
  const narrow = parseDecimal(from)
  const wide = parseDecimal(to)
  return narrow !== null && wide !== null && narrow.scale === wide.scale && narrow.precision <= wide.precision
}

const sameType = (a: LogicalType, b: LogicalType): boolean => a.replace(/\s/g, '') === b.replace(/\s/g, '')

/** Iceberg allows neither nullable nor floating-point columns as identity; such a table has none there. */
function identifiersOf(fields: readonly LakeField[], primaryKey: readonly string[]): readonly number[] {
  const key = fields.filter((field) => primaryKey.includes(field.name))
  const allowed = key.every((field) => !field.nullable && field.type !== 'float' && field.type !== 'double')
  return allowed ? key.map((field) => field.id) : []
}

function commentsOf(
  fields: readonly LakeField[],
  told: SchemaChange['comments'],
  current: LakeSchema | null,
): Pick<LakeSchema, 'comments'> {
  const found = fields.flatMap(({ id, name, type }) => {
    const comment = told === undefined ? current?.comments?.[id] : told.get(name)
    return comment === undefined || type === 'json' ? [] : [[id, comment] as const]
  })
  return found.length === 0 ? {} : { comments: Object.fromEntries(found) }
}

function sameComments(
  { fields, comments: a = {} }: Pick<LakeSchema, 'fields' | 'comments'>,
  b: Pick<LakeSchema, 'comments'>,
) {
  return fields.every(({ id }) => a[id] === b.comments?.[id])
}

function sameSchema(a: Omit<LakeSchema, 'schemaId'>, b: Omit<LakeSchema, 'schemaId'>): boolean {
  const text = (schema: Omit<LakeSchema, 'schemaId'>) =>
    JSON.stringify([
      schema.fields.map(({ id, name, type, nullable }) => [id, name, type.replace(/\s/g, ''), nullable]),
      [...schema.identifierFieldIds].sort((x, y) => x - y),
    ])
  return text(a) === text(b)
}

/** The engine's column names ignore case. */
function checkNames(target: TableSchema): void {
  const seen = new Set<string>()
  for (const { name } of target.columns) {
    if (name === '' || name.includes('\0') || !name.isWellFormed() || Buffer.byteLength(name) > 255) {
      throw refused(name, 'its name is empty, too long or not text')
    }
    const folded = name.toLowerCase()
    if (folded.startsWith(RESERVED_COLUMNS_PREFIX))
      throw refused(name, `names beginning with ${RESERVED_COLUMNS_PREFIX} are reserved`)
    if (seen.has(folded)) throw refused(name, 'another column has the same name but for its case')
    seen.add(folded)
  }
  if (target.columns.length === 0) throw refused('', 'a table needs at least one column')
  const unknown = target.primaryKey.find((key) => !target.columns.some(({ name }) => name === key))
  if (unknown !== undefined) throw refused(unknown, 'the primary key names it, but it is no column')
}

function refused(column: string, reason: string): SluiceError {
  return new SluiceError('CONFIG', `column "${column}" of the lake table cannot be changed like this: ${reason}`, {
    code: 'lake_schema_change_refused',
    remedy: 'Keep the column as it was and add another, or replace all rows of the table.',
    details: { column, reason },
  })
}
