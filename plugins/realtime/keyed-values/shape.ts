/** What providing a place for a dataset would do to the values that are there. */
import { isDeepStrictEqual } from 'node:util'
import {
  type ChangeSet,
  type KeyedRows,
  type KeyTemplate,
  keyedRows,
  type PlanStep,
  SluiceError,
  type TableSchema,
  type Target,
} from '@sluice/sdk'
import type { Layout } from './cells.ts'
import { DEFAULT_TTL, type RealtimeConfig, templateOf } from './endpoint.ts'

/** What a place was made for. */
export interface Shape {
  readonly schema: TableSchema
  readonly config: RealtimeConfig
}

/** What `provision` would do. Throws CONFLICT `schema_conflict` where the values that are there do not fit. */
export function provisionSteps(marker: Shape | undefined, target: Target<RealtimeConfig>): readonly PlanStep[] {
  templateOf(target.config)
  const name = `${target.domain}.${target.product}`
  if (!marker) return [{ action: 'create', description: `keep values of ${name} under ${target.config.key_template}` }]
  if (!isGrown(marker.schema, target.schema)) throw schemaConflict(name)
  const steps: PlanStep[] = []
  if (isRekeyed(marker, target)) {
    steps.push({ action: 'replace', description: `forget the values of ${name}, whose keys or columns are others now` })
  }
  if (!isDeepStrictEqual(marker.schema, target.schema)) {
    steps.push({ action: 'alter', description: `take new columns of ${name} into its values` })
  }
  const ttl = target.config.ttl ?? DEFAULT_TTL
  if ((marker.config.ttl ?? DEFAULT_TTL) !== ttl) {
    steps.push({ action: 'alter', description: `let values of ${name} live for ${ttl}` })
  }
  return steps
}

/** Whether the values lie under other keys, or hold other columns, than the target asks for. */
export function isRekeyed({ config }: Shape, target: Target<RealtimeConfig>): boolean {
  const { key_template: template, include_columns: included = null } = target.config
  return config.key_template !== template || !isDeepStrictEqual(config.include_columns ?? null, included)
}

/** The same key, every former column as it was, and new ones only where they may be null. */
function isGrown(former: TableSchema, next: TableSchema): boolean {
  const before = new Map(former.columns.map((column) => [column.name, column]))
  const after = new Map(next.columns.map((column) => [column.name, column]))
  const kept = former.columns.every(({ name, type }) => after.get(name)?.type === type)
  const added = next.columns.every((column) => before.has(column.name) || column.nullable)
  return kept && added && isDeepStrictEqual(former.primaryKey, next.primaryKey)
}

function schemaConflict(name: string): SluiceError {
  return new SluiceError('CONFLICT', `the values of ${name} that are there do not fit the new schema`, {
    code: 'schema_conflict',
    remedy: 'Drop the endpoint, or deploy the change as a new product.',
  })
}

/** The stored columns: those of `include_columns` in the schema's order, or all. */
export function layoutOf(schema: TableSchema, config: RealtimeConfig): Layout {
  const included = config.include_columns
  const columns = included ? schema.columns.filter((column) => included.includes(column.name)) : schema.columns
  return columns.map(({ name, type }) => ({ name, type }))
}

/** The rows to upsert as keys and stored values, at most so many together; for templates that name the primary key. */
export function keyedUpserts(
  changes: ChangeSet,
  { template, layout }: { readonly template: KeyTemplate; readonly layout: Layout },
  maxRows: number,
): AsyncGenerator<KeyedRows> {
  const names = layout.map(({ name }) => name)
  return keyedRows(changes.upsertsKeyed(template, names), maxRows)
}
