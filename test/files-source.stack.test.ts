/**
 * A product over a folder of files, as its users run it: files come, are corrected and go, and what lookup serves is what
 * the folder has. What the operator has not allowed is not read, whatever leads there.
 */
import assert from 'node:assert/strict'
import { chmod, mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, it } from 'node:test'
import { gzipSync } from 'node:zlib'
import { DuckDBInstance } from '@duckdb/node-api'
import { type Client, type Json, manifests, ok } from '../acceptance/client.ts'
import { placeTestCluster } from '../runtime/src/database/testing.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { adminOf, makeTenant, personOf, registerProduct, servedAt, uploadAndDeploy } from './first-steps.ts'

const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: city, type: string }
  - { name: price, type: "decimal(38,9)" }
`
const FOUND_OUT = { orders: { glob: '**/*.csv*', format: 'csv', primary_key: ['id'], cursor_column: 'at' } }

const COLUMN_TYPES = { id: 'long', at: 'date', city: 'string', price: 'decimal(38,9)' }
const TABLES = {
  orders: { ...FOUND_OUT.orders, columns: Object.entries(COLUMN_TYPES).map(([name, type]) => ({ name, type })) },
}

let folder: string
let files: string
let runtime: RuntimeProcess
let developer: Client
let colleague: Client
let viewer: Client

/** Readable by whoever the runtime reads files as, and there as a whole at once. */
async function put(path: string, content: string | Uint8Array): Promise<void> {
  const whole = join(files, path)
  await mkdir(dirname(whole), { recursive: true })
  await writeFile(join(files, '.next'), content, { mode: 0o644 })
  await rename(join(files, '.next'), whole)
}

async function sync(state = 'succeeded'): Promise<Json> {
  const { id } = await ok(developer.post('/api/v1/connections/db/sync'))
  const run = await developer.untilEnded(id)
  assert.equal(run.state, state, JSON.stringify(run))
  return run
}

async function served(): Promise<readonly Json[]> {
  const { data } = await ok(viewer.get('/api/v1/products/people/latest?limit=100'))
  return data.toSorted((one: Json, other: Json) => one.id - other.id)
}

const register = (name: string, settings: unknown) =>
  developer.post('/api/v1/connections', {
    name,
    connector_type: 'files',
    config_encrypted: JSON.stringify(settings),
  })

const change = (client: Client, tables: unknown) =>
  client.send('/api/v1/connections/db', {
    method: 'PATCH',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ config_encrypted: JSON.stringify({ folder: files, tables }) }),
  })

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-files-source-'))
  await chmod(folder, 0o755)
  files = join(folder, 'files')
  await mkdir(files)
  await mkdir(join(folder, 'others'))
  await writeFile(join(folder, 'others/secret.csv'), 'id,at,city,price\n99,2026-01-01,hidden,1.5\n')
  const config = join(folder, 'sluice.yaml')
  await writeFile(config, `upkeep: { compare_minutes: 0 }\nfolders: { allow: { acme: [${JSON.stringify(files)}] } }\n`)
  const data = join(folder, 'data')
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, null, 0, config)
  const url = await servedAt(runtime)
  const admin = await adminOf({ url, data })
  await makeTenant(admin)
  developer = await personOf({ url, data }, 'dora')
  colleague = await personOf({ url, data }, 'carl')
  viewer = await personOf({ url, data }, 'vera', { group: 'svc-viewers' })
})

after(async () => {
  await runtime?.stop()
  await rm(folder, { recursive: true, force: true })
})

it('a folder that the operator has not allowed is refused by name of the setting', async () => {
  for (const refused of [join(folder, 'others'), folder, '/etc', join(files, '../others')]) {
    const answer = await register('db', { folder: refused, tables: TABLES })
    assert.equal(answer.status, 403, JSON.stringify(answer.body))
    assert.match(JSON.stringify(answer.body), /folder_refused.*folders\.allow/)
  }
})

it('check says what is wrong, and what to do', async () => {
  await ok(register('db', { folder: files, tables: TABLES }))
  const report = await ok(developer.post('/api/v1/connections/db/test'))
  assert.match(JSON.stringify(report), /no file matches.*put a file there/)
  await put(
    '2026/orders-1.csv',
    'id,at,city,price\n1,2026-01-01,Bonn,0.1\n2,2026-01-01,"Köln, Süd",123456789012345678.000000001\n',
  )
  const fine = await ok(developer.post('/api/v1/connections/db/test'))
  assert.match(JSON.stringify(fine), /1 tables can be read/)
})

it('tables are listed with the columns that their files have', async () => {
  await ok(register('found', { folder: files, tables: FOUND_OUT }))
  const { tables } = await ok(developer.get('/api/v1/connections/found/discover'))
  const [orders] = tables
  assert.equal(`${orders.schema}.${orders.name}`, 'files.orders')
  assert.deepEqual(
    orders.columns.map(({ name, type }: Json) => `${name} ${type}`),
    Object.entries(COLUMN_TYPES).map(([name, type]) => `${name} ${type}`),
  )
})

it('a product serves what the files have', async () => {
  await registerProduct(developer, 'people')
  const endpoints = '  - type: lookup\n    config: { index_columns: [id] }\n'
  const texts = manifests('files.orders', { columns: COLUMNS, endpoints })
  const upload = { ...texts, inputs: texts.inputs.replace('mode: full', 'mode: incremental') }
  await uploadAndDeploy(developer, 'people', upload)
  await sync()
  assert.deepEqual(
    (await served()).map(({ id, city, price }) => [id, city, price]),
    [
      [1, 'Bonn', '0.100000000'],
      [2, 'Köln, Süd', '123456789012345678.000000001'],
    ],
  )
})

it('files that are new are read alone; rows that have left are gone', async () => {
  await put('2026/orders-2.csv.gz', gzipSync('price,city,at,id\r\n,Ulm,2026-01-02,3\r\n4,"",2026-01-02,4\r\n'))
  const added = await sync()
  assert.match(JSON.stringify(added), /"rows_read":2/)
  assert.deepEqual((await served()).map(({ id, city, price }) => [id, city, price]).slice(2), [
    [3, 'Ulm', null],
    [4, '', '4.000000000'],
  ])
  await put('2026/orders-1.csv', 'id,at,city,price\n1,2026-01-03,Aachen,0.1\n')
  await rm(join(files, '2026/orders-2.csv.gz'))
  await sync()
  assert.deepEqual(
    (await served()).map(({ id, city }) => [id, city]),
    [[1, 'Aachen']],
  )
})

it('of a key that several files bring the row with the greatest cursor counts, when they are read at once, too', async () => {
  const cities = async () => (await served()).map(({ id, city }) => [id, city])
  await put('2026/orders-0.csv', 'id,at,city,price\n1,2026-01-05,Ulm,1\n2,2026-01-01,Hof,1\n1,2026-01-04,Suhl,1\n')
  await sync()
  const expected = [
    [1, 'Ulm'],
    [2, 'Hof'],
  ]
  assert.deepEqual(await cities(), expected)
  await ok(change(developer, { orders: { ...TABLES.orders, null_text: 'nothing' } }))
  assert.match(JSON.stringify(await sync()), /"rows_read":4/)
  assert.deepEqual(await cities(), expected)
  await rm(join(files, '2026/orders-0.csv'))
  await ok(change(developer, TABLES))
  await sync()
  assert.deepEqual(await cities(), [[1, 'Aachen']])
})

it('a file with older states that is changed, or one with newer states that goes, leaves of each key the newest there is', async () => {
  const cities = async () => (await served()).map(({ id, city }) => [id, city])
  await put('2026/orders-0.csv', 'id,at,city,price\n2,2026-01-01,Hof,1\n')
  await put('2026/orders-2.csv', 'id,at,city,price\n1,2026-01-06,Celle,1\n2,2026-01-06,Celle,1\n')
  await sync()
  assert.deepEqual(await cities(), [
    [1, 'Celle'],
    [2, 'Celle'],
  ])
  const corrected = 'id,at,city,price\n2,2026-01-01,Hof an der Saale,1\n3,2026-01-01,Jena,1\n'
  await put('2026/orders-0.csv', corrected)
  await sync()
  assert.deepEqual(await cities(), [
    [1, 'Celle'],
    [2, 'Celle'],
    [3, 'Jena'],
  ])
  await rm(join(files, '2026/orders-2.csv'))
  await sync()
  assert.deepEqual(await cities(), [
    [1, 'Aachen'],
    [2, 'Hof an der Saale'],
    [3, 'Jena'],
  ])
  assert.match(JSON.stringify(await sync()), /"rows_read":0/, 'all is read again once')
  await rm(join(files, '2026/orders-0.csv'))
  await sync()
})

it('what a table is made of is changed by the creator of the connection alone, and moves its rows', async () => {
  const more = { ...TABLES, more: { glob: 'more/*.csv', format: 'csv' } }
  const other = { orders: { ...TABLES.orders, glob: 'salaries/*.csv' } }
  for (const tables of [more, other]) assert.equal((await change(colleague, tables)).status, 403)
  await ok(change(developer, more))
  assert.match(JSON.stringify(await sync()), /"rows_read":0/, 'one table more changes nothing for the others')
  await ok(change(developer, { orders: { ...TABLES.orders, null_text: 'none' }, more: more.more }))
  assert.match(JSON.stringify(await sync()), /"rows_read":1/, 'a table that is made otherwise is read whole')
  await ok(change(developer, TABLES))
})

it('a row that cannot be carried is in the quarantine as it stands, with the reason', async () => {
  await put('2026/orders-3.csv', 'id,at,city,price\n5,2026-01-04,Trier,1\n6,2026-01-04,Jena\nseven,2026-01-04,Gera,1\n')
  await sync()
  assert.deepEqual(
    (await served()).map(({ id }) => id),
    [1, 5],
  )
  const quarantine = await ok(developer.get('/api/v1/connections/db/quarantine'))
  const text = JSON.stringify(quarantine)
  assert.match(text, /6,2026-01-04,Jena/)
  assert.match(text, /it has 3 values, and the file 4 columns/)
  assert.match(text, /it is no long/)
})

it('links are no files of the folder, whatever they lead to', async () => {
  await symlink(join(folder, 'others/secret.csv'), join(files, '2026/orders-4.csv'))
  await symlink(join(folder, 'others'), join(files, '2027'))
  await sync()
  assert.deepEqual(
    (await served()).map(({ id }) => id),
    [1, 5],
  )
})

it('a folder that is empty for once does not empty the product', async () => {
  await rename(join(files, '2026'), join(files, '.away'))
  const run = await sync('failed')
  assert.match(JSON.stringify(run), /no file matches/)
  assert.deepEqual(
    (await served()).map(({ id }) => id),
    [1, 5],
  )
})

const SALES = {
  sales: { glob: 'sales/*.parquet', format: 'parquet', primary_key: ['id'], cursor_column: 'day' },
  records: { glob: 'records/*.avro', format: 'avro' },
}
const SALES_TYPES = {
  ...{ id: 'long', tiny: 'integer', large: 'decimal(20,0)', price: 'decimal(38,9)', rate: 'double', day: 'date' },
  ...{ at: 'timestamp', utc: 'timestamptz', who: 'uuid', word: 'string', raw: 'binary', fine: 'boolean', tags: 'json' },
}

/** As another writer has it. */
async function putParquet(path: string, sql: string): Promise<void> {
  const instance = await DuckDBInstance.create(':memory:', { threads: '1' })
  const connection = await instance.connect()
  const whole = join(folder, 'written.parquet')
  try {
    await connection.run("SET TimeZone = 'UTC'")
    await connection.run(`COPY (${sql}) TO '${whole}' (FORMAT parquet)`)
  } finally {
    connection.closeSync()
    instance.closeSync()
  }
  await put(path, await readFile(whole))
}

const FIRST_SALES = `SELECT * FROM (VALUES
  (9223372036854775807::BIGINT, (-128)::TINYINT, 18446744073709551615::UBIGINT, 12345678901234567890123456789.123456789::DECIMAL(38,9),
   'Infinity'::DOUBLE, DATE '0001-01-01', TIMESTAMP '9999-12-31 23:59:59.999999', TIMESTAMPTZ '2026-01-01 00:00:00.5+02',
   '550e8400-e29b-41d4-a716-446655440000'::UUID, 'Köln "Süd", 😀', '\\x00\\xFF'::BLOB, true, [{'k': 1, 'v': NULL}]),
  (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL))
  t(id, tiny, large, price, rate, day, "at", utc, who, word, raw, fine, tags)`
const salesOf = (id: number) => `SELECT * REPLACE (${id}::BIGINT AS id) FROM (${FIRST_SALES}) LIMIT 1`

const syncSales = async (state = 'succeeded'): Promise<Json> => {
  const { id } = await ok(developer.post('/api/v1/connections/typed/sync'))
  const run = await developer.untilEnded(id)
  assert.equal(run.state, state, JSON.stringify(run))
  return run
}

const servedSales = async (): Promise<readonly Json[]> =>
  (await ok(viewer.get('/api/v1/products/sales/latest?limit=100'))).data.toSorted(
    (one: Json, other: Json) => Number(one.id) - Number(other.id),
  )

it('Parquet and Avro say their columns themselves', async () => {
  await putParquet('sales/1.parquet', FIRST_SALES)
  await put(
    'records/1.avro',
    await readFile(join(import.meta.dirname, '../plugins/connectors/files/fixtures/deflate.avro')),
  )
  await ok(register('typed', { folder: files, tables: SALES }))
  const { tables } = await ok(developer.get('/api/v1/connections/typed/discover'))
  const columnsOf = (name: string) =>
    tables.find((table: Json) => table.name === name).columns.map((column: Json) => `${column.name} ${column.type}`)
  assert.deepEqual(
    columnsOf('sales'),
    Object.entries(SALES_TYPES).map(([name, type]) => `${name} ${type}`),
  )
  assert.ok(columnsOf('records').includes('dec decimal(38,10)'))
})

it('a product serves what Parquet files have, to the last digit', async () => {
  await registerProduct(developer, 'sales')
  const columns = Object.entries(SALES_TYPES)
    .map(
      ([name, type]) =>
        `  - { name: ${name}, type: "${type}"${name === 'id' ? ', role: identity, nullable: false' : ''} }\n`,
    )
    .join('')
  const texts = manifests('files.sales', {
    columns,
    endpoints: '  - type: lookup\n    config: { index_columns: [id] }\n',
  })
  const upload = {
    ...texts,
    product: texts.product.replace('people', 'sales'),
    inputs: texts.inputs.replace('connection: db', 'connection: typed').replace('mode: full', 'mode: incremental'),
  }
  await uploadAndDeploy(developer, 'sales', upload)
  assert.match(JSON.stringify(await syncSales()), /"rows_read":2/)
  const [second, first] = await servedSales()
  const noValues = Object.fromEntries(Object.keys(SALES_TYPES).map((name) => [name, null]))
  assert.deepEqual(second, { ...noValues, id: 2 })
  assert.deepEqual(first, {
    ...{ id: '9223372036854775807', tiny: -128, large: '18446744073709551615' },
    ...{ price: '12345678901234567890123456789.123456789', rate: 'Infinity', day: '0001-01-01' },
    ...{ at: '9999-12-31T23:59:59.999999', utc: '2025-12-31T22:00:00.500000Z' },
    ...{ who: '550e8400-e29b-41d4-a716-446655440000', word: 'Köln "Süd", 😀', raw: 'AP8=', fine: true },
    tags: [{ k: 1, v: null }],
  })
})

it('Parquet files that come are read alone, and those that go take their rows with them', async () => {
  await putParquet('sales/2.parquet', salesOf(3))
  assert.match(JSON.stringify(await syncSales()), /"rows_read":1/)
  await rm(join(files, 'sales/1.parquet'))
  await syncSales()
  assert.deepEqual(
    (await servedSales()).map(({ id }) => Number(id)),
    [3],
  )
})

it('a Parquet file that is cut off ends its run by name and reason, and nothing else', async () => {
  const whole = await readFile(join(files, 'sales/2.parquet'))
  await put('sales/3.parquet', whole.subarray(0, whole.length - 20))
  const run = JSON.stringify(await syncSales('failed'))
  assert.match(run, /source_file_invalid/)
  assert.match(run, /sales\/3\.parquet.*no Parquet file, or cut off/)
  assert.equal((await servedSales()).length, 1)
  await putParquet('sales/3.parquet', salesOf(4))
  await syncSales()
  assert.equal((await servedSales()).length, 2)
})

it('where rows that are gone stay, a file with older states that comes late takes the place of nothing newer', async () => {
  const tables = { late: { ...TABLES.orders, glob: 'late/*.csv' } }
  await put('late/2.csv', 'id,at,city,price\n1,2026-02-02,Ulm,1\n2,2026-02-02,Ulm,1\n')
  await ok(register('late', { folder: files, tables }))
  await registerProduct(developer, 'late')
  const endpoints = '  - type: lookup\n    config: { index_columns: [id] }\n'
  const texts = manifests('files.late', { columns: COLUMNS, endpoints })
  const mode = 'mode: incremental, cursor_column: at, deletes: unseen, deletes_reason: files are only added'
  await uploadAndDeploy(developer, 'late', {
    ...texts,
    product: texts.product.replace('people', 'late'),
    inputs: texts.inputs.replace('connection: db', 'connection: late').replace('mode: full', mode),
  })
  const cities = async () => {
    const { id } = await ok(developer.post('/api/v1/connections/late/sync'))
    assert.equal((await developer.untilEnded(id)).state, 'succeeded')
    const { data } = await ok(viewer.get('/api/v1/products/late/latest?limit=100'))
    return data.map(({ id, city }: Json) => `${id} ${city}`).sort()
  }
  assert.deepEqual(await cities(), ['1 Ulm', '2 Ulm'])
  await put('late/1.csv', 'id,at,city,price\n1,2026-02-01,Hof,1\n2,2026-02-02,Gera,1\n3,2026-02-01,Jena,1\n')
  assert.deepEqual(await cities(), ['1 Ulm', '2 Gera', '3 Jena'])
})
