/** Who may let others read, and what is put in service: nobody grants more than they hold, nor deploys what they have not seen. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Answer, type Client, manifests } from './client.ts'
import { deployVersion, onboardPeople, openWorld, syncNow, type World } from './world.ts'

const PLAIN = '@rights.test'
const LEVELS = ['public', 'internal', 'confidential', 'restricted'] as const
const CLASSIFIED = '  - { name: email, type: string, classification: pii.identifier }\n'

/**
 * `owner` made the connection and deployed the products; `author` may read the raw table by a grant, and deployed the
 * product `authored`; `deputy` holds a grant that may be granted on, to unmask one class; `colleague` is a developer of
 * another team, `foreigner` one of another tenant.
 */
const CALLERS = ['admin', 'owner', 'author', 'deputy', 'colleague', 'viewer', 'foreigner'] as const
type Caller = (typeof CALLERS)[number]

const callers = new Map<Caller, Client>()
let world: World
let headers: Record<string, string>

before(async () => {
  world = await openWorld()
  const [own, other] = world.tenants
  headers = { 'x-tenant-id': own }
  await world.source.query(`DROP TABLE IF EXISTS rights_people;
    CREATE TABLE rights_people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO rights_people SELECT i, 'a' || i || '${PLAIN}', 'city' FROM generate_series(1, 9) i`)
  await world.createTenant(own)
  await world.createTenant(other)
  callers.set('admin', world.admin)
  for (const caller of ['owner', 'author', 'deputy', 'colleague'] as const) {
    callers.set(caller, await world.as(own, 'svc-developers', caller))
  }
  callers.set('viewer', await world.as(own, 'svc-viewers', 'viewer'))
  callers.set('foreigner', await world.as(other, 'svc-developers', 'foreigner'))
  await onboardPeople(world, as('owner'), people('people', 'restricted'))
  await ok(as('owner').post('/api/v1/connections/db/grants', { subject: { user: 'author' } }))
  for (const level of LEVELS) await deployed('owner', `a_${level}`, people(`a_${level}`, level))
  await deployed('author', 'authored', people('authored', 'confidential'))
  for (const product of [...LEVELS.map((level) => `a_${level}`), 'authored']) {
    const grant = { subject: { user: 'deputy' }, may: 'unmask', classes: ['pii.identifier'], grantable: true }
    assert.deepEqual((await ok(as('owner').post(grants(product), grant))).grantable, ['pii.identifier'])
  }
  await syncNow(as('owner'))
})

after(() => world?.close())

const as = (caller: Caller): Client => callers.get(caller) as Client
const grants = (product: string) => `/api/v1/products/${product}/grants`

function people(name: string, level: string, { email = CLASSIFIED, access = '' } = {}) {
  const columns = `  - { name: id, type: integer, role: identity, nullable: false }\n${email}  - { name: city, type: string }\n`
  const files = manifests('public.rights_people', { columns, endpoints: '  - type: analytics\n' })
  const product = `${files.product.replace('name: people', `name: ${name}`)}classification: ${level}\n${access}`
  return { ...files, product }
}

async function ok(answering: Promise<Answer>) {
  const { status, body } = await answering
  assert.ok(status < 300, JSON.stringify(body))
  return body
}

async function registered(caller: Caller, name: string): Promise<void> {
  await ok(
    as(caller).post('/api/v1/products', { name, namespace: 'crm', archetype: 'source_aligned', description: '' }),
  )
}

async function deployed(caller: Caller, name: string, files: Readonly<Record<string, string>>): Promise<void> {
  await registered(caller, name)
  await deployVersion(as(caller), name, '1.0.0', files)
}

/** What a reader is shown of the product's column `email`, by two doors. */
async function sees(reader: Client, product: string): Promise<'nothing' | 'masked' | 'clear'> {
  const { status, body } = await reader.post('/api/v1/query', { sql: `SELECT email FROM crm.${product}` })
  const tables = await reader.get(`/iceberg/v1/${world.tenants[0]}/namespaces/crm/tables`)
  assert.equal(JSON.stringify(tables.body).includes(`"${product}"`), status === 200, 'both doors say the same')
  if (status !== 200) return 'nothing'
  return JSON.stringify(body).includes(PLAIN) ? 'clear' : 'masked'
}

