/**
 * A row is erased that came by each way in which rows come, from a lake of each kind: read whole, read by the log of its source, and
 * pushed; in a folder, and in S3. Its values are planted in former and present states, and looked for in all that is stored: found
 * before, nowhere after, while the row beside it stays.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type Client, type Json, manifests, ok } from '../acceptance/client.ts'
import { type SourceCluster, startCluster } from '../plugins/connectors/postgresql/source-server.ts'
import { freePort } from '../runtime/src/database/free-port.ts'
import { placeTestCluster } from '../runtime/src/database/testing.ts'
import { addressOf, startVersitygw } from '../stack/servers/versitygw.ts'
import { withDatabase } from './crash/databases.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { adminOf, makeTenant, personOf, registerProduct, servedAt } from './first-steps.ts'
import { filesWith, tablesWith } from './stored-text.ts'
import { until } from './until.ts'

const marker = (what: string) => `${what}-${randomBytes(8).toString('hex')}`
const COLUMNS = `  - { name: id, type: string, role: identity, nullable: false }
  - { name: part, type: integer, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier }
  - { name: city, type: string }
`
const ENDPOINTS = `  - type: lookup
    config: { history_mode: type_2, tracked_columns: [city] }
  - type: realtime
    config: { key_template: "{id}:{part}" }
  - type: analytics
`
const TABLE = {
  columns: [
    { name: 'id', type: 'string' },
    { name: 'part', type: 'integer' },
    { name: 'email', type: 'string' },
    { name: 'city', type: 'string' },
  ],
  primary_key: ['id', 'part'],
}

interface Person {
  readonly id: string
  readonly part: number
  readonly email: string
  readonly city: string
}

/** How rows of `people_<way>` come. */
interface Way {
  readonly connection: string
  readonly inputs: (inputs: string) => string
  put(person: Person): Promise<unknown>
  remove(person: Person): Promise<unknown>
}

let source: SourceCluster

before(async () => {
  source = await startCluster({ wal_level: 'logical', max_replication_slots: '8', max_wal_senders: '8' })
  const { user, database } = source.settings
  await source.sql(`ALTER ROLE ${user} REPLICATION; GRANT CREATE ON DATABASE ${database} TO ${user}`)
})
after(() => source?.stop())

const quoted = (text: string) => `'${text}'`

function inTable(table: string, mode: string): Way {
  return {
    connection: 'db',
    inputs: (inputs) => inputs.replace('mode: full', `mode: ${mode}`),
    put: ({ id, part, email, city }) =>
      source.sql(`INSERT INTO ${table} VALUES (${[quoted(id), part, quoted(email), quoted(city)].join()})
        ON CONFLICT (id, part) DO UPDATE SET email = excluded.email, city = excluded.city`),
    remove: ({ id, part }) => source.sql(`DELETE FROM ${table} WHERE id = ${quoted(id)} AND part = ${part}`),
  }
}

