import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import type { TrinoClient } from '@sluice/analytics/trino/statements'
import { openTenantScope } from '@sluice/sdk'
import { TrinoCompute } from './compute.ts'
import { EndlessTrino } from './endless-trino.fixture.ts'

type TrinoQuery = Parameters<TrinoClient['results']>[0]

describe('a query in Trino', () => {
  let trino: EndlessTrino
  let client: TrinoClient
  const scope = openTenantScope('acme')
  const { signal } = new AbortController()

  before(async () => {
    trino = new EndlessTrino()
    client = await trino.start()
  })
  after(() => trino.close())
  beforeEach(() => Object.assign(trino, { cancelled: 0, pauseMs: 0, hasRows: true }))

  const queryOf = (timeoutMs: number) => ({
    ...{ scope, sql: 'SELECT 2 AS n', parameters: [], relations: [], maxRows: 10, timeoutMs, signal },
  })

  it('is cancelled once, whether its rows were read or not', async () => {
    const compute = new TrinoCompute(client, {})
    const unread = await compute.query(queryOf(600_000))
    await unread.close()
    await unread.close()
    assert.equal(trino.cancelled, 1)
    const read = await compute.query(queryOf(600_000))
    for await (const _ of read.pages);
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
    const opened = await new TrinoCompute(watched, {}).query(queryOf(600_000))
    await opened.close()
    const [explaining = 0, running = 0, ...others] = limits
    assert.deepEqual(others, [])
    // What a timer and rounding may lack of the pause.
    assert.ok(explaining <= 600_000 && running <= explaining - 195, String(limits))

    Object.assign(trino, { hasRows: false })
    await assert.rejects(new TrinoCompute(client, {}).query(queryOf(500)), { code: 'query_timeout' })
  })
})
