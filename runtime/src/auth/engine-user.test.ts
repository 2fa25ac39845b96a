import assert from 'node:assert/strict'
import { test } from 'node:test'
import { grantsOf } from '../policy/classification.ts'
import { ENGINE_USER_PATTERN, engineLogin, engineUser, principalOfEngineUser, tokenEndOf } from './engine-user.ts'
import { DEFAULT_CLAIMS, issuerOfDashboards, issuerOfEngine, type TrustedIssuer } from './issuers.ts'

const ISSUER: TrustedIssuer = {
  issuer: 'https://issuer.test',
  audience: 'sluice',
  algorithms: ['EdDSA'],
  tenants: 'all',
  mayClaimAdmin: true,
  claims: DEFAULT_CLAIMS,
  keys: {
    getKey: () => Promise.reject(new Error('no token is verified here')),
    check: async () => undefined,
  },
}

test('a person comes back as the token named it', () => {
  const groups = ['svc-viewers', 'red "team"']
  const user = engineUser({ subject: 'vito', tenant: 'acme', groups, clearance: 'public' })
  const { issuer, subject, tenant, isAdmin, isViewer, isDeveloper, claimedClearance, ...rest } = principalOfEngineUser(
    user,
    ISSUER,
  )
  assert.deepEqual([issuer, subject, tenant, claimedClearance], [ISSUER.issuer, 'vito', 'acme', 'public'])
  assert.deepEqual([isAdmin, isViewer, isDeveloper], [false, true, false])
  assert.deepEqual([...rest.groups].sort(), [...groups].sort())
  assert.equal(engineUser({ subject: 'vito', tenant: 'acme', groups: groups.reverse(), clearance: 'public' }), user)
})

test('an administrator is of no tenant', () => {
  const principal = principalOfEngineUser(engineUser({ subject: 'root', admin: true }), ISSUER)
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
    assert.throws(() => principalOfEngineUser(user, ISSUER), { kind: 'PERMISSION', code: 'trino_user_refused' }, user)
  }
})

test('nobody is what their issuer may not claim', () => {
  const bound = { ...ISSUER, tenants: new Set(['acme']), mayClaimAdmin: false }
  const refused = { kind: 'PERMISSION', code: 'trino_user_refused' }
  const person = (tenant: string) => engineUser({ subject: 'vito', tenant, groups: [] })
  assert.throws(() => principalOfEngineUser(engineUser({ subject: 'x', admin: true }), bound), refused)
  assert.throws(() => principalOfEngineUser(person('globex'), bound), refused)
  assert.equal(principalOfEngineUser(person('acme'), bound).tenant, 'acme')
  assert.equal(principalOfEngineUser(person('globex'), { ...bound, tenants: 'all' }).tenant, 'globex')
})

test('a person is the same one as over REST, whatever the address of the issuer is', () => {
  const user = engineUser({ subject: 'vito', tenant: 'acme', groups: [] })
  assert.equal(principalOfEngineUser(user, { ...ISSUER, identity: 'urn:issuer' }).issuer, 'urn:issuer')
})

test('a person is not served by what another issuer’s person of that name was granted', () => {
  const principal = principalOfEngineUser(engineUser({ subject: 'vito', tenant: 'acme', groups: ['sales'] }), ISSUER)
  const to = (subjectType: 'user' | 'team', subject: string, issuer: string | null) =>
    ({ subjectType, subject, issuer, may: 'read', classes: [] }) as const
  const own = [to('user', 'vito', ISSUER.issuer), to('team', 'sales', null)]
  const others = [to('user', 'vito', 'https://other.test'), to('user', 'vito', null), to('team', 'vito', null)]
  assert.deepEqual(grantsOf(principal, [...others, ...own]), own)
})

test('of several issuers the one of Trino has to be named, and that of dashboards', () => {
  const other = { ...ISSUER, issuer: 'https://other.test' }
  const invalid = { kind: 'CONFIG', code: 'invalid_config' }
  for (const issuerOf of [issuerOfEngine, issuerOfDashboards]) {
    assert.equal(issuerOf([ISSUER], undefined), ISSUER)
    assert.equal(issuerOf([ISSUER, other], other.issuer), other)
    assert.throws(() => issuerOf([ISSUER, other], undefined), invalid)
    assert.throws(() => issuerOf([ISSUER], other.issuer), invalid)
    assert.throws(() => issuerOf([ISSUER, ISSUER], ISSUER.issuer), invalid)
  }
})

test('a login says when its token ends, and the pattern makes the user of it', () => {
  const user = engineUser({ subject: 'vito', tenant: 'acme', groups: [] })
  const login = engineLogin(user, 1_800_000_000)
  assert.equal(tokenEndOf(login), 1_800_000_000_000)
  assert.equal(new RegExp(`^${ENGINE_USER_PATTERN}$`).exec(login)?.[1], user)
  for (const silent of [null, '', user, `x ${user}`]) assert.equal(tokenEndOf(silent), Number.POSITIVE_INFINITY)
})
