/** Transforms in DuckDB over the lake's tables as PyIceberg reads them, each in a process of Python that ends with it. */
import { defineCompute } from '@sluice/sdk'
import { PythonCompute } from './compute.ts'
import { type PythonSettings, settingsSchema } from './settings.ts'

export default defineCompute<PythonSettings>({
  name: 'python',
  version: '1.0.0',
  description: 'Transforms in DuckDB and PyIceberg, in processes of Python.',
  settingsSchema,
  open: async (settings) => new PythonCompute(settings),
})
