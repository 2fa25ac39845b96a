/** People of a Keycloak, with the realm that the deployment brings, at a runtime that trusts it. */
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { RuntimeProcess } from '../../test/crash/runtime-process.ts'
import { serverProcess } from '../server-process.ts'
import { Keycloak } from './keycloak-admin.ts'

const address = new URL(process.env['SLUICE_TEST_KEYCLOAK_URL'] ?? 'http://unset')
const keycloakProcess = serverProcess('SLUICE_TEST_KEYCLOAK_PROCESS')
const keycloak = new Keycloak(address)
const WAIT_MS = 300_000

const folder = await mkdtemp(join(tmpdir(), 'sluice-identity-'))
let runtime: RuntimeProcess
let url = ''

before(async () => {
  const issuer = (realm: string) => ({ issuer: keycloak.issuer(realm), audience: 'sluice' })
  const config = {
    auth: {
      issuers: [
        { ...issuer('sluice'), admin: true },
        { ...issuer('partners'), tenants: ['acme'] },
      ],
    },
    limits: { rate: { address: 5000 } },
  }
  await writeFile(join(folder, 'sluice.yaml'), JSON.stringify(config))
  for (const realm of ['partners', 'strangers']) {
    await keycloak.makeRealm(realm)
    await keycloak.makePerson(realm, { name: 'paul', groups: ['/acme/svc-developers'] })
  }
  await makeTenantGroup('globex')
  await keycloak.makePerson('sluice', { name: 'ada', roles: ['admin'] })
  await keycloak.makePerson('sluice', { name: 'dora', groups: ['/acme/svc-developers'] })
  await keycloak.makePerson('sluice', { name: 'vito', groups: ['/acme/svc-viewers'] })
  await keycloak.makePerson('sluice', { name: 'gina', groups: ['/globex/svc-developers'] })
  await makeClient('elsewhere', ['basic'], {})
  await makeClient('short-lived', ['basic', 'sluice'], { 'access.token.lifespan': '1' })
  runtime = await RuntimeProcess.spawn(join(folder, 'data'), null, 0, join(folder, 'sluice.yaml'))
  url = (await runtime.address()) ?? assert.fail(runtime.output)
})
after(async () => {
  await runtime?.stop()
  await runtime?.lastSurvivors()
  await rm(folder, { recursive: true, force: true })
})

async function makeTenantGroup(tenant: string): Promise<void> {
  await keycloak.ask('POST', '/admin/realms/sluice/groups', { name: tenant, attributes: { tenant_id: [tenant] } })
  const [group] = await keycloak.ask<{ id: string }[]>('GET', `/admin/realms/sluice/groups?exact=true&search=${tenant}`)
  await keycloak.ask('POST', `/admin/realms/sluice/groups/${group?.id}/children`, { name: 'svc-developers' })
}

async function makeClient(clientId: string, scopes: readonly string[], attributes: Readonly<Record<string, string>>) {
  await keycloak.ask('POST', '/admin/realms/sluice/clients', {
    clientId,
    publicClient: true,
    standardFlowEnabled: true,
    redirectUris: ['http://127.0.0.1/*'],
    defaultClientScopes: scopes,
    attributes,
  })
}

interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: { readonly code?: string; readonly data?: readonly { readonly name: string }[] }
}

async function ask(
  token: string,
  method: string,
  path: string,
  body?: unknown,
  more: Record<string, string> = {},
): Promise<Answer> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...more }
  const json = body === undefined ? {} : { body: JSON.stringify(body) }
  const response = await fetch(`${url}${path}`, { method, headers, ...json })
  return { status: response.status, headers: response.headers, body: (await response.json()) as Answer['body'] }
}

const products = (token: string) => ask(token, 'GET', '/api/v1/products')
const access = async (name: string, client?: string) => (await keycloak.logIn('sluice', name, client)).access

async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  for (const deadline = Date.now() + WAIT_MS; Date.now() < deadline; await sleep(500)) if (await isSo()) return
  throw new Error(`not in time: ${what}`)
}

const encode = (part: unknown) => Buffer.from(JSON.stringify(part)).toString('base64url')
function decode(token: string): {
  header: Record<string, unknown>
  payload: Record<string, unknown>
  signature: string
} {
  const [header = '', payload = '', signature = ''] = token.split('.')
  const parse = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString())
  return { header: parse(header), payload: parse(payload), signature }
}

async function refusedAs(code: string, token: string): Promise<void> {
  const answer = await products(token)
  assert.deepEqual([answer.status, answer.body.code], [401, code])
}

