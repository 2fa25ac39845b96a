/** A source table and a product of it, over whose epochs tests look: what each variant holds, and in which files. */
import assert from 'node:assert/strict'
import { createHmac, randomUUID } from 'node:crypto'
import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { rowsOf as rowsIn } from '@sluice/engine'
import type { TableRef } from '@sluice/iceberg'
import { commitStep, LIMITS, publish } from '@sluice/iceberg/testing'
import { type LogicalType, type Row, rowsOf, type TableSchema } from '@sluice/sdk'
import type { RegistryLake } from '../lake/testing.ts'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import type { ColumnMask } from '../policy/masking.ts'
import { deltaChangeSet } from './change-set.ts'
import type { InputState } from './input-state.ts'
import { type LakeState, stateOfScan, stateTable } from './lake-state.ts'
import { maskKey } from './mask-sql.ts'
import { prepare } from './prepare.ts'
import { lakeTable, type VariantPlan } from './variants.ts'

/** A file of fewer rows is written anew for any of them. */
export const ROWS = 12_000

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
export const CLEAR: VariantPlan = { variant: 'clear', masks: [], schema: { columns: SHOWN, primaryKey: ['id'] } }
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
export const VARIANTS = [CLEAR, TWIN, HASHED, KEYLESS]
export const SECRET = Buffer.alloc(32, 7)
export const pseudonym = (value: string, secret = SECRET) =>
  createHmac('sha256', secret).update(value).digest('hex').slice(0, 32)

export interface Values {
  readonly name: string | null
  readonly mail: string | null
  readonly note: string | null
  readonly unused: string
}
export type World = Map<number, Values>

/** What each variant is to hold, by code that knows nothing of files. */
export function expected(variant: string, world: World, secret = SECRET): readonly Row[] {
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
export interface Followed {
  readonly takesDeletes?: boolean
  readonly writeMode?: string
  readonly transform?: string | null
  readonly checks?: readonly object[]
  readonly noteType?: LogicalType
}

export function follow(
  lake: RegistryLake,
  { takesDeletes = true, writeMode = 'replace', transform = null, checks = [], noteType = 'string' }: Followed = {},
) {
  const columns = SHOWN.map((column) => (column.name === 'note' ? { ...column, type: noteType } : column))
  const product = `p${randomUUID().slice(0, 8)}`
  const table: TableRef = { warehouse: 'acme', namespace: 'raw_db', table: product }
  const output = {
    format: 'iceberg',
    columns: columns.map((column) => ({
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
    name: product,
    columns,
    /** The raw table. */
    table,
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
    async epoch({ secret = SECRET, variants = VARIANTS, required = false } = {}) {
      const state = stateOfScan(await lake.lake.scan(table)) as LakeState
      const input = { name: 'source', connection: 'db', table: 't', columns: null, where: null }
      const declared = output.columns.map((column) =>
        column.name === 'name' ? { ...column, nullable: !required } : column,
      )
      epoch += 1
      const { commits, rowCount, snapshots, lost } = await prepare(
        {
          tenant: 'acme',
          domain: 'sales',
          product,
          version: '1.0.0',
          manifests: {
            output: { ...output, columns: declared },
            quality: { checks },
            inputs: [input],
            compute: { engine: 'embedded', transform },
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
      return { lost }
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

export const seed = Number(process.env['SLUICE_TEST_SEED'] ?? Date.now() % 2 ** 31)

/** mulberry32: the same numbers for the same seed. */
export function randomOf(start: number): (below: number) => number {
  let state = start
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

/** Some rows of the world, changed in it: new ones, known ones in one column each, and keys that are gone. */
export function changes(world: World, random: (below: number) => number, count: number) {
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

export async function differenceOf(lake: RegistryLake, earlier: LakeState, later: LakeState) {
  const directory = await mkdtemp(join(lake.dir, 'difference-'))
  const options = { engine: lake.engine, limits: LIMITS, directory, signal: AbortSignal.timeout(600_000) }
  const { changes: set, close } = await deltaChangeSet(earlier, later, options)
  const [upserts, deletes]: Row[][] = [[], []]
  for await (const batch of set.upserts()) upserts?.push(...rowsOf(batch))
  for await (const batch of set.deletes()) deletes?.push(...rowsOf(batch))
  await close()
  return { upserts: sorted(upserts ?? []), deletes: (deletes ?? []).map(([id]) => String(id)).sort() }
}
