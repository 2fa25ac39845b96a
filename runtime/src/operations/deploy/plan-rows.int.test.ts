import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { Engine } from '@sluice/engine'
import { commitStep } from '@sluice/iceberg/testing'
import type { Column } from '@sluice/sdk'
import type { TenantCall } from '../../flow.ts'
import { type RegistryLake, startRegistryLake } from '../../lake/testing.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { rawTable } from '../../materializer/inputs.ts'
import { lakeTable } from '../../materializer/variants.ts'
import { registryMigrations } from '../../registry/migrations.ts'
import type { Product } from '../../registry/products.ts'
import type { DeployDeps } from './deps.ts'
import { planRows, type RowsAsked, rowSight } from './plan-rows.ts'
import { TenantTurns } from './tenant-turns.ts'

let lake: RegistryLake

before(async () => {
  lake = await startRegistryLake([registryMigrations])
})
after(() => lake[Symbol.asyncDispose]())

const COLUMNS: readonly Column[] = ['id', 'n'].map((name) => ({ name, type: 'integer', nullable: true }))
const NEVER = new AbortController().signal

type Run = Engine['run']

function platformOf(run: Run = (job, signal) => lake.engine.run(job, signal)): DeployDeps {
  return {
    pool: lake.pool,
    lake: lake.lake,
    engine: { run },
    distributed: null,
    scratchDirectory: join(lake.dir, 'counts'),
    config: { limits: { transform_memory_mb: 512 } },
    cpu: { refuseSpent: () => undefined },
    counts: new TenantTurns(),
  } as unknown as DeployDeps
}

function version(transform: string | null, keys: readonly string[], input: object = {}): ManifestSet {
  const given = {
    name: 'source',
    connection: 'db',
    table: 'public.t',
    columns: null,
    where: null,
    mode: 'full',
    primaryKey: [],
    cursorColumn: null,
  }
  const columns = COLUMNS.map((column) => ({ ...column, nullable: !keys.includes(column.name) }))
  return {
    product: { domain: 'sales', name: 'counted', classification: 'internal' },
    inputs: [{ ...given, onSchemaChange: 'evolve', ...input }],
    compute: { engine: 'embedded', transform, resources: {} },
    output: { columns, primaryKey: keys, writeMode: 'replace' },
    quality: { checks: [], maxRejected: { percent: 100, rows: 1_000_000 } },
  } as unknown as ManifestSet
}

/** Of a tenant of its own: what the product and its input have, as `(id, n), …`. */
async function asked(
  { today, keys = ['id'], source = today }: { today: string; keys?: readonly string[]; source?: string },
  next: ManifestSet,
  more: Partial<RowsAsked> = {},
): Promise<RowsAsked> {
  const tenant = `t${randomUUID().slice(0, 8)}`
  const select = (values: string) =>
    `SELECT CAST(id AS INTEGER) AS id, CAST(n AS INTEGER) AS n FROM (VALUES ${values}) t(id, n)`
  const keyed = COLUMNS.map((column) => ({ ...column, nullable: !keys.includes(column.name) }))
  const [own, raw] = [lakeTable(tenant, 'sales', 'counted', 'clear'), rawTable(tenant, 'db', 'public.t')]
  const ofOwn = { columns: keyed, primaryKey: keys }
  await commitStep(lake, own, { operation: 'replace', schema: ofOwn, select: select(today) })
  const ofRaw = { columns: COLUMNS, primaryKey: [], cursorColumn: null }
  await commitStep(lake, raw, { operation: 'replace', schema: ofRaw, select: select(source) })
  return {
    product: { tenant, domain: 'sales', name: 'counted' } as Product,
    live: version('SELECT id, n FROM source WHERE false', keys),
    next,
    sight: { mayRead: true, seesAll: true, isClear: () => true },
    upstreamOf: () => assert.fail('no input is a product'),
    reads: { live: null, next: null },
    judged: { inputs: {}, shapes: {} },
    ...more,
  }
}

const FOUR = '(1, 1), (2, 1), (3, 2), (4, 2)'

describe('rows are compared by a key that each row of today has for itself', () => {
  for (const [keys, next, transform, told] of [
    [['id'], ['id'], 'SELECT * FROM source WHERE id > 1', [1, 0]],
    [['id'], ['id', 'n'], 'SELECT id, n + id % 2 AS n FROM source', [2, 2]],
    [['id', 'n'], ['id', 'n'], 'SELECT id + 1 AS id, n FROM source', [2, 2]],
    // Two rows of today are one of these: none of them would be said to leave.
    [['id'], ['n'], 'SELECT max(id) AS id, n FROM source GROUP BY n', null],
    [['id', 'n'], ['id'], 'SELECT * FROM source', null],
    [[], ['id'], 'SELECT * FROM source', null],
    [['id'], [], 'SELECT * FROM source WHERE id > 1', null],
  ] as const) {
    it(`${keys.join(', ') || 'none'} and then ${next.join(', ') || 'none'}`, async () => {
      const rows = await planRows(platformOf(), await asked({ today: FOUR, keys }, version(transform, next)), NEVER)
      assert.deepEqual(told, rows.leaving === null ? null : [rows.leaving, rows.coming])
      assert.equal(rows.notCounted === null, told !== null, String(rows.notCounted))
      if (told !== null) assert.equal((rows.before as number) - told[0] + told[1], rows.after)
    })
  }
})

