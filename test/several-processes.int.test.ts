/** Several processes of one runtime at one port: whichever answers, the answer is the same, and any may end at any time. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import koffi from 'koffi'
import pg from 'pg'
import { type Client, type Json, manifests, ok } from '../acceptance/client.ts'
import { issueToken } from '../runtime/src/auth/embedded-issuer.ts'
import type { EmbeddedServer } from '../runtime/src/database/embedded-server.ts'
import { freePort } from '../runtime/src/database/free-port.ts'
import { placeTestCluster, startCopiedServer } from '../runtime/src/database/testing.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { adminOf, connectSource, personOf, registerProduct, servedAt, uploadAndDeploy } from './first-steps.ts'
import { until } from './until.ts'

const TENANTS = ['acme', 'other'] as const
const LOOKUP = '/api/v1/products/people/latest?filter=id:7'
const REALTIME = '/api/v1/products/people/realtime?key=person:7'
const ENDPOINTS = `  - type: lookup
    config: { index_columns: [id, city] }
  - type: realtime
    config: { key_template: 'person:{id}', ttl: 24h }
  - type: analytics
`
/** Of the tenant that asks too often. */
const RATE = { perS: 1, burst: 20 }

interface Answered {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly body: Json
}

/** One connection, which is kept: all of its requests are one process's. */
class Line {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 })
  readonly #token: string

  constructor(token: string) {
    this.#token = token
  }

  begin(path: string, method = 'GET'): ClientRequest {
    const headers = { authorization: `Bearer ${this.#token}`, 'content-type': 'application/json' }
    return request(new URL(path, url), { agent: this.#agent, method, headers })
  }

  async get(path: string): Promise<Answered> {
    return answerTo(this.begin(path).end())
  }

  async query(sql: string): Promise<Answered> {
    return answerTo(this.begin('/api/v1/query', 'POST').end(JSON.stringify({ sql })))
  }

  close(): void {
    this.#agent.destroy()
  }
}

function answerTo(asked: ClientRequest): Promise<Answered> {
  return new Promise((resolve, reject) => {
    asked.once('error', reject)
    asked.once('response', async (response) => {
      try {
        const chunks = await Array.fromAsync(response as AsyncIterable<Buffer>)
        const text = Buffer.concat(chunks).toString()
        const isJson = text.startsWith('{')
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: isJson ? JSON.parse(text) : text })
      } catch (error) {
        reject(error)
      }
    })
  })
}

const wirePort = await freePort()
const folder = await mkdtemp(join(tmpdir(), 'sluice-processes-'))
const data = join(folder, 'data')
let server: EmbeddedServer
let runtime: RuntimeProcess
let url: string
let admin: Client
const developers = new Map<string, Client>()

const tokenOf = (tenant: string, user = 'dora', group = 'svc-developers') =>
  issueToken(data, { tenant, groups: [group], user }, { ttlS: 36_000 })

async function start(more: Readonly<Record<string, string>> = {}): Promise<void> {
  runtime = await RuntimeProcess.spawn(data, null, 0, undefined, undefined, {
    SLUICE_HTTP__PROCESSES: '2',
    SLUICE_WIRE__PORT: String(wirePort),
    SLUICE_LIMITS__RATE__FREE: String(RATE.perS),
    SLUICE_LIMITS__RATE__BURST: String(RATE.burst),
    SLUICE_STOP__NOTICE_MS: '2000',
    ...more,
  })
  url = await servedAt(runtime)
  admin = await adminOf({ url, data })
}

