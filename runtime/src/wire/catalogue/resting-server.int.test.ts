/** The PostgreSQL of the catalogue, which is there while it is asked: whoever comes while it ends is answered by it, begun again. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { isAlive } from '@sluice/engine/process-table'
import { Seeded } from '../../../../test/crash/seeded.ts'
import { until } from '../../../../test/until.ts'
import type { TenantCall } from '../../flow.ts'
import type { QueriesDeps } from '../../operations/queries/deps.ts'
import { WireError } from '../protocol/wire-error.ts'
import { clientOf, logger, openWire, person, tokens } from '../wire.fixture.ts'
import { AskedTypes } from './asked-types.ts'
import { askCatalogue, type CatalogueLink } from './catalogue-link.ts'
import { CatalogueServer } from './catalogue-server.ts'

const IDLE_MS = 20
const COLUMNS = [{ name: 'id', type: 'long' as const, fieldId: 1 }]
/** Several, so that numbers of tables differ by the order in which databases are made. */
const TABLES: Readonly<Record<string, readonly string[]>> = {
  acme: ['people'],
  other: ['orders', 'items'],
  third: ['a', 'b', 'c'],
}
const OID_SQL =
  "select string_agg(oid || ' ' || relname, ',' order by oid) from pg_class where relkind = 'r' and relname not like 'pg_%' and relname not like 'sql_%'"

let folder: string
let catalogue: CatalogueServer

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-resting-'))
})

afterEach(() => catalogue?.close())

after(() => rm(folder, { recursive: true, force: true }))

function open(idleMs = IDLE_MS): void {
  catalogue = new CatalogueServer({
    dataDirectory: folder,
    mostSets: 4,
    idleMs,
    tablesOf: async ({ tenant }) => (TABLES[tenant] ?? []).map((table) => ({ schema: 'crm', table, columns: COLUMNS })),
    logger,
  })
}

function call(tenant: string, signal = new AbortController().signal): TenantCall {
  return { requestId: 'request', principal: person(tenant), tenant, signal } as unknown as TenantCall
}

const within = <T>(work: (link: CatalogueLink) => Promise<T>, asked = call('acme')): Promise<T> =>
  catalogue.within({ needsTables: true }, asked, work)

async function ask(sql: string, tenant = 'acme', signal = new AbortController().signal): Promise<string> {
  const statement = { sql, searchPath: null, parameterOids: [] }
  const { rows } = await within(
    (link) => askCatalogue(link, statement, { values: [], formats: [] }, signal),
    call(tenant, signal),
  )
  // Behind its kind, its length, the number of its values and the length of the first.
  return rows.map((row) => row.subarray(11).toString()).join('\n')
}

const clusterFolder = (): string => join(folder, 'wire-catalogue', 'postgres', 'cluster')

/** Of the server that runs. */
const pidOf = async (): Promise<number> =>
  Number((await readFile(join(clusterFolder(), 'postmaster.pid'), 'utf8')).split('\n')[0])

const ends = (pid: number): Promise<void> => until(`server ${pid} has ended`, () => !isAlive(pid))

describe('the PostgreSQL of the catalogue', () => {
  it('ends when nobody asks, and comes back with the tables that it had, by the same numbers', async () => {
    open()
    const asked = async () => Promise.all(Object.keys(TABLES).map((tenant) => ask(OID_SQL, tenant)))
    for (const tenant of Object.keys(TABLES).reverse()) await ask('select 1', tenant)
    const first = await asked()
    assert.match(first[0] ?? '', /^\d+ people$/)
    const pids = new Set<number>()
    for (let times = 0; times < 3; times += 1) {
      const [told, pid] = await within(async () => [await ask(OID_SQL), await pidOf()] as const)
      assert.equal(told, first[0])
      pids.add(pid)
      await ends(pid)
    }
    assert.equal(pids.size, 3)
    assert.deepEqual(await asked(), first)
  })

  it('stays while anything is asked of it, however long that takes', async () => {
    open()
    await ask('select 1')
    await within(async () => {
      const pid = await pidOf()
      await sleep(20 * IDLE_MS)
      assert.equal(await ask('select 1'), '1')
      await sleep(20 * IDLE_MS)
      assert.equal(await pidOf(), pid)
      assert.ok(isAlive(pid))
    })
  })

  it('answers everybody who comes while it ends or begins, whoever else goes away', async () => {
    open(1)
    const seed = Math.floor(Math.random() * 1_000_000)
    const random = new Seeded(seed)
    const wrong: string[] = []
    for (let round = 0; round < 15; round += 1) {
      const callers = Object.keys(TABLES).map(async (tenant) => {
        await sleep(random.below(20))
        const gone = new AbortController()
        const goes = random.below(5) === 0
        if (goes) setTimeout(() => gone.abort(new WireError('57014', 'gone')), random.below(50))
        const told = await ask(`select ${round}`, tenant, gone.signal).catch((error: WireError) => error.sqlState)
        if (told !== String(round) && !(goes && told === '57014')) wrong.push(`${tenant} ${round}: ${told}`)
      })
      await Promise.all(callers)
    }
    assert.deepEqual(wrong, [], `seed ${seed}`)
    await ends(await within(pidOf))
  })

  it('is begun again for sessions that stay open, with what they have prepared and declared', async () => {
    open()
    tokens.set('vera', person('acme'))
    const plans = { platform: {} as QueriesDeps, catalogue, types: new AskedTypes(catalogue) }
    const wire = await openWire({ serverVersion: '18.4', plans })
    const client = clientOf(wire, 'vera')
    try {
      await client.connect()
      const prepared = { name: 'one', text: 'select relname from pg_class where relname = $1', values: ['people'] }
      await client.query('begin')
      await client.query('declare some cursor for select relname from pg_class order by 1')
      const { rows: begun } = await client.query('fetch 2 from some')
      const pid = await within(pidOf)
      assert.deepEqual((await client.query(prepared)).rows, [{ relname: 'people' }])
      await ends(pid)
      const { rows: further } = await client.query('fetch 2 from some')
      assert.equal(new Set([...begun, ...further].map(({ relname }) => relname)).size, 4)
      assert.deepEqual((await client.query(prepared)).rows, [{ relname: 'people' }])
      await client.query('commit')
    } finally {
      await client.end()
      await wire.stop(1_000)
    }
  })

  it('is made anew where somebody has killed it, or broken what it left', async () => {
    open()
    const broken = await within(async () => {
      const pid = await pidOf()
      process.kill(pid, 'SIGKILL')
      await ends(pid)
      return pid
    })
    await until('it answers again', () =>
      ask('select 1').then(
        (told) => told === '1',
        () => false,
      ),
    )
    const pid = await within(pidOf)
    assert.notEqual(pid, broken)
    await ends(pid)
    await writeFile(join(clusterFolder(), 'global', 'pg_control'), 'nothing')
    assert.match(await ask(OID_SQL), /^\d+ people$/)
  })

  it('leaves nothing behind where it is closed while it ends, or while it rests', async () => {
    for (const isResting of [false, true]) {
      open(1)
      const pid = await within(pidOf)
      if (isResting) await ends(pid)
      else await sleep(2)
      await catalogue.close()
      assert.ok(!isAlive(pid))
      assert.ok(!existsSync(clusterFolder()))
      await assert.rejects(ask('select 1'), { sqlState: '58000' })
    }
  })
})