for (const lake of ['in a folder', 'in S3'] as const) {
  describe(`a row of a lake ${lake}`, () => {
    const prefix = lake === 'in S3' ? 's3' : 'local'
    let folder: string
    let data: string
    let objects: Awaited<ReturnType<typeof startVersitygw>> | null = null
    let runtime: RuntimeProcess
    let admin: Client
    let developer: Client

    const ways: Readonly<Record<string, Way>> = {
      full: inTable(`${prefix}_full`, 'full'),
      log: inTable(`${prefix}_log`, 'cdc'),
      push: {
        connection: 'shop',
        inputs: (inputs) => inputs.replace('connection: db', 'connection: shop').replace(', mode: full', ''),
        put: (person) => ok(developer.post('/api/v1/connections/shop/events?table=local_push', [person])),
        remove: ({ id, part }) =>
          ok(developer.post('/api/v1/connections/shop/events?table=local_push', [{ id, part, _op: 'delete' }])),
      },
    }
    const tableOf = (way: string) => (way === 'push' ? 'public.local_push' : `public.${prefix}_${way}`)

    before(async () => {
      folder = await mkdtemp(join(tmpdir(), 'sluice-erased-'))
      data = join(folder, 'data')
      const config = join(folder, 'sluice.yaml')
      const settings: Record<string, unknown> = { upkeep: { compare_minutes: 0 } }
      if (lake === 'in S3') {
        const login = { key: 'sluice', secret: 'for-tests-alone', port: await freePort() }
        objects = await startVersitygw(join(folder, 'objects'), login)
        const endpoint = addressOf(login).SLUICE_TEST_S3_URL
        const keys = { access_key_id: login.key, secret_access_key: login.secret }
        settings['object_store'] = { type: 's3', endpoint, ...keys }
      }
      await writeFile(config, JSON.stringify(settings))
      await placeTestCluster(data)
      runtime = await RuntimeProcess.spawn(data, null, 0, config)
      const place = { url: await servedAt(runtime), data }
      admin = await adminOf(place)
      developer = await personOf(place, 'dora')
      await makeTenant(admin)
      const { host, port, user, password, database } = source.settings
      const connect = (name: string, type: string, config: unknown) =>
        ok(
          developer.post('/api/v1/connections', {
            ...{ name, connector_type: type, config_encrypted: JSON.stringify(config) },
          }),
        )
      await connect('db', 'postgresql', { host, port, user, password, database, ssl_mode: 'prefer' })
      await connect('shop', 'push', { tables: { local_push: TABLE } })
      for (const [way, { inputs }] of Object.entries(ways)) {
        if (way !== 'push') {
          await source.sql(`CREATE TABLE ${prefix}_${way} (id text, part int, email text, city text, PRIMARY KEY (id, part));
            ALTER TABLE ${prefix}_${way} OWNER TO ${user}`)
        }
        await makeProduct(way, inputs)
      }
    })

    after(async () => {
      await runtime?.stop()
      await objects?.stop()
      await rm(folder, { recursive: true, force: true })
    })

    async function makeProduct(way: string, inputs: Way['inputs']): Promise<void> {
      const name = `people_${way}`
      await registerProduct(developer, name)
      const files = manifests(tableOf(way), { columns: COLUMNS, endpoints: ENDPOINTS })
      const texts = {
        ...files,
        product: files.product.replace('name: people', `name: ${name}`),
        inputs: inputs(files.inputs),
        quality: files.quality.replace('[id]', '[id, part]'),
      }
      await ok(developer.upload(`/api/v1/products/${name}/manifests`, texts))
      await ok(developer.post(`/api/v1/products/${name}/deploy`, { version: '1.0.0', dry_run: false }))
    }

    async function sync(connection: string): Promise<void> {
      const { id } = await ok(developer.post(`/api/v1/connections/${connection}/sync`))
      const ended = await developer.untilEnded(id)
      assert.equal(ended.state, 'succeeded', JSON.stringify(ended))
      await until('every store has it', async () => {
        const { data: products } = await ok(developer.get('/api/v1/products'))
        return (products as Json[]).every(({ status }) => status === 'deployed' || status === 'draft')
      })
    }

    /** In how many places each text lies. */
    async function search(texts: readonly string[]): Promise<Readonly<Record<string, Json>>> {
      const inLake = await filesWith(join(folder, lake === 'in S3' ? 'objects' : 'data/lake'), texts, (path) =>
        lake === 'in S3' ? !path.endsWith('/log') : true,
      )
      const tables = (database: 'sluice_registry' | 'sluice_serving') =>
        withDatabase(data, database, (client) => tablesWith(client, texts))
      const [inStores, inRegistry] = [await tables('sluice_serving'), await tables('sluice_registry')]
      return Object.fromEntries(
        texts.map((text) => [
          text,
          { lake: inLake.get(text)?.length, stores: inStores.get(text)?.length, registry: inRegistry.get(text) },
        ]),
      )
    }

    for (const [name, way] of Object.entries(ways)) {
      it(`is nowhere after it was erased, and its neighbour is where it was: ${name}`, async () => {
        const [id, former, city, email] = ['key', 'former', 'city', 'mail'].map(marker) as [
          string,
          string,
          string,
          string,
        ]
        const person = { id, part: 1, email, city }
        // Of the same first column of the key.
        const beside = { id, part: 2, email: marker('beside'), city: marker('beside') }
        await way.put({ ...person, city: former })
        await way.put(beside)
        await sync(way.connection)
        await way.put(person)
        await sync(way.connection)
        const own = [former, city, email]
        for (const [text, { lake, stores }] of Object.entries(await search(own))) {
          assert.ok(lake > 0, `${text} is in the lake`)
          assert.ok(stores > 0, `${text} is in a store`)
        }
        await way.remove(person)
        const path = `/api/v1/connections/${way.connection}/erasures`
        const asked = { table: tableOf(name), key: { id, part: 1 }, expire_history: true }
        const begun = await ok(admin.post(path, asked, { 'x-tenant-id': 'acme' }))
        let erasure: Json = begun
        await until('the erasure has ended', async () => {
          erasure = await ok(admin.get(`${path}/${begun.id}`, { 'x-tenant-id': 'acme' }))
          return !['queued', 'running'].includes(erasure.state)
        })
        assert.equal(erasure.state, 'succeeded', JSON.stringify(erasure))
        const gone = { lake: 0, stores: 0, registry: [] }
        assert.deepEqual(await search(own), Object.fromEntries(own.map((text) => [text, gone])))
        const { lake, stores } = (await search([beside.email]))[beside.email] as Json
        assert.ok(lake > 0 && stores > 0, 'the row beside it is there')
        await sync(way.connection)
        assert.deepEqual(await search(own), Object.fromEntries(own.map((text) => [text, gone])))
        const { data: rows } = await ok(developer.get(`/api/v1/products/people_${name}/latest?limit=10`))
        assert.deepEqual(
          (rows as Json[]).map(({ id, part }) => [id, part]),
          [[id, 2]],
        )
      })
    }

    if (lake === 'in S3') return
    it('is told apart by every digit of its key, however that is written, and where products have the key in another type', async () => {
      await source.sql(`CREATE TABLE numbers (id bigint, at timestamptz, email text, PRIMARY KEY (id, at));
        ALTER TABLE numbers OWNER TO ${source.settings.user};
        INSERT INTO numbers SELECT id, at, 'mail of ' || id || ' at ' || to_char(at, 'SS.US')
        FROM (VALUES (9007199254740992), (9007199254740993), (7)) i(id), (VALUES ('2026-01-01Z'::timestamptz), ('2026-01-01 00:00:00.000001Z')) t(at)`)
      await registerProduct(developer, 'numbers')
      const files = manifests('public.numbers', {
        columns: `  - { name: id, type: string, role: identity, nullable: false }
  - { name: at, type: string, role: identity, nullable: false }
  - { name: email, type: string }
`,
        endpoints: '  - type: lookup\n    config: { index_columns: [email] }\n  - type: analytics\n',
      })
      const texts = {
        product: files.product.replace('name: people', 'name: numbers'),
        output: files.output.replace('write_mode: replace', 'write_mode: merge\nkeep_missing: true'),
        quality: files.quality.replace('[id]', '[id, at]'),
      }
      await ok(developer.upload('/api/v1/products/numbers/manifests', { ...files, ...texts }))
      await ok(developer.post('/api/v1/products/numbers/deploy', { version: '1.0.0', dry_run: false }))
      await sync('db')
      const path = '/api/v1/connections/db/erasures'
      const named = { 'x-tenant-id': 'acme', 'content-type': 'application/json' }
      const ask = (id: string, at: string) => {
        const body = `{"table":"public.numbers","key":{"id":${id},"at":"${at}"},"expire_history":true}`
        return admin.send(path, { method: 'POST', headers: named, body })
      }
      // What JSON's readers round is refused in every body; what somebody may have rounded before, as a key of a row to erase.
      for (const [rounded, code] of [
        ['9007199254740993', 'validation_failed'],
        ['-9007199254740993', 'validation_failed'],
        ['9007199254740992', 'invalid_value'],
        ['7.0000001', 'invalid_value'],
        ['1e17', 'invalid_value'],
      ] as const) {
        const { status, body } = await ask(rounded, '2026-01-01T00:00:00Z')
        assert.deepEqual([status, body.code], [400, code], rounded)
        if (code === 'validation_failed') assert.equal(body.errors[0].pointer, '/key/id')
      }
      const left = async () => {
        const { rows } = await ok(developer.post('/api/v1/query', { sql: 'SELECT email FROM crm.numbers ORDER BY 1' }))
        return (rows as Json[]).flat()
      }
      const expected = new Set(await left())
      assert.equal(expected.size, 6)
      for (const [id, at, gone] of [
        ['"9007199254740993"', '2026-01-01T00:00:00Z', 'mail of 9007199254740993 at 00.000000'],
        ['"+007"', '2026-01-01T02:00:00.000001+02:00', 'mail of 7 at 00.000001'],
      ] as const) {
        const begun = await ask(id, at)
        assert.equal(begun.status, 202, JSON.stringify(begun.body))
        const run = await developer.untilEnded(begun.body.run_id)
        assert.equal(run.state, 'succeeded', JSON.stringify(run))
        expected.delete(gone)
        assert.deepEqual(await left(), [...expected])
      }
    })

    it('does not come back out of pushed rows that wait while no product reads their table', async () => {
      const way = ways['push'] as Way
      const [id, email] = [marker('key'), marker('mail')]
      const put = (part: number) => way.put({ id, part, email: `${email}-${part}`, city: 'Ulm' })
      await put(3)
      await sync(way.connection)
      await ok(developer.send('/api/v1/products/people_push', { method: 'DELETE' }))
      for (const part of [1, 2]) await put(part)
      const asked = { table: tableOf('push'), key: { id, part: 1 }, expire_history: true }
      const begun = await ok(admin.post('/api/v1/connections/shop/erasures', asked, { 'x-tenant-id': 'acme' }))
      const run = await developer.untilEnded(begun.run_id)
      assert.equal(run.state, 'succeeded', JSON.stringify(run))
      await makeProduct('push', way.inputs)
      await sync(way.connection)
      const { data: rows } = await ok(developer.get('/api/v1/products/people_push/latest?limit=10'))
      const found = (rows as Json[]).filter((row) => row.id === id).map(({ part }) => part)
      assert.deepEqual(found.toSorted(), [2, 3])
    })

    it('waits for a product that is being made for the first time, and makes it anew, too', async () => {
      const way = ways['full'] as Way
      const [id, email] = [marker('key'), marker('mail')]
      const person = { id, part: 1, email, city: 'Ulm' }
      await way.put(person)
      await sync(way.connection)
      await registerProduct(developer, 'late')
      const files = manifests(tableOf('full'), { columns: COLUMNS, endpoints: ENDPOINTS })
      const texts = {
        product: files.product.replace('name: people', 'name: late'),
        quality: files.quality.replace('[id]', '[id, part]'),
      }
      await ok(developer.upload('/api/v1/products/late/manifests', { ...files, ...texts }))
      const late = await ok(developer.get('/api/v1/products/late'))
      let erasure: Json
      const path = '/api/v1/connections/db/erasures'
      const state = async () => {
        erasure = await ok(admin.get(`${path}/${erasure.id}`, { 'x-tenant-id': 'acme' }))
        return erasure.state as string
      }
      const isEnded = async () => !['queued', 'running'].includes(await state())
      await withDatabase(data, 'sluice_registry', async (registry) => {
        // As a run that makes it has it.
        await registry.query('select pg_advisory_lock(hashtextextended($1, 7))', [late.id])
        await ok(developer.post('/api/v1/products/late/deploy', { version: '1.0.0', dry_run: false }))
        const waiting = async () => {
          const asking = `select from pg_stat_activity where query like 'select pg_try_advisory_lock(hashtextextended($1, 7))%'`
          return (await registry.query(asking)).rows.length
        }
        await until('its first run waits', async () => (await waiting()) === 1)
        await way.remove(person)
        const asked = { table: tableOf('full'), key: { id, part: 1 }, expire_history: true }
        erasure = await ok(admin.post(path, asked, { 'x-tenant-id': 'acme' }))
        await until('the erasure waits as well', async () => (await waiting()) === 2 || (await isEnded()))
        assert.equal(await state(), 'running')
      })
      await until('the erasure has ended', isEnded)
      assert.equal(await state(), 'succeeded', JSON.stringify(erasure))
      assert.ok(
        erasure.proof.products.some(({ name }: Json) => name === 'crm.late'),
        JSON.stringify(erasure),
      )
      assert.deepEqual(await search([email]), { [email]: { lake: 0, stores: 0, registry: [] } })
    })
  })
}
