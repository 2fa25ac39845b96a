import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { loginName, subjectRole } from './names.ts'

describe('names', () => {
  const dataset = { productId: 'prd_1', variant: 'clear' }

  test('of logins differ between datasets and tell nothing of the tenant', () => {
    assert.notEqual(loginName(dataset), loginName({ productId: 'prd_1', variant: 'masked' }))
    assert.equal(loginName(dataset), loginName({ ...dataset }))
    assert.match(loginName(dataset), /^sluice_view_[0-9a-f]{24}$/)
  })

  test('of roles tell tenants, teams and users apart, and fit', () => {
    const team = { kind: 'team', name: 'svc-viewers' } as const
    assert.equal(subjectRole('acme', team), 'sluice:acme:team:svc-viewers')
    assert.notEqual(subjectRole('acme', { kind: 'user', name: 'x' }), subjectRole('acme', { kind: 'team', name: 'x' }))
    const [long, longer] = ['a'.repeat(60), 'a'.repeat(61)].map((name) => subjectRole('acme', { kind: 'user', name }))
    assert.match(long ?? '', /^sluice:[0-9a-f]{40}$/)
    assert.notEqual(long, longer)
  })
})
