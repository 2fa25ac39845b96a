import assert from 'node:assert/strict'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, beforeEach, describe, it } from 'node:test'
import type { TrinoClient } from '@sluice/analytics/trino/statements'
import { createEngine } from '@sluice/engine'
import { DistributedCompute } from '../../compute/distributed.ts'
import type { TenantCall } from '../../flow.ts'
import type { Platform } from '../platform.ts'
import type { AskedQuery } from './asked-query.ts'
import { distributedRun } from './distributed-query.ts'
import { EndlessTrino } from './endless-trino.fixture.ts'

type TrinoQuery = Parameters<TrinoClient['results']>[0]

describe('a query in Trino', () => {
  let trino: EndlessTrino
  let client: TrinoClient
  let compute: DistributedCompute
  const asked: AskedQuery = {
    request: { sql: 'SELECT 2 AS n', format: 'json' },
    visible: [],
    described: [],
    kind: 'json-rows',
    limits: { memoryBytes: 256 * 1024 * 1024, timeoutMs: 600_000, threads: 1 },
  }
  const call = { tenant: 'acme', signal: new AbortController().signal } as TenantCall

  before(async () => {
    trino = new EndlessTrino()
    client = await trino.start()
    compute = new DistributedCompute(client, {})
  })
  after(() => trino.close())
  beforeEach(() => Object.assign(trino, { cancelled: 0, pauseMs: 0, hasRows: true }))

  const queryOf = (timeoutMs: number) => ({
    ...{ tenant: 'acme', sql: 'SELECT 2 AS n', parameters: [], relations: [], maxRows: 10, timeoutMs },
    signal: call.signal,
  })

  it('is cancelled where the job that would write its rows cannot begin', async () => {
    const scratchDir = join(tmpdir(), 'sluice-none')
    const engine = createEngine({ scratchDir, maxChildren: 1, warmChildren: 0, maxQueued: 1 })
    await engine.close()
    await assert.rejects(
      distributedRun({ engine, cpu: { refuseSpent() {} } } as unknown as Platform, call, asked, compute),
    )
    assert.equal(trino.cancelled, 1)
  })

  it('is cancelled once, whether its rows were read or not', async () => {
    const unread = await compute.query(queryOf(600_000))
    await unread.close()
    await unread.close()
    assert.equal(trino.cancelled, 1)
    const read = await compute.query(queryOf(600_000))
    for await (const _ of read.csv);
    await read.close()
    assert.equal(trino.cancelled, 2)
  })

  it('has one time for all that is asked for it', async () => {
    Object.assign(trino, { pauseMs: 200 })
    const limits: number[] = []
    const noting = <Query extends TrinoQuery, Answer>(ask: (query: Query) => Answer) => {
      return (query: Query) => {
        limits.push(query.timeoutMs)
        return ask(query)
      }
    }
    const watched = {
      rows: noting((query: TrinoQuery) => client.rows(query)),
      results: noting((query: TrinoQuery) => client.results(query)),
    } as TrinoClient
    const opened = await new DistributedCompute(watched, {}).query(queryOf(600_000))
    await opened.close()
    const [explaining = 0, running = 0, ...others] = limits
    assert.deepEqual(others, [])
    // What a timer and rounding may lack of the pause.
    assert.ok(explaining <= 600_000 && running <= explaining - 195, String(limits))

    Object.assign(trino, { hasRows: false })
    await assert.rejects(compute.query(queryOf(500)), { code: 'query_timeout' })
  })
})