describe('people of Keycloak', { timeout: 600_000 }, () => {
  it('log in with a code and PKCE, and without PKCE not at all', async () => {
    const { payload } = decode(await access('dora'))
    assert.equal(payload['tenant_id'], 'acme')
    assert.deepEqual(payload['groups'], ['svc-developers'])
    assert.equal(typeof payload['sub'], 'string')
    const page = await keycloak.loginPage('sluice', 'sluice-cli', null)
    assert.match(page.headers.get('location') ?? '', /error=invalid_request/)
  })

  it('have their tenant and their rights', async () => {
    const [ada, dora, vito, gina] = await Promise.all(['ada', 'dora', 'vito', 'gina'].map((name) => access(name)))
    for (const slug of ['acme', 'globex']) {
      const tenant = { slug, display_name: slug, tier: 'enterprise' }
      assert.equal((await ask(dora as string, 'POST', '/api/v1/tenants', tenant)).status, 403)
      assert.equal((await ask(ada as string, 'POST', '/api/v1/tenants', tenant)).status, 201)
    }
    const product = { name: 'orders', namespace: 'sales', archetype: 'source_aligned', description: '' }
    assert.equal((await ask(vito as string, 'POST', '/api/v1/products', product)).status, 403)
    assert.equal((await ask(dora as string, 'POST', '/api/v1/products', product)).status, 201)
    const names = async (token: string) => {
      const { status, body } = await products(token)
      return [status, JSON.stringify(body).includes('"orders"')]
    }
    assert.deepEqual(await names(dora as string), [200, true])
    assert.deepEqual(await names(vito as string), [200, true])
    assert.deepEqual(await names(gina as string), [200, false])
    const foreign = await ask(gina as string, 'GET', '/api/v1/products', undefined, { 'x-tenant-id': 'acme' })
    assert.equal(foreign.status, 403)
  })

  it('are refused with tokens for somebody else, of another realm, and such as grant no access', async () => {
    await refusedAs('token_invalid', await access('dora', 'elsewhere'))
    await refusedAs('token_invalid', (await keycloak.logIn('strangers', 'paul')).access)
    await refusedAs('token_invalid', (await keycloak.logIn('sluice', 'dora')).id)
  })

  it('are refused with tokens that are expired, unsigned, signed otherwise or changed', async () => {
    const short = await access('dora', 'short-lived')
    await until('it expires', async () => (await products(short)).status === 401)
    await refusedAs('token_expired', short)
    const token = await access('dora')
    const { header, payload, signature } = decode(token)
    const body = encode(payload)
    await refusedAs('token_malformed', `${encode({ alg: 'none', typ: 'JWT' })}.${body}.`)
    await refusedAs('token_invalid', `${encode({ ...header, alg: 'none' })}.${body}.${signature}`)
    const start = `${encode({ ...header, alg: 'HS256' })}.${body}`
    const certs = await (await fetch(`${keycloak.issuer('sluice')}/protocol/openid-connect/certs`)).text()
    await refusedAs('token_invalid', `${start}.${createHmac('sha256', certs).update(start).digest('base64url')}`)
    const other = encode({ ...payload, tenant_id: 'globex' })
    await refusedAs('token_invalid', `${encode(header)}.${other}.${signature}`)
    assert.equal((await products(token)).status, 200)
  })

  it('keep their access when the keys are changed, and what the former key signed is worth nothing', async () => {
    const former = await access('vito')
    const keys = '/admin/realms/sluice/components?type=org.keycloak.keys.KeyProvider'
    const known = await keycloak.ask<{ id: string; providerId: string; parentId: string }[]>('GET', keys)
    const rsa = known.find(({ providerId }) => providerId === 'rsa-generated')
    await keycloak.ask('POST', '/admin/realms/sluice/components', {
      name: 'rsa-next',
      providerId: 'rsa-generated',
      providerType: 'org.keycloak.keys.KeyProvider',
      parentId: rsa?.parentId,
      config: { priority: ['200'], enabled: ['true'], active: ['true'], keySize: ['2048'], algorithm: ['RS256'] },
    })
    await keycloak.ask('DELETE', `/admin/realms/sluice/components/${rsa?.id}`)
    const next = await access('vito')
    assert.notEqual(decode(next).header['kid'], decode(former).header['kid'])
    await until('the new key is read', async () => (await products(next)).status === 200)
    await refusedAs('token_invalid', former)
  })

  it('keep their access while Keycloak is down, and whose keys were never read are told so', {
    skip: !keycloakProcess,
  }, async () => {
    const { access: partner } = await keycloak.logIn('partners', 'paul')
    const known = await access('vito')
    await keycloakProcess?.signal('SIGKILL')
    await until('it is down', () =>
      fetch(keycloak.origin).then(
        () => false,
        () => true,
      ),
    )
    assert.equal((await products(known)).status, 200)
    const answer = await products(partner)
    assert.deepEqual([answer.status, answer.body.code], [503, 'issuer_unavailable'])
    assert.ok(Number(answer.headers.get('retry-after')) > 0)
  })
})
