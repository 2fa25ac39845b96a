/** Whether what runs do reaches the endpoint: each event once at least, in its order, whatever the endpoint does. */
import assert from 'node:assert/strict'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, beforeEach, it } from 'node:test'
import type { Lake } from '@sluice/iceberg'
import { isSluiceError } from '@sluice/sdk'
import { inTransaction } from '../../../database/pools.ts'
import { claimJobs, failJob, finishJob } from '../../../jobs/claims.ts'
import type { Connection } from '../../../registry/connections.ts'
import {
  forgetOpenLineage,
  noteBegun,
  noteCommitted,
  OPENLINEAGE_JOB,
  openLineageLoad,
  tenantsToTell,
} from '../../../registry/openlineage-runs.ts'
import type { Product } from '../../../registry/products.ts'
import { ANN, startTestRegistry } from '../../../registry/testing.ts'
import { saveVersion } from '../../../registry/versions.ts'
import { type DeliverDeps, deliver, networkOf, type OpenLineageSettings } from './deliver.ts'
import { runUuid } from './run-event.ts'

interface Heard {
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

const registry = await startTestRegistry()
const { pool } = registry
const heard: Heard[] = []
const hanging = new Set<ServerResponse>()
/** What the endpoint does; it takes what is told where it is `take`. */
let mode: 'take' | 'hang' | 'close' | 'redirect' | number = 'take'
/** Called for each event before it is answered. */
let onHeard: () => Promise<void> = async () => undefined

const server = createServer((request, response) => {
  let body = ''
  request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk))
  request.on('end', async () => {
    heard.push({ headers: request.headers, body })
    await onHeard()
    if (mode === 'hang') hanging.add(response)
    else if (mode === 'close') response.destroy()
    else if (mode === 'redirect') response.writeHead(307, { location: '/elsewhere' }).end()
    else response.writeHead(mode === 'take' ? 201 : mode).end()
  })
})
before(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)))
after(async () => {
  for (const response of hanging) response.destroy()
  server.close()
  await registry[Symbol.asyncDispose]()
})

