/**
 * What clients send to make and change tables, taken apart: only what is described here goes on. Ids of snapshots come
 * as bigint where they are beyond 53 bits.
 */
import { SluiceError } from '@sluice/sdk'
import { type Static, type TSchema, Type } from 'typebox'
import { Compile } from 'typebox/compile'
import type { TableRequirement, TableUpdate } from '../format/table-updates.ts'

const MAX_COLUMNS = 2_000
const MAX_UPDATES = 1_000
const MAX_CHANGED_TABLES = 100

const Int64 = Type.Union([Type.Integer(), Type.BigInt()])
const Id = Type.Integer({ minimum: -1, maximum: 2 ** 31 - 1 })
const Text = Type.String({ maxLength: 4_000 })
const Properties = Type.Record(Type.String({ maxLength: 500 }), Type.String({ maxLength: 10_000 }))

const Field = Type.Object({
  id: Type.Integer({ minimum: 0, maximum: 2 ** 31 - 1 }),
  name: Type.String({ minLength: 1, maxLength: 255 }),
  required: Type.Boolean(),
  type: Type.Unknown(),
  doc: Type.Optional(Type.String({ maxLength: 10_000 })),
})

const Schema = Type.Object({
  type: Type.Optional(Type.Literal('struct')),
  'schema-id': Type.Optional(Id),
  fields: Type.Array(Field, { maxItems: MAX_COLUMNS }),
  'identifier-field-ids': Type.Optional(Type.Array(Id, { maxItems: MAX_COLUMNS })),
})

const SpecField = Type.Object({
  'source-id': Id,
  'field-id': Type.Optional(Id),
  name: Type.String({ minLength: 1, maxLength: 500 }),
  transform: Type.String({ maxLength: 100 }),
})

const Spec = Type.Object({
  'spec-id': Type.Optional(Id),
  fields: Type.Array(SpecField, { maxItems: 100 }),
})

const SortField = Type.Object({
  'source-id': Id,
  transform: Type.String({ maxLength: 100 }),
  direction: Type.Union([Type.Literal('asc'), Type.Literal('desc')]),
  'null-order': Type.Union([Type.Literal('nulls-first'), Type.Literal('nulls-last')]),
})

const SortOrder = Type.Object({
  'order-id': Type.Optional(Id),
  fields: Type.Array(SortField, { maxItems: 100 }),
})

const Snapshot = Type.Object({
  'snapshot-id': Int64,
  'parent-snapshot-id': Type.Optional(Type.Union([Int64, Type.Null()])),
  'sequence-number': Int64,
  'timestamp-ms': Type.Integer({ minimum: 0 }),
  'manifest-list': Text,
  summary: Properties,
  'schema-id': Type.Optional(Id),
})

const StatisticsFile = Type.Object({ 'snapshot-id': Int64, 'statistics-path': Text })

const action = <Name extends string>(name: Name) => ({ action: Type.Literal(name) })

const UPDATES = {
  'assign-uuid': Type.Object({ ...action('assign-uuid'), uuid: Type.String({ format: 'uuid' }) }),
  'upgrade-format-version': Type.Object({ ...action('upgrade-format-version'), 'format-version': Type.Integer() }),
  'set-location': Type.Object({ ...action('set-location'), location: Text }),
  'add-schema': Type.Object({ ...action('add-schema'), schema: Schema, 'last-column-id': Type.Optional(Id) }),
  'set-current-schema': Type.Object({ ...action('set-current-schema'), 'schema-id': Id }),
  'add-spec': Type.Object({ ...action('add-spec'), spec: Spec }),
  'set-default-spec': Type.Object({ ...action('set-default-spec'), 'spec-id': Id }),
  'add-sort-order': Type.Object({ ...action('add-sort-order'), 'sort-order': SortOrder }),
  'set-default-sort-order': Type.Object({ ...action('set-default-sort-order'), 'sort-order-id': Id }),
  'add-snapshot': Type.Object({ ...action('add-snapshot'), snapshot: Snapshot }),
  'set-snapshot-ref': Type.Object({
    ...action('set-snapshot-ref'),
    'ref-name': Type.String({ minLength: 1, maxLength: 500 }),
    'snapshot-id': Int64,
    type: Type.Union([Type.Literal('branch'), Type.Literal('tag')]),
    'min-snapshots-to-keep': Type.Optional(Type.Integer()),
    'max-snapshot-age-ms': Type.Optional(Type.Integer()),
    'max-ref-age-ms': Type.Optional(Type.Integer()),
  }),
  'remove-snapshot-ref': Type.Object({ ...action('remove-snapshot-ref'), 'ref-name': Type.String() }),
  'remove-snapshots': Type.Object({
    ...action('remove-snapshots'),
    'snapshot-ids': Type.Array(Int64, { maxItems: 100_000 }),
  }),
  'set-properties': Type.Object({ ...action('set-properties'), updates: Properties }),
  'remove-properties': Type.Object({ ...action('remove-properties'), removals: Type.Array(Type.String()) }),
  'remove-schemas': Type.Object({ ...action('remove-schemas'), 'schema-ids': Type.Array(Id) }),
  'remove-partition-specs': Type.Object({ ...action('remove-partition-specs'), 'spec-ids': Type.Array(Id) }),
  'set-statistics': Type.Object({ ...action('set-statistics'), statistics: StatisticsFile }),
  'remove-statistics': Type.Object({ ...action('remove-statistics'), 'snapshot-id': Int64 }),
  'set-partition-statistics': Type.Object({
    ...action('set-partition-statistics'),
    'partition-statistics': StatisticsFile,
  }),
  'remove-partition-statistics': Type.Object({ ...action('remove-partition-statistics'), 'snapshot-id': Int64 }),
} as const satisfies Readonly<Record<TableUpdate['action'], TSchema>>

