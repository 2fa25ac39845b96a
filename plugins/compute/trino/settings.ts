/** Of a Trino that runs transforms: the store's, but for the folder that only a store keeps. Loads no client library. */
import { settingsSchema as storeSchema, type TrinoSettings } from '@sluice/analytics/trino/statements'
import type { JsonSchema } from '@sluice/sdk'

export type ComputeSettings = Omit<TrinoSettings, 'path'>

const { path: _, ...properties } = storeSchema.properties

export const settingsSchema: JsonSchema = {
  ...storeSchema,
  description:
    'Runs the transforms of products with engine: distributed. Absent: the engine that serves analytics where it can, or else none.',
  properties,
}
