/** Servers beside the runtime: databases, engines that run transforms, and the one of dashboards. */
import { type TUnsafe, Type } from 'typebox'
import { closed } from './closed.ts'
import { type Settings, serviceByName } from './services.ts'

export const Database = Type.Object(
  {
    registry_url: Type.Optional(
      Type.String({ description: 'PostgreSQL of the registry; absent: the embedded server.' }),
    ),
    catalog_admin_url: Type.Optional(
      Type.String({
        description: 'A login of the registry’s server that may make roles, for logins of SQL catalogs.',
      }),
    ),
    serving_owner_url: Type.Optional(
      Type.String({
        description: 'Login of the serving database that owns its tables; absent: the embedded server’s.',
      }),
    ),
    serving_writer_url: Type.Optional(Type.String({ description: 'Login there that writes rows and owns nothing.' })),
    serving_reader_url: Type.Optional(
      Type.String({ description: 'Login there that reads rows, under row security, and owns nothing.' }),
    ),
  },
  closed,
)

/** The engine that asks, by the name of its plugin: under it the configuration tells of the endpoint. */
export const POLICY_KEY = 'trino'

export const PolicyEndpoint = Type.Object(
  {
    policy_host: Type.String({ default: '127.0.0.1', description: 'Where the engine reaches its policy endpoint.' }),
    policy_port: Type.Integer({ default: 8181, minimum: 0, maximum: 65_535, description: 'At which port there.' }),
    policy_cert_file: Type.Optional(
      Type.String({ description: 'Certificate of the policy endpoint (PEM); absent: there is no such endpoint.' }),
    ),
    policy_key_file: Type.Optional(Type.String({ description: 'Its private key (PEM).' })),
    policy_client_ca_file: Type.Optional(
      Type.String({ description: 'What signed the certificates of those who may ask (PEM).' }),
    ),
    issuer: Type.Optional(
      Type.String({
        description:
          'The `iss` of the tokens that the engine accepts: its users may be what this issuer may claim. Needed where several are configured.',
      }),
    ),
  },
  closed,
)

/** By the name of the engine its settings; one at most. */
export const computeOf = (takesOthers: boolean) =>
  serviceByName('compute', takesOthers) as TUnsafe<Readonly<Record<string, Settings>>>

export const Dashboards = Type.Object(
  {
    url: Type.String({
      pattern: '^https?://[^?#@]+$',
      description: 'Address of Superset: https://superset.example.com.',
    }),
    public_url: Type.Optional(Type.String({ description: 'The address that people use, where it is another.' })),
    issuer: Type.Optional(
      Type.String({
        description:
          'The `iss` of the issuer that people log in to Superset through: grants of its people are roles there. Needed where several are configured.',
      }),
    ),
    username: Type.String({ description: 'A login of Superset’s own, with the role Admin.' }),
    password: Type.String({ description: 'Of that login.' }),
    database_admin_url: Type.Optional(
      Type.String({
        description: 'A login of the serving database’s server that may make roles. Absent: of the embedded server.',
      }),
    ),
    database_host: Type.Optional(
      Type.String({ description: 'Where Superset finds the serving database; absent: where the runtime does.' }),
    ),
    database_port: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 65_535, description: 'At which port there; absent: as the runtime does.' }),
    ),
    timeout_ms: Type.Integer({ default: 30_000, minimum: 100, description: 'One request to Superset.' }),
  },
  {
    additionalProperties: false,
    description:
      'The server of dashboards. Absent: there is none, and products that want one are deployed without, with a warning.',
  },
)
