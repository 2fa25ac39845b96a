/** A request to make a table, as the updates that make it. */
import { SluiceError } from '@sluice/sdk'
import type { TableUpdate } from '../format/table-updates.ts'
import { type CreateRequest, invalid, specOf } from './commit-request.ts'
import { NEW_TABLE_PROPERTIES } from './foreign-commit.ts'

const FORMAT_VERSION = 'format-version'

/** Field ids are given anew from 1, as every catalog does: clients' own need not be distinct. */
export function creationUpdates(request: CreateRequest): readonly TableUpdate[] {
  const { schema, 'partition-spec': spec, 'write-order': order } = request
  const newIds = new Map(schema.fields.map((field, at) => [field.id, at + 1]))
  if (newIds.size !== schema.fields.length) throw invalid('two columns have the same field id')
  const renumbered = (id: number): number => {
    const fresh = newIds.get(id)
    if (fresh === undefined) throw invalid('a field id names no column')
    return fresh
  }
  const sources = <Item extends { readonly 'source-id': number }>(items: readonly Item[]) =>
    items.map((item) => ({ ...item, 'source-id': renumbered(item['source-id']) }))
  const identifiers = schema['identifier-field-ids'] ?? []
  return [
    {
      action: 'add-schema',
      'last-column-id': schema.fields.length,
      schema: {
        type: 'struct',
        'schema-id': 0,
        fields: schema.fields.map((field) => ({ ...field, id: renumbered(field.id) })),
        ...(identifiers.length === 0 ? {} : { 'identifier-field-ids': identifiers.map(renumbered) }),
      },
    },
    { action: 'set-current-schema', 'schema-id': -1 },
    {
      action: 'add-spec',
      spec: {
        'spec-id': 0,
        fields: sources(specOf(spec ?? { fields: [] }).fields).map((field, at) => ({
          ...field,
          'field-id': 1000 + at,
        })),
      },
    },
    { action: 'set-default-spec', 'spec-id': -1 },
    {
      action: 'add-sort-order',
      'sort-order': order?.fields.length
        ? { 'order-id': 1, fields: sources(order.fields) }
        : { 'order-id': 0, fields: [] },
    },
    { action: 'set-default-sort-order', 'sort-order-id': -1 },
    { action: 'set-properties', updates: { ...NEW_TABLE_PROPERTIES, ...ownProperties(request.properties ?? {}) } },
  ]
}

function ownProperties(properties: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const { [FORMAT_VERSION]: version = '2', ...own } = properties
  if (version === '2') return own
  throw new SluiceError('UNSUPPORTED', 'tables are of format version 2', {
    code: 'catalog_format_unsupported',
    remedy: 'Leave the property format-version out, or set it to 2.',
  })
}
