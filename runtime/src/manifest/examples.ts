import { readFile } from 'node:fs/promises'
import type { ManifestContext, ServingTypes } from './context.ts'
import { AnalyticsFields, LookupFields, RealtimeFields, TimeseriesFields } from './files/serving.ts'
import { MANIFEST_NAMES, type ManifestName } from './problem.ts'
import type { Schema } from './shape-check.ts'

/** Manifests that are valid together, for tests and as something to begin with. */
export const EXAMPLES = {
  /** The least that can be written. */
  minimal: { name: 'countries', domain: 'reference' },
  /** Nearly everything that can be written. */
  customers: { name: 'customer_orders', domain: 'sales' },
  /** Rows without identity, appended. */
  readings: { name: 'readings', domain: 'plant' },
} as const

export type ExampleName = keyof typeof EXAMPLES

export type ExampleFiles = Record<ManifestName, Uint8Array>

export async function exampleFiles(example: ExampleName): Promise<ExampleFiles> {
  const files = MANIFEST_NAMES.map(async (name) => {
    const bytes = await readFile(new URL(`./examples/${example}/${name}.yaml`, import.meta.url))
    return [name, new Uint8Array(bytes)] as const
  })
  return Object.fromEntries(await Promise.all(files)) as ExampleFiles
}

/** The four contract types as their own schemas describe them, without a store behind. */
export function contractServingTypes(): ServingTypes {
  const schemas = new Map<string, Schema>([
    ['lookup', LookupFields],
    ['timeseries', TimeseriesFields],
    ['analytics', AnalyticsFields],
    ['realtime', RealtimeFields],
  ])
  return {
    names: [...schemas.keys()],
    get: (type) => {
      const configSchema = schemas.get(type)
      return configSchema === undefined ? undefined : { configSchema }
    },
  }
}

export function exampleContext(example: ExampleName): ManifestContext {
  return { product: EXAMPLES[example], servingTypes: contractServingTypes() }
}