before(async () => {
  server = await startCopiedServer(join(folder, 'source'))
  const { host, port, user, password } = server.tcpAddress
  const source = new pg.Client({ host, port, user, password, database: 'postgres' })
  await source.connect()
  for (const tenant of TENANTS) {
    await source.query(`create table ${tenant} (id integer primary key, email text, city text)`)
    await source.query(
      `insert into ${tenant} select n, 'p' || n || '@example.com', '${tenant}' from generate_series(1, 50) n`,
    )
  }
  await source.end()
  await placeTestCluster(data)
  await start()
  for (const slug of TENANTS) {
    await ok(admin.post('/api/v1/tenants', { slug, display_name: slug, tier: 'enterprise' }))
    const developer = await personOf({ url, data }, 'dora', { tenant: slug })
    developers.set(slug, developer)
    await connectSource(developer, server.tcpAddress)
    await registerProduct(developer, 'people')
    await uploadAndDeploy(developer, 'people', manifests(`public.${slug}`, { endpoints: ENDPOINTS }))
    const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
    const run = await developer.untilEnded(id)
    assert.equal(run.state, 'succeeded', JSON.stringify(run))
  }
})

after(async () => {
  await runtime?.stop()
  await server?.stop()
  await rm(folder, { recursive: true, force: true })
})

/** Requests that each process has answered on the route. */
async function answeredBy(route: string): Promise<readonly [number, number]> {
  const { body } = await admin.get('/metrics')
  const of = (process: number) =>
    String(body)
      .split('\n')
      .filter((line) => line.startsWith('sluice_http_requests_total{') && line.includes(`route="${route}"`))
      .filter((line) => line.includes(`http_process="${process}"`))
      .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
  return [of(1), of(2)]
}

/**
 * Two connections of which each is another process's, whatever others are open: one more is given to whoever has fewer, so
 * they are opened until both processes have answered.
 */
async function twoLines(token: string): Promise<readonly [Line, Line]> {
  const route = '/api/v1/products'
  const found = new Map<number, Line>()
  const others: Line[] = []
  while (found.size < 2) {
    const line = new Line(token)
    const [before] = await answeredBy(route)
    assert.equal((await line.get(route)).status, 200)
    const [now] = await answeredBy(route)
    const process = now > before ? 1 : 2
    if (found.has(process)) others.push(line)
    else found.set(process, line)
  }
  for (const line of others) line.close()
  return [found.get(1) as Line, found.get(2) as Line]
}

async function withLines(token: string, use: (lines: readonly [Line, Line]) => Promise<void>): Promise<void> {
  const lines = await twoLines(token)
  try {
    await use(lines)
  } finally {
    for (const line of lines) line.close()
  }
}

/** Process ids of those that the runtime has started to serve. */
function furtherProcesses(): readonly number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
        const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
        const command = readFileSync(`/proc/${name}/cmdline`, 'utf8')
        return state !== 'Z' && Number(parent) === runtime.pid && command.includes('further-process')
      } catch {
        // It has ended since it was listed.
        return false
      }
    })
    .map(Number)
}

const OPEN_FILES = 7
const setLimit = koffi.load(null).func('int prlimit(int pid, int resource, const uint64_t *limit, void *former)')

/** From now on the process opens no file more, also none that it is given; those that it has stay. */
function letOpen(pid: number, files: number): void {
  const [, hard] = /^Max open files +\d+ +(\d+)/m.exec(readFileSync(`/proc/${pid}/limits`, 'utf8')) ?? []
  assert.equal(setLimit(pid, OPEN_FILES, [files, Number(hard)], null), 0)
}

/** Files with the text, of changed rows that wait on disk for those who follow products. */
async function spooled(text: string): Promise<readonly string[]> {
  const found: string[] = []
  for (const name of await readdir(join(data, 'scratch'), { recursive: true })) {
    if (!name.endsWith('.lines')) continue
    // It may go while it is looked for.
    const lines = await readFile(join(data, 'scratch', name), 'utf8').catch(() => '')
    if (lines.includes(text)) found.push(name)
  }
  return found
}

/** Follows the product's rows until that text has come. */
async function follow(line: Line, text: string): Promise<void> {
  const asked = line.begin('/api/v1/products/people/changes?from=start').end()
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    asked.once('response', resolve).once('error', reject)
  })
  let heard = ''
  for await (const piece of response) {
    heard += String(piece)
    if (heard.includes(text)) break
  }
  assert.ok(heard.includes(text), heard)
}

