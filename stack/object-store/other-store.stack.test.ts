/**
 * An object store that the runtime does not bring: examples/plugins/webdav, packed, unpacked elsewhere and named in the
 * configuration. A lake lies there, through a deployment, reads, an export, a restart with nothing on the machine but the
 * registry, and what a mistake in the settings is told as.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import { promisify } from 'node:util'
import { Client as Source } from 'pg'
import { type Client, type Json, manifests, ok } from '../../acceptance/client.ts'
import type { EmbeddedServer } from '../../runtime/src/database/embedded-server.ts'
import { startCopiedServer } from '../../runtime/src/database/testing.ts'
import { RuntimeProcess } from '../../test/crash/runtime-process.ts'
import {
  adminOf,
  connectSource,
  makeTenant,
  personOf,
  registerProduct,
  servedAt,
  uploadAndDeploy,
} from '../../test/first-steps.ts'
import { until } from '../../test/until.ts'

const ROOT = join(import.meta.dirname, '../..')
const run = promisify(execFile)

let folder: string
let data: string
let plugin: string
let server: EmbeddedServer
let source: Source
let runtime: RuntimeProcess
let developer: Client
let viewer: Client

const login = () => {
  const text = process.env['SLUICE_TEST_WEBDAV_URL']
  assert.ok(text, 'SLUICE_TEST_WEBDAV_URL names the server; npm run test:stack starts one')
  const { origin, pathname, username, password } = new URL(text)
  return { url: origin + pathname, username, password }
}

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-other-store-'))
  data = join(folder, 'data')
  plugin = await unpacked()
  server = await startCopiedServer(join(folder, 'source'))
  source = new Source({ ...server.tcpAddress, database: 'postgres' })
  await source.connect()
  await source.query('CREATE TABLE people (id int PRIMARY KEY, email text, city text)')
  await source.query("INSERT INTO people SELECT i, i || '@x.test', 'Bern' FROM generate_series(1, 500) i")
})

after(async () => {
  await runtime?.stop()
  await source?.end()
  await server?.stop()
  await rm(folder, { recursive: true, force: true })
})

/** As whoever has its tarball and what it depends on. */
async function unpacked(): Promise<string> {
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', folder], {
    cwd: join(ROOT, 'examples/plugins/webdav'),
  })
  const [{ filename }] = JSON.parse(stdout) as [{ filename: string }]
  await run('tar', ['-xzf', join(folder, filename), '-C', folder])
  const modules = join(folder, 'package/node_modules')
  await mkdir(join(modules, '@sluice'), { recursive: true })
  await symlink(join(ROOT, 'sdk'), join(modules, '@sluice/sdk'))
  await symlink(join(ROOT, 'node_modules/fast-xml-parser'), join(modules, 'fast-xml-parser'))
  assert.ok(!(await readdir(join(folder, 'package'))).some((name) => name.endsWith('.test.ts')))
  return join(folder, 'package')
}

async function spawn(changes: Readonly<Record<string, unknown>> = {}): Promise<RuntimeProcess> {
  const store = { type: 'webdav', ...login() }
  const config = {
    plugins: ['@sluice/analytics/duckdb', '@sluice/lookup/postgresql', '@sluice/connectors/postgresql', plugin],
    serving: { analytics: { driver: 'duckdb' }, lookup: { driver: 'postgresql' } },
    object_store: { ...store, cache_mb: 64 },
    exports: { destinations: { shelf: { ...store, bucket: 'shelf', prefix: 'from-sluice', tenants: ['acme'] } } },
    ...changes,
  }
  const file = join(folder, 'sluice.yaml')
  await writeFile(file, JSON.stringify(config))
  return RuntimeProcess.spawn(data, null, 0, file)
}

async function start(): Promise<void> {
  runtime = await spawn()
  const url = await servedAt(runtime)
  developer = await personOf({ url, data }, 'dora')
  viewer = await personOf({ url, data }, 'vito', { group: 'svc-viewers' })
}

async function sync(): Promise<void> {
  const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
  const ended = await developer.untilEnded(id)
  assert.equal(ended.state, 'succeeded', JSON.stringify(ended))
}

const count = async (): Promise<number> => {
  const { rows } = await ok(viewer.post('/api/v1/query', { sql: 'SELECT count(*) AS n FROM crm.people' }))
  return Number(rows[0][0])
}

async function exported(asked: object): Promise<Json> {
  const { id } = await ok(viewer.post('/api/v1/exports', asked))
  let found: Json
  await until('the export has ended', async () => {
    found = await ok(viewer.get(`/api/v1/exports/${id}`))
    return found.state === 'succeeded' || found.state === 'failed'
  })
  return found
}