const kind = <Name extends string>(name: Name) => ({ type: Type.Literal(name) })

const REQUIREMENTS = {
  'assert-create': Type.Object(kind('assert-create')),
  'assert-table-uuid': Type.Object({ ...kind('assert-table-uuid'), uuid: Text }),
  'assert-ref-snapshot-id': Type.Object({
    ...kind('assert-ref-snapshot-id'),
    ref: Text,
    'snapshot-id': Type.Optional(Type.Union([Int64, Type.Null()])),
  }),
  'assert-last-assigned-field-id': Type.Object({
    ...kind('assert-last-assigned-field-id'),
    'last-assigned-field-id': Id,
  }),
  'assert-current-schema-id': Type.Object({ ...kind('assert-current-schema-id'), 'current-schema-id': Id }),
  'assert-last-assigned-partition-id': Type.Object({
    ...kind('assert-last-assigned-partition-id'),
    'last-assigned-partition-id': Id,
  }),
  'assert-default-spec-id': Type.Object({ ...kind('assert-default-spec-id'), 'default-spec-id': Id }),
  'assert-default-sort-order-id': Type.Object({ ...kind('assert-default-sort-order-id'), 'default-sort-order-id': Id }),
} as const satisfies Readonly<Record<TableRequirement['type'], TSchema>>

const Create = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 500 }),
  location: Type.Optional(Type.Union([Text, Type.Null()])),
  schema: Schema,
  'partition-spec': Type.Optional(Type.Union([Spec, Type.Null()])),
  'write-order': Type.Optional(Type.Union([SortOrder, Type.Null()])),
  'stage-create': Type.Optional(Type.Boolean()),
  properties: Type.Optional(Type.Union([Properties, Type.Null()])),
})

const Identifier = Type.Object({
  namespace: Type.Array(Type.String({ maxLength: 500 }), { minItems: 1, maxItems: 20 }),
  name: Type.String({ minLength: 1, maxLength: 500 }),
})

const Changes = Type.Object({
  requirements: Type.Array(Type.Object({ type: Type.String() }), { maxItems: MAX_UPDATES }),
  updates: Type.Array(Type.Object({ action: Type.String() }), { maxItems: MAX_UPDATES }),
})

const Transaction = Type.Object({
  'table-changes': Type.Array(Type.Intersect([Changes, Type.Object({ identifier: Identifier })]), {
    maxItems: MAX_CHANGED_TABLES,
  }),
})

const Rename = Type.Object({ source: Identifier, destination: Identifier })

const NewNamespace = Type.Object({
  namespace: Type.Array(Type.String({ minLength: 1, maxLength: 500 }), { minItems: 1, maxItems: 20 }),
  properties: Type.Optional(
    Type.Record(Type.String({ minLength: 1, maxLength: 255 }), Type.String({ maxLength: 1_000 })),
  ),
})

const NewProperties = Type.Object({
  removals: Type.Optional(Type.Array(Type.String({ maxLength: 255 }), { maxItems: 1_000 })),
  updates: Type.Optional(Type.Record(Type.String({ minLength: 1, maxLength: 255 }), Type.String({ maxLength: 1_000 }))),
})

