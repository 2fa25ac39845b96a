import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isSluiceError, openTenantScope, type ReadPlan, type Target } from '@sluice/sdk'
import { storeElsewhere } from './store-elsewhere.ts'

const target = { scope: openTenantScope('acme') } as unknown as Target
const plan = { operation: 'key', columns: ['id'], filters: [], orderBy: [], limit: 1, encoding: 'columns' }

/** Of a process that says nothing. */
const silent = storeElsewhere('realtime', { realtime: ['operate'] }, () => new Promise(() => undefined))

const WAYS = {
  read: (about: object) => silent.read(target, { ...plan, ...about } as unknown as ReadPlan),
  operate: (about: object) => silent.operate?.(target, { ...plan, ...about } as never) as AsyncIterable<unknown>,
} as const

for (const [name, begin] of Object.entries(WAYS)) {
  test(`nobody who asks another process for ${name} waits longer than the time that it has, or than he wants to`, async () => {
    const codeOf = (about: object) =>
      Array.fromAsync(begin(about)).then(
        () => 'answered',
        (error: unknown) => isSluiceError(error) && error.code,
      )
    const never = new AbortController()
    assert.equal(await codeOf({ timeoutMs: 20, signal: never.signal }), 'deadline_exceeded')
    const leaving = new AbortController()
    const asked = codeOf({ timeoutMs: 600_000, signal: leaving.signal })
    leaving.abort()
    assert.equal(await asked, 'aborted')
    assert.equal(await codeOf({ timeoutMs: 600_000, signal: AbortSignal.abort() }), 'aborted')
  })
}
