/** One stream for each topic. A message is an entry with the fields `key`, `value`, and one for each header. */
import { type BusMessage, type BusTenant, type EventBus, SluiceError } from '@sluice/sdk'
import type { Redis } from 'ioredis'
import { connectionTo, guarded } from './client.ts'
import type { RedisStreamsSettings } from './settings.ts'

const SCAN_COUNT = 1000
const REPLICA_TIMEOUT_MS = 3000
/** A group that is made and removed at once leaves an empty stream: there is no other way to make one. */
const GROUP = 'sluice'
/** Of the server's own login; nobody may become it. */
const DEFAULT_LOGIN = 'default'

export function openBus(settings: RedisStreamsSettings): EventBus {
  const redis = connectionTo(settings.url)
  return {
    admits: (tenant) => !ownLogins(settings).some((own) => own === loginOf(settings, tenant)),
    provision: (tenant, topics) =>
      guarded(redis, async () => {
        const making = topics.flatMap((topic) => [
          ['xgroup', 'create', topic, GROUP, '$', 'mkstream'],
          ['xgroup', 'destroy', topic, GROUP],
        ])
        if (making.length > 0) await allOf(redis, making)
        await giveRights(redis, settings, tenant)
      }),
    drop: (tenant) =>
      guarded(redis, async () => {
        await takeRights(redis, settings, tenant)
        for (const prefix of [tenant.events, tenant.changes]) await removeStreams(redis, prefix)
      }),
    publish: (messages) => guarded(redis, () => publish(redis, settings, messages)),
    ping: () => guarded(redis, async () => void (await redis.ping())),
    async close() {
      redis.disconnect()
    },
  }
}

const ownLogins = ({ url }: RedisStreamsSettings) => [DEFAULT_LOGIN, decodeURIComponent(new URL(url).username)]

const loginOf = ({ reader_login: pattern }: RedisStreamsSettings, tenant: string) =>
  pattern?.replaceAll('{tenant}', tenant)

/** By a selector, so that the login's rights to anything else have nothing to do with these streams. */
async function giveRights(redis: Redis, settings: RedisStreamsSettings, { slug, events }: BusTenant): Promise<void> {
  const login = loginOf(settings, slug)
  if (login === undefined) return
  const reading = '+xread +xrange +xrevrange +xlen'
  await redis.acl('SETUSER', login, 'clearselectors', `(%R~${events}* ${reading})`).catch((error: unknown) => {
    // Servers before Redis 7 know no selectors.
    if (error instanceof Error && /Error in ACL SETUSER/.test(error.message)) throw unguarded(error)
    throw error
  })
}

async function takeRights(redis: Redis, settings: RedisStreamsSettings, { slug }: BusTenant): Promise<void> {
  const login = loginOf(settings, slug)
  // SETUSER would make a login that is not there.
  if (login === undefined || (await redis.acl('GETUSER', login)) === null) return
  await redis.acl('SETUSER', login, 'clearselectors')
}

async function removeStreams(redis: Redis, prefix: string): Promise<void> {
  let cursor = '0'
  do {
    const [next, keys] = await redis.scan(cursor, 'MATCH', `${prefix}*`, 'COUNT', SCAN_COUNT, 'TYPE', 'stream')
    if (keys.length > 0) await redis.unlink(...keys)
    cursor = next
  } while (cursor !== '0')
}

/** In one transaction, so that none comes after one that was not kept. A stream that was removed is not made again. */
async function publish(
  redis: Redis,
  { keep_messages: most, replicas }: RedisStreamsSettings,
  messages: readonly BusMessage[],
): Promise<void> {
  if (messages.length === 0) return
  const added = await allOf(
    redis,
    messages.map((message) => [
      ...['xadd', message.topic, 'nomkstream', 'maxlen', '~', String(most), '*'],
      ...fieldsOf(message),
    ]),
  )
  if (added.includes(null)) throw new Error('there is no such stream')
  if (replicas > 0 && (await redis.wait(replicas, REPLICA_TIMEOUT_MS)) < replicas) {
    throw new Error('too few replicas have it')
  }
}

const fieldsOf = ({ key, value, headers }: BusMessage): string[] => [
  ...['key', key],
  ...(value === null ? [] : ['value', value]),
  ...Object.entries(headers).flat(),
]

/** What each of the commands answers, which are done one after the other with nothing between them. */
async function allOf(redis: Redis, commands: string[][]): Promise<readonly unknown[]> {
  const answers = (await redis.multi(commands).exec()) ?? []
  return answers.map(([error, answer]) => {
    if (error !== null) throw error
    return answer
  })
}

function unguarded(cause: unknown): SluiceError {
  return new SluiceError('CONFIG', 'the event bus does not keep readers from topics that are not theirs', {
    code: 'bus_unguarded',
    remedy: 'Use Redis 7 or later, or Valkey; or leave reader_login out of events.redis-streams.',
    cause,
  })
}
