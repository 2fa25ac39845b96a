/** Readers who go from page to page while the product is made anew under them: what each page is of, and that no row is lost or comes twice. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Client, type Json, manifests, ok } from './client.ts'
import { connect, deployVersion, openWorld, syncNow, type World } from './world.ts'

const ROWS = 60
const COLUMNS = `  - { name: id, type: long, role: identity, nullable: false }
  - { name: round, type: integer, nullable: false }
  - { name: city, type: string, nullable: false }
  - { name: ratio, type: float }
  - { name: seen_at, type: timestamptz, nullable: false }
`
const ENDPOINTS = `  - type: lookup
    config: { index_columns: [id, city] }
  - type: timeseries
    config: { time_column: seen_at }
  - type: analytics
`
const PRODUCT = '/api/v1/products/crm.people'

let world: World
let owner: Client
let round = 0
/** Keys of the rows that each epoch has. */
const epochs = new Map<number, { readonly round: number; readonly keys: ReadonlySet<string> }>()

before(async () => {
  world = await openWorld()
  const [tenant] = world.tenants
  await world.source.query(`CREATE TABLE rounds (id bigint PRIMARY KEY, round int NOT NULL, city text NOT NULL, ratio real, seen_at timestamptz NOT NULL);
    INSERT INTO rounds SELECT 9007199254740000 + i, 0, 'city ' || i % 3, CASE WHEN i % 5 = 0 THEN NULL ELSE (i % 4) * 0.1::real END,
      '2026-01-01T00:00Z'::timestamptz + make_interval(hours => i / 4) FROM generate_series(1, ${ROWS}) i`)
  await world.createTenant(tenant, 'enterprise')
  owner = await world.as(tenant, 'svc-developers', 'dora')
  await connect(world, owner)
  await ok(owner.post('/api/v1/products', { name: 'people', namespace: 'crm', archetype: 'source_aligned' }))
  await deployVersion(owner, 'crm.people', '1.0.0', {
    ...manifests('public.rounds', { columns: COLUMNS, endpoints: ENDPOINTS }),
    quality: 'apiVersion: svc/v1\nkind: Quality\nchecks: []\n',
  })
  await nextEpoch()
})

after(() => world?.close())

/** All rows are written anew; one in ten goes, and some come, before, between and behind those that stay. */
async function nextEpoch(): Promise<void> {
  round += 1
  await world.source.query(`DELETE FROM rounds WHERE id % 10 = ${round % 10}; UPDATE rounds SET round = ${round};
    INSERT INTO rounds SELECT 9007199254740000 + i, ${round}, 'city ' || i % 3, (i % 4) * 0.1::real, '2026-01-01T00:00Z'::timestamptz + make_interval(hours => i / 4)
      FROM generate_series(1, ${ROWS}) i WHERE i % 10 = ${(round + 5) % 10} ON CONFLICT DO NOTHING`)
  await syncNow(owner)
  const { rows } = await world.source.query('SELECT id::text AS id FROM rounds')
  const { meta } = await ok(owner.get(`${PRODUCT}/latest?limit=1`))
  epochs.set(meta.epoch, { round, keys: new Set(rows.map(({ id }: Json) => String(id))) })
}

/** By columns of which no row that stays changes its own: a row cannot move from one page to another. */
const WALKS = [
  'latest?limit=7',
  'latest?limit=7&order=id:desc',
  'latest?limit=7&order=ratio',
  'latest?limit=7&order=city:desc,ratio:desc',
  'latest?limit=3&filter=city:city 1',
  'timeseries?limit=7',
  'timeseries?limit=7&order=desc&from=2026-01-01&to=2026-01-02',
]

const seenIn = (path: string, id: string) => {
  const at = Number(BigInt(id) - 9007199254740000n)
  return !path.includes('filter') || at % 3 === 1
}

describe('pages', () => {
  it('are each of the one epoch that they name, and together have each row once that was there all the while', async () => {
    for (const path of WALKS) {
      const ids: string[] = []
      const met = new Set<number>()
      let cursor: string | null = null
      for (let page = 0; page === 0 || cursor !== null; page += 1) {
        if (page % 3 === 2) await nextEpoch()
        const more: string = cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`
        const { data, meta, next_cursor } = await ok(owner.get(`${PRODUCT}/${encodeURI(path)}${more}`))
        const epoch = epochs.get(meta.epoch)
        assert.ok(epoch, `${path}: ${meta.epoch}`)
        met.add(meta.epoch)
        for (const row of data) {
          assert.equal(row.round, epoch.round, path)
          ids.push(String(row.id))
        }
        cursor = next_cursor
      }
      assert.ok(met.size > 1, path)
      assert.equal(new Set(ids).size, ids.length, `${path}: a row came twice`)
      const [first, ...others] = [...met].map((epoch) => epochs.get(epoch)?.keys ?? new Set<string>())
      const stayed = [...(first ?? [])].filter((id) => others.every((keys) => keys.has(id)) && seenIn(path, id))
      assert.deepEqual(
        stayed.filter((id) => !ids.includes(id)),
        [],
        `${path}: a row was lost`,
      )
    }
  })

  it('of a query are all of one epoch', async () => {
    const query = { sql: 'SELECT id, round FROM crm.people' }
    for (let count = 0; count < 4; count += 1) {
      const making = nextEpoch()
      const answers = await Promise.all(Array.from({ length: 6 }, () => ok(owner.post('/api/v1/query', query))))
      await making
      for (const { rows, meta } of answers) {
        const epoch = epochs.get(Object.values(meta.epochs as Record<string, number>)[0] as number)
        assert.equal(new Set(rows.map(([, one]: Json) => one)).size, 1)
        assert.equal(rows[0][1], epoch?.round)
        assert.deepEqual(rows.map(([id]: Json) => String(id)).toSorted(), [...(epoch?.keys ?? [])].toSorted())
      }
    }
  })
})
