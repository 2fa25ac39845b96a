/** The catalogue's PostgreSQL as hostile statements meet it: none takes more memory than it may, and who goes away leaves no work behind. */
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import pg from 'pg'
import { startCopiedServer } from '../../runtime/src/database/testing.ts'
import type { TenantCall } from '../../runtime/src/flow.ts'
import { askCatalogue } from '../../runtime/src/wire/catalogue/catalogue-link.ts'
import { CatalogueServer } from '../../runtime/src/wire/catalogue/catalogue-server.ts'
import { READER, tablesSql } from '../../runtime/src/wire/catalogue/table-sql.ts'
import { WireError } from '../../runtime/src/wire/protocol/wire-error.ts'
import { logger, person } from '../../runtime/src/wire/wire.fixture.ts'

const asked = { needsTables: false }
const unbound = { values: [], formats: [] }

let folder: string
let catalogue: CatalogueServer

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-catalogue-'))
  // What a machine that lost power may leave.
  const cluster = join(folder, 'wire-catalogue', 'postgres', 'cluster')
  await mkdir(cluster, { recursive: true })
  await writeFile(join(cluster, 'PG_VERSION'), 'nothing')
  catalogue = new CatalogueServer({
    dataDirectory: folder,
    mostSets: 4,
    idleMs: 600_000,
    tablesOf: async () => [],
    logger,
  })
})

after(async () => {
  await catalogue?.close()
  await rm(folder, { recursive: true, force: true })
})

const call = (tenant: string, signal: AbortSignal) =>
  ({ requestId: 'request', principal: person(tenant), tenant, signal }) as unknown as TenantCall

const run = (sql: string, signal = new AbortController().signal, tenant = 'acme') =>
  catalogue.within(asked, call(tenant, signal), (link) =>
    askCatalogue(link, { sql, searchPath: null, parameterOids: [] }, unbound, signal),
  )

const stateOf = (work: Promise<unknown>): Promise<string | undefined> =>
  work.then(
    () => 'done',
    (error: WireError) => error.sqlState,
  )

const ENDLESS = 'select count(*) from pg_proc a, pg_proc b, pg_proc c where a.pronargs + b.pronargs + c.pronargs = 999'

describe('a statement about the catalogue', () => {
  it('is answered, whatever an earlier run has left in the folder', async () => {
    assert.equal((await run('select 1')).rows.length, 1)
  })

  it('ends where it takes more memory than it may, and others go on', async () => {
    const beside = run('select 1 from pg_class, pg_class b limit 100000')
    // In one piece: filling it bit by bit takes longer on a busy machine than a statement may.
    assert.equal(await stateOf(run("select length(repeat('x', 500000000))")), '53200')
    assert.equal((await beside).rows.length, 100_000)
  })

  it('keeps its place while it runs, and leaves it when its caller goes: the others wait for that', async () => {
    const gone = new AbortController()
    const busy = Array.from({ length: 30 }, () => stateOf(run(ENDLESS, gone.signal)))
    const waiting = run('select 1')
    for (let times = 0; times < 3; times += 1) await run('select 1', undefined, 'other')
    gone.abort(new WireError('57014', 'cancelled'))
    assert.deepEqual(new Set(await Promise.all(busy)), new Set(['57014']))
    assert.equal((await waiting).rows.length, 1)
    // Of those that were cut off nothing runs any more when their places are free again.
    const free = Array.from({ length: 12 }, () => run('select 1'))
    await Promise.all(free)
  })

  it('sees tables that a PostgreSQL cannot hold as they are, beside the others', async () => {
    const columns = ['ctid', 'xmin', 'id', `${'x'.repeat(70)}a`, `${'x'.repeat(70)}b`].map((name, at) => ({
      name,
      type: 'long' as const,
      fieldId: at + 1,
    }))
    const names = [`${'t'.repeat(70)}a`, `${'t'.repeat(70)}b`, 'people']
    const tables = names.map((table) => ({ schema: 'crm', table, columns, masked: [`${'x'.repeat(70)}a`] }))
    const server = await startCopiedServer(join(folder, 'plain'))
    const client = new pg.Client({ ...server.address, database: 'postgres' })
    try {
      await client.connect()
      await client.query(`create role ${READER}`)
      for (const part of tablesSql('acme', 'postgres', tables)) await client.query(part)
      const { rows } = await client.query(
        "select table_name, count(*)::int as columns from information_schema.columns where table_schema = 'crm' group by 1",
      )
      assert.deepEqual([rows.length, ...rows.map(({ columns: count }) => count)], [3, 3, 3, 3])
    } finally {
      await client.end()
      await server.destroy()
    }
  })
})
