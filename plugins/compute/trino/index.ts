/** Transforms and queries in Trino, over the lake's tables. */
import { TrinoClient } from '@sluice/analytics/trino/statements'
import { defineCompute } from '@sluice/sdk'
import { TrinoCompute } from './compute.ts'
import { trinoPolicy } from './policy.ts'
import { type ComputeSettings, settingsSchema } from './settings.ts'
import { TrinoStatements } from './statements.ts'

export default defineCompute<ComputeSettings>({
  name: 'trino',
  version: '0.1.0',
  description: 'Transforms and queries in Trino, over the lake’s tables.',
  settingsSchema,
  policy: trinoPolicy,
  async open(settings) {
    return new TrinoCompute(new TrinoClient(settings), settings.catalog, new TrinoStatements(settings))
  },
})
