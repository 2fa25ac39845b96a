/** What the configuration says of Trino, under `compute.trino`: the store's settings, but for the folder that only a store keeps. Loads no client. */
import { settingsSchema as storeSchema, type TrinoSettings } from '@sluice/analytics/trino/statements'
import type { JsonSchema } from '@sluice/sdk'

export type ComputeSettings = Omit<TrinoSettings, 'path'>

const { path: _, catalog, ...others } = storeSchema.properties

export const settingsSchema: JsonSchema = {
  ...storeSchema,
  description:
    'Runs the transforms of products with engine: distributed. Absent: the engine that serves analytics where it can, or else none.',
  // Of engines' properties nobody knows here which ones are secrets.
  properties: { ...others, catalog: { ...catalog, 'x-secret': true } },
}
