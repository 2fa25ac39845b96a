import { SluiceError } from '@sluice/sdk'
import type { Int64 } from './int64.ts'
import { MAIN, PROPERTIES, type Snapshot, type SnapshotRef, type SortOrder, type TableMetadata } from './metadata.ts'
import type { PartitionSpec } from './partitioning.ts'
import { applyStatistics, type StatisticsUpdate, withoutStatistics } from './statistics-updates.ts'
import type { IcebergSchema } from './table-schema.ts'

/** What a commit changes, in the words of the REST catalog's protocol. */
export type TableUpdate =
  | { readonly action: 'assign-uuid'; readonly uuid: string }
  | { readonly action: 'upgrade-format-version'; readonly 'format-version': number }
  | { readonly action: 'set-location'; readonly location: string }
  | { readonly action: 'add-schema'; readonly schema: IcebergSchema; readonly 'last-column-id'?: number }
  | { readonly action: 'set-current-schema'; readonly 'schema-id': number }
  | { readonly action: 'add-spec'; readonly spec: PartitionSpec }
  | { readonly action: 'set-default-spec'; readonly 'spec-id': number }
  | { readonly action: 'add-sort-order'; readonly 'sort-order': SortOrder }
  | { readonly action: 'set-default-sort-order'; readonly 'sort-order-id': number }
  | { readonly action: 'add-snapshot'; readonly snapshot: Snapshot }
  | ({ readonly action: 'set-snapshot-ref'; readonly 'ref-name': string } & SnapshotRef)
  | { readonly action: 'remove-snapshot-ref'; readonly 'ref-name': string }
  | { readonly action: 'remove-snapshots'; readonly 'snapshot-ids': readonly Int64[] }
  | { readonly action: 'set-properties'; readonly updates: Readonly<Record<string, string>> }
  | { readonly action: 'remove-properties'; readonly removals: readonly string[] }
  | { readonly action: 'remove-schemas'; readonly 'schema-ids': readonly number[] }
  | { readonly action: 'remove-partition-specs'; readonly 'spec-ids': readonly number[] }
  | StatisticsUpdate

/** What must hold of the table for the commit to be right. */
export type TableRequirement =
  | { readonly type: 'assert-create' }
  | { readonly type: 'assert-table-uuid'; readonly uuid: string }
  | { readonly type: 'assert-ref-snapshot-id'; readonly ref: string; readonly 'snapshot-id': Int64 | null }
  | { readonly type: 'assert-last-assigned-field-id'; readonly 'last-assigned-field-id': number }
  | { readonly type: 'assert-current-schema-id'; readonly 'current-schema-id': number }
  | { readonly type: 'assert-last-assigned-partition-id'; readonly 'last-assigned-partition-id': number }
  | { readonly type: 'assert-default-spec-id'; readonly 'default-spec-id': number }
  | { readonly type: 'assert-default-sort-order-id'; readonly 'default-sort-order-id': number }

/** Throws CONFLICT `lake_commit_conflict` for the first requirement that does not hold. */
export function checkRequirements(metadata: TableMetadata | null, requirements: readonly TableRequirement[]): void {
  for (const requirement of requirements) {
    if (!holds(metadata, requirement)) throw commitConflict(requirement.type)
  }
}

function holds(metadata: TableMetadata | null, requirement: TableRequirement): boolean {
  if (requirement.type === 'assert-create') return metadata === null
  if (metadata === null) return false
  switch (requirement.type) {
    case 'assert-table-uuid':
      return metadata['table-uuid'] === requirement.uuid
    case 'assert-ref-snapshot-id':
      return (metadata.refs[requirement.ref]?.['snapshot-id'] ?? null) === requirement['snapshot-id']
    case 'assert-last-assigned-field-id':
      return metadata['last-column-id'] === requirement['last-assigned-field-id']
    case 'assert-current-schema-id':
      return metadata['current-schema-id'] === requirement['current-schema-id']
    case 'assert-last-assigned-partition-id':
      return metadata['last-partition-id'] === requirement['last-assigned-partition-id']
    case 'assert-default-spec-id':
      return metadata['default-spec-id'] === requirement['default-spec-id']
    case 'assert-default-sort-order-id':
      return metadata['default-sort-order-id'] === requirement['default-sort-order-id']
    default:
      return unknownAction((requirement as { type: string }).type)
  }
}

export function commitConflict(reason: string, cause?: unknown): SluiceError {
  return new SluiceError('CONFLICT', 'the lake table was changed by another commit in the meantime', {
    code: 'lake_commit_conflict',
    remedy: 'Compute the change again from the table as it is now.',
    details: { reason },
    ...(cause === undefined ? {} : { cause }),
  })
}

