/** What every client of the brokers has: addresses, login, deadlines, and errors that may be shown. */
import { readFile } from 'node:fs/promises'
import type { Base } from '@platformatic/kafka'
import { type BusMessage, isSluiceError, SluiceError } from '@sluice/sdk'
import type { KafkaSettings } from './settings.ts'

const CONNECT_TIMEOUT_MS = 5000
export const REQUEST_TIMEOUT_MS = 8000
/** The longest that a call to the bus takes. */
export const CALL_TIMEOUT_MS = 12_000

export async function clientOptions(settings: KafkaSettings) {
  const { username, password, mechanism } = settings
  const ca = settings.ca_file === undefined ? undefined : await readFile(settings.ca_file).catch(unreadable)
  return {
    clientId: 'sluice',
    bootstrapBrokers: [...settings.brokers],
    connectTimeout: CONNECT_TIMEOUT_MS,
    timeout: REQUEST_TIMEOUT_MS,
    retries: 1,
    autocreateTopics: false,
    ...(settings.tls ? { tls: ca === undefined ? {} : { ca } } : {}),
    ...(username === undefined ? {} : { sasl: { mechanism, username, password: password ?? '' } }),
  }
}

function unreadable(): never {
  throw new SluiceError('CONFIG', 'the authority’s certificate of the event bus cannot be read', {
    code: 'invalid_config',
    remedy: 'Correct events.kafka.ca_file.',
  })
}

/** Without a value it is what Kafka calls a tombstone. */
export function asSent({ topic, key, value, headers }: BusMessage) {
  return { topic, key, headers: { ...headers }, ...(value === null ? {} : { value }) }
}

/**
 * What breaks is told by the call that it breaks. The client's connections tell it as events too, a second time where they
 * are reset while they log in, and one that nobody listens to would end the process.
 */
export function heard<Client extends Base>(client: Client): Client {
  client.on('error' as never, (() => undefined) as never)
  client.connections.on('connecting', ({ connection }) => connection.on('error', () => undefined))
  return client
}

/** The client alone may wait for a broker that is away for longer than anybody waits for the client. */
export async function within<T>(timeoutMs: number, run: () => Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error('no answer in time')), timeoutMs)
  try {
    return await Promise.race([run(), late])
  } finally {
    clearTimeout(timer)
  }
}

/** Throws SluiceErrors only. */
export async function guarded<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await within(CALL_TIMEOUT_MS, run)
  } catch (error) {
    if (isSluiceError(error)) throw error
    const names = protocolErrors(error)
    if (names.includes('SECURITY_DISABLED')) throw unguarded(error)
    if (names.some((name) => TOO_LARGE.includes(name))) throw tooLarge(error)
    throw new SluiceError('TRANSIENT', 'the event bus could not do it', {
      code: 'bus_unavailable',
      remedy: 'Check that the Kafka brokers run, and the addresses, login and rights under events.kafka.',
      retryAfterMs: 1000,
      cause: error,
    })
  }
}

const TOO_LARGE: readonly string[] = ['MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE']

/** Kafka's own names of what went wrong, wherever the client has put them. */
export function protocolErrors(error: unknown, depth = 0): readonly string[] {
  if (!(error instanceof Error) || depth > 8) return []
  const { apiId, cause, errors } = error as Error & { readonly apiId?: unknown; readonly errors?: readonly unknown[] }
  const inner = [cause, ...(Array.isArray(errors) ? errors : [])].flatMap((one) => protocolErrors(one, depth + 1))
  return typeof apiId === 'string' ? [apiId, ...inner] : inner
}

/** Without rules, or a login to give them by, everybody who reaches the brokers may read every topic. */
export function unguarded(cause?: unknown): SluiceError {
  return new SluiceError('CONFIG', 'the event bus does not keep readers from topics that are not theirs', {
    code: 'bus_unguarded',
    remedy:
      'Give the Kafka brokers logins and an authorizer, and name a login under events.kafka; or switch change_topics off.',
    cause,
  })
}

function tooLarge(cause: unknown): SluiceError {
  return new SluiceError('INVALID_DATA', 'a row is larger than the event bus takes', {
    code: 'change_too_large',
    remedy:
      'Raise message.max.bytes and max.message.bytes of the Kafka brokers and the topic, or leave the column out of the product.',
    cause,
  })
}
