import assert from 'node:assert/strict'
import { createHmac, randomUUID } from 'node:crypto'
import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { rowsOf as rowsIn } from '@sluice/engine'
import type { TableRef } from '@sluice/iceberg'
import { commitStep, LIMITS, publish } from '@sluice/iceberg/testing'
import { type Row, rowsOf, type TableSchema } from '@sluice/sdk'
import { type RegistryLake, startRegistryLake } from '../lake/testing.ts'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import type { ColumnMask } from '../policy/masking.ts'
import { deltaChangeSet } from './change-set.ts'
import { type LakeState, stateOfScan, stateTable } from './lake-state.ts'
import { maskKey } from './mask-sql.ts'
import { prepare } from './prepare.ts'
import type { InputState } from './transform.ts'
import { lakeTable, type VariantPlan } from './variants.ts'

let lake: RegistryLake

before(async () => {
  lake = await startRegistryLake()
})
after(() => lake[Symbol.asyncDispose]())

/** A file of fewer rows is written anew for any of them. */
const ROWS = 10_500

const text = (name: string, nullable = true) => ({ name, type: 'string', nullable }) as const
const ID = { name: 'id', type: 'long', nullable: false } as const
const RAW: TableSchema = {
  columns: [ID, text('name'), text('mail'), text('note'), text('unused')],
  primaryKey: ['id'],
}
const SHOWN = RAW.columns.filter(({ name }) => name !== 'unused')
const MASKS: readonly ColumnMask[] = [
  { column: 'mail', classification: 'pii.email', strategy: 'hash' },
  { column: 'note', classification: 'pii.note', strategy: 'redact' },
]
const CLEAR: VariantPlan = { variant: 'clear', masks: [], schema: { columns: SHOWN, primaryKey: ['id'] } }
const TWIN: VariantPlan = { variant: 'masked', masks: MASKS, schema: { columns: SHOWN, primaryKey: ['id'] } }
const HASHED: VariantPlan = {
  variant: 'hashed',
  masks: [{ column: 'id', classification: 'pii.email', strategy: 'hash' }],
  schema: { columns: [text('id', false), ...SHOWN.slice(1)], primaryKey: ['id'] },
}
const KEYLESS: VariantPlan = {
  variant: 'keyless',
  masks: [{ column: 'id', classification: 'pii.note', strategy: 'redact' }],
  schema: { columns: [text('id'), ...SHOWN.slice(1)], primaryKey: [] },
}
const VARIANTS = [CLEAR, TWIN, HASHED, KEYLESS]
const SECRET = Buffer.alloc(32, 7)
const pseudonym = (value: string, secret = SECRET) =>
  createHmac('sha256', secret).update(value).digest('hex').slice(0, 32)

interface Values {
  readonly name: string | null
  readonly mail: string | null
  readonly note: string | null
  readonly unused: string
}
type World = Map<number, Values>

/** What each variant is to hold, by code that knows nothing of files. */
function expected(variant: string, world: World, secret = SECRET): readonly Row[] {
  const rows = [...world].map(([id, { name, mail, note }]): Row => {
    if (variant === 'masked') return [BigInt(id), name, mail === null ? null : pseudonym(mail, secret), '[redacted]']
    if (variant === 'hashed') return [pseudonym(String(id), secret), name, mail, note]
    if (variant === 'keyless') return ['[redacted]', name, mail, note]
    return [BigInt(id), name, mail, note]
  })
  return sorted(rows)
}

const sorted = (rows: readonly Row[]): readonly Row[] => rows.map((row) => [...row].map(String)).sort(byText)
const byText = (left: readonly unknown[], right: readonly unknown[]) =>
  JSON.stringify(left) < JSON.stringify(right) ? -1 : 1

