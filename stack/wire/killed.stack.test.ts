/**
 * What becomes of a long answer over the wire when one of the three processes that it goes through is killed in its midst: its client,
 * the engine's child, the runtime. And of a statement that nobody wants any more: its child is gone, whatever it was at.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import pg from 'pg'
import { manifests } from '../../acceptance/client.ts'
import { onboardPeople, openWorld, type World } from '../../acceptance/world.ts'
import { isAlive } from '../../engine/src/walls/process-table.ts'
import { freePort } from '../../runtime/src/database/free-port.ts'
import { until, withLimits } from '../../test/until.ts'

const ROWS = 2_000
const MANY = 10_000_000
const LONG = `SELECT p.id, p.city, r.a FROM crm.people p, range(${MANY / ROWS}) r(a)`
const ENDLESS = 'SELECT count(*) FROM range(1000000000000) r(a), crm.people p WHERE r.a * p.id = 3'
const ONE = 'SELECT id FROM crm.people WHERE id = 1'
/** Of processor time, in hundredths of a second. */
const BUSY_TICKS = 10
/** More than a child takes to begin. */
const NEW_TICKS = 200

let world: World
let port: number
let tenant: string
let token: string
const clients: pg.Client[] = []

before(async () => {
  port = await freePort()
  Object.assign(process.env, {
    SLUICE_WIRE__PORT: String(port),
    // However slow the machine is: nothing here is to meet it.
    SLUICE_LIMITS__QUERY_TIMEOUT_MS: '600000',
    SLUICE_LIMITS__EXPORT_ROWS: String(2 * MANY),
  })
  world = await openWorld()
  tenant = world.tenants[0]
  await world.source.query(
    `CREATE TABLE killed (id integer PRIMARY KEY, city text); INSERT INTO killed SELECT i, 'city ' || i FROM generate_series(1, ${ROWS}) i`,
  )
  await world.createTenant(tenant, 'enterprise')
  const columns = '  - { name: id, type: integer, role: identity, nullable: false }\n  - { name: city, type: string }\n'
  const owner = await world.as(tenant, 'svc-developers', 'dora')
  await onboardPeople(world, owner, manifests('public.killed', { columns, endpoints: '  - type: analytics\n' }))
  token = await tokenOf('vera')
})

after(async () => {
  for (const client of clients) await client.end().catch(() => undefined)
  await world?.source.query('DROP TABLE killed').catch(() => undefined)
  await world?.close()
})

const tokenOf = (user: string, ...more: readonly string[]): Promise<string> =>
  world.deployment.token(['--tenant', tenant, '--group', 'svc-viewers', '--user', user, ...more])

async function session(password = token): Promise<pg.Client> {
  const client = new pg.Client({ host: '127.0.0.1', port, user: 'vera', database: tenant, password })
  client.on('error', () => undefined)
  await client.connect()
  clients.push(client)
  return client
}

const socketOf = (client: pg.Client): Socket =>
  (client as unknown as { connection: { stream: Socket } }).connection.stream

/** An answer as it comes, of which nothing is kept. */
class Answer {
  rows = 0
  /** How it ended: whole, by an error of that code, or with its connection; null: it goes on. */
  end: string | null = null
  readonly over: Promise<string>

  constructor(client: pg.Client, sql: string, isExtended = false) {
    this.over = new Promise((resolve) => {
      const ended = (how: string): void => {
        this.end ??= how
      }
      client.query({
        submit(connection: pg.Connection) {
          if (!isExtended) return connection.query(sql)
          connection.parse({ name: '', text: sql, types: [] }, true)
          connection.bind({ portal: '', statement: '', values: [] }, true)
          connection.execute({ portal: '', rows: '' } as never, true)
          connection.sync()
        },
        handleRowDescription() {},
        handleDataRow: () => (this.rows += 1),
        handleCopyData: () => (this.rows += 1),
        handleCommandComplete: () => ended('whole'),
        // What comes behind an error is no more this statement's, as this client has it.
        handleError: ({ code = 'none', severity }: pg.DatabaseError) => {
          // What the server did not say is of the connection.
          ended(severity === undefined ? 'broken' : code)
          resolve(this.end as string)
        },
        handleReadyForQuery: () => resolve(this.end as string),
        handlePortalSuspended() {},
        handleEmptyQuery() {},
      } as unknown as pg.Submittable)
    })
  }