/** Metadata of a table that has only a place yet. */
export function emptyMetadata(uuid: string, location: string): TableMetadata {
  return {
    'format-version': 2,
    'table-uuid': uuid,
    location,
    'last-sequence-number': 0,
    'last-updated-ms': 0,
    'last-column-id': 0,
    schemas: [],
    'current-schema-id': -1,
    'partition-specs': [],
    'default-spec-id': -1,
    'last-partition-id': 999,
    properties: {},
    'current-snapshot-id': -1,
    snapshots: [],
    'snapshot-log': [],
    'metadata-log': [],
    'sort-orders': [],
    'default-sort-order-id': 0,
    refs: {},
  }
}

/**
 * The metadata after the updates. Pure: the same input gives the same output.
 * @param previousFile the file that holds `metadata`, for the metadata log; null for a new table
 */
export function applyUpdates(
  metadata: TableMetadata,
  updates: readonly TableUpdate[],
  nowMs: number,
  previousFile: string | null,
): TableMetadata {
  // Readers expect times to grow with the history, also when the clock was set back.
  const atMs = Math.max(nowMs, metadata['last-updated-ms'])
  const changed = updates.reduce((current, update) => applyUpdate(current, update, atMs), metadata)
  const log =
    previousFile === null
      ? changed['metadata-log']
      : [...changed['metadata-log'], { 'metadata-file': previousFile, 'timestamp-ms': metadata['last-updated-ms'] }]
  return { ...changed, 'last-updated-ms': atMs, 'metadata-log': log.slice(-logLimit(changed)) }
}

/** How many former metadata files a table remembers. */
export function logLimit(metadata: TableMetadata): number {
  const set = Number(metadata.properties[PROPERTIES.previousVersionsMax])
  return Number.isSafeInteger(set) && set > 0 ? Math.min(set, 1000) : 100
}

function applyUpdate(metadata: TableMetadata, update: TableUpdate, atMs: number): TableMetadata {
  switch (update.action) {
    case 'assign-uuid':
      return { ...metadata, 'table-uuid': update.uuid }
    case 'upgrade-format-version':
      if (update['format-version'] !== 2) throw invalidUpdate('only format version 2 is written')
      return metadata
    case 'set-location':
      return { ...metadata, location: update.location }
    case 'set-properties':
      return { ...metadata, properties: { ...metadata.properties, ...update.updates } }
    case 'remove-properties':
      return { ...metadata, properties: without(metadata.properties, update.removals) }
    case 'add-snapshot':
      return addSnapshot(metadata, update.snapshot)
    case 'set-snapshot-ref':
      return setRef(metadata, update, atMs)
    case 'remove-snapshot-ref':
      return { ...metadata, refs: without(metadata.refs, [update['ref-name']]) }
    case 'remove-snapshots':
      return removeSnapshots(metadata, new Set(update['snapshot-ids']))
    case 'set-statistics':
    case 'remove-statistics':
    case 'set-partition-statistics':
    case 'remove-partition-statistics':
      return applyStatistics(metadata, update)
    default:
      return applyShape(metadata, update)
  }
}

type ShapeUpdate = Extract<
  TableUpdate,
  {
    action:
      | 'add-schema'
      | 'set-current-schema'
      | 'add-spec'
      | 'set-default-spec'
      | 'add-sort-order'
      | 'set-default-sort-order'
      | 'remove-schemas'
      | 'remove-partition-specs'
  }
>

/** -1 stands for the schema, spec or order that the same commit added last. */
function applyShape(metadata: TableMetadata, update: ShapeUpdate): TableMetadata {
  switch (update.action) {
    case 'add-schema':
      return addSchema(metadata, update.schema, update['last-column-id'])
    case 'set-current-schema':
      return { ...metadata, 'current-schema-id': chosen(metadata.schemas, 'schema-id', update['schema-id']) }
    case 'add-spec':
      return addSpec(metadata, update.spec)
    case 'set-default-spec':
      return { ...metadata, 'default-spec-id': chosen(metadata['partition-specs'], 'spec-id', update['spec-id']) }
    case 'add-sort-order':
      return { ...metadata, 'sort-orders': added(metadata['sort-orders'], 'order-id', update['sort-order']) }
    case 'set-default-sort-order': {
      const id = chosen(metadata['sort-orders'], 'order-id', update['sort-order-id'])
      return { ...metadata, 'default-sort-order-id': id }
    }
    case 'remove-schemas': {
      const schemas = removed(metadata.schemas, 'schema-id', update['schema-ids'], metadata['current-schema-id'])
      return { ...metadata, schemas }
    }
    case 'remove-partition-specs': {
      const specs = removed(metadata['partition-specs'], 'spec-id', update['spec-ids'], metadata['default-spec-id'])
      return { ...metadata, 'partition-specs': specs }
    }
    default:
      return unknownAction((update as { action: string }).action)
  }
}

