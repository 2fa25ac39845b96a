/** What a connection says of a cluster: where it is, as whom it is read, and which topics are tables. */
import { isIP } from 'node:net'
import type { JsonSchema } from '@sluice/sdk'
import { asObject, expectNoOthers, invalid } from '../files/settings.ts'
import { parseRegistry, type RegistryPlace, type RegistrySettings, registrySchema } from './registry/settings.ts'
import { TopicPattern } from './topic-pattern.ts'
import {
  type Defaults,
  FORMATS,
  KEY_FORMATS,
  MODES,
  parseTopic,
  type TopicSettings,
  type TopicTable,
  topicSchema,
} from './topic-settings.ts'

export const MECHANISMS = ['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'] as const
type Mechanism = (typeof MECHANISMS)[number]

export interface KafkaSettings extends RegistrySettings {
  readonly brokers: readonly string[]
  readonly user?: string
  readonly password?: string
  readonly mechanism?: Mechanism
  readonly tls?: boolean
  /** PEM text of the authority, never a path: the tenant may not name files of the platform. */
  readonly ca?: string
  readonly topics: readonly string[]
  readonly format?: Defaults['format']
  readonly mode?: Defaults['mode']
  readonly key_format?: Defaults['keyFormat']
  readonly tables?: Readonly<Record<string, TopicSettings>>
}

export interface Cluster {
  readonly brokers: readonly { readonly host: string; readonly port: number }[]
  readonly tls: boolean
  /** Null: the public authorities. */
  readonly ca: string | null
  readonly login: { readonly mechanism: Mechanism; readonly user: string; readonly password: string } | null
}

export interface KafkaSource {
  readonly cluster: Cluster
  /** Null: there is none. */
  readonly registry: RegistryPlace | null
  /** Null: no table is made of that topic. */
  tableOf(topic: string): TopicTable | null
  /** Of topics that are named and not by a pattern; null where there are patterns, so that all have to be listed. */
  readonly named: readonly string[] | null
}

export const settingsSchema: JsonSchema = {
  type: 'object',
  description: 'Topics of a Kafka cluster to read from.',
  additionalProperties: false,
  required: ['brokers', 'topics'],
  properties: {
    brokers: {
      type: 'array',
      items: { type: 'string', minLength: 3, maxLength: 260 },
      minItems: 1,
      maxItems: 16,
      uniqueItems: true,
      description: 'Some of the brokers, each as host:port. The others are found by these.',
      examples: [['kafka.example.com:9092']],
    },
    user: {
      type: 'string',
      minLength: 1,
      maxLength: 256,
      description: 'A login that may read the topics, and needs no more.',
    },
    password: { type: 'string', maxLength: 1024, 'x-secret': true, description: 'Password of the login.' },
    mechanism: {
      type: 'string',
      enum: MECHANISMS,
      default: 'SCRAM-SHA-512',
      description: 'How the login is proved. PLAIN sends the password, and so wants tls.',
    },
    tls: { type: 'boolean', default: true, description: 'Whether lines are encrypted, and brokers prove their names.' },
    ca: {
      type: 'string',
      maxLength: 65536,
      description: 'PEM text of the authority that signed the certificates of the brokers; absent: the public ones.',
    },
    ...registrySchema,
    topics: {
      type: 'array',
      items: { type: 'string', minLength: 1, maxLength: 249 },
      minItems: 1,
      maxItems: 1000,
      uniqueItems: true,
      description: 'The topics, each a table: names, or patterns with * for any characters.',
      examples: [['orders', 'crm.*']],
    },
    format: {
      type: 'string',
      enum: FORMATS,
      default: 'json',
      description: 'How values are written, where tables says nothing else.',
    },
    mode: {
      type: 'string',
      enum: MODES,
      default: 'append',
      description:
        'append: each record is a row. upsert: the newest record of a key is the row, one without a value deletes it.',
    },
    key_format: { type: 'string', enum: KEY_FORMATS, default: 'text', description: 'How keys are written.' },
    tables: {
      type: 'object',
      description: 'What is said of single topics, by their names.',
      additionalProperties: topicSchema,
      examples: [{ orders: { mode: 'upsert', primary_key: ['id'], columns: [{ name: 'id', type: 'long' }] } }],
    },
  },
  examples: [
    {
      brokers: ['kafka.example.com:9092'],
      user: 'reader',
      password: '…',
      topics: ['orders'],
      tables: { orders: { mode: 'upsert', primary_key: ['id'], columns: [{ name: 'id', type: 'long' }] } },
    },
  ],
}

