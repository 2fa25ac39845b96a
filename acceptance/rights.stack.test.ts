/** Who may let others read, and what is put in service: nobody grants more than they hold, nor deploys what they have not seen. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Answer, type Client, type Json, manifests, ok } from './client.ts'
import { deployVersion, loginOf, onboardPeople, openWorld, syncNow, type World } from './world.ts'

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

describe('a right that is taken back', () => {
  const CLASS = 'pii.identifier'
  const unmask = (user: string, grantable = true) => ({
    ...{ subject: { user }, may: 'unmask', classes: [CLASS], grantable },
  })
  const chain: Client[] = []
  const member = (index: number) => chain[index] as Client

  before(async () => {
    for (const user of ['one', 'two', 'three']) chain.push(await world.as(world.tenants[0], 'svc-developers', user))
    await deployed('owner', 'chained', people('chained', 'internal'))
    await syncNow(as('owner'))
  })

  it('ends what was granted by it, all the way, and no circle holds itself up', async () => {
    const first = await ok(as('owner').post(grants('chained'), unmask('one')))
    await ok(member(0).post(grants('chained'), unmask('two')))
    await ok(member(1).post(grants('chained'), unmask('three')))
    await ok(member(2).post(grants('chained'), unmask('two')))
    for (const client of chain) assert.equal(await sees(client, 'chained'), 'clear')
    const { status, body } = await as('owner').send(`${grants('chained')}/${first.id}`, { method: 'DELETE' })
    assert.equal(status, 200)
    const named = body.ended.map(({ subject, whole }: Json) => [subject.user, whole]).sort()
    assert.deepEqual(named, [
      ['three', true],
      ['two', true],
    ])
    for (const client of chain) assert.equal(await sees(client, 'chained'), 'masked')
    assert.deepEqual((await ok(as('owner').get(grants('chained')))).data, [])
    const { data } = await ok(as('owner').get('/api/v1/audit?limit=20'))
    const ends = data.filter(({ action }: Json) => action === 'grant.end')
    assert.deepEqual(
      ends.map(({ details }: Json) => details.with),
      [{ grant: first.id }, { grant: first.id }],
    )
  })

  it('leaves what another right holds up', async () => {
    const first = await ok(as('owner').post(grants('chained'), unmask('one')))
    const second = await ok(member(0).post(grants('chained'), unmask('two')))
    const same = await ok(as('owner').post(grants('chained'), unmask('two', false)))
    assert.equal(same.id, second.id)
    await ok(member(1).post(grants('chained'), unmask('three')))
    const { status, body } = await as('owner').send(`${grants('chained')}/${first.id}`, { method: 'DELETE' })
    assert.equal(status, 200)
    assert.deepEqual(body.ended.map(({ subject, whole }: Json) => [subject.user, whole]).sort(), [
      ['three', true],
      ['two', false],
    ])
    assert.deepEqual([await sees(member(1), 'chained'), await sees(member(2), 'chained')], ['clear', 'masked'])
    assert.equal((await member(1).post(grants('chained'), unmask('three'))).body.code, 'grant_not_held')
  })

  it('is one on raw tables, too, for what authors have granted to themselves', async () => {
    const raw = await ok(
      as('owner').post('/api/v1/connections/db/grants', { subject: { user: 'one' }, grantable: true }),
    )
    await registered('owner', 'by_one')
    const files = people('by_one', 'internal')
    await ok(member(0).upload('/api/v1/products/by_one/manifests', files))
    const { run_id: run } = await ok(member(0).post('/api/v1/products/by_one/deploy', { version: '1.0.0' }))
    if (run) await member(0).untilEnded(run)
    await ok(member(0).post(grants('by_one'), unmask('one', false)))
    await ok(member(0).post(grants('by_one'), unmask('three', false)))
    await ok(member(0).post('/api/v1/connections/db/grants', { subject: { user: 'two' } }))
    assert.deepEqual([await sees(member(0), 'by_one'), await sees(member(2), 'by_one')], ['clear', 'clear'])
    const path = `/api/v1/connections/db/grants/${raw.id}`
    const { body } = await as('owner').send(path, { method: 'DELETE' })
    assert.deepEqual(body.ended.map(({ subject }: Json) => subject.user).sort(), ['one', 'three', 'two'])
    assert.deepEqual([await sees(member(0), 'by_one'), await sees(member(2), 'by_one')], ['masked', 'masked'])
  })

  it('tells nobody by the audit log how much others do', async () => {
    const { data } = await ok(as('owner').get('/api/v1/audit?limit=3'))
    for (const { id } of data) assert.match(id, /^[0-9a-f]{8}-[0-9a-f-]{27}$/)
  })
})

describe('what is told of rows beside them', () => {
  const shown = async (caller: Caller, path: string) =>
    (await as(caller).get(`/api/v1/${path}`, adminsHeader(caller))).body
  const adminsHeader = (caller: Caller) => (caller === 'admin' ? headers : {})

  it('has the sizes of raw tables for who may read them, and steps for others', async () => {
    const run = await syncNow(as('owner'))
    const path = `ingestion/${run.id}`
    for (const caller of ['admin', 'owner', 'author'] as const) {
      const { tables, log } = await shown(caller, path)
      assert.deepEqual([tables[0].rows_read, tables[0].rows_written], [9, 9], caller)
      assert.ok(tables[0].bytes > 0)
      assert.match(JSON.stringify(log), /rights_people: 9 rows/)
    }
    for (const caller of ['deputy', 'colleague', 'viewer'] as const) {
      const { tables, log } = await shown(caller, path)
      const seen = [tables[0].rows_read, tables[0].rows_written, tables[0].bytes]
      assert.deepEqual(seen, [10, 10, null], caller)
      assert.doesNotMatch(JSON.stringify(log), /rights_people: /)
      const listed = (await shown(caller, `ingestion?tenant_id=${world.tenants[0]}`)).data
      const found = listed.find(({ id }: { readonly id: string }) => id === run.id)
      assert.deepEqual(found.tables, tables)
      const { usage } = await shown(caller, `tenants/${world.tenants[0]}`)
      assert.equal(usage.storage_bytes % (1024 * 1024), 0)
    }
    await world.source.query('ANALYZE rights_people')
    const estimated = async (caller: Caller) => {
      const { tables } = await shown(caller, 'connections/db/discover')
      return tables.find(({ name }: { readonly name: string }) => name === 'rights_people').estimated_rows
    }
    assert.deepEqual([await estimated('owner'), await estimated('colleague')], [9, 10])
  })

  it('is for readers of the product', async () => {
    const reader = await world.as(world.tenants[0], 'svc-viewers', 'reader')
    const product = 'a_confidential'
    const outsiders = [as('viewer'), as('colleague'), reader]
    for (const what of ['snapshots', 'quality']) {
      const path = `/api/v1/products/${product}/${what}`
      for (const outsider of outsiders) assert.equal((await outsider.get(path)).body.code, 'product_forbidden', what)
      for (const insider of ['owner', 'author', 'deputy'] as const) {
        assert.equal((await as(insider).get(path)).status, 200, `${insider} ${what}`)
      }
    }
    const detail = async (client: Client) => {
      const { body } = await client.get(`/api/v1/products/${product}`)
      return [body.quality === null, body.last_materialization === null]
    }
    assert.deepEqual(await detail(reader), [true, true])
    assert.deepEqual(await detail(as('owner')), [false, false])
    const id = (await as('owner').get(`/api/v1/products/${product}`)).body.id
    assert.ok(!(await heard(reader)).has(id))
    assert.ok((await heard(as('owner'))).has(id))
    await ok(as('owner').post(grants(product), { subject: { user: 'reader' }, may: 'read' }))
    assert.equal((await reader.get(`/api/v1/products/${product}/snapshots`)).status, 200)
    assert.deepEqual(await detail(reader), [false, false])
    assert.ok((await heard(reader)).has(id))
  })

  /** The subjects of all events so far: those that come until the end of the run that is started here is told. */
  async function heard(client: Client): Promise<ReadonlySet<string>> {
    const { id: last } = await syncNow(as('owner'))
    const controller = new AbortController()
    const response = await client.begin('/api/v1/events', {}, controller.signal)
    const subjects = new Set<string>()
    const decoder = new TextDecoder()
    let text = ''
    for await (const chunk of response.body as ReadableStream<Uint8Array>) {
      text += decoder.decode(chunk, { stream: true })
      for (const [, json] of text.matchAll(/^data: (.*)\n/gm)) subjects.add(JSON.parse(json as string).subject)
      if (subjects.has(last)) break
    }
    controller.abort()
    return subjects
  }
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

