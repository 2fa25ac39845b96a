import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { inTransaction } from '../database/pools.ts'
import { deleteConnection } from './connections.ts'
import { type MasterKeys, openMasterKeyFile } from './master-keys.ts'
import {
  listQuarantine,
  MAX_QUARANTINED,
  pruneQuarantine,
  type QuarantinedTable,
  quarantinedTables,
  type RefusedRow,
  saveQuarantine,
} from './quarantine.ts'
import { addSecretKey, createTenantKeys, dropSecretKeysBefore } from './tenant-keys.ts'
import { startTestRegistry, type TestRegistry } from './testing.ts'

let registry: TestRegistry
let masters: MasterKeys
let folder: string

before(async () => {
  registry = await startTestRegistry()
  folder = await mkdtemp(join(tmpdir(), 'sluice-quarantine-'))
  masters = openMasterKeyFile(join(folder, 'master-keys.json'))
})
after(async () => {
  await registry[Symbol.asyncDispose]()
  await rm(folder, { recursive: true, force: true })
})

async function newTable(): Promise<QuarantinedTable> {
  const tenant = await registry.tenant()
  await inTransaction(registry.pool, (tx) => createTenantKeys(tx, masters, tenant))
  const { id } = await registry.connection(tenant)
  return { tenant, connectionId: id, table: 'public.t' }
}

const refused = (id: number | null, raw: string | null = `value ${id}`): RefusedRow => ({
  column: 'n',
  reason: 'the number is NaN',
  key: id === null ? null : { id: String(id) },
  raw,
  carried: id === 2,
  whole: { texts: { id: String(id), n: raw }, json: [], lacks: ['n'] },
})

function save(table: QuarantinedTable, rows: readonly RefusedRow[], whole = false): Promise<void> {
  return inTransaction(registry.pool, (tx) => saveQuarantine(tx, masters, table, { runId: 'run_1', whole, rows }))
}

async function listed({ table, ...connection }: QuarantinedTable, limit = MAX_QUARANTINED.rows) {
  const place = { ...connection, tables: [table] }
  return (await listQuarantine(registry.pool, masters, place, { limit, after: null })).items
}

const ids = async (table: QuarantinedTable) => (await listed(table)).map(({ key }) => key?.['id']).toSorted()

test('rows are kept until they are read again, by key or with all others', async () => {
  const table = await newTable()
  await save(table, [refused(1), refused(2), refused(null), { ...refused(null, null), column: null }])
  assert.deepEqual(await ids(table), ['1', '2', undefined, undefined])
  await save(table, [refused(2, 'another value'), refused(3)])
  const rows = await listed(table)
  assert.deepEqual(
    rows.filter(({ key }) => key?.['id'] === '2').map(({ raw }) => raw),
    ['another value'],
  )
  assert.deepEqual(
    rows.map(({ key, carried }) => carried === (key?.['id'] === '2')),
    rows.map(() => true),
  )
  assert.deepEqual(rows.at(-1) && Object.keys(rows[0] ?? {}).toSorted(), [
    'carried',
    'column',
    'createdAt',
    'id',
    'key',
    'lost',
    'raw',
    'reason',
    'runId',
    'table',
  ])
  await save({ ...table, table: 'public.other' }, [refused(7)], true)
  await save(table, [refused(4)], true)
  assert.deepEqual(await ids(table), ['4'])
  await save(table, [], true)
  assert.deepEqual(await ids(table), [])
  assert.deepEqual(await quarantinedTables(registry.pool, table.connectionId), ['public.other'])
})

test('a row is shown by its key as reads tell it, and replaced by that of its source', async () => {
  const table = await newTable()
  await save(table, [{ ...refused(1), toldKey: { id: 'one' } }])
  await save(table, [{ ...refused(1), toldKey: { id: 'eins' } }])
  assert.deepEqual(await ids(table), ['eins'])
})

test('rows are bounded in number and size, the newest stay', async () => {
  const table = await newTable()
  await save(
    table,
    Array.from({ length: 1_500 }, (_, id) => refused(id)),
  )
  assert.equal((await listed(table)).length, MAX_QUARANTINED.rows)
  await save(table, [refused(9_999)])
  const kept = await ids(table)
  assert.ok(kept.length === MAX_QUARANTINED.rows && kept.includes('9999'))
  const large = () => randomBytes(8_000).toString('hex')
  await save(
    table,
    Array.from({ length: 100 }, (_, id) => refused(10_000 + id, large())),
  )
  const { rows } = await registry.pool.query(
    'select count(*)::int as count, sum(octet_length(sealed))::int as bytes from quarantined_rows where connection_id = $1',
    [table.connectionId],
  )
  assert.ok(rows[0].bytes <= MAX_QUARANTINED.bytes && rows[0].count < 100 && rows[0].count > 10, JSON.stringify(rows))
})

test('values are sealed, open after a rotation of keys, and nowhere but in their place', async () => {
  const table = await newTable()
  await save(table, [refused(4_711, 'the secret value')])
  const text = async () => JSON.stringify((await registry.pool.query('select * from quarantined_rows')).rows)
  assert.ok(!/4711|secret value/.test(await text()))
  await inTransaction(registry.pool, async (tx) => {
    const { version } = await addSecretKey(tx, masters, table.tenant)
    await dropSecretKeysBefore(tx, table.tenant, version)
  })
  assert.deepEqual(
    (await listed(table)).map(({ key, raw }) => [key, raw]),
    [[{ id: '4711' }, 'the secret value']],
  )
  const other = await newTable()
  await registry.pool.query('update quarantined_rows set tenant = $1, connection_id = $2 where connection_id = $3', [
    other.tenant,
    other.connectionId,
    table.connectionId,
  ])
  await assert.rejects(listed(other), { code: 'secret_unreadable' })
  assert.deepEqual(await listed({ ...other, tenant: table.tenant }), [])
})

test('rows go when they are old, and with their connection', async () => {
  const table = await newTable()
  await save(table, [refused(1), refused(2)])
  const age = "update quarantined_rows set created_at = now() - interval '31 days' where id = $1"
  await registry.pool.query(age, [(await listed(table))[0]?.id])
  while ((await pruneQuarantine(registry.pool, 30, 1)) === 1);
  assert.equal((await listed(table)).length, 1)
  await inTransaction(registry.pool, (tx) => deleteConnection(tx, table.tenant, table.connectionId))
  assert.deepEqual(await quarantinedTables(registry.pool, table.connectionId), [])
})
