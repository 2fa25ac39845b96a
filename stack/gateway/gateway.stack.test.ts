/**
 * Runtimes that are started anew one after the other behind the gateway that is deployed, under load. Its configuration is
 * taken as it is but for where it listens and where the runtimes are; its clients send nothing a second time.
 */
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { Type } from 'typebox'
import { freePort } from '../../runtime/src/database/free-port.ts'
import { defineRoute } from '../../runtime/src/http/route.ts'
import { startTestServer, type TestServer } from '../../runtime/src/http/test-server.ts'
import { until } from '../../test/until.ts'
import { type NativeProcess, startNative } from '../native-process.ts'
import { nginxCommand } from './nginx.ts'

const REQUESTS = 10_000
const CLIENTS = 24
const STOP_MS = 60_000
/** Requests between two restarts. */
const BETWEEN = 250

/** How often each request has been done, by its id. */
const done = new Map<string, number>()
const count = (id: string) => done.set(id, (done.get(id) ?? 0) + 1)

const responses = { 200: { description: 'Done.' } }
const common = { summary: 'Test', tags: ['Test'], auth: 'none', responses } as const
const Id = Type.Object({ id: Type.String() })
const routes = [
  defineRoute({
    ...common,
    method: 'GET',
    path: '/api/v1/things/{id}',
    name: 'get',
    params: Id,
    handler: (call) => ({ body: { id: call.params.id } }),
  }),
  defineRoute({
    ...common,
    method: 'POST',
    path: '/api/v1/things',
    name: 'make',
    body: Id,
    async handler(call) {
      count(call.body.id)
      // Some are under way whenever a runtime is told to stop.
      await new Promise((resolve) => setTimeout(resolve, Number(call.body.id) % 20))
      return { body: { id: call.body.id } }
    },
  }),
]

let folder: string
let gateway: NativeProcess
let url: string
const ports: number[] = []
const runtimes: TestServer[] = []

const start = (port: number) => startTestServer(routes, {}, { port })

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-gateway-'))
  for (let made = 0; made < 2; made += 1) {
    ports.push(await freePort())
    runtimes.push(await start(ports[made] as number))
  }
  const port = await freePort()
  url = `http://127.0.0.1:${port}`
  const deployed = await readFile(join(import.meta.dirname, '../../deploy/gateway/nginx.conf'), 'utf8')
  const [servers, listen, resolver] = [/ server sluice:8080 resolve (.*;)/, /listen 8080;/, /resolver .*;/]
  for (const part of [servers, listen, resolver]) assert.match(deployed, part)
  const here = deployed
    .replace(servers, ports.map((own) => ` server 127.0.0.1:${own} $1`).join('\n'))
    .replace(listen, `listen 127.0.0.1:${port};`)
    .replace(resolver, '')
  const file = join(folder, 'nginx.conf')
  await writeFile(file, `daemon off;\npid ${join(folder, 'pid')};\nerror_log stderr;\n${here}`)
  gateway = await startNative({
    name: 'nginx',
    command: await nginxCommand(),
    args: ['-c', file, '-p', folder],
    logFile: join(folder, 'log'),
    ready: async () => (await fetch(`${url}/api/v1/things/1`)).status === 200,
    readyTimeoutMs: 60_000,
  })
})

after(async () => {
  await gateway?.stop()
  for (const runtime of runtimes) await runtime[Symbol.asyncDispose]()
  await rm(folder, { recursive: true, force: true })
})

/** Every second request is one that changes something; of these each third names itself. */
function send(id: number): Promise<Response> {
  if (id % 2 === 0) return fetch(`${url}/api/v1/things/${id}`)
  const headers = { 'content-type': 'application/json', ...(id % 3 === 0 ? { 'idempotency-key': `key-${id}` } : {}) }
  return fetch(`${url}/api/v1/things`, { method: 'POST', headers, body: JSON.stringify({ id: String(id) }) })
}

it('fails no request while runtimes are started anew in turn, and sends nothing twice that one has read', async () => {
  let next = 0
  let restarts = 0
  const failures: string[] = []
  const client = async () => {
    for (let id = next++; id < REQUESTS; id = next++) {
      const said = await send(id).then(
        async (answer) => {
          const text = await answer.text()
          return answer.status === 200 ? null : `${answer.status} ${text.slice(0, 200)}`
        },
        (error: unknown) => String(error),
      )
      if (said !== null) failures.push(`${id % 2 === 0 ? 'GET' : 'POST'} ${id}: ${said}`)
    }
  }
  const clients = Promise.all(Array.from({ length: CLIENTS }, client))
  for (let turn = 0; next < REQUESTS; turn = 1 - turn) {
    await runtimes[turn]?.server.stop(STOP_MS)
    runtimes[turn] = await start(ports[turn] as number)
    restarts += 1
    // Nobody stops the other before this one has been taking requests for a while.
    const seen = next
    await until('more requests have come', () => next > Math.min(REQUESTS - 1, seen + BETWEEN))
  }
  await clients
  console.log(`${REQUESTS} requests, ${restarts} restarts`)
  assert.ok(restarts >= 2)
  assert.deepEqual(failures, [])
  const twice = [...done].filter(([, times]) => times > 1)
  assert.deepEqual(twice, [])
  assert.equal(done.size, REQUESTS / 2)
})