const counted = { sent: 0, age: 0, count: 0, refused: 0 }
const settings = (change: Partial<OpenLineageSettings> = {}): OpenLineageSettings => ({
  url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/v1/lineage`,
  api_key: 'k3y-of-the-endpoint',
  namespace: 'sluice',
  source_hosts: false,
  allow_http: false,
  keep_hours: 168,
  keep_runs: 10_000,
  ...change,
})
const deps = (change: Partial<OpenLineageSettings> = {}): DeliverDeps => ({
  pool,
  lake: { load: async () => null } as unknown as Lake,
  rules: { sensitive: [], strategies: {} },
  settings: settings(change),
  network: networkOf(settings(change)),
  release: '9.9.9',
  counts: {
    sent: () => {
      counted.sent += 1
    },
    dropped: (why, count) => {
      counted[why] += count
    },
  },
})
const SIGNAL = new AbortController().signal

let tenant: string
let connection: Connection
let product: Product
let other: Product

beforeEach(async () => {
  await pool.query('delete from jobs')
  await pool.query('delete from openlineage_runs')
  heard.length = 0
  mode = 'take'
  onHeard = async () => undefined
  Object.assign(counted, { sent: 0, age: 0, count: 0, refused: 0 })
  tenant = await registry.tenant()
  connection = await registry.connection(tenant)
  product = await registry.product(tenant)
  other = await registry.product(tenant)
  for (const one of [product, other]) await deploy(one)
})

/** With a column that nobody is shown, and two checks: of that one, and of the other. */
function deploy({ id, domain, name }: Product) {
  const column = (of: string, classification: string) => ({
    name: of,
    type: 'string',
    nullable: true,
    role: 'attribute',
    classification,
    description: '',
  })
  const normalised = {
    product: { name, domain, description: 'A product.', owner: { team: null, email: null } },
    inputs: [{ name: 'p', connection: connection.name, table: 'people' }],
    output: { columns: [column('city', 'none'), column('email', 'pii.identifier')] },
    quality: { checks: [{ name: 'open_check', rule: { kind: 'unique', columns: ['city'] } }] },
  }
  const version = { productId: id, version: '1.0.0', manifests: {}, normalised, digest: 'd', deployedBy: ANN }
  return inTransaction(pool, (tx) => saveVersion(tx, version))
}

let runs = 0
async function begin(of: { readonly product?: Product } = {}): Promise<string> {
  const id = `run_${(runs += 1)}_${tenant}`
  // A connection has one run at a time.
  const { id: read } = await registry.connection(tenant)
  await pool.query(
    `insert into runs (id, tenant, kind, connection_id, product_id, trigger, state, lease_until, worker_id, created_by)
     values ($1, $2, $3, $4, $5, 'schedule', 'running', now() + interval '1 hour', 'w', '{}')`,
    [id, tenant, of.product ? 'materialization' : 'ingestion', of.product ? null : read, of.product?.id ?? null],
  )
  return id
}

const note = (runId: string, of = product, version: string | null = '1.0.0') =>
  noteBegun(pool, { tenant, runId, productId: of.id, product: nameOf(of) }, version)

async function commit(runId: string, of = product, epoch = 1): Promise<void> {
  const checks = [
    {
      name: 'open_check',
      severity: 'warn',
      passed: true,
      violations: 0,
      total: 4,
      reads: { output: ['city'], raw: [] },
    },
    {
      name: 'of_hidden',
      severity: 'warn',
      passed: false,
      violations: 3,
      total: 4,
      reads: { output: ['email'], raw: [] },
    },
  ]
  const { rows } = await pool.query(
    `insert into materializations (id, tenant, product_id, epoch, kind, state, run_id, version, digest, counts, inputs, quality, committed_at)
     values ('mat_' || $1 || $2, $3, $2, $4, 'materialize', 'committed', $1, '1.0.0', 'd', '{"rows": 4}', '{"p": {"snapshot_id": "77"}}', $5, now())
     returning id, committed_at as "committedAt"`,
    [runId, of.id, tenant, epoch, JSON.stringify({ checks })],
  )
  const made = { ...rows[0], version: '1.0.0' }
  await inTransaction(pool, (tx) => noteCommitted(tx, { tenant, runId, productId: of.id, product: nameOf(of) }, made))
}

interface Ended {
  readonly state: 'succeeded' | 'failed' | 'cancelled'
  readonly error?: object
  readonly products?: readonly object[]
}

const end = (runId: string, { state, error, products }: Ended) =>
  pool.query(
    `update runs set state = $2, error = $3, result = $4, finished_at = now(), lease_until = null, worker_id = null where id = $1`,
    [runId, state, error ? JSON.stringify(error) : null, JSON.stringify({ products: products ?? [] })],
  )

/** What runtimes do until nothing is due. Returns codes of tries that failed. */
async function work(change: Partial<OpenLineageSettings> = {}, retries = 0): Promise<readonly string[]> {
  const failures: string[] = []
  for (;;) {
    const [job] = await claimJobs(pool, [{ kinds: [OPENLINEAGE_JOB] }], 60_000)
    if (job === undefined) return failures
    try {
      await finishJob(pool, job, await deliver(deps(change), job.key, SIGNAL))
    } catch (error) {
      if (!isSluiceError(error)) throw error
      failures.push(error.code)
      await failJob(pool, job, error, failures.length <= retries ? 0 : 3_600_000)
    }
  }
}

// biome-ignore lint/suspicious/noExplicitAny: documents, looked into
const events = (): any[] => heard.map(({ body }) => JSON.parse(body))
const told = () => events().map(({ eventType, job }) => `${eventType} ${job.name}`)
const nameOf = ({ domain, name }: Product) => `${domain}.${name}`
const left = async () => (await pool.query('select 1 from openlineage_runs')).rowCount

it('a run is told when it begins and when it has committed, once each, with the key', async () => {
  const runId = await begin()
  await note(runId)
  assert.deepEqual([await work(), told()], [[], [`START ${nameOf(product)}`]])
  await commit(runId)
  await end(runId, { state: 'succeeded' })
  assert.deepEqual(await work(), [])
  assert.deepEqual(await tenantsToTell(pool), [])
  assert.deepEqual(told(), [`START ${nameOf(product)}`, `COMPLETE ${nameOf(product)}`])
  const [start, complete] = events()
  assert.deepEqual([start.run.runId, complete.run.runId], Array(2).fill(runUuid({ runId, productId: product.id })))
  assert.equal(complete.job.namespace, `sluice/${tenant}`)
  assert.equal(complete.outputs[0].outputFacets.outputStatistics.rowCount, 4)
  assert.equal(heard[0]?.headers.authorization, 'Bearer k3y-of-the-endpoint')
  assert.doesNotMatch(heard.map(({ body }) => body).join(), /k3y-of-the-endpoint/)
  assert.deepEqual([await left(), counted], [0, { sent: 2, age: 0, count: 0, refused: 0 }])
})

it('checks of hidden columns are nowhere in what is told, be they passed, failed or what kept rows back', async () => {
  const runId = await begin()
  await note(runId)
  await commit(runId)
  await work()
  const { facets } = events()[1].outputs[0]
  assert.deepEqual(
    facets.dataQualityAssertions.assertions.map(({ name }: { name: string }) => name),
    ['open_check'],
  )
  const blocked = await begin({ product })
  await note(blocked)
  const check = { name: 'of_hidden', severity: 'error', onError: 'block', passed: false, violations: 3, total: 4 }
  const checks = JSON.stringify({ checks: [{ ...check, reads: { output: ['email'], raw: [] } }] })
  await pool.query(
    `insert into materializations (id, tenant, product_id, kind, state, run_id, version, digest, quality, committed_at)
     values ('mat_' || $1, $2, $3, 'materialize', 'blocked', $1, '1.0.0', 'd', $4, now())`,
    [blocked, tenant, product.id, checks],
  )
  // As a run would have kept it from before the class was raised.
  const reason = {
    code: 'quality_blocked',
    message: 'nothing was published, because these checks failed: of_hidden',
    remedy: '',
  }
  await end(blocked, {
    state: 'failed',
    error: reason,
    products: [{ id: product.id, epoch: null, state: 'failed', reason }],
  })
  await work()
  const failed = events().at(-1)
  assert.equal(failed.eventType, 'FAIL')
  assert.equal(
    failed.run.facets.errorMessage.message,
    'nothing was published, because a check of hidden columns failed',
  )
  assert.equal(failed.outputs[0].facets.version, undefined)
  assert.doesNotMatch(heard.map(({ body }) => body).join(), /of_hidden/)
})

it('an end is found by looking at runs, whoever died before he could note it', async () => {
  const reason = { code: 'input_behind', message: 'its input was not made anew', remedy: '' }
  const failure = { code: 'tier_limit_exceeded', message: 'the tenant may store no more', remedy: '' }
  const given = { code: 'run_attempts_exhausted', message: 'the run was given up', remedy: '' }
  const ends: readonly (readonly [Ended, string, string | undefined])[] = [
    [
      {
        state: 'failed',
        error: failure,
        products: [{ id: product.id, epoch: null, state: 'failed', reason: failure }],
      },
      'FAIL',
      failure.message,
    ],
    [
      { state: 'succeeded', products: [{ id: product.id, epoch: null, state: 'skipped', reason }] },
      'ABORT',
      reason.message,
    ],
    [{ state: 'cancelled' }, 'ABORT', undefined],
    [{ state: 'failed', error: given }, 'FAIL', given.message],
    // Of another product of the run.
    [{ state: 'failed', error: { ...failure, message: 'crm.vips: secret' } }, 'ABORT', undefined],
  ]
  for (const [how, event, message] of ends) {
    heard.length = 0
    const runId = await begin()
    await note(runId, product, null)
    await note(runId, product, '1.0.0')
    await end(runId, how)
    assert.deepEqual(await tenantsToTell(pool), [tenant])
    await work()
    assert.deepEqual(told(), [`START ${nameOf(product)}`, `${event} ${nameOf(product)}`])
    assert.equal(events()[1].run.facets.errorMessage?.message, message)
    assert.equal(events()[1].run.facets.nominalTime === undefined, false)
  }
  assert.equal(await left(), 0)
})

it('a worker that has lost its run begins nothing anew', async () => {
  const runId = await begin()
  await note(runId)
  await commit(runId)
  await end(runId, { state: 'succeeded' })
  await work()
  await note(runId)
  assert.deepEqual([await left(), await work(), heard.length], [0, [], 2])
})

for (const [how, code] of [
  ['close', 'openlineage_unreachable'],
  ['redirect', 'openlineage_refused'],
  [500, 'openlineage_refused'],
  [401, 'openlineage_refused'],
  ['hang', 'openlineage_unreachable'],
] as const) {
  it(`an endpoint that answers so is asked again, and told all in its order: ${how}`, async () => {
    mode = how
    const runId = await begin()
    await note(runId)
    await commit(runId)
    assert.deepEqual(await work(), [code])
    assert.deepEqual([new Set(told()), await left(), counted.sent], [new Set([`START ${nameOf(product)}`]), 1, 0])
    // What comes meanwhile does not hurry it.
    const next = await begin()
    await note(next, other)
    const tries = heard.length
    assert.deepEqual([await work(), heard.length], [[], tries])
    const { waiting, lagSeconds } = await openLineageLoad(pool)
    assert.ok(waiting === 2 && lagSeconds >= 0)

    heard.length = 0
    mode = 'take'
    await pool.query('update jobs set due_at = now()')
    assert.deepEqual(await work(), [])
    assert.deepEqual(told(), [`START ${nameOf(product)}`, `COMPLETE ${nameOf(product)}`, `START ${nameOf(other)}`])
  })
}

it('an event that the endpoint calls invalid is given up after a few tries, and what comes after it is told', async () => {
  const runId = await begin()
  await note(runId)
  await commit(runId)
  mode = 422
  onHeard = async () => {
    mode = events().at(-1).eventType === 'START' ? 422 : 'take'
  }
  const failures = await work({}, 10)
  assert.deepEqual(failures, Array(4).fill('openlineage_refused'))
  assert.deepEqual(told(), [...Array(5).fill(`START ${nameOf(product)}`), `COMPLETE ${nameOf(product)}`])
  assert.deepEqual([await left(), counted], [0, { sent: 1, age: 0, count: 0, refused: 1 }])
})

it('what is told while an event is on its way is not lost', async () => {
  const runId = await begin()
  await note(runId)
  onHeard = async () => {
    onHeard = async () => undefined
    await commit(runId)
  }
  await work()
  assert.deepEqual(told(), [`START ${nameOf(product)}`, `COMPLETE ${nameOf(product)}`])
})

it('what waits is bounded by age and by number, and counted when it goes', async () => {
  const old = await begin()
  await note(old)
  await pool.query(`update openlineage_runs set begun_at = now() - interval '3 hours'`)
  const ids: string[] = []
  for (let count = 0; count < 4; count += 1) {
    const runId = await begin()
    ids.push(runId)
    await note(runId)
    await commit(runId, product, count + 1)
  }
  await work({ keep_hours: 2, keep_runs: 3 })
  assert.deepEqual([counted.age, counted.count, heard.length], [1, 1, 6])
  const kept = ids.slice(1).map((runId) => runUuid({ runId, productId: product.id }))
  assert.deepEqual([...new Set(events().map(({ run }) => run.runId))], kept)
})

it('one tenant’s turn tells nothing of another, and a run that is not kept any more has ended early', async () => {
  const mine = { tenant, product }
  const runId = await begin()
  await note(runId)
  tenant = await registry.tenant()
  product = await registry.product(tenant)
  await deploy(product)
  await note(await begin())
  await deliver(deps(), mine.tenant, SIGNAL)
  assert.deepEqual(told(), [`START ${nameOf(mine.product)}`])
  assert.doesNotMatch(heard[0]?.body ?? '', new RegExp(`${tenant}|${product.name}`))
  await pool.query('delete from runs where tenant = $1', [tenant])
  await deliver(deps(), tenant, SIGNAL)
  // The run is not kept any more: nobody knows how it ended.
  assert.deepEqual(told().slice(1), [`START ${nameOf(product)}`, `ABORT ${nameOf(product)}`])
})

it('a run that was begun is told to its end, though its product is deleted meanwhile', async () => {
  const runId = await begin()
  await note(runId)
  await work()
  await commit(runId)
  await pool.query('delete from products where id = $1', [product.id])
  await work()
  assert.deepEqual(told(), [`START ${nameOf(product)}`, `COMPLETE ${nameOf(product)}`])
  const [output] = events()[1].outputs
  assert.deepEqual([output.name, output.facets], [nameOf(product), {}])
  assert.equal(await left(), 0)
})

it('nothing is kept where no endpoint is configured', async () => {
  await note(await begin())
  await forgetOpenLineage(pool)
  const { rowCount } = await pool.query('select 1 from jobs where kind = $1', [OPENLINEAGE_JOB])
  assert.deepEqual([await left(), rowCount], [0, 0])
})

it('plain HTTP goes to this machine, elsewhere where that is allowed, and nowhere to addresses that are no servers', async () => {
  for (const url of ['http://localhost/x', 'http://127.0.0.1:5000/x', 'http://[::1]:5000/x', 'https://marquez.test/x'])
    networkOf(settings({ url }))
  assert.throws(() => networkOf(settings({ url: 'http://10.0.0.1/x' })), { code: 'invalid_config' })
  const allowed = networkOf(settings({ url: 'http://10.0.0.1/x', allow_http: true }))
  assert.equal((await allowed.resolve('10.0.0.1', 80, SIGNAL)).address, '10.0.0.1')
  await assert.rejects(allowed.resolve('169.254.169.254', 80, SIGNAL), { code: 'address_refused' })
})
