import assert from 'node:assert/strict'
import { test } from 'node:test'
import { principalOfTrinoUser, trinoUser } from './trino-user.ts'

const ISSUER = 'https://issuer.test'

test('a person comes back as the token named it', () => {
  const groups = ['svc-viewers', 'red "team"']
  const user = trinoUser({ subject: 'vito', tenant: 'acme', groups, clearance: 'public' })
  const { issuer, subject, tenant, isAdmin, isViewer, isDeveloper, claimedClearance, ...rest } = principalOfTrinoUser(
    user,
    ISSUER,
  )
  assert.deepEqual([issuer, subject, tenant, claimedClearance], [ISSUER, 'vito', 'acme', 'public'])
  assert.deepEqual([isAdmin, isViewer, isDeveloper], [false, true, false])
  assert.deepEqual([...rest.groups].sort(), [...groups].sort())
  assert.equal(trinoUser({ subject: 'vito', tenant: 'acme', groups: groups.reverse(), clearance: 'public' }), user)
})

test('an administrator is of no tenant', () => {
  const principal = principalOfTrinoUser(trinoUser({ subject: 'root', admin: true }), ISSUER)
  assert.deepEqual([principal.tenant, principal.isAdmin, principal.isDeveloper], [null, true, false])
})

test('any other text is nobody', () => {
  const person = { subject: 'a', tenant: 'acme', groups: [] }
  for (const user of [
    'vito',
    '',
    'null',
    '[]',
    '{}',
    JSON.stringify({ ...person, admin: true }),
    JSON.stringify({ ...person, admin: false }),
    JSON.stringify({ ...person, tenant: 'A_' }),
    JSON.stringify({ ...person, tenant: undefined }),
    JSON.stringify({ ...person, groups: 'svc-viewers' }),
    JSON.stringify({ ...person, groups: [''] }),
    JSON.stringify({ ...person, subject: '' }),
    JSON.stringify({ ...person, clearance: 'all' }),
    JSON.stringify({ ...person, more: 1 }),
    JSON.stringify({ subject: 'a', admin: 'true' }),
    JSON.stringify({ ...person, subject: 'x'.repeat(10_000) }),
  ]) {
    assert.throws(() => principalOfTrinoUser(user, ISSUER), { kind: 'PERMISSION', code: 'trino_user_refused' }, user)
  }
})
