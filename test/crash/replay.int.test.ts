/**
 * Requests with an Idempotency-Key at a runtime that is killed: before their effect, and between the effect and its
 * answer. The same request is sent again after the restart, and again after that.
 */
import { strict as assert } from 'node:assert'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { issueToken, type TokenSubject } from '../../runtime/src/auth/embedded-issuer.ts'
import { freePort } from '../../runtime/src/database/free-port.ts'
import { REQUEST_FAULT_POINTS } from '../../runtime/src/fault-points.ts'
import { RuntimeProcess } from './runtime-process.ts'

const ADMIN: TokenSubject = { role: 'admin' }
const DORA: TokenSubject = { tenant: 'acme', groups: ['svc-developers'], user: 'dora' }
const DORA_AS_VIEWER: TokenSubject = { tenant: 'acme', groups: ['svc-viewers'], user: 'dora' }

const [BEFORE_EFFECT, AFTER_EFFECT] = REQUEST_FAULT_POINTS

interface Request {
  readonly name: string
  readonly by: TokenSubject
  readonly path: string
  readonly body?: unknown
  /** The list in which its effect is found, and how many items it then has. */
  readonly list: string
  readonly count: number
}

const LOGIN = { host: '127.0.0.1', port: 9, database: 'x', user: 'x', password: 'x', ssl_mode: 'disable' }

const REQUESTS: readonly Request[] = [
  {
    name: 'a tenant',
    by: ADMIN,
    path: '/api/v1/tenants',
    body: { slug: 'acme', display_name: 'Acme', tier: 'standard' },
    list: '/api/v1/tenants',
    count: 1,
  },
  {
    name: 'a connection',
    by: DORA,
    path: '/api/v1/connections',
    body: { name: 'warehouse', connector_type: 'postgresql', config_encrypted: JSON.stringify(LOGIN) },
    list: '/api/v1/connections',
    count: 1,
  },
  {
    name: 'a product',
    by: DORA,
    path: '/api/v1/products',
    body: { name: 'people', namespace: 'crm', archetype: 'aggregate' },
    list: '/api/v1/products',
    count: 1,
  },
  {
    name: 'a grant',
    by: DORA,
    path: '/api/v1/products/people/grants',
    body: { subject: { user: 'vito' }, may: 'read' },
    list: '/api/v1/products/people/grants',
    count: 1,
  },
  {
    name: 'a run',
    by: DORA,
    path: '/api/v1/connections/warehouse/sync',
    list: '/api/v1/ingestion?tenant_id=acme',
    count: 1,
  },
]

interface Answer {
  readonly status: number
  readonly replayed: boolean
  readonly body: unknown
}

describe('a request with a key at a runtime that is killed', () => {
  let folder = ''
  let port = 0
  let runtime: RuntimeProcess | null = null

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-replay-'))
    port = await freePort()
    await start(`${AFTER_EFFECT}@1`)
  })

  after(async () => {
    runtime?.kill()
    await runtime?.ended
    await runtime?.lastSurvivors()
    await rm(folder, { recursive: true, force: true })
  })

  async function start(fault: string): Promise<void> {
    await runtime?.stop()
    runtime = await RuntimeProcess.spawn(join(folder, 'data'), fault, port)
    assert.ok(await runtime.address(), runtime.output)
  }

  async function send(request: Request, key: string, by = request.by): Promise<Answer> {
    const token = await issueToken(join(folder, 'data'), by, { ttlS: 600 })
    const json = request.body === undefined ? {} : { 'content-type': 'application/json' }
    const response = await fetch(`http://127.0.0.1:${port}${request.path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'idempotency-key': key, ...json },
      ...(request.body === undefined ? {} : { body: JSON.stringify(request.body) }),
    })
    const replayed = response.headers.get('idempotency-replayed') === 'true'
    return { status: response.status, replayed, body: await response.json() }
  }

  async function listed(request: Request): Promise<number> {
    const token = await issueToken(join(folder, 'data'), request.by, { ttlS: 600 })
    const headers = { authorization: `Bearer ${token}` }
    const response = await fetch(`http://127.0.0.1:${port}${request.list}`, { headers })
    return ((await response.json()) as { data: unknown[] }).data.length
  }

  /** Repetitions reach no fault point, so the process that answers them may wait for the next kill. */
  async function killedDuring(request: Request, key: string, next: string): Promise<void> {
    await assert.rejects(send(request, key), 'the answer never came')
    assert.equal((await runtime?.ended)?.signal, 'SIGKILL')
    await start(next)
  }

  for (const request of REQUESTS) {
    it(`finds the answer that was lost on the way: ${request.name}`, async () => {
      const key = `lost-${request.name.replace(' ', '-')}`
      await killedDuring(request, key, `${request === REQUESTS.at(-1) ? BEFORE_EFFECT : AFTER_EFFECT}@1`)
      const again = await send(request, key)
      assert.ok([201, 202].includes(again.status), JSON.stringify(again.body))
      assert.equal(again.replayed, true, 'what was stored with the effect')
      assert.deepEqual(await send(request, key), again)
      assert.equal(await listed(request), request.count, 'the effect happened once')
    })
  }

  it('does at last what was not done', async () => {
    const request: Request = {
      ...(REQUESTS[2] as Request),
      body: { name: 'orders', namespace: 'crm', archetype: 'aggregate' },
      count: 2,
    }
    await killedDuring(request, 'undone', `${BEFORE_EFFECT}@2`)
    const again = await send(request, 'undone')
    assert.deepEqual([again.status, again.replayed], [201, false], JSON.stringify(again.body))
    assert.deepEqual(await send(request, 'undone'), { ...again, replayed: true })
    assert.equal(await listed(request), request.count)
  })

  it('asks again whether the caller may, also after a restart', async () => {
    const refused = await send(REQUESTS[1] as Request, 'lost-a-connection', DORA_AS_VIEWER)
    assert.equal(refused.status, 403)
    assert.equal((refused.body as { code: string }).code, 'developer_required')
  })
})