describe('two processes at one port', { skip: process.platform !== 'linux', timeout: 900_000 }, () => {
  it('answer alike, each what is its tenant’s, from every store', async () => {
    for (const tenant of TENANTS) {
      await withLines(await tokenOf(tenant), async (lines) => {
        for (const line of lines) {
          for (const path of [LOOKUP, REALTIME]) {
            const { status, body } = await line.get(path)
            assert.equal(status, 200, JSON.stringify(body))
            assert.equal(body.data[0].city, tenant)
          }
          const { status, body } = await line.query('select distinct city from crm.people')
          assert.equal(status, 200, JSON.stringify(body))
          assert.deepEqual(body.rows, [[tenant]])
        }
      })
    }
    const { body } = await admin.get('/readyz')
    const { serving, wanted } = body.checks.find(({ name }: Json) => name === 'processes')
    assert.deepEqual([serving, wanted], [2, 2])
  })

  it('say in one answer what both have counted, each metric once', async () => {
    await withLines(await tokenOf('acme'), async ([, other]) => {
      const [, before] = await answeredBy('/api/v1/products/{name}/latest')
      await other.get(LOOKUP)
      const [, now] = await answeredBy('/api/v1/products/{name}/latest')
      assert.equal(now, before + 1)
    })
    const { body } = await admin.get('/metrics')
    const heads = String(body)
      .split('\n')
      .filter((line) => line.startsWith('# TYPE'))
    assert.equal(new Set(heads).size, heads.length)
    const series = String(body)
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => line.slice(0, line.lastIndexOf(' ')))
    assert.deepEqual(
      series.filter((one, at) => series.indexOf(one) !== at),
      [],
    )
    // What a process has by itself, of both; what the registry says, of the first alone.
    const told = (name: string) => series.filter((one) => one.startsWith(`${name}{`)).length
    assert.deepEqual([told('process_resident_memory_bytes'), told('sluice_registry_up')], [2, 1])
    assert.match(String(body), /^sluice_http_processes\{http_process="1"\} 2$/m)
  })

  it('hear of a policy and of a key that is revoked', async () => {
    const asAdmin = { 'x-tenant-id': 'acme' }
    await withLines(await tokenOf('acme', 'vito', 'svc-viewers'), async (lines) => {
      const shown = () => Promise.all(lines.map(async (line) => (await line.get(LOOKUP)).body.data?.[0]?.email))
      const isClear = (email: unknown) => email === 'p7@example.com'
      assert.ok(!(await shown()).some(isClear))
      const grant = { subject: { user: 'vito' }, may: 'unmask', classes: ['pii.identifier'] }
      const { id } = await ok(admin.post('/api/v1/products/people/grants', grant, asAdmin))
      await until('both show it in clear', async () => (await shown()).every(isClear))
      await admin.send(`/api/v1/products/people/grants/${id}`, { method: 'DELETE', headers: asAdmin })
      await until('neither shows it in clear', async () => !(await shown()).some(isClear))
    })
    const developer = developers.get('acme') as Client
    const { id, token } = await ok(developer.post('/api/v1/application-keys', { name: 'app', products: ['people'] }))
    const lines = await twoLines(token)
    for (const line of lines) assert.equal((await line.get(LOOKUP)).status, 200)
    await developer.send(`/api/v1/application-keys/${id}`, { method: 'DELETE' })
    for (const line of lines) {
      await until('the key is good for nothing', async () => (await line.get(LOOKUP)).status === 401)
      line.close()
    }
  })

  it('have one rate of a tenant together', async () => {
    await ok(admin.post('/api/v1/tenants', { slug: 'small', display_name: 'small', tier: 'free' }))
    const token = await tokenOf('small')
    const lines = Array.from({ length: 6 }, () => new Line(token))
    const sinceMs = performance.now()
    const answers = await Promise.all(
      lines.flatMap((line) => Array.from({ length: 15 }, () => line.get('/api/v1/connections'))),
    )
    const elapsedS = (performance.now() - sinceMs) / 1000
    for (const line of lines) line.close()
    const accepted = answers.filter(({ status }) => status === 200).length
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200, 429]))
    assert.ok(accepted <= RATE.burst * RATE.perS + RATE.perS * elapsedS + 1, `${accepted} in ${elapsedS} s`)
  })

  it('leave clients of PostgreSQL to the first one', async () => {
    const client = new pg.Client({
      ...{ host: '127.0.0.1', port: wirePort, user: 'dora', database: 'acme' },
      password: await tokenOf('acme'),
    })
    await client.connect()
    const { rows } = await client.query('select distinct city from crm.people')
    await client.end()
    assert.deepEqual(rows, [{ city: 'acme' }])
  })

  it('have nothing of a row that is erased, none of them', async () => {
    const asAdmin = { 'x-tenant-id': 'other' }
    const mine = '"id":9,'
    await withLines(await tokenOf('other'), async (lines) => {
      const found = () =>
        Promise.all(
          lines.map(async (line) => {
            const { body } = await line.get(LOOKUP.replace(':7', ':9'))
            const { status } = await line.get(REALTIME.replace(':7', ':9'))
            const { body: counted } = await line.query('select count(*)::integer from crm.people where id = 9')
            return [body.data?.length, status, counted.rows?.[0]?.[0]]
          }),
        )
      assert.deepEqual(await found(), [
        [1, 200, 1],
        [1, 200, 1],
      ])
      const followers = await twoLines(await tokenOf('other'))
      for (const follower of followers) await follow(follower, mine)
      for (const follower of followers) follower.close()
      assert.equal((await spooled(mine)).filter((name) => name.startsWith('process-2')).length, 1)
      assert.equal((await spooled(mine)).length, 2)
      const erasures = '/api/v1/connections/db/erasures'
      const wanted = { table: 'public.other', key: { id: 9 }, expire_history: true }
      const { id } = await ok(admin.post(erasures, wanted, asAdmin))
      await until('it is erased', async () => {
        const { state, ...erasure } = await ok(admin.get(`${erasures}/${id}`, asAdmin))
        assert.notEqual(state, 'failed', JSON.stringify(erasure))
        return state === 'succeeded'
      })
      assert.deepEqual(await spooled(mine), [])
      await until('neither answers it', async () => JSON.stringify(await found()) === '[[0,404,0],[0,404,0]]')
    })
  })

  it('answer for one that has no room for a connection, and it has some again when there is room', async () => {
    const [full] = furtherProcesses()
    assert.ok(full !== undefined)
    const token = await tokenOf('acme')
    letOpen(full, 3)
    const lines = Array.from({ length: 40 }, () => new Line(token))
    for (const { status } of await Promise.all(lines.map((line) => line.get('/healthz')))) assert.equal(status, 200)
    for (const line of lines) line.close()
    letOpen(full, 4096)
    await withLines(token, async ([, second]) => assert.equal((await second.get(LOOKUP)).status, 200))
  })

  it('take over what one had that was killed, and another takes its place', async () => {
    const token = await tokenOf('acme')
    await withLines(token, async ([first, second]) => {
      const [victim] = furtherProcesses()
      assert.ok(victim !== undefined)
      let isDone = false
      const failures: string[] = []
      /** A client as many: after a connection that broke it makes another. */
      const load = async () => {
        while (!isDone) {
          const line = new Line(token)
          for (let asked = 0; asked < 5 && !isDone; asked += 1) {
            const status = await line.get(LOOKUP).then(
              (answer) => String(answer.status),
              (error: NodeJS.ErrnoException) => error.code ?? error.message,
            )
            if (status !== '200') failures.push(status)
            if (status !== '200') break
          }
          line.close()
        }
      }
      const clients = Array.from({ length: 8 }, load)
      assert.equal((await second.get(LOOKUP)).status, 200)
      process.kill(victim, 'SIGKILL')
      await until('another serves in its place', async () => {
        // Who is the first one's meets nothing of it.
        assert.equal((await first.get(LOOKUP)).status, 200)
        const { body } = await admin.get('/metrics')
        return (
          /^sluice_http_process_restarts_total\{[^}]*\} 1$/m.test(String(body)) &&
          /^sluice_http_processes\{[^}]*\} 2$/m.test(String(body))
        )
      })
      isDone = true
      await Promise.all(clients)
      // Each of the eight loses one connection at most; nobody is refused.
      assert.ok(failures.length <= 8, failures.join(' '))
      assert.ok(
        failures.every((failure) => failure === 'ECONNRESET'),
        failures.join(' '),
      )
    })
    assert.notDeepEqual(furtherProcesses(), [])
    assert.match(runtime.output, /"process":2,"code":null,"signal":"SIGKILL"/)
    // The one that is new answers as the one before.
    await withLines(token, async (lines) => {
      for (const line of lines) assert.equal((await line.get(REALTIME)).body.data[0].city, 'acme')
    })
  })

  it('end what they have begun when they are told to stop, and say so before', async () => {
    const token = await tokenOf('acme')
    const body = JSON.stringify({ sql: 'select count(*)::integer from crm.people' })
    const lines = await twoLines(token)
    const halves = await Promise.all(
      lines.map(async (line) => {
        const asked = line.begin('/api/v1/query', 'POST')
        asked.setHeader('content-length', body.length)
        const answer = answerTo(asked)
        await new Promise<void>((resolve) => asked.write(body.slice(0, 5), () => resolve()))
        return { asked, answer }
      }),
    )
    const watcher = new Line(token)
    assert.equal((await watcher.get('/readyz')).status, 200)
    const stopped = runtime.stop()
    await until('it says that it is stopping', async () => (await watcher.get('/readyz')).status === 503)
    assert.equal((await watcher.get(LOOKUP)).status, 200)
    await until('nobody is let in any more', async () => {
      const line = new Line(token)
      const outcome = await line.get('/healthz').then(
        () => 'answered',
        (error: NodeJS.ErrnoException) => error.code,
      )
      line.close()
      return outcome === 'ECONNREFUSED'
    })
    for (const { asked, answer } of halves) {
      // Whoever has nothing to answer any more does not take the other's time.
      await sleep(500)
      asked.end(body.slice(5))
      const { status, body: said } = await answer
      assert.equal(status, 200, JSON.stringify(said))
      assert.deepEqual(said.rows, [[50]])
    }
    assert.deepEqual(await stopped, { code: 0, signal: null })
    assert.deepEqual(await runtime.lastSurvivors(), [])
    assert.deepEqual(runtime.leftovers(), [])
    for (const line of [...lines, watcher]) line.close()
  })

  it('are stopped within one deadline where one is held up, and what the others have begun ends', async () => {
    await start({ SLUICE_STOP__DEADLINE_MS: '12000', SLUICE_STOP__NOTICE_MS: '0' })
    const [held] = furtherProcesses()
    assert.ok(held !== undefined)
    process.kill(held, 'SIGSTOP')
    assert.deepEqual(await runtime.stop(), { code: 0, signal: null })
    assert.doesNotMatch(runtime.output, /left behind/)
    assert.deepEqual(await runtime.lastSurvivors(), [])
    assert.deepEqual(runtime.leftovers(), [])
  })

  it('all end with the first one, whichever way it ends, and another may listen', async () => {
    await start()
    const [held] = furtherProcesses()
    assert.ok(held !== undefined)
    // One that is held up hears of nothing.
    process.kill(held, 'SIGSTOP')
    runtime.kill()
    await runtime.ended
    assert.deepEqual(await runtime.lastSurvivors(), [])
    await assert.rejects(fetch(`${url}/healthz`))
    await start()
    assert.equal(furtherProcesses().length, 1)
  })
})