  begun(): Promise<void> {
    return until(
      () => `rows come: ${this.rows}, ${this.end}`,
      () => this.rows > 1_000 || this.end !== null,
    )
  }
}

/** Processor time of the runtime's engines, by their ids. */
function ticksOfEngines(): ReadonlyMap<number, number> {
  const engines = (world.deployment.children?.() ?? []).filter(({ command }) => command.includes('--disable-sigusr1'))
  return new Map(
    engines.flatMap(({ pid }) => {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
        const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
        return [[pid, Number(fields[11]) + Number(fields[12])] as const]
      } catch {
        // It has ended since it was listed.
        return []
      }
    }),
  )
}

/** When none of them does anything: those that were begun to be ready are. */
async function atRest(): Promise<ReadonlyMap<number, number>> {
  let before = ticksOfEngines()
  await until('all engines rest', async () => {
    await sleep(300)
    const last = before
    before = ticksOfEngines()
    return isDeepStrictEqual(before, last)
  })
  return before
}

/** The child in which the statement is worked on that was begun since. */
async function busySince(before: ReadonlyMap<number, number>, isOver: () => boolean): Promise<number> {
  let found: number | undefined
  await until('a child works', () => {
    const works = ([pid, ticks]: readonly [number, number]) =>
      ticks - (before.get(pid) ?? 0) > (before.has(pid) ? BUSY_TICKS : NEW_TICKS)
    found = [...ticksOfEngines()].find(works)?.[0]
    assert.ok(found !== undefined || !isOver(), 'it ended before it was seen at work')
    return found !== undefined
  })
  return found as number
}

const gone = (pid: number): Promise<void> => until(`child ${pid} has ended`, () => !isAlive(pid))

async function answers(...sessions: readonly pg.Client[]): Promise<void> {
  for (const client of [...sessions, await session()]) assert.equal((await client.query(ONE)).rows.length, 1)
}

const LONG_ANSWERS: Readonly<Record<string, (client: pg.Client) => Promise<Answer>>> = {
  'a simple query': async (client) => new Answer(client, LONG),
  'a portal': async (client) => new Answer(client, LONG, true),
  'a cursor': async (client) => {
    await client.query(`BEGIN; DECLARE long CURSOR FOR ${LONG}`)
    return new Answer(client, 'FETCH ALL FROM long')
  },
  'COPY in text': async (client) => new Answer(client, `COPY (${LONG}) TO STDOUT`),
  'COPY in binary': async (client) => new Answer(client, `COPY (${LONG}) TO STDOUT (FORMAT binary)`),
}

/** Ended while a statement runs: by whom, with the code that its session is told; null: there is nobody left to tell. */
const ENDS: Readonly<Record<string, { readonly code: string | null; end(client: pg.Client): Promise<void> }>> = {
  'a request to cancel it': {
    code: '57014',
    async end(client) {
      const { processID, secretKey } = client as unknown as { processID: number; secretKey: number }
      const bytes = Buffer.alloc(16)
      for (const [at, value] of [16, 80_877_102, processID, secretKey].entries()) bytes.writeInt32BE(value, at * 4)
      const socket = connect({ host: '127.0.0.1', port }).end(bytes).resume()
      await once(socket, 'close')
    },
  },
  'its client, which closes': {
    code: null,
    async end(client) {
      socketOf(client).destroy()
    },
  },
}

const hasChildren = (): boolean => world.deployment.children !== null

