/** Who is let in, from where, and what is masked for whom. */
import { Type } from 'typebox'
import { closed } from './closed.ts'

/** Scheme, host and, where it is not the scheme's own, port: as browsers send it. */
const Origin = Type.String({ pattern: '^[a-z][a-z0-9+.-]*://[a-z0-9._:\\[\\]-]+$', maxLength: 300 })

/** A dot in it goes one level down. */
const claimOf = (name: string, what: string) =>
  Type.String({ default: name, description: `Claim that holds ${what}; a dot goes one level down.` })

export const Issuer = Type.Object(
  {
    issuer: Type.String({ description: 'The `iss` of its tokens; discovery is asked below this address.' }),
    audience: Type.String({ description: 'The `aud` that its tokens must have.' }),
    tenants: Type.Optional(
      Type.Array(Type.String(), { description: 'Tenants that it may claim; absent: every tenant.' }),
    ),
    admin: Type.Boolean({ default: false, description: 'Whether its tokens may claim the admin role.' }),
    jwks_uri: Type.Optional(Type.String({ description: 'Where its keys are; absent: discovery says it.' })),
    allow_http: Type.Boolean({ default: false, description: 'Plain HTTP to it, on other hosts than this one.' }),
    claims: Type.Object(
      {
        tenant: claimOf('tenant_id', 'the id of the tenant'),
        groups: claimOf('groups', 'the groups, a list'),
        roles: claimOf('roles', 'the roles, a list; admin is looked for'),
        clearance: claimOf('clearance', 'a level that narrows what its bearer sees without a grant'),
        email: claimOf('email', 'the address, for audit and dashboards'),
      },
      closed,
    ),
  },
  { additionalProperties: false },
)

export const Auth = Type.Object(
  {
    audience: Type.String({ default: 'sluice', description: 'Of the embedded issuer.' }),
    token_ttl_s: Type.Integer({
      default: 3600,
      minimum: 60,
      maximum: 86_400,
      description: 'Of tokens of the embedded issuer that are asked for without a life of their own.',
    }),
    issuers: Type.Array(Issuer, { default: [], description: 'Any entry turns the embedded issuer off.' }),
  },
  closed,
)

export const Cors = Type.Object(
  {
    origins: Type.Array(Type.Union([Type.Literal('*'), Origin]), {
      default: [],
      description: 'Pages that may call for every tenant: https://app.example.com, or * for all there are.',
    }),
    tenants: Type.Record(Type.String(), Type.Array(Origin), {
      default: {},
      description: 'Pages that may call for one tenant, by its id.',
    }),
  },
  closed,
)

export const Masking = Type.Object(
  {
    sensitive: Type.Array(Type.String(), { default: [], description: 'Classes masked besides pii.*.' }),
    strategies: Type.Record(
      Type.String(),
      Type.Union(['hash', 'redact', 'partial', 'null', 'omit'].map((name) => Type.Literal(name))),
      {
        default: { 'pii.identifier': 'hash', 'pii.name': 'redact' },
        description:
          'How values of a class are masked; redact where none is named, null where the type has no such form.',
      },
    ),
  },
  closed,
)