it('a deployment fills the lake there, and stores and queries answer from it', async () => {
  await start()
  await makeTenant(await adminOf({ url: await servedAt(runtime), data }))
  await connectSource(developer, server.tcpAddress)
  await registerProduct(developer, 'people')
  await uploadAndDeploy(developer, 'people', manifests('public.people'))
  await sync()
  assert.equal(await count(), 500)
  const table = await ok(developer.get('/iceberg/v1/acme/namespaces/crm/tables/people'))
  assert.ok(String(table['metadata-location']).startsWith(`${login().url}/sluice-acme/`), table['metadata-location'])
  assert.ok(!(await readdir(data)).includes('lake'), 'no folder of this machine has the lake')
})

it('after a restart on a machine that has no copies everything is there, and goes on', async () => {
  await runtime.stop()
  await rm(join(data, 'lake-cache'), { recursive: true, force: true })
  await start()
  assert.equal(await count(), 500)
  await source.query("INSERT INTO people VALUES (1000, 'new@x.test', 'Thun')")
  await sync()
  assert.equal(await count(), 501)
})

it('an export goes to a folder there, and one that is not there is told in its terms', async () => {
  const { url, username, password } = login()
  const headers = { authorization: `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}` }
  const asked = { sql: 'SELECT id FROM crm.people', format: 'csv', to: 'shelf' }
  const refused = await exported(asked)
  assert.equal(refused.error.code, 'export_destination_refused', JSON.stringify(refused))
  assert.equal((await fetch(`${url}/shelf`, { method: 'MKCOL', headers })).status, 201)
  const made = await exported(asked)
  assert.equal(made.state, 'succeeded', JSON.stringify(made))
  const file = await fetch(made.address, { headers })
  assert.equal((await file.text()).trim().split('\n').length, 502)
})

it('while its server is away the runtime is not ready, and says what to do; then it is again', async () => {
  await runtime.stop()
  const server = new URL(login().url)
  const sockets = new Set<Socket>()
  const front = createServer((client) => {
    const behind = connect(Number(server.port), server.hostname)
    for (const [from, to] of [
      [client, behind],
      [behind, client],
    ] as const) {
      sockets.add(from)
      from.on('error', () => to.destroy()).once('close', () => sockets.delete(from))
      from.pipe(to)
    }
  })
  const listen = (port: number) => new Promise<void>((resolve) => front.listen(port, '127.0.0.1', resolve))
  await listen(0)
  const { port } = front.address() as AddressInfo
  const settings = { type: 'webdav', ...login(), url: `http://127.0.0.1:${port}${server.pathname}` }
  runtime = await spawn({ object_store: settings })
  const url = await servedAt(runtime)
  const check = async (): Promise<Json> => {
    const answer = await fetch(`${url}/readyz`)
    const { checks } = (await answer.json()) as Json
    return { status: answer.status, ...checks.find(({ name }: Json) => name === 'service:object-store:webdav') }
  }
  await until('it answers', async () => (await check()).state === 'ok')
  const closed = new Promise((resolve) => front.close(resolve))
  for (const socket of sockets) socket.destroy()
  await closed
  await until('it is missed', async () => (await check()).state === 'down')
  const { status, ok: isFit, since, remedy } = await check()
  assert.deepEqual([status, isFit], [503, false])
  assert.ok(Date.parse(since) > 0 && remedy.length > 0)
  await listen(port)
  await until('it is ready again', async () => (await check()).status === 200)
  await runtime.stop()
  front.close()
  for (const socket of sockets) socket.destroy()
})

it('mistakes in its settings are told at the start, by their names and without values', async () => {
  await runtime.stop()
  const wrong: readonly (readonly [Readonly<Record<string, unknown>>, RegExp])[] = [
    [{ object_store: { type: 'webdav', ...login(), passwords: 'x' } }, /object_store\.passwords is not known/],
    [{ object_store: { type: 'webdav', ...login(), attempt_ms: 'soon' } }, /object_store\.attempt_ms must be/],
    [{ object_store: { type: 'tape' } }, /no plugin of kind object-store is called "tape"/],
    [{ exports: { destinations: { shelf: { type: 'webdav', bucket: 'shelf', tenants: ['acme'] } } } }, /shelf/],
  ]
  for (const [changes, said] of wrong) {
    const refused = await spawn(changes)
    assert.equal(await refused.address(), null)
    assert.match(refused.output, said)
    assert.ok(!refused.output.includes(login().password))
  }
})
