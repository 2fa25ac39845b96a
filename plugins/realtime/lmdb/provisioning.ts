import { createHash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { type Plan, type PlanStep, SluiceError, type TableSchema, type Target, tenantOf } from '@sluice/sdk'
import { DEFAULT_TTL, type RealtimeConfig, templateOf } from './config.ts'
import type { Environment } from './environment.ts'
import { prefixOf } from './keys.ts'
import { emptyMarker, layoutOf, type Marker } from './markers.ts'

/** What `provision` would do. Throws CONFLICT `schema_conflict` where the values that are there do not fit. */
export function provisionSteps(marker: Marker | undefined, target: Target<RealtimeConfig>): readonly PlanStep[] {
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

export function planOf(steps: readonly PlanStep[]): Plan {
  return { steps, hash: createHash('sha256').update(JSON.stringify(steps)).digest('hex') }
}

export async function applyProvision(environment: Environment, target: Target<RealtimeConfig>): Promise<void> {
  const prefix = prefixOf(target)
  const { schema, config } = target
  const marker = environment.markers.get(prefix)
  if (!marker) return environment.markers.create(prefix, emptyMarker(tenantOf(target.scope), schema, config))
  if (provisionSteps(marker, target).length === 0) return
  await environment.markers.update(prefix, (current) => {
    const layout = layoutOf(schema, config)
    const isKnown = current.layouts.some((known) => isDeepStrictEqual(known, layout))
    const grown = { ...current, schema, config, layouts: isKnown ? current.layouts : [...current.layouts, layout] }
    return isRekeyed(current, target) || current.isExpired ? forgotten(grown) : grown
  })
}

/** As if nothing had been written, but for the token: no former value counts, and the same epoch may come again. */
function forgotten(marker: Marker): Marker {
  return { ...marker, applied: null, floor: marker.nextWrite, isExpired: false, hasGarbage: true }
}

function isRekeyed({ config }: Marker, target: Target<RealtimeConfig>): boolean {
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