describe('rows are made as a run makes them', () => {
  it('without those that a contract puts aside', async () => {
    const next = version(null, ['id'], { schemaContract: { nullability: 'quarantine_row' } })
    const shapes = { source: COLUMNS.map((column) => ({ ...column, nullable: false })) }
    const found = { today: FOUR, source: '(1, 1), (2, NULL), (3, 2), (4, NULL)' }
    const { after: made } = await planRows(
      platformOf(),
      await asked(found, next, { judged: { inputs: {}, shapes } }),
      NEVER,
    )
    assert.equal(made, 2)
  })

  it('without columns that came since the version was judged', async () => {
    const next = version('SELECT * FROM source', ['id'])
    const { notCounted } = await planRows(
      platformOf(),
      await asked({ today: FOUR }, next, { judged: { inputs: { source: ['id'] }, shapes: {} } }),
      NEVER,
    )
    assert.match(String(notCounted), /cannot be made/)
  })

  it('and by whom the inputs are read makes other rows of one text', async () => {
    const same = version('SELECT * FROM source', ['id'])
    const as = (variant: string) => ({ source: { variant } }) as unknown as RowsAsked['reads']['live']
    for (const [live, next, why] of [
      ['clear', 'clear', 'it makes its rows as the version in service does'],
      ['clear', 'masked', null],
    ] as const) {
      const reads = { live: as(live), next: as(next) }
      const { notCounted } = await planRows(
        platformOf(),
        await asked({ today: FOUR }, same, { live: same, reads }),
        NEVER,
      )
      assert.equal(notCounted, why)
    }
  })
})

it('of a product that is not registered nobody knows what lies under its name', async () => {
  const { isClear, ...sight } = await rowSight(platformOf(), {} as TenantCall, null)
  assert.deepEqual([sight, isClear('id')], [{ mayRead: false, seesAll: false }, false])
})

describe('a count is bounded', () => {
  const FILTERED = version('SELECT * FROM source WHERE id > 1', ['id'], { where: 'id > 0' })

  it('in what each statement writes, and leaves nothing', async () => {
    const small: Run = ({ limits, ...job }, signal) => {
      const room = limits.room && { ...limits.room, bytes: 100 }
      return lake.engine.run({ ...job, limits: { ...limits, ...(room && { room }) } } as Parameters<Run>[0], signal)
    }
    const platform = platformOf(small)
    const { notCounted } = await planRows(platform, await asked({ today: FOUR }, FILTERED), NEVER)
    assert.match(String(notCounted), /MiB of rows/)
    assert.deepEqual(await readdir(platform.scratchDirectory), [])
  })

  it('to one of a tenant at a time, whose turns all of its statements take', async () => {
    const active = new Map<string | undefined, number>()
    let most = 0
    const watched: Run = async (job, signal) => {
      const now = (active.get(job.tenant) ?? 0) + 1
      most = Math.max(most, now)
      active.set(job.tenant, now)
      try {
        return await lake.engine.run(job, signal)
      } finally {
        active.set(job.tenant, (active.get(job.tenant) as number) - 1)
      }
    }
    const [one, other] = [await asked({ today: FOUR }, FILTERED), await asked({ today: FOUR }, FILTERED)]
    const platform = platformOf(watched)
    // Three in turn may take a slow machine longer than one plan waits.
    const counted = await Promise.all([one, other, one, one].map((each) => planRows(platform, each, NEVER, 300_000)))
    assert.deepEqual(
      counted.map(({ leaving }) => leaving),
      [1, 1, 1, 1],
    )
    assert.deepEqual(new Set(active.keys()), new Set([one.product.tenant, other.product.tenant]))
    assert.equal(most, 1)
  })

  it('by its caller, who leaves nothing and holds up nobody', async () => {
    const gone = new AbortController()
    const leaving: Run = async () => {
      gone.abort(new Error('gone'))
      return gone.signal.throwIfAborted() as never
    }
    const left = platformOf(leaving)
    const each = await asked({ today: FOUR }, FILTERED)
    await assert.rejects(planRows(left, each, gone.signal), /gone/)
    assert.deepEqual(await readdir(left.scratchDirectory), [])
    const { leaving: counted } = await planRows({ ...platformOf(), counts: left.counts }, each, NEVER)
    assert.equal(counted, 1)
  })
})
