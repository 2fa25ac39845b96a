import { isDeepStrictEqual } from 'node:util'
import { type PlanStep, type SchemaVerdict, SluiceError, type TableSchema, type Target } from '@sluice/sdk'
import type { ReferenceConfig } from './config.ts'
import type { ReferenceMemory } from './memory.ts'

/** What `provision` would do; throws CONFLICT `schema_conflict` where the rows do not fit. */
export function provisionSteps(memory: ReferenceMemory, target: Target<ReferenceConfig>): readonly PlanStep[] {
  const stored = memory.get(target)
  if (!stored) return [{ action: 'create', description: `make a place for ${target.domain}.${target.product}` }]
  if (judge(stored.schema, target.schema).some(({ verdict }) => verdict === 'unsatisfiable')) {
    throw new SluiceError('CONFLICT', 'the rows that are there do not fit the new schema', { code: 'schema_conflict' })
  }
  if (isDeepStrictEqual([stored.schema, stored.config], [target.schema, target.config])) return []
  return [{ action: 'alter', description: `change ${target.domain}.${target.product} to its new columns` }]
}

/** Columns may be added at the end where they are nullable; nothing else about the rows that are there may change. */
export function judge(previous: TableSchema | null, next: TableSchema): readonly SchemaVerdict[] {
  const sameKey = previous === null || isDeepStrictEqual(previous.primaryKey, next.primaryKey)
  return next.columns.map((column, index) => {
    const former = previous?.columns[index]
    if (!sameKey) return { column, verdict: 'unsatisfiable', reason: 'the primary key is another' }
    if (previous === null) return { column, verdict: 'optional', reason: 'nothing is there yet' }
    if (former && isDeepStrictEqual(former, column)) {
      return { column, verdict: 'required', reason: 'it is there and stays as it is' }
    }
    if (!former && column.nullable) return { column, verdict: 'optional', reason: 'rows that are there get null' }
    return { column, verdict: 'unsatisfiable', reason: 'rows that are there do not have it so' }
  })
}
