/** The settings of a connection to a server, which are the same for every kind of it but for a few words. */
import { type JsonSchema, SluiceError } from '@sluice/sdk'
import { SSL_MODES, type SslMode } from './line.ts'
import { settingsProblems } from './settings-problems.ts'

/** What one kind of server calls its own. */
export interface ServerKind {
  readonly product: string
  readonly port: number
  /** Characters of the name of a database, a schema or a login. */
  readonly maxName: number
  /** Describe the settings `cursor_overlap_s` and `schemas`. */
  readonly overlap: string
  readonly schemas: string
}

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

/** Their schema, and what reads them. */
export function serverSettings(kind: ServerKind) {
  const settingsSchema = {
    type: 'object',
    description: `A ${kind.product} database to read from.`,
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
      port: { type: 'integer', minimum: 1, maximum: 65535, default: kind.port, description: 'Port of the server.' },
      database: {
        type: 'string',
        minLength: 1,
        maxLength: kind.maxName,
        examples: ['shop'],
        description: 'Name of the database.',
      },
      user: {
        type: 'string',
        minLength: 1,
        maxLength: kind.maxName,
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
        description: kind.overlap,
      },
      schemas: {
        type: 'array',
        items: { type: 'string', minLength: 1, maxLength: kind.maxName },
        minItems: 1,
        maxItems: 100,
        uniqueItems: true,
        description: kind.schemas,
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
  const parseSettings = (settings: unknown): Source => {
    const problems = [...settingsProblems(settings, settingsSchema)]
    if (problems.length > 0) {
      throw new SluiceError('CONFIG', `the connection settings of this ${kind.product} source are not valid`, {
        code: 'settings_invalid',
        remedy: problems.map((problem) => `${problem.pointer || '/'}: ${problem.message}`).join('; '),
        details: { problems },
      })
    }
    return withDefaults(settings as Settings, settingsSchema.properties)
  }

  return { settingsSchema, parseSettings }
}

type Defaults = ReturnType<typeof serverSettings>['settingsSchema']['properties']

function withDefaults(settings: Settings, defaults: Defaults): Source {
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