describe('an answer of ten million rows', () => {
  for (const [way, begin] of Object.entries(LONG_ANSWERS)) {
    it(`by ${way} ends by an error where its engine is killed, and its session and others go on`, async (t) => {
      if (!hasChildren()) return t.skip('the runtime is not ours')
      const [client, beside] = [await session(), await session()]
      await answers(client, beside)
      const idle = await atRest()
      const answer = await begin(client)
      const child = await busySince(idle, () => answer.end !== null)
      await answer.begun()
      socketOf(client).pause()
      assert.equal(answer.end, null, 'it is in its midst')
      process.kill(child, 'SIGKILL')
      await gone(child)
      socketOf(client).resume()
      assert.equal(await answer.over, '57P03')
      assert.ok(answer.rows < MANY, `${answer.rows}`)
      if (way === 'a cursor') await client.query('ROLLBACK')
      await answers(client, beside)
    })
  }

  it('leaves no child behind where its client is killed', async (t) => {
    if (!hasChildren()) return t.skip('the runtime is not ours')
    const beside = await session()
    for (const isTaken of [true, false]) {
      const idle = await atRest()
      const login = { PGHOST: '127.0.0.1', PGPORT: String(port), PGDATABASE: tenant, PGUSER: 'vera', PGPASSWORD: token }
      const sql = isTaken ? `COPY (${LONG}) TO STDOUT` : ENDLESS
      const psql = spawn('psql', ['-XAtq', '-c', sql], {
        env: { ...process.env, ...login },
        stdio: ['ignore', 'pipe', 'ignore'],
      })
      const ended = once(psql, 'exit')
      if (isTaken) await once(psql.stdout.resume(), 'data')
      const child = await busySince(idle, () => psql.exitCode !== null)
      psql.kill('SIGKILL')
      await ended
      await gone(child)
      await answers(beside)
    }
  })

  it('breaks off with its connection where the runtime is killed, and can be asked for again', async (t) => {
    const { crash } = world.deployment
    if (crash === null) return t.skip('the runtime is not ours')
    const begun: Answer[] = []
    const held: Socket[] = []
    // No more than a tenant has places for: those that wait for their reader keep theirs.
    for (const way of ['a simple query', 'COPY in binary'] as const) {
      const begin = LONG_ANSWERS[way] as (client: pg.Client) => Promise<Answer>
      const client = await session()
      const answer = await begin(client)
      await answer.begun()
      held.push(socketOf(client).pause())
      begun.push(answer)
    }
    assert.deepEqual(new Set(begun.map(({ end }) => end)), new Set([null]))
    await crash()
    for (const socket of held) socket.resume()
    for (const answer of begun) {
      assert.equal(await answer.over, 'broken')
      assert.ok(answer.rows < MANY, `${answer.rows}`)
    }
    await answers()
  })
})

describe('the child of a statement', () => {
  for (const [what, { code, end }] of Object.entries(ENDS)) {
    for (const [how, sql] of Object.entries({ 'works without an end': ENDLESS, 'waits for its reader': LONG })) {
      it(`that ${how} is gone with ${what}`, async (t) => {
        if (!hasChildren()) return t.skip('the runtime is not ours')
        const [client, beside] = [await session(), await session()]
        const idle = await atRest()
        const answer = new Answer(client, sql)
        const child = await busySince(idle, () => answer.end !== null)
        if (sql === LONG) socketOf(client).pause()
        await end(client)
        await gone(child)
        if (code === null) return answers(beside)
        socketOf(client).resume()
        assert.equal(await answer.over, code)
        await answers(client, beside)
      })
    }
  }

  it('is gone with the time that it may take', async (t) => {
    if (!hasChildren()) return t.skip('the runtime is not ours')
    await withLimits([5_000, 30_000, 120_000], async (limitMs) => {
      const client = await session()
      await client.query(`SET statement_timeout = ${limitMs}`)
      const idle = await atRest()
      const answer = new Answer(client, ENDLESS)
      const child = await busySince(idle, () => answer.end !== null)
      assert.equal(await answer.over, '57014')
      await gone(child)
      await client.query('RESET statement_timeout')
      await answers(client)
    })
  })

  it('is gone with the token of its session', async (t) => {
    if (!hasChildren()) return t.skip('the runtime is not ours')
    await withLimits([10, 60, 200], async (lifeS) => {
      const client = await session(
        await tokenOf('kurt', '--ttl', `${lifeS}s`, '--email', `kurt${Date.now()}@example.org`),
      )
      const idle = await atRest()
      const answer = new Answer(client, ENDLESS)
      const child = await busySince(idle, () => answer.end !== null)
      assert.equal(await answer.over, '28000')
      await gone(child)
      await answers()
    })
  })
})