function addSchema(metadata: TableMetadata, schema: IcebergSchema, lastColumnId = 0): TableMetadata {
  const highest = schema.fields.reduce((id, field) => Math.max(id, field.id), lastColumnId)
  return {
    ...metadata,
    schemas: added(metadata.schemas, 'schema-id', schema),
    'last-column-id': Math.max(metadata['last-column-id'], highest),
  }
}

function addSpec(metadata: TableMetadata, spec: PartitionSpec): TableMetadata {
  const highest = spec.fields.reduce((id, field) => Math.max(id, field['field-id']), metadata['last-partition-id'])
  return {
    ...metadata,
    'partition-specs': added(metadata['partition-specs'], 'spec-id', spec),
    'last-partition-id': highest,
  }
}

function addSnapshot(metadata: TableMetadata, snapshot: Snapshot): TableMetadata {
  if (metadata.snapshots.some((known) => known['snapshot-id'] === snapshot['snapshot-id'])) {
    throw invalidUpdate('a snapshot of that id exists')
  }
  if (BigInt(snapshot['sequence-number']) <= BigInt(metadata['last-sequence-number'])) {
    throw invalidUpdate('the snapshot has an old sequence number')
  }
  return {
    ...metadata,
    snapshots: [...metadata.snapshots, snapshot],
    'last-sequence-number': snapshot['sequence-number'],
  }
}

function setRef(
  metadata: TableMetadata,
  update: Extract<TableUpdate, { action: 'set-snapshot-ref' }>,
  atMs: number,
): TableMetadata {
  const { action: _action, 'ref-name': name, ...ref } = update
  const target = metadata.snapshots.find((snapshot) => snapshot['snapshot-id'] === ref['snapshot-id'])
  if (target === undefined) throw invalidUpdate('the reference names a snapshot that does not exist')
  const withRef = { ...metadata, refs: { ...metadata.refs, [name]: ref } }
  if (name !== MAIN || metadata['current-snapshot-id'] === ref['snapshot-id']) return withRef
  const entry = {
    'snapshot-id': ref['snapshot-id'],
    'timestamp-ms': Math.max(target['timestamp-ms'], lastLogged(metadata)),
  }
  const atMain =
    metadata['last-sequence-number'] === target['sequence-number'] ? entry : { ...entry, 'timestamp-ms': atMs }
  return {
    ...withRef,
    'current-snapshot-id': ref['snapshot-id'],
    'snapshot-log': [...metadata['snapshot-log'], atMain],
  }
}

const lastLogged = (metadata: TableMetadata): number => metadata['snapshot-log'].at(-1)?.['timestamp-ms'] ?? 0

function removeSnapshots(metadata: TableMetadata, ids: ReadonlySet<Int64>): TableMetadata {
  if (Object.values(metadata.refs).some((ref) => ids.has(ref['snapshot-id']))) {
    throw invalidUpdate('a reference still names the snapshot')
  }
  // A gap would make the log lie about what was current: it starts anew behind the last removed entry.
  const lastGap = metadata['snapshot-log'].findLastIndex((entry) => ids.has(entry['snapshot-id']))
  return {
    ...withoutStatistics(metadata, ids),
    snapshots: metadata.snapshots.filter((snapshot) => !ids.has(snapshot['snapshot-id'])),
    'snapshot-log': metadata['snapshot-log'].slice(lastGap + 1),
  }
}

function added<Name extends string, Item extends Readonly<Record<Name, number>>>(
  list: readonly Item[],
  name: Name,
  item: Item,
): readonly Item[] {
  if (list.some((known) => known[name] === item[name])) throw invalidUpdate(`the ${name} is taken`)
  return [...list, item]
}

function removed<Name extends string, Item extends Readonly<Record<Name, number>>>(
  list: readonly Item[],
  name: Name,
  ids: readonly number[],
  current: number,
): readonly Item[] {
  if (ids.includes(current)) throw invalidUpdate(`the ${name} is in use`)
  return list.filter((item) => !ids.includes(item[name]))
}

function chosen<Name extends string>(list: readonly Readonly<Record<Name, number>>[], name: Name, id: number): number {
  const found = id === -1 ? list.at(-1) : list.find((known) => known[name] === id)
  if (found === undefined) throw invalidUpdate(`there is no such ${name}`)
  return found[name]
}

function without<Item>(
  record: Readonly<Record<string, Item>>,
  names: readonly string[],
): Readonly<Record<string, Item>> {
  return Object.fromEntries(Object.entries(record).filter(([name]) => !names.includes(name)))
}

function unknownAction(name: string): never {
  throw invalidUpdate(`"${name}" is not supported`)
}

function invalidUpdate(reason: string): SluiceError {
  return new SluiceError('INVALID_DATA', `the lake table cannot be changed like this: ${reason}`, {
    code: 'lake_update_invalid',
    remedy: 'Send updates that fit the table as it is.',
  })
}
