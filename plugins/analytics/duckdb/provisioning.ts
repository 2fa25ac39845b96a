import { isDeepStrictEqual } from 'node:util'
import { type PlanStep, SluiceError, type TableSchema, type Target } from '@sluice/sdk'
import type { Registration } from './registrations.ts'

/** What `provision` would do. Throws CONFLICT `schema_conflict` where the registered files do not fit. */
export function provisionSteps(now: Registration | null, target: Target): readonly PlanStep[] {
  const name = `${target.domain}.${target.product}`
  if (now === null) return [{ action: 'create', description: `register ${name} for queries over the lake` }]
  if (isDeepStrictEqual(now.schema, target.schema)) return []
  if (!isGrown(now.schema, target.schema)) throw schemaConflict(name)
  return [{ action: 'alter', description: `register the new columns of ${name}` }]
}

export function provisioned(now: Registration | null, target: Target): Registration | null {
  if (provisionSteps(now, target).length === 0) return null
  if (now !== null) return { ...now, schema: target.schema }
  const { domain, product, variant, schema } = target
  return { domain, product, variant, schema, policy: null, fence: 0n, current: null, formerFiles: [] }
}

/** The same key, every former column as it was, and new ones only where they may be null. */
function isGrown(former: TableSchema, next: TableSchema): boolean {
  const before = new Set(former.columns.map((column) => column.name))
  const after = new Map(next.columns.map((column) => [column.name, column.type]))
  const kept = former.columns.every(({ name, type }) => after.get(name) === type)
  const added = next.columns.every(({ name, nullable }) => before.has(name) || nullable)
  return kept && added && isDeepStrictEqual(former.primaryKey, next.primaryKey)
}

function schemaConflict(name: string): SluiceError {
  return new SluiceError('CONFLICT', `the registered files of ${name} do not fit the new schema`, {
    code: 'schema_conflict',
    remedy: 'Drop the endpoint, or deploy the change as a new product.',
  })
}