/** A source table, and a product that takes it as it lies. */
function follow(options: { readonly takesDeletes?: boolean; readonly writeMode?: string } = {}) {
  const { takesDeletes = true, writeMode = 'replace' } = options
  const product = `p${randomUUID().slice(0, 8)}`
  const table: TableRef = { warehouse: 'acme', namespace: 'raw_db', table: product }
  const output = {
    format: 'iceberg',
    columns: SHOWN.map((column) => ({
      ...column,
      role: column.name === 'id' ? 'identity' : 'attribute',
      classification: 'none',
    })),
    primaryKey: ['id'],
    partitioning: [],
    writeMode,
  }
  let epoch = 0
  const refOf = (variant: string) => lakeTable('acme', 'sales', product, variant)
  return {
    /** The whole table, as its first read brings it. */
    async read(): Promise<World> {
      const select = `SELECT i AS id, 'n' || i AS name, 'm' || (i % 900) AS mail, 'o' || i AS note, 'u' AS unused FROM range(1, ${ROWS + 1}) t(i)`
      await commitStep(lake, table, { operation: 'replace', schema: RAW, select })
      const ids = Array.from({ length: ROWS }, (_, at) => at + 1)
      return new Map(
        ids.map((id) => [id, { name: `n${id}`, mail: `m${id % 900}`, note: `o${id}`, unused: 'u' }] as const),
      )
    },
    /** Brings changes into the raw table, as a later read of the source does. */
    async change(changed: World, gone: readonly number[]): Promise<void> {
      const base = await lake.lake.load(table)
      assert.ok(base)
      const cell = (value: string | null) => (value === null ? 'NULL' : `'${value}'`)
      const values = [...changed].map(
        ([id, one]) => `(${[id, ...[one.name, one.mail, one.note, one.unused].map(cell)].join(', ')})`,
      )
      const names = 'id, name, mail, note, unused'
      const { written, removed, removedFrom } = await lake.lake.merge(
        {
          base,
          scan: await lake.lake.scan(base),
          schema: RAW,
          rows: 'keep',
          key: ['id'],
          job: { limits: LIMITS },
          changed: `SELECT * FROM (VALUES ${values.join(', ') || "(0, '', '', '', '')"}) t(${names}) WHERE id > 0`,
          gone: `SELECT id FROM (VALUES ${[0, ...gone].map((id) => `(${id})`).join(', ')}) t(id) WHERE id > 0`,
        },
        AbortSignal.timeout(600_000),
      )
      const { plan, files, writeId } = written
      const commit = { base, plan, operation: 'overwrite', removed, removedFrom, files, writeId, summary: {} } as const
      await publish(lake, await lake.lake.stage(table, commit))
    },
    async epoch({ secret = SECRET, variants = VARIANTS, required = false } = {}): Promise<void> {
      const state = stateOfScan(await lake.lake.scan(table)) as LakeState
      const input = { name: 'source', connection: 'db', table: 't', columns: null, where: null }
      const columns = output.columns.map((column) =>
        column.name === 'name' ? { ...column, nullable: !required } : column,
      )
      epoch += 1
      const { commits, rowCount, snapshots } = await prepare(
        {
          tenant: 'acme',
          domain: 'sales',
          product,
          version: '1.0.0',
          manifests: {
            output: { ...output, columns },
            quality: { checks: [] },
            inputs: [input],
            compute: { engine: 'embedded', transform: null },
          } as unknown as ManifestSet,
          variants,
          keys: [maskKey('pii.email', secret)],
          inputs: [{ input, state, table } as unknown as InputState],
          runId: `run_${randomUUID()}`,
          epoch,
          takesDeletes,
          fewRows: 0,
          limits: LIMITS,
          ownLimits: LIMITS,
          signal: AbortSignal.timeout(600_000),
        },
        {
          engine: lake.engine,
          distributed: null,
          lake: lake.lake,
          faultPoint: async () => undefined,
          scratchDirectory: join(lake.dir, 'materializer'),
          nowMs: Date.now,
        },
      )
      await publish(lake, ...commits)
      assert.deepEqual(Object.keys(snapshots).sort(), variants.map(({ variant }) => variant).sort())
      assert.equal(rowCount, (await lake.lake.scan(refOf('clear'))).rows)
    },
    async rows(variant: string): Promise<readonly Row[]> {
      const output = { kind: 'rows', sql: 'SELECT * FROM rows' } as const
      const tables = [stateTable('rows', await this.state(variant))]
      const run = await lake.engine.run({ trust: 'own', tables, output, limits: LIMITS }, AbortSignal.timeout(600_000))
      const rows: Row[] = []
      for await (const some of rowsIn(run)) rows.push(...(some as readonly Row[]))
      return sorted(rows)
    },
    async files(variant: string): Promise<readonly string[]> {
      const { files, deletes } = await lake.lake.scan(refOf(variant))
      return [...files, ...deletes].map(({ uri }) => uri).sort()
    },
    async state(variant: string): Promise<LakeState> {
      return stateOfScan(await lake.lake.scan(refOf(variant))) as LakeState
    },
    async compact(variant: string): Promise<void> {
      const staged = await lake.lake.stageCompaction(
        refOf(variant),
        { limits: LIMITS, minFiles: 2 },
        AbortSignal.timeout(600_000),
      )
      if (staged !== null) await publish(lake, staged)
    },
  }
}

const seed = Number(process.env['SLUICE_TEST_SEED'] ?? Date.now() % 2 ** 31)

