import assert from 'node:assert/strict'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { createEngine } from '@sluice/engine'
import { TrinoCompute } from '../../../../plugins/compute/trino/compute.ts'
import { EndlessTrino } from '../../../../plugins/compute/trino/endless-trino.fixture.ts'
import type { QueryEngine } from '../../compute/query-engine.ts'
import type { TenantCall } from '../../flow.ts'
import type { AskedQuery } from './asked-query.ts'
import type { QueriesDeps } from './deps.ts'
import { distributedRun } from './distributed-query.ts'

describe('a query in an engine outside', () => {
  let trino: EndlessTrino
  let outside: QueryEngine
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
    const compute = new TrinoCompute(await trino.start(), {})
    outside = { name: 'trino', query: (query) => compute.query(query) }
  })
  after(() => trino.close())

  it('is cancelled where the job that would write its rows cannot begin', async () => {
    const scratchDir = join(tmpdir(), 'sluice-none')
    const engine = createEngine({ scratchDir, maxChildren: 1, warmChildren: 0, maxQueued: 1 })
    await engine.close()
    await assert.rejects(
      distributedRun({ engine, cpu: { refuseSpent() {} } } as unknown as QueriesDeps, call, asked, outside),
    )
    assert.equal(trino.cancelled, 1)
  })
})
