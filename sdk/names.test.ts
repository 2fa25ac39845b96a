import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isSluiceError } from './errors.ts'
import { checkNames, isUsableName } from './names.ts'
import { openTenantScope } from './scope.ts'
import type { Target } from './store.ts'

const lower = { limits: { maxReadRows: 1, maxRowBytes: 1, namePattern: 'a|b+' } }
const any = { limits: { maxReadRows: 1, maxRowBytes: 1 } }

test('a pattern is of the whole name, and without one every name can be held', () => {
  const held = (name: string) => isUsableName(name, lower)
  assert.deepEqual(['a', 'bbb', 'ab', 'ba', 'a\n', 'A', ''].map(held), [true, true, false, false, false, false, false])
  assert.ok(isUsableName('Ä "b"', any))
})

test('tenant, domain and product are each held against it; a scope that nobody made is refused as such', () => {
  const target = (tenant: string, domain: string, product: string) =>
    ({ scope: openTenantScope(tenant), domain, product }) as Target
  const code = (one: Target) => {
    try {
      checkNames(one, lower)
      return null
    } catch (error) {
      return isSluiceError(error) ? `${error.kind} ${error.code}` : error
    }
  }
  assert.equal(code(target('a', 'b', 'a')), null)
  for (const odd of [target('x', 'a', 'a'), target('a', 'x', 'a'), target('a', 'a', 'x')]) {
    assert.equal(code(odd), 'INVALID_DATA unusable_name')
  }
  assert.equal(code({ domain: 'a', product: 'a' } as Target), 'PERMISSION tenant_scope_missing')
})
