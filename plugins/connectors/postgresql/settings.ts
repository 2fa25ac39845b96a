import { type JsonSchema, SluiceError } from '@sluice/sdk'
import { SSL_MODES, type SslMode } from '../server/line.ts'
import { settingsProblems } from '../server/settings-problems.ts'

/** A connection's config as it is written; snake_case because people write it. */
export interface Settings {
  readonly host: string
  readonly port?: number
  readonly database: string
  readonly user: string
  readonly password?: string
  readonly ssl_mode?: SslMode
  /** PEM text of the authority, never a path: the tenant may not name files of the platform. */
  readonly ssl_root_cert?: string
  readonly connect_timeout_s?: number
  readonly statement_timeout_s?: number
  readonly cursor_overlap_s?: number
  readonly schemas?: readonly string[]
  readonly one_moment?: boolean
}

/** The same, checked and with its defaults. */
export interface Source {
  readonly host: string
  readonly port: number
  readonly database: string
  readonly user: string
  readonly password: string | null
  readonly sslMode: SslMode
  readonly sslRootCert: string | null
  readonly connectTimeoutMs: number
  readonly statementTimeoutMs: number
  readonly cursorOverlapS: number
  /** Null: every schema that the login may use. */
  readonly schemas: readonly string[] | null
  /** Whether every read of one opened connector sees the instant of the first. */
  readonly oneMoment: boolean
}

export const settingsSchema = {
  type: 'object',
  description: 'A PostgreSQL database to read from.',
  additionalProperties: false,
  required: ['host', 'database', 'user'],
  properties: {
    host: {
      type: 'string',
      description: 'Host name or IP address; no socket path, no list.',
      pattern: '^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\\.?$|^[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*$',
      minLength: 1,
      maxLength: 253,
      examples: ['db.example.com'],
    },
    port: { type: 'integer', minimum: 1, maximum: 65535, default: 5432, description: 'Port of the server.' },
    database: { type: 'string', minLength: 1, maxLength: 63, examples: ['shop'], description: 'Name of the database.' },
    user: {
      type: 'string',
      minLength: 1,
      maxLength: 63,
      examples: ['reader'],
      description: 'A login that may read what is to be read, and needs no more.',
    },
    password: { type: 'string', maxLength: 1024, 'x-secret': true, description: 'Password of the login.' },
    ssl_mode: {
      type: 'string',
      enum: SSL_MODES,
      default: 'require',
      description: 'require encrypts without knowing whom it talks to; verify-full also checks the name.',
    },
    ssl_root_cert: {
      type: 'string',
      maxLength: 65536,
      description: 'PEM text of the certificate authority; without it, verify-full trusts the public ones.',
    },
    connect_timeout_s: {
      type: 'integer',
      minimum: 1,
      maximum: 120,
      default: 10,
      description: 'How long each step of connecting may take.',
    },
    statement_timeout_s: {
      type: 'integer',
      minimum: 1,
      maximum: 86400,
      default: 7200,
      description: 'How long reading one table may take at the source.',
    },
    cursor_overlap_s: {
      type: 'integer',
      minimum: 0,
      maximum: 604800,
      default: 600,
      description:
        'Where changes can only be told by the cursor column (views, foreign tables): how far back each read starts.',
    },
    schemas: {
      type: 'array',
      items: { type: 'string', minLength: 1, maxLength: 63 },
      minItems: 1,
      maxItems: 100,
      uniqueItems: true,
      description: 'Only tables of these schemas are offered and read.',
    },
    one_moment: {
      type: 'boolean',
      default: false,
      description:
        'Whether all reads of one opened connector see one instant. A run sets it for tables that belong together.',
    },
  },
} as const satisfies JsonSchema

/** Throws CONFIG `settings_invalid` with every problem at once, by JSON pointer; never with a value. */
export function parseSettings(settings: unknown): Source {
  const problems = [...settingsProblems(settings, settingsSchema)]
  if (problems.length > 0) {
    throw new SluiceError('CONFIG', 'the connection settings of this PostgreSQL source are not valid', {
      code: 'settings_invalid',
      remedy: problems.map((problem) => `${problem.pointer || '/'}: ${problem.message}`).join('; '),
      details: { problems },
    })
  }
  return withDefaults(settings as Settings)
}

function withDefaults(settings: Settings): Source {
  const defaults = settingsSchema.properties
  return {
    host: settings.host,
    port: settings.port ?? defaults.port.default,
    database: settings.database,
    user: settings.user,
    password: settings.password ?? null,
    sslMode: settings.ssl_mode ?? defaults.ssl_mode.default,
    sslRootCert: settings.ssl_root_cert ?? null,
    connectTimeoutMs: 1000 * (settings.connect_timeout_s ?? defaults.connect_timeout_s.default),
    statementTimeoutMs: 1000 * (settings.statement_timeout_s ?? defaults.statement_timeout_s.default),
    cursorOverlapS: settings.cursor_overlap_s ?? defaults.cursor_overlap_s.default,
    schemas: settings.schemas ?? null,
    oneMoment: settings.one_moment ?? defaults.one_moment.default,
  }
}
