import type { JsonSchema } from '@sluice/sdk'

export interface TrinoSettings {
  readonly url: string
  readonly token_file?: string
  readonly user?: string
  readonly ca_file?: string
  /** Default: the plugin's own state folder. */
  readonly path?: string
  readonly catalog: Readonly<Record<string, string>>
}

export const settingsSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['url', 'catalog'],
  properties: {
    url: { type: 'string', pattern: '^https?://[^/?#@]+$', description: 'Of the coordinator: https://trino:8443.' },
    token_file: {
      type: 'string',
      description: 'A token that may make catalogs; read anew for every statement, so that it may be renewed.',
    },
    user: { type: 'string', description: 'Where Trino asks for no token.' },
    ca_file: { type: 'string', description: 'What signed Trino’s certificate (PEM), where it is no public authority.' },
    path: {
      type: 'string',
      minLength: 1,
      description: 'Folder that says which snapshots are served; one for all runtimes on a registry. Default: its own.',
    },
    catalog: {
      type: 'object',
      additionalProperties: { type: 'string' },
      description:
        'Properties of every tenant’s catalog of the iceberg connector; {tenant} stands for the tenant. Secrets as references to Trino’s environment (ENV:NAME in braces behind a dollar sign).',
    },
  },
} as const satisfies JsonSchema
