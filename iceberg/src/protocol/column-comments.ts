import { schemaById, type TableMetadata } from '../format/metadata.ts'
import { type IcebergField, withComment } from '../format/table-schema.ts'

/**
 * The metadata with these comments on its columns, in all schemas that have them, since a snapshot of then is read by the schema of
 * then; those that the table itself has are left out. They are of one answer, and no schema becomes another one by them.
 * @param comments by the name that the column has now
 */
export function commented(metadata: TableMetadata, comments: ReadonlyMap<string, string>): TableMetadata {
  const now = schemaById(metadata, metadata['current-schema-id'])?.fields ?? []
  const byId = new Map(now.map(({ id, name }) => [id, comments.get(name)]))
  const told = (field: IcebergField) => withComment(field, byId.get(field.id))
  const schemas = metadata.schemas.map((schema) => ({ ...schema, fields: schema.fields.map(told) }))
  return { ...metadata, schemas }
}