describe('a connection', () => {
  const patch = (caller: Caller, settings: Readonly<Record<string, unknown>>) => {
    const body = JSON.stringify({ config_encrypted: JSON.stringify(settings) })
    const more = caller === 'admin' ? headers : {}
    return as(caller).send('/api/v1/connections/db', {
      method: 'PATCH',
      headers: { 'content-type': 'application/json', ...more },
      body,
    })
  }
  const settings = () => JSON.parse(loginOf(world.deployment)) as Readonly<Record<string, unknown>>
  const RAW = { sql: 'SELECT count(*) FROM raw_db.rights_people' }
  const PLACES = [
    { host: 'localhost' },
    { port: 1 },
    { database: 'postgres' },
    { user: 'somebody' },
    { ssl_mode: 'disable' },
  ] as const

  it('is led elsewhere by its creator and administrators alone, and not without its secret', async () => {
    const { password, ...open } = settings()
    for (const place of PLACES) {
      for (const caller of ['author', 'deputy', 'colleague'] as const) {
        for (const secret of [{}, { password }, { password: 'x' }]) {
          const { status, body } = await patch(caller, { ...open, ...place, ...secret })
          assert.deepEqual([status, body.code], [403, 'connection_owner_required'], JSON.stringify(place))
        }
      }
      for (const caller of ['owner', 'admin'] as const) {
        assert.equal((await patch(caller, { ...open, ...place })).body.code, 'invalid_connection_config')
      }
      assert.equal((await patch('viewer', { ...open, ...place })).body.code, 'developer_required')
    }
    for (const guess of [password, 'x']) {
      assert.equal(
        (await patch('colleague', { ...open, password: guess })).status,
        403,
        'no password is found by trying',
      )
    }
    assert.equal((await patch('colleague', { ...open, schemas: ['public'] })).status, 200)
    const { source_since, created_by } = (await as('viewer').get('/api/v1/connections/db')).body
    assert.deepEqual([source_since, created_by], [null, 'owner'], 'nothing has changed')
  })

  it('that leads elsewhere has no raw grants, and no rows from before', async () => {
    assert.deepEqual((await ok(as('author').post('/api/v1/query', RAW))).rows, [[9]])
    const moved = await patch('owner', { ...settings(), host: 'localhost' })
    assert.equal(moved.status, 200, JSON.stringify(moved.body))
    assert.notEqual(moved.body.source_since, null)
    assert.deepEqual((await ok(as('owner').get('/api/v1/connections/db/grants'))).data, [])
    assert.equal((await as('author').post('/api/v1/query', RAW)).body.code, 'table_not_found')
    assert.equal((await as('owner').post('/api/v1/query', RAW)).body.code, 'connection_moved')
    const made = await ok(as('owner').post('/api/v1/products/authored/materialize'))
    const run = await as('owner').untilEnded(made.id)
    assert.deepEqual([run.state, run.error.code], ['failed', 'input_not_ingested'])
    await syncNow(as('owner'))
    assert.deepEqual((await ok(as('owner').post('/api/v1/query', RAW))).rows, [[9]])
    assert.equal((await as('author').post('/api/v1/query', RAW)).body.code, 'table_not_found')
    const { data } = await ok(as('owner').get('/api/v1/audit?limit=50'))
    const record = data.find(({ action }: { readonly action: string }) => action === 'connection.update')
    assert.deepEqual([record.details.changed, record.details.revoked_raw_grants], [['host', 'password'], 1])
  })
})