const Signing = Type.Object({
  method: Type.String({ maxLength: 10 }),
  uri: Type.String({ maxLength: 8_000 }),
  region: Type.String({ maxLength: 100 }),
  headers: Type.Optional(
    Type.Record(Type.String({ maxLength: 200 }), Type.Array(Type.String({ maxLength: 2_000 }), { maxItems: 10 })),
  ),
})

const compiled = new Map<TSchema, ReturnType<typeof Compile>>()

/** Throws INVALID_DATA `catalog_request_invalid`; never repeats what was sent. */
function parse<const Shape extends TSchema>(shape: Shape, value: unknown, what: string): Static<Shape> {
  const validator = compiled.get(shape) ?? Compile(shape)
  compiled.set(shape, validator)
  if (validator.Check(value)) return value as Static<Shape>
  const first = validator.Errors(value)[0]
  throw invalid(`${what} is not valid${first === undefined ? '' : ` at ${first.instancePath.slice(0, 200) || '/'}`}`)
}

export function invalid(reason: string): SluiceError {
  return new SluiceError('INVALID_DATA', `the request is refused: ${reason}`, {
    code: 'catalog_request_invalid',
    remedy: 'Send what the Iceberg REST specification describes.',
  })
}

export interface TableChange {
  readonly requirements: readonly TableRequirement[]
  readonly updates: readonly TableUpdate[]
}

export type CreateRequest = Static<typeof Create>
export type IdentifierOf = Static<typeof Identifier>

export const parseSigning = (body: unknown) => parse(Signing, body, 'the request to sign')
export const parseCreate = (body: unknown): CreateRequest => parse(Create, body, 'the table')
export const parseRename = (body: unknown) => parse(Rename, body, 'the renaming')
export const parseNamespace = (body: unknown) => parse(NewNamespace, body, 'the namespace')
export const parseProperties = (body: unknown) => parse(NewProperties, body, 'the change of properties')

export function parseChange(body: unknown): TableChange {
  const { requirements, updates } = parse(Changes, body, 'the commit')
  return { requirements: requirements.map(parseRequirement), updates: updates.map(parseUpdate) }
}

export function parseTransaction(body: unknown): readonly (TableChange & { readonly identifier: IdentifierOf })[] {
  const { 'table-changes': changes } = parse(Transaction, body, 'the transaction')
  return changes.map((change) => ({ identifier: change.identifier, ...parseChange(change) }))
}

function parseUpdate(value: { readonly action: string }): TableUpdate {
  if (!Object.hasOwn(UPDATES, value.action)) throw invalid(`the update "${value.action.slice(0, 50)}" is not supported`)
  const update = parse(UPDATES[value.action as TableUpdate['action']], value, `the update "${value.action}"`)
  return withIds(update) as unknown as TableUpdate
}

function parseRequirement(value: { readonly type: string }): TableRequirement {
  if (!Object.hasOwn(REQUIREMENTS, value.type)) {
    throw invalid(`the requirement "${value.type.slice(0, 50)}" is not supported`)
  }
  const parsed = parse(REQUIREMENTS[value.type as TableRequirement['type']], value, `the requirement "${value.type}"`)
  if (parsed.type !== 'assert-ref-snapshot-id') return parsed
  return { ...parsed, 'snapshot-id': parsed['snapshot-id'] ?? null }
}

/** The specification lets clients leave ids out that a table has. */
function withIds(update: Static<(typeof UPDATES)[TableUpdate['action']]>): unknown {
  switch (update.action) {
    case 'add-schema':
      return { ...update, schema: { type: 'struct', ...update.schema, 'schema-id': update.schema['schema-id'] ?? 0 } }
    case 'add-spec':
      return { ...update, spec: specOf(update.spec) }
    case 'add-sort-order':
      return { ...update, 'sort-order': { ...update['sort-order'], 'order-id': update['sort-order']['order-id'] ?? 1 } }
    case 'add-snapshot': {
      const { 'parent-snapshot-id': parent, ...snapshot } = update.snapshot
      return { ...update, snapshot: parent === undefined || parent === null ? snapshot : update.snapshot }
    }
    default:
      return update
  }
}

/** A spec whose fields have ids. */
export function specOf(spec: Static<typeof Spec>) {
  const fields = spec.fields.map((field, at) => ({ ...field, 'field-id': field['field-id'] ?? 1000 + at }))
  return { 'spec-id': spec['spec-id'] ?? 0, fields }
}
