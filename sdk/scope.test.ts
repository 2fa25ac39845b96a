import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isSluiceError, openTenantScope, TenantScope, tenantOf } from '@sluice/sdk'

test('another copy of the SDK knows the scope, and look-alikes are known to neither', async () => {
  const other = (await import(`${import.meta.resolve('./scope.ts')}?copy`)) as typeof import('./scope.ts')
  const scope = openTenantScope('acme')
  assert.notEqual(other.TenantScope, TenantScope)
  assert.equal(other.tenantOf(scope), 'acme')
  assert.equal(tenantOf(other.openTenantScope('globex')), 'globex')
  const fakes = [
    { tenant: 'acme' },
    Object.create(TenantScope.prototype),
    Object.setPrototypeOf({}, scope),
    null,
    'acme',
  ]
  for (const fake of fakes) {
    assert.throws(
      () => tenantOf(fake as never),
      (error) => isSluiceError(error, 'PERMISSION'),
    )
    assert.equal(TenantScope.is(fake), false)
  }
})

test('a scope cannot be changed, copied or made of nothing', () => {
  const scope = openTenantScope('acme')
  assert.throws(() => Object.assign(scope, { tenant: 'globex' }), TypeError)
  assert.equal(TenantScope.is({ ...scope }), false)
  assert.equal(TenantScope.is(structuredClone(scope)), false)
  for (const name of ['', 'a\u0000b', 'x'.repeat(256)]) assert.throws(() => openTenantScope(name))
})
