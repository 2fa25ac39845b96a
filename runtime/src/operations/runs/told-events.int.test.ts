import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import type { TenantCall } from '../../flow.ts'
import { newId } from '../../registry/ids.ts'
import { enqueueRun } from '../../registry/runs.ts'
import { ANN, startTestRegistry } from '../../registry/testing.ts'
import type { RunsDeps } from './deps.ts'
import { runOf } from './runs.ts'
import { isTold } from './told-events.ts'

const registry = await startTestRegistry()
const { pool } = registry
after(() => registry[Symbol.asyncDispose]())

const platform = { pool, config: { upkeep: { run_days: 30, run_most: 500 } } } as unknown as RunsDeps

it('an event of a run that was removed is told to administrators alone', async () => {
  const tenant = await registry.tenant()
  const call = (isAdmin: boolean) => ({ tenant, principal: { isAdmin } }) as unknown as TenantCall
  const { id: connectionId } = await registry.connection(tenant)
  const run = await enqueueRun(pool, { tenant, trigger: 'manual', createdBy: ANN, kind: 'ingestion', connectionId })
  const told = async (subject: string) => [
    await isTold(platform, call(false), subject, 'sluice.ingestion.failed'),
    await isTold(platform, call(true), subject, 'sluice.ingestion.failed'),
  ]
  assert.deepEqual(await told(run.id), [true, true])
  await pool.query('delete from runs where id = $1', [run.id])
  assert.deepEqual(await told(run.id), [false, true])
  assert.deepEqual(await told(tenant), [true, true])
})

it('a run that is gone is not found, and the answer says for how long runs are kept', async () => {
  const call = { tenant: await registry.tenant() } as unknown as TenantCall
  await assert.rejects(runOf(platform, call, newId('run')), {
    code: 'ingestion_not_found',
    message: /ended more than 30 days ago.*newest 500/,
  })
})
