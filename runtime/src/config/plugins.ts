/** Plugins, what they are told, and what proves them. */
import { Type } from 'typebox'
import { closed } from './closed.ts'

const Settings = Type.Record(Type.String(), Type.Unknown(), {
  description: 'What the driver wants to know; see its guide.',
})

const ServingDriver = Type.Object(
  {
    driver: Type.String({ description: 'Name of a loaded serving plugin of this type.' }),
    settings: Type.Optional(Settings),
  },
  { additionalProperties: false },
)

export const Plugins = Type.Array(Type.String(), {
  default: [
    '@sluice/lookup/postgresql',
    '@sluice/timeseries/postgresql',
    '@sluice/analytics/duckdb',
    '@sluice/realtime/lmdb',
    '@sluice/connectors/files',
    '@sluice/connectors/mariadb',
    '@sluice/connectors/postgresql',
    '@sluice/connectors/s3-files',
  ],
  description: 'Packages (with a subpath) or paths of plugins.',
})

export const Serving = Type.Record(Type.String(), ServingDriver, {
  default: {
    lookup: { driver: 'postgresql' },
    timeseries: { driver: 'postgresql' },
    analytics: { driver: 'duckdb' },
    realtime: { driver: 'lmdb' },
  },
  description: 'Which store serves endpoints of each type.',
})

export const Programs = Type.Record(
  Type.String(),
  Type.Record(
    Type.String({ pattern: '^[a-z][a-z0-9_-]{0,62}$' }),
    Type.Object(
      {
        command: Type.Array(Type.String({ minLength: 1 }), {
          minItems: 1,
          maxItems: 32,
          description: 'The path of the program, from the root, and words that it is always started with.',
        }),
        arguments: Type.Array(Type.String({ minLength: 1 }), {
          default: [],
          maxItems: 32,
          description: 'Words that come after those of the connector.',
        }),
        folders: Type.Array(Type.String({ minLength: 1 }), {
          maxItems: 32,
          description:
            'What it may read and run besides the system’s libraries: where it is installed. Others must be able to read them.',
        }),
        tenants: Type.Optional(
          Type.Array(Type.String(), { description: 'Whose connections may use it. Default: everybody’s.' }),
        ),
        memory_mb: Type.Integer({
          default: 1024,
          minimum: 64,
          maximum: 65_536,
          description: 'Of all its processes together.',
        }),
      },
      closed,
    ),
    { default: {} },
  ),
  {
    description:
      'Experimental. Programs of others that connectors may start, behind walls: by type of connector, then by the name that connections use.',
  },
)

export const Certificates = Type.Object(
  {
    folder: Type.Optional(
      Type.String({ description: 'Certificates of plugins, besides those in their own packages.' }),
    ),
    trusted_keys: Type.Array(Type.String(), {
      default: [],
      description: 'Public keys whose certificates count, as sluice-conformance prints them.',
    }),
    min_level: Type.Optional(
      Type.Union([Type.Literal('core'), Type.Literal('full'), Type.Literal('hard')], {
        description: 'Certificates of a lower level do not count. Absent: those of every level do.',
      }),
    ),
    max_age: Type.Optional(
      Type.String({
        pattern: '^[1-9]\\d{0,3}d$',
        description:
          'In days, 365d: certificates that are older when the runtime starts do not count. Absent: certificates do not age. Built-in plugins have none, and do not either.',
      }),
    ),
  },
  closed,
)