describe('grants', () => {
  const KINDS = {
    read: { may: 'read' },
    class: { may: 'unmask', classes: ['pii.identifier'] },
    all: { may: 'unmask', classes: ['*'] },
    raw: null,
  } as const
  const TARGETS = ['friend', 'team', 'self'] as const

  /** By hand: what each caller is answered, for friend and team, and for themselves. */
  const RULES: Readonly<Record<Caller, Readonly<Record<keyof typeof KINDS, readonly [number, number]>>>> = {
    admin: { read: [201, 201], class: [201, 201], all: [201, 201], raw: [201, 201] },
    owner: { read: [201, 201], class: [201, 201], all: [201, 201], raw: [201, 201] },
    author: { read: [403, 403], class: [403, 403], all: [403, 403], raw: [403, 403] },
    deputy: { read: [201, 201], class: [201, 201], all: [403, 403], raw: [403, 403] },
    colleague: { read: [403, 403], class: [403, 403], all: [403, 403], raw: [403, 403] },
    viewer: { read: [403, 403], class: [403, 403], all: [403, 403], raw: [403, 403] },
    foreigner: { read: [404, 404], class: [404, 404], all: [404, 404], raw: [404, 404] },
  }
  /** Where they differ: what the author may read in the source, the author may read in a product of their own. */
  const AUTHORED = { ...RULES.author, read: [403, 201], class: [403, 201], all: [403, 201] } as const

  /** Answers of another than the expected status; grants that were made are taken back. */
  async function unexpected(caller: Caller, product: string, isAuthored: boolean): Promise<string[]> {
    const wrong: string[] = []
    const rules = isAuthored && caller === 'author' ? AUTHORED : RULES[caller]
    const more = caller === 'admin' ? headers : {}
    for (const [kind, grant] of Object.entries(KINDS)) {
      for (const target of TARGETS) {
        const user = target === 'self' ? caller : 'friend'
        // An administrator's issuer names nobody of the tenant, unless it is the tenants' own, as here.
        const subject = target === 'team' ? { team: 'sales' } : { user }
        const path = grant === null ? '/api/v1/connections/db/grants' : grants(product)
        const { status, body } = await as(caller).post(path, { subject, ...grant }, more)
        const expected = rules[kind as keyof typeof KINDS][target === 'self' ? 1 : 0]
        if (status !== expected) wrong.push(`${caller} ${product} ${kind} ${target}: ${status} ${body.code ?? ''}`)
        const isKept = caller === 'deputy' && target === 'self' && kind === 'class'
        if (status === 201 && !isKept) {
          const removal = await as('admin').send(`${path}/${body.id}`, { method: 'DELETE', headers })
          assert.equal(removal.status, 204)
        }
      }
    }
    return wrong
  }

  for (const caller of CALLERS) {
    it(`are given by ${caller} as the table says`, async () => {
      const wrong: string[] = []
      for (const level of LEVELS) wrong.push(...(await unexpected(caller, `a_${level}`, false)))
      wrong.push(...(await unexpected(caller, 'authored', true)))
      assert.deepEqual(wrong, [])
    })
  }

  it('of nobody without the right reach a second account', async () => {
    const friend = await world.as(world.tenants[0], 'svc-viewers', 'friend')
    for (const product of ['a_restricted', 'authored', 'a_internal']) {
      const before = await sees(friend, product)
      assert.equal(before, product === 'a_internal' ? 'masked' : 'nothing')
      for (const caller of ['author', 'colleague'] as const) {
        for (const subject of [{ user: 'friend' }, { team: 'svc-viewers' }]) {
          const body = { subject, may: 'unmask', classes: ['*'] }
          assert.equal((await as(caller).post(grants(product), body)).body.code, 'grant_not_held')
        }
      }
      assert.equal(await sees(friend, product), before)
    }
    const body = { subject: { user: 'friend' }, may: 'unmask', classes: ['pii.identifier'] }
    await ok(as('deputy').post(grants('authored'), body))
    assert.equal(await sees(friend, 'authored'), 'clear', 'by who may grant it on')
  })

  it('keep no author out of what they may read in the source', async () => {
    for (const [caller, product] of [
      ['owner', 'a_restricted'],
      ['author', 'authored'],
    ] as const) {
      assert.equal(await sees(as(caller), product), 'nothing')
      await ok(as(caller).post(grants(product), { subject: { user: caller }, may: 'unmask', classes: ['*'] }))
      assert.equal(await sees(as(caller), product), 'clear')
      const { body } = await as('owner').get('/api/v1/audit?limit=20')
      const made = body.data.find(({ action }: { readonly action: string }) => action === 'grant.create')
      assert.deepEqual([made.actor.subject, made.details.classes], [caller, ['*']])
    }
  })
})

