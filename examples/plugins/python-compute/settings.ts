import type { JsonSchema } from '@sluice/sdk'

export interface PythonSettings {
  readonly python: string
  readonly memory_mb: number
  readonly catalog_file: string
}

export const settingsSchema: JsonSchema = {
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
}