/** mulberry32: the same numbers for the same seed. */
function randomOf(start: number): (below: number) => number {
  let state = start
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

/** Some rows of the world, changed in it: new ones, known ones in one column each, and keys that are gone. */
function changes(world: World, random: (below: number) => number, count: number) {
  const changed: World = new Map()
  const gone: number[] = []
  for (let made = 0; made < count; made += 1) {
    const id = 1 + random(ROWS + 50)
    if (changed.has(id) || gone.includes(id)) continue
    const one = world.get(id)
    const value = random(5) === 0 ? null : `v${random(1000)}`
    if (one !== undefined && random(4) === 0) {
      gone.push(id)
      world.delete(id)
      continue
    }
    const column = (['name', 'mail', 'note', 'unused'] as const)[random(4)] ?? 'name'
    const before = one ?? { name: 'new', mail: 'new', note: 'new', unused: 'u' }
    const next = column === 'unused' ? { ...before, unused: `u${random(1000)}` } : { ...before, [column]: value }
    changed.set(id, next)
    world.set(id, next)
  }
  return { changed, gone }
}

test(`whatever rows change, every variant holds what it would hold were it written whole; seed ${seed}`, async () => {
  const product = follow()
  const world = await product.read()
  await product.epoch()
  const random = randomOf(seed)
  for (let round = 0; round < 3; round += 1) {
    const earlier = { states: new Map<string, LakeState>(), rows: new Map<string, readonly Row[]>() }
    for (const variant of ['clear', 'masked', 'hashed']) {
      earlier.states.set(variant, await product.state(variant))
      earlier.rows.set(variant, await product.rows(variant))
    }
    const { changed, gone } = changes(world, random, 1 + random(40))
    await product.change(changed, gone)
    await product.epoch()
    for (const { variant } of VARIANTS) assert.deepEqual(await product.rows(variant), expected(variant, world), variant)
    for (const [variant, state] of earlier.states) {
      const told = await differenceOf(state, await product.state(variant))
      const known = new Set((earlier.rows.get(variant) ?? []).map((row) => JSON.stringify(row)))
      const now = await product.rows(variant)
      const isNew = now.filter((row) => !known.has(JSON.stringify(row)))
      assert.deepEqual(told.upserts, isNew, `what stores of ${variant} are sent`)
      const keys = new Set(now.map(([id]) => id))
      const left = [...known].map((row) => (JSON.parse(row) as string[])[0] as string).filter((id) => !keys.has(id))
      assert.deepEqual(told.deletes, left.sort())
    }
    if (round === 0) for (const variant of ['clear', 'masked', 'hashed']) await product.compact(variant)
  }
})

test('what is not changed is not written: the files of the first epoch stay, with lists of what is gone', async () => {
  const product = follow()
  const world = await product.read()
  await product.epoch()
  const first = await product.files('clear')
  world.set(5, { ...(world.get(5) as Values), name: 'moved' })
  await product.change(new Map([[5, world.get(5) as Values]]), [7])
  world.delete(7)
  await product.epoch()
  const second = await product.files('clear')
  assert.ok(first.every((uri) => second.includes(uri)))
  assert.equal(second.length, first.length + 2)
  assert.deepEqual(await product.rows('clear'), expected('clear', world))
})

test('a twin does not tell that a value which it hides has changed, nor one that the product has not', async () => {
  for (const column of ['note', 'unused'] as const) {
    const product = follow()
    const world = await product.read()
    await product.epoch()
    const before = await product.files('masked')
    const next = { ...(world.get(5) as Values), [column]: 'other' }
    await product.change(new Map([[5, next]]), [])
    await product.epoch()
    assert.deepEqual(await product.files('masked'), before, column)
    world.set(5, next)
    assert.deepEqual(await product.rows('clear'), expected('clear', world))
  }
})

test('with another key of the pseudonyms, or other stores, all is written anew', async () => {
  const product = follow()
  const world = await product.read()
  await product.epoch()
  const secret = Buffer.alloc(32, 8)
  await product.epoch({ secret })
  assert.deepEqual(await product.rows('masked'), expected('masked', world, secret))
  const unable = follow({ takesDeletes: false })
  await unable.read()
  await unable.epoch()
  await unable.change(new Map([[5, { name: 'x', mail: 'x', note: 'x', unused: 'x' }]]), [6])
  await unable.epoch()
  assert.deepEqual((await unable.state('clear')).deletes, undefined)
})

test('a changed row that breaks a rule of the product is refused, and nothing is published', async () => {
  const product = follow()
  const world = await product.read()
  await product.epoch({ required: true })
  await product.change(new Map([[5, { ...(world.get(5) as Values), name: null }]]), [])
  await assert.rejects(product.epoch({ required: true }), { kind: 'INVALID_DATA', code: 'required_value_missing' })
  assert.deepEqual(await product.rows('clear'), expected('clear', world))
})

test('a product that merges keeps the rows that its input has no more', async () => {
  const product = follow({ writeMode: 'merge' })
  const world = await product.read()
  await product.epoch()
  await product.change(new Map([[5, { ...(world.get(5) as Values), name: 'moved' }]]), [6])
  world.set(5, { ...(world.get(5) as Values), name: 'moved' })
  await product.epoch()
  for (const { variant } of VARIANTS) assert.deepEqual(await product.rows(variant), expected(variant, world), variant)
})

async function differenceOf(earlier: LakeState, later: LakeState) {
  const directory = await mkdtemp(join(lake.dir, 'difference-'))
  const options = { engine: lake.engine, limits: LIMITS, directory, signal: AbortSignal.timeout(600_000) }
  const { changes: set, close } = await deltaChangeSet(earlier, later, options)
  const [upserts, deletes]: Row[][] = [[], []]
  for await (const batch of set.upserts()) upserts?.push(...rowsOf(batch))
  for await (const batch of set.deletes()) deletes?.push(...rowsOf(batch))
  await close()
  return { upserts: sorted(upserts ?? []), deletes: (deletes ?? []).map(([id]) => String(id)).sort() }
}
