/**
 * What others may make of a table's metadata: columns that Sluice reads, transforms that it knows, schemas under which
 * the files that stay are still readable.
 */
import { SluiceError } from '@sluice/sdk'
import type { TableMetadata } from '../format/metadata.ts'
import { partitionType } from '../format/partitioning.ts'
import { canWiden } from '../format/schema-change.ts'
import { fromIceberg, type IcebergSchema } from '../format/table-schema.ts'
import { RESERVED_COLUMNS_PREFIX } from '../names.ts'
import { invalid } from './commit-request.ts'

/**
 * Throws UNSUPPORTED `lake_type_unsupported`, `lake_transform_unsupported`, INVALID_DATA `catalog_request_invalid` or
 * CONFIG `lake_schema_change_refused`.
 */
export function checkMetadata(before: TableMetadata | null, after: TableMetadata): void {
  const current = after.schemas.find((schema) => schema['schema-id'] === after['current-schema-id'])
  const spec = after['partition-specs'].find(({ 'spec-id': id }) => id === after['default-spec-id'])
  if (current === undefined || spec === undefined) throw invalid('the table has no current schema or partition spec')
  const known = new Set(before?.schemas)
  for (const schema of after.schemas) if (!known.has(schema)) checkSchema(schema, after['last-column-id'])
  if (before !== null) checkReadable(before, current)
  const schema = fromIceberg(current)
  const everyField = after.schemas.flatMap((each) => fromIceberg(each).fields)
  for (const field of after['partition-specs'].flatMap(({ fields }) => fields)) {
    if (!everyField.some(({ id }) => id === field['source-id'])) throw invalid('a partition field has no source column')
    partitionType(field, { ...schema, fields: everyField })
  }
}

function checkSchema(schema: IcebergSchema, lastColumnId: number): void {
  const names = new Set<string>()
  const ids = new Set<number>()
  if (schema.fields.length === 0) throw invalid('a table needs a column')
  for (const { id, name } of fromIceberg(schema).fields) {
    const folded = name.toLowerCase()
    if (name.includes('\0') || !name.isWellFormed() || Buffer.byteLength(name) > 255) {
      throw invalid('a column has a name that cannot be stored')
    }
    if (folded.startsWith(RESERVED_COLUMNS_PREFIX))
      throw invalid(`column names beginning with ${RESERVED_COLUMNS_PREFIX} are reserved`)
    if (names.has(folded)) throw invalid('two columns have the same name but for its case')
    if (ids.has(id) || id > lastColumnId) throw invalid('the field ids are not distinct, or above last-column-id')
    names.add(folded)
    ids.add(id)
  }
}

/** Columns keep their types, or widen: the files of the table were written under the schemas before. */
function checkReadable(before: TableMetadata, current: IcebergSchema): void {
  const fields = before.schemas.flatMap((schema) => fromIceberg(schema).fields)
  for (const field of fromIceberg(current).fields) {
    const narrower = fields.find(({ id, type }) => id === field.id && !canWiden(type, field.type))
    if (narrower !== undefined) throw refusedChange(field.name, `${narrower.type} cannot become ${field.type}`)
  }
}

function refusedChange(column: string, reason: string): SluiceError {
  return new SluiceError('CONFIG', `column "${column}" of the lake table cannot be changed like this: ${reason}`, {
    code: 'lake_schema_change_refused',
    remedy: 'Keep the column as it was and add another, or replace all rows of the table.',
    details: { column, reason },
  })
}
