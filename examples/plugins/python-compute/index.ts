/** Transforms in DuckDB over the lake's tables as PyIceberg reads them, each in a process of Python that ends with it. */
import { defineCompute } from '@sluice/sdk'
import { PythonCompute, type PythonSettings } from './compute.ts'

export default defineCompute<PythonSettings>({
  name: 'python',
  version: '1.0.0',
  description: 'Transforms in DuckDB and PyIceberg, in processes of Python.',
  settingsSchema: {
    type: 'object',
    additionalProperties: false,
    required: ['python', 'catalog_file'],
    properties: {
      python: { type: 'string', description: 'A Python that has pyiceberg, pyarrow and duckdb.' },
      memory_mb: { type: 'integer', default: 1024, minimum: 64, description: 'Of DuckDB, for each transform.' },
      catalog_file: {
        type: 'string',
        description:
          'JSON of the properties of PyIceberg’s catalog; {tenant} stands for the tenant. Read anew for every transform, so that its login may be renewed.',
      },
    },
  },
  open: async (settings) => new PythonCompute(settings),
})
