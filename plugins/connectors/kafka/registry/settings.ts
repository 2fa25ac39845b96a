/** What a connection says of a schema registry, which speaks as Confluent's does. */
import type { JsonSchema } from '@sluice/sdk'
import { invalid } from '../../files/settings.ts'

export interface RegistrySettings {
  readonly registry_url?: string
  readonly registry_user?: string
  readonly registry_password?: string
  readonly registry_token?: string
  readonly registry_ca?: string
}

export interface RegistryPlace {
  readonly host: string
  readonly port: number
  readonly isTls: boolean
  /** What stands before each path, without a `/` at its end. */
  readonly path: string
  /** PEM text; null: the public authorities. */
  readonly ca: string | null
  /** Of the header `authorization`; null: nobody logs in. */
  readonly authorization: string | null
}

export const registrySchema = {
  registry_url: {
    type: 'string',
    pattern: '^https?://[^?#@\\s]+$',
    maxLength: 300,
    description: 'Address of a schema registry; values of the format avro without avro_schema are read by its schemas.',
    examples: ['https://registry.example.com'],
  },
  registry_user: { type: 'string', minLength: 1, maxLength: 256, description: 'A login that may read its schemas.' },
  registry_password: { type: 'string', maxLength: 1024, 'x-secret': true, description: 'Password of that login.' },
  registry_token: {
    type: 'string',
    minLength: 1,
    maxLength: 8192,
    'x-secret': true,
    description: 'A bearer token, in place of a login.',
  },
  registry_ca: {
    type: 'string',
    maxLength: 65536,
    description: 'PEM text of the authority that signed the certificate of the registry; absent: the public ones.',
  },
} as const satisfies Readonly<Record<string, JsonSchema>>

const PEM = /-----BEGIN CERTIFICATE-----[\s\S]+-----END CERTIFICATE-----/
const HEADER = /^[\x21-\x7e]+$/
const isText = (value: unknown): value is string => typeof value === 'string' && value !== ''

/** Null: there is none. Throws CONFIG. */
export function parseRegistry(settings: Readonly<Record<keyof RegistrySettings, unknown>>): RegistryPlace | null {
  const { registry_url: address, registry_user: user, registry_password: password } = settings
  const { registry_token: token, registry_ca: ca } = settings
  if (address === undefined) {
    if ([user, password, token, ca].every((one) => one === undefined)) return null
    throw invalid('a registry has a login and no address', 'Name it in registry_url.')
  }
  const url = isText(address) && URL.canParse(address) ? new URL(address) : null
  const isTls = url?.protocol === 'https:'
  const isPlain =
    url !== null &&
    url.username === '' &&
    url.password === '' &&
    url.search === '' &&
    url.hash === '' &&
    url.host !== ''
  if (!isPlain || (!isTls && url.protocol !== 'http:'))
    throw invalid('registry_url is no address of a registry', 'Write it as https://registry.example.com.')
  if (ca !== undefined && !(isText(ca) && PEM.test(ca)))
    throw invalid('registry_ca is no certificate', 'Write its PEM text.')
  return {
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port === '' ? (isTls ? 443 : 80) : Number(url.port),
    isTls,
    path: url.pathname.replace(/\/+$/, ''),
    ca: ca ?? null,
    authorization: authorizationOf(user, password, token),
  }
}

function authorizationOf(user: unknown, password: unknown, token: unknown): string | null {
  if (token !== undefined) {
    if (user !== undefined || password !== undefined)
      throw invalid('the registry has a token and a login', 'Give one of both.')
    if (!isText(token) || !HEADER.test(token)) throw invalid('registry_token is no token', 'Write it as it was given.')
    return `Bearer ${token}`
  }
  if (user === undefined && password === undefined) return null
  if (!isText(user) || user.includes(':') || typeof password !== 'string')
    throw invalid('the login of the registry has no name, or no password', 'Write both; a name has no colon.')
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
}
