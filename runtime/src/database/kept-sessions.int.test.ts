import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { after, it } from 'node:test'
import pg from 'pg'
import type { DatabaseAddress } from './address.ts'
import { checkSessions } from './kept-sessions.ts'
import { clientConfig } from './pools.ts'
import { startTestPostgres } from './testing.ts'

const postgres = await startTestPostgres()
const database = await postgres.createDatabase()
const servers: Server[] = []
const sockets: Socket[] = []
after(async () => {
  for (const socket of sockets) socket.destroy()
  for (const server of servers) server.close()
  await database.drop()
})

/** Where a socket of that server is. */
const placeOf = ({ host, port }: DatabaseAddress) =>
  host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port }

/** `ReadyForQuery`, outside of a transaction. */
const IS_FREE = Buffer.from([0x5a, 0, 0, 0, 5, 0x49])

/**
 * A pooler whose clients log in by themselves, each in a session of its own, and are given any of those after each transaction.
 * @param onStart what is made of the first message of a client
 * @param choose of the sessions that are free; null: each client keeps its own
 * @param hear called with what a client sends, before it goes on
 */
async function pooler(
  onStart: (message: Buffer) => Buffer,
  choose: ((free: Socket[]) => Socket | undefined) | null,
  hear: (bytes: Buffer, clients: readonly Socket[]) => void = () => undefined,
): Promise<DatabaseAddress> {
  const free: Socket[] = []
  const askers = new Map<Socket, Socket>()
  const holding = new Map<Socket, Socket | undefined>()
  const server = createServer((client) => {
    const session = connect(placeOf(database.address))
    sockets.push(client, session)
    for (const socket of [client, session]) socket.on('error', () => undefined)
    askers.set(session, client)
    holding.set(client, session)
    let begin: typeof onStart | null = onStart
    client.on('data', (bytes) => {
      hear(bytes, [...holding.keys()])
      const held = holding.get(client) ?? (choose?.(free) as Socket)
      holding.set(client, held)
      askers.set(held, client)
      held.write(begin?.(bytes) ?? bytes)
      begin = null
    })
    session.on('data', (bytes) => {
      const asker = askers.get(session) as Socket
      if (choose !== null && bytes.subarray(-IS_FREE.length).equals(IS_FREE)) {
        holding.set(asker, undefined)
        free.push(session)
      }
      asker.write(bytes)
    })
  })
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { ...database.address, host: '127.0.0.1', port: (server.address() as { port: number }).port }
}

const same = (message: Buffer) => message
const newest = (free: Socket[]) => free.pop()
const oldest = (free: Socket[]) => free.shift()

it('takes PostgreSQL itself', async () => {
  assert.deepEqual(await checkSessions(database.address), { keepSettings: true })
})

for (const [name, choose] of Object.entries({ newest, oldest })) {
  it(`refuses a pooler that gives each transaction the session that was free ${name}`, async () => {
    await assert.rejects(checkSessions(await pooler(same, choose)), { code: 'database_pooled', kind: 'CONFIG' })
  })
}

it('takes a connection that is lost meanwhile for no pooler', async () => {
  const lossy = await pooler(same, null, (bytes, [first]) => {
    if (bytes.includes('begin')) first?.destroy()
  })
  await assert.rejects(checkSessions(lossy), { code: 'database_unavailable', kind: 'TRANSIENT' })
})

/** As PgBouncer says it, and hangs up. */
function waitedTooLong(): Buffer {
  const said = Buffer.from('E____SFATAL\0C08P01\0Mquery_wait_timeout\0\0')
  said.writeInt32BE(said.length - 1, 1)
  return said
}

it('refuses a pooler by which one connection waits for the transaction of another', async () => {
  const single = await pooler(same, null, (bytes, [first]) => {
    if (!bytes.includes('begin')) return
    first?.removeAllListeners('data').on('data', () => first.end(waitedTooLong()))
  })
  await assert.rejects(checkSessions(single), { code: 'database_pooled', message: /waits for the transaction/ })
})

/** As PgBouncer with `ignore_startup_parameters`: the options stay behind. */
function withoutOptions(message: Buffer): Buffer {
  const [head, options, rest] = message.toString('latin1').split(/\0options\0[^\0]*/)
  assert.ok(options !== undefined && rest === undefined)
  const body = Buffer.from(`${head}${options}`, 'latin1')
  body.writeInt32BE(body.length)
  return body
}

it('says of one that keeps sessions, and not what they begin with, that it does', async () => {
  assert.deepEqual(await checkSessions(await pooler(withoutOptions, null)), { keepSettings: false })
})

it('ends where the database has room for one connection alone, and says so', async () => {
  const lone = await postgres.createDatabase()
  try {
    const admin = new pg.Client(clientConfig(lone.admin, { applicationName: 'test' }))
    await admin.connect()
    const role = `lone_${randomUUID().slice(0, 8)}`
    await admin.query(`create role ${role} login password 'x' connection limit 1`)
    try {
      await assert.rejects(checkSessions({ ...lone.address, user: role, password: 'x' }), {
        code: 'database_unavailable',
        message: /no connection left/,
      })
    } finally {
      await admin.query(`drop role ${role}`)
      await admin.end()
    }
  } finally {
    await lone.drop()
  }
})

it('says of a database that is not there what it always says', async () => {
  await assert.rejects(checkSessions({ ...database.address, database: 'nowhere' }), { code: 'database_missing' })
})