const MAX_TABLES = 1000
const PEM = /-----BEGIN CERTIFICATE-----[\s\S]+-----END CERTIFICATE-----/

/** Throws CONFIG for what the schema lets pass and cannot be right. */
export function parseSettings(settings: unknown): KafkaSource {
  const { brokers, topics, tables = {}, ...rest } = asObject(settings, 'the settings')
  const { user, password, mechanism = 'SCRAM-SHA-512', tls = true, ca, ...more } = rest
  const { registry_url, registry_user, registry_password, registry_token, registry_ca, ...other } = more
  const { format = 'json', mode = 'append', key_format = 'text', ...others } = other
  expectNoOthers(others, 'the settings')
  const chosen = <T extends string>(value: unknown, among: readonly T[], name: string): T => {
    const found = among.find((one) => one === value)
    if (found === undefined) throw invalid(`${name} is not known`, `Use one of ${among.join(', ')}.`)
    return found
  }
  if (typeof tls !== 'boolean') throw invalid('tls is neither true nor false', 'Write true or false.')
  if (ca !== undefined && (typeof ca !== 'string' || !PEM.test(ca)))
    throw invalid('ca is no certificate', 'Write its PEM text.')
  if (user === undefined && password !== undefined)
    throw invalid('there is a password and no user', 'Name the user, or leave out both.')
  const registry = parseRegistry({ registry_url, registry_user, registry_password, registry_token, registry_ca })
  const defaults: Defaults = {
    hasRegistry: registry !== null,
    format: chosen(format, FORMATS, 'format'),
    mode: chosen(mode, MODES, 'mode'),
    keyFormat: chosen(key_format, KEY_FORMATS, 'key_format'),
  }
  const patterns = textsOf(topics, 'topics').map((text) => {
    const pattern = TopicPattern.parse(text)
    if (pattern === null)
      throw invalid('a topic has no name that there can be', 'Use letters, digits, ".", "_", "-" and *.')
    return pattern
  })
  const named = Object.entries(asObject(tables, 'tables'))
  if (named.length > MAX_TABLES) throw invalid('there are too many tables', `Name at most ${MAX_TABLES}.`)
  const known = new Map(named.map(([name, table]) => [name, parseTopic(name, table, defaults)]))
  for (const name of known.keys())
    if (!patterns.some((pattern) => pattern.takes(name)))
      throw invalid('tables names a topic that topics does not', 'Name it under topics, too.')
  return {
    cluster: {
      brokers: textsOf(brokers, 'brokers').map(brokerOf),
      tls,
      ca: ca ?? null,
      login: user === undefined ? null : loginOf(user, password, chosen(mechanism, MECHANISMS, 'mechanism')),
    },
    registry,
    named: patterns.every(({ isPlain }) => isPlain) ? patterns.map(({ text }) => text) : null,
    tableOf: (topic) => {
      if (!patterns.some((pattern) => pattern.takes(topic))) return null
      return known.get(topic) ?? parseTopic(topic, {}, defaults)
    },
  }
}

function loginOf(user: unknown, password: unknown, mechanism: Mechanism): NonNullable<Cluster['login']> {
  const isText = (value: unknown): value is string => typeof value === 'string' && !value.includes('\0')
  if (!isText(user) || user === '' || !isText(password))
    throw invalid('the login has no name, or no password', 'Write both as texts.')
  return { mechanism, user, password }
}

function textsOf(value: unknown, name: string): readonly string[] {
  if (Array.isArray(value) && value.length > 0 && value.length <= 1000 && value.every((one) => typeof one === 'string'))
    return value
  throw invalid(`${name} is no list of texts`, 'Write one to a thousand texts.')
}

const HOST = /^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\.?$/

function brokerOf(text: string): { readonly host: string; readonly port: number } {
  const [, bracketed, plain = '', digits = ''] = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text) ?? []
  const host = bracketed ?? plain
  const port = Number(digits)
  const isHost = bracketed === undefined ? HOST.test(host) : isIP(host) === 6
  if (!isHost || port < 1 || port > 65535)
    throw invalid('a broker is no address', 'Write each as host:port, or as [address]:port.')
  return { host, port }
}
