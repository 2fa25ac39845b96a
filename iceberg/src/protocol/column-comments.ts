import { schemaById, type TableMetadata } from '../format/metadata.ts'
import { type IcebergField, withComment } from '../format/table-schema.ts'

/**
 * The metadata with these comments on its columns, in all schemas that have them, since a snapshot of then is read by the schema of
 * then. They are of one answer: nothing of them lies in the table, and no schema becomes another one by them.
 * @param comments by the name that the column has now
 */
export function commented(metadata: TableMetadata, comments: ReadonlyMap<string, string>): TableMetadata {
  const now = schemaById(metadata, metadata['current-schema-id'])?.fields ?? []
  const byId = new Map(now.map(({ id, name }) => [id, comments.get(name)]))
  const told = (field: IcebergField): IcebergField => {
    const comment = byId.get(field.id)
    return comment === undefined ? field : withComment(field, comment)
  }
  const schemas = metadata.schemas.map((schema) => ({ ...schema, fields: schema.fields.map(told) }))
  return { ...metadata, schemas }
}