describe('a version', () => {
  const attempt = (caller: Caller, name: string, more: object = {}) =>
    as(caller).post(`/api/v1/products/${name}/deploy`, { version: '1.0.0', dry_run: false, ...more })
  const uploaded = (caller: Caller, name: string, files: Readonly<Record<string, string>>) =>
    ok(as(caller).upload(`/api/v1/products/${name}/manifests`, files))
  const code = ({ status, body }: Answer) => body.code ?? status

  it('lets nobody read whom its author may not let read', async () => {
    await registered('author', 'listed')
    for (const access of ['users: [friend]', 'teams: [sales]']) {
      await uploaded('author', 'listed', people('listed', 'restricted', { access: `access: { ${access} }\n` }))
      assert.equal(code(await attempt('author', 'listed')), 'grant_not_held', access)
    }
    await uploaded('author', 'listed', people('listed', 'restricted', { access: 'access: { users: [author] }\n' }))
    assert.equal(code(await attempt('author', 'listed')), 201)
    await registered('owner', 'shared')
    const open = people('shared', 'restricted', { access: 'access: { users: [friend], teams: [sales] }\n' })
    await uploaded('owner', 'shared', open)
    assert.equal(code(await attempt('owner', 'shared')), 201)
  })

  it('shows a new source to nobody who was let in before, but by who may show it', async () => {
    await registered('author', 'early')
    const grant = { subject: { user: 'friend' }, may: 'unmask', classes: ['*'] }
    const { id } = await ok(as('author').post(grants('early'), grant))
    await uploaded('author', 'early', people('early', 'internal'))
    assert.equal(code(await attempt('author', 'early')), 'grant_not_held')
    const { plan, digest } = await ok(attempt('owner', 'early', { dry_run: true }))
    assert.match(JSON.stringify(plan.warnings), /db: public\.rights_people.*user friend \(unmask \*\)/)
    await ok(as('author').send(`${grants('early')}/${id}`, { method: 'DELETE' }))
    assert.equal(code(await attempt('author', 'early', { digest })), 201)
  })

  it('is what its deployer reviewed, or uploaded', async () => {
    await registered('owner', 'swapped')
    await uploaded('owner', 'swapped', people('swapped', 'restricted'))
    const reviewed = await ok(attempt('owner', 'swapped', { dry_run: true }))
    await uploaded(
      'colleague',
      'swapped',
      people('swapped', 'public', { email: '  - { name: email, type: string }\n' }),
    )
    const draft = await ok(as('owner').get('/api/v1/products/swapped/manifests'))
    assert.equal(draft.uploaded_by, 'colleague')
    assert.notEqual(draft.digest, reviewed.digest)
    assert.equal(code(await attempt('owner', 'swapped', { digest: reviewed.digest })), 'plan_changed')
    assert.equal(code(await attempt('owner', 'swapped', { digest: reviewed.digest, dry_run: true })), 'plan_changed')
    assert.equal(code(await attempt('owner', 'swapped')), 'draft_of_another')
    assert.equal(
      code(await as('admin').post('/api/v1/products/swapped/deploy', { version: '1.0.0' }, headers)),
      'draft_of_another',
    )
    const other = await ok(attempt('owner', 'swapped', { dry_run: true }))
    assert.equal(other.digest, draft.digest)
    await uploaded('colleague', 'swapped', people('swapped', 'restricted'))
    assert.equal(code(await attempt('owner', 'swapped', { digest: other.digest })), 'plan_changed')
    const made = await attempt('owner', 'swapped', { digest: reviewed.digest })
    assert.deepEqual([made.status, made.body.digest], [201, reviewed.digest])
    const kept = await ok(as('owner').get('/api/v1/products/swapped/manifests/1.0.0'))
    assert.deepEqual([kept.deployed_by, kept.digest], ['owner', reviewed.digest])
  })

  it('lowers the classes that are named, and no others', async () => {
    const open = people('a_internal', 'internal', { email: '  - { name: email, type: string }\n' })
    const lowered = (version: string, more: object) => attempt('owner', 'a_internal', { version, ...more })
    await uploaded('owner', 'a_internal', open)
    const { plan } = await ok(lowered('2.0.0', { dry_run: true }))
    assert.deepEqual(plan.lowered_classes, ['email'])
    assert.ok(plan.problems.some((problem: { readonly code: string }) => problem.code === 'class_lowering_unnamed'))
    for (const lower of [undefined, [], ['city'], ['Email']]) {
      assert.equal(code(await lowered('2.0.0', { lower })), 'class_lowering_unnamed', String(lower))
    }
    const made = await ok(lowered('2.0.0', { lower: ['email'] }))
    if (made.run_id) assert.equal((await as('owner').untilEnded(made.run_id)).state, 'succeeded')
    await uploaded('owner', 'a_internal', people('a_internal', 'internal'))
    const back = await ok(lowered('3.0.0', {}))
    if (back.run_id) assert.equal((await as('owner').untilEnded(back.run_id)).state, 'succeeded')
    const path = '/api/v1/products/a_internal/rollback'
    assert.equal(code(await as('owner').post(path, { version: '2.0.0' })), 'class_lowering_unnamed')
    assert.equal(code(await as('owner').post(path, { version: '2.0.0', snapshot_id: '1' })), 'validation_failed')
    assert.equal(code(await as('owner').post(path, { lower: ['email'] })), 'validation_failed')
    assert.equal(code(await as('owner').post(path, { version: '2.0.0', lower: ['email'] })), 202)
  })
})
