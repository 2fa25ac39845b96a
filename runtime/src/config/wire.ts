/** The door for clients of PostgreSQL. */
import { Type } from 'typebox'
import { closed } from './closed.ts'

export const Wire = Type.Object(
  {
    port: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 65_535,
        description: 'Where clients of PostgreSQL read products by SQL; absent: there is no such door.',
      }),
    ),
    host: Type.String({
      default: '127.0.0.1',
      description: 'At which address. Whoever is not of this machine is let in under TLS only.',
    }),
    cert_file: Type.Optional(Type.String({ description: 'Its certificate (PEM); absent: there is no TLS.' })),
    key_file: Type.Optional(Type.String({ description: 'Its private key (PEM).' })),
    connections: Type.Integer({
      default: 200,
      minimum: 1,
      maximum: 10_000,
      description: 'Connections at once; at 90 % of them the oldest that are not logged in make room.',
    }),
    connections_per_tenant: Type.Integer({
      default: 50,
      minimum: 1,
      maximum: 10_000,
      description: 'Sessions of one tenant at once.',
    }),
    login_ms: Type.Integer({
      default: 10_000,
      minimum: 100,
      maximum: 60_000,
      description: 'Until a client has logged in.',
    }),
    idle_ms: Type.Integer({
      default: 1_800_000,
      minimum: 1_000,
      maximum: 86_400_000,
      description: 'Until the next message of a session, and until a client takes what it is sent.',
    }),
    catalogues: Type.Integer({
      default: 32,
      minimum: 1,
      maximum: 1_000,
      description: 'Different sets of readable tables whose catalogue is kept ready.',
    }),
    catalogue_idle_ms: Type.Integer({
      default: 600_000,
      minimum: 1_000,
      maximum: 86_400_000,
      description:
        'Until the PostgreSQL that answers for the catalogue, which nobody asks, is ended; the next statement about the catalogue begins it again.',
    }),
  },
  closed,
)
