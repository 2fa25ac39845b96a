/** What ends a statement that goes on; that no more pages are asked for is seen at a server that would never end it. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, beforeEach, describe, it } from 'node:test'
import { createEngine, type Engine } from '@sluice/engine'
import { testEngineProgram } from '@sluice/engine/testing'
import { SluiceError } from '@sluice/sdk'
import { TrinoCompute } from '../../../../plugins/compute/trino/compute.ts'
import { EndlessTrino } from '../../../../plugins/compute/trino/endless-trino.fixture.ts'
import { until } from '../../../../test/until.ts'
import type { QueryEngine } from '../../compute/query-engine.ts'
import { inTransaction } from '../../database/pools.ts'
import type { Principal, TenantCall } from '../../flow.ts'
import { PASSWORD_ISSUER } from '../../policy/identity.ts'
import { createApplicationKey, refreshMaker } from '../../registry/application-keys.ts'
import { newId } from '../../registry/ids.ts'
import { verifierOf } from '../../registry/scram-verifiers.ts'
import { createServicePassword, removeServicePassword } from '../../registry/service-passwords.ts'
import { setTenantStatus } from '../../registry/tenants.ts'
import { startTestRegistry } from '../../registry/testing.ts'
import type { QueriesDeps } from './deps.ts'
import { distributedRun } from './distributed-query.ts'
import { HeldRights, isPermitted } from './held-rights.ts'

const registry = await startTestRegistry()
const { pool } = registry
const EVERY_MS = 20
const TIMEOUT_MS = 600_000
const MEMBER = 'svc-viewers'

describe('a statement that goes on', () => {
  let folder: string
  let engine: Engine
  let trino: EndlessTrino
  let outside: QueryEngine
  let tenant: string
  let maker: Principal
  let mayRead: () => Promise<boolean>

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-held-'))
    const program = await testEngineProgram()
    engine = createEngine({ scratchDir: folder, ...program, maxChildren: 1, warmChildren: 0, maxQueued: 1 })
    trino = new EndlessTrino()
    const compute = new TrinoCompute(await trino.start(), {})
    outside = { name: 'trino', query: (query) => compute.query(query) }
  })
  after(async () => {
    trino.close()
    await engine.close()
    await rm(folder, { recursive: true, force: true })
    await registry[Symbol.asyncDispose]()
  })
  beforeEach(async () => {
    tenant = await registry.tenant()
    maker = { ...PERSON, tenant }
    mayRead = async () => true
    trino.cancelled = 0
  })

  /** Reads until the statement is ended; at its first rows `what` ends. Returns how the reader is told. */
  async function readUntilEnded(principal: Principal, what: () => unknown): Promise<SluiceError> {
    const call = { tenant, principal, signal: new AbortController().signal } as TenantCall
    const tables = [{ name: 'crm.people', isStillReadable: () => mayRead() }]
    const rights = new HeldRights({ pool }, call, { tables, timeoutMs: TIMEOUT_MS, everyMs: EVERY_MS })
    const platform = { engine, cpu: { refuseSpent() {} } } as unknown as QueriesDeps
    const limits = { memoryBytes: 256 * 1024 * 1024, timeoutMs: TIMEOUT_MS, threads: 1 }
    const request = { sql: 'SELECT 2 AS n', format: 'json' } as const
    const asked = { request, visible: [], described: [], kind: 'json-rows', limits } as const
    const run = rights.over(await distributedRun(platform, { ...call, signal: rights.signal }, asked, outside))
    const reading = (async () => {
      for await (const _ of run.output);
    })()
    await what()
    const error = await reading.then(
      () => assert.fail('it was read to its end'),
      (told: unknown) => told as SluiceError,
    )
    assert.equal(await run.finished.catch((told: unknown) => told), error)
    await until('the statement is cancelled in Trino', async () => trino.cancelled === 1)
    return error
  }

  const ends = (error: SluiceError, why: RegExp): void => {
    assert.deepEqual([error.kind, error.code], ['PERMISSION', 'right_ended'])
    assert.match(error.message, why)
  }

  it('ends with the right to what it reads', async () => {
    const error = await readUntilEnded(maker, () => {
      mayRead = async () => false
    })
    ends(error, /crm\.people may not be read/)
  })

  it('ends with its token, and with its tenant', async () => {
    const brief = { ...maker, tokenExpiresAtMs: Number.POSITIVE_INFINITY }
    ends(await readUntilEnded(brief, () => Object.assign(brief, { tokenExpiresAtMs: 0 })), /token/)
    trino.cancelled = 0
    ends(await readUntilEnded(maker, () => setTenantStatus(pool, tenant, 'deprovisioning')), /tenant/)
  })

  it('ends with its key, and where the key’s maker has less than before', async () => {
    const asKey = async (): Promise<Principal> => {
      const id = newId('key')
      const expiresAt = new Date(Date.now() + TIMEOUT_MS)
      const wanted = { id, tenant, name: 'app', products: null, operations: ['query'], unmask: [] } as const
      await createApplicationKey(pool, { ...wanted, secretHash: Buffer.alloc(32), expiresAt, maker })
      const key = { maker, products: null, operations: ['query'], unmask: new Set() } as unknown as Principal['key']
      return { ...maker, subject: id, ...(key && { key }) }
    }
    const key = await asKey()
    ends(
      await readUntilEnded(key, () => pool.query('delete from application_keys where id = $1', [key.subject])),
      /key/,
    )
    for (const less of [{ groups: [] }, { claimedClearance: 'public' as const }]) {
      trino.cancelled = 0
      const other = await asKey()
      ends(await readUntilEnded(other, () => refreshMaker(pool, { ...maker, ...less })), /key/)
      await refreshMaker(pool, maker)
    }
  })

  it('ends with its service password', async () => {
    const id = newId('svp')
    const verifier = await verifierOf('any')
    const wanted = { id, tenant, name: 'dashboards', group: MEMBER, clearance: null, expiresAt: null, createdBy: maker }
    await inTransaction(pool, (tx) => createServicePassword(tx, { ...wanted, verifier }))
    const principal = { ...maker, issuer: PASSWORD_ISSUER, subject: id }
    const removed = () => inTransaction(pool, (tx) => removeServicePassword(tx, tenant, id))
    ends(await readUntilEnded(principal, removed), /service password/)
  })

  it('goes on while nobody can judge, and is judged as soon as somebody can', async () => {
    let asked = 0
    const error = await readUntilEnded(maker, async () => {
      mayRead = async () => {
        asked += 1
        throw new SluiceError('TRANSIENT', 'no registry', { code: 'database_unavailable' })
      }
      await until('it was asked several times', async () => asked > 2)
      assert.equal(trino.cancelled, 0)
      mayRead = () => isPermitted(() => Promise.reject(new SluiceError('PERMISSION', 'no', { code: 'forbidden' })))
    })
    ends(error, /may not be read/)
  })
})

const PERSON: Principal = {
  issuer: 'https://issuer.example',
  subject: 'ann',
  tenant: '',
  groups: [MEMBER],
  isAdmin: false,
  isDeveloper: false,
  isViewer: true,
  claimedClearance: 'internal',
  email: null,
  tokenExpiresAtMs: Number.POSITIVE_INFINITY,
  tokenIssuedAtMs: 0,
}
