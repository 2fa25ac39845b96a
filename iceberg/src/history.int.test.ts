import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import type { LogicalType, TableSchema, Value } from '@sluice/sdk'
import fc from 'fast-check'
import type { ChangedFiles, Scan, StagedCommit, TableRef, TableState } from './index.ts'
import { commitStep, LIMITS, publish, readScan, readScans, startTestLake, type TestLake } from './testing.ts'

/**
 * Random histories of one table against a model in memory: after the last step every snapshot is read, by field id and
 * under its own schema, and compared with what the model held then.
 */
let lake: TestLake

before(async () => {
  lake = await startTestLake()
})
after(() => lake[Symbol.asyncDispose]())

type ModelRow = ReadonlyMap<number, Value>

interface ModelColumn {
  readonly id: number
  readonly name: string
  readonly type: LogicalType
}

interface ModelState {
  readonly columns: readonly ModelColumn[]
  readonly rows: readonly ModelRow[]
}

type Step =
  | { readonly kind: 'append' | 'replace'; readonly values: readonly number[]; readonly change: SchemaStep }
  | { readonly kind: 'overwrite'; readonly values: readonly number[]; readonly file: number }
  | { readonly kind: 'restore'; readonly snapshot: number }
  | { readonly kind: 'merge'; readonly values: readonly number[] }
  | { readonly kind: 'delete'; readonly from: number; readonly width: number }
  | { readonly kind: 'compact' }
  | { readonly kind: 'expire'; readonly keep: number }

type SchemaStep = 'none' | 'add' | 'drop' | 'rename' | 'widen' | 'reorder'

const values = fc.array(fc.integer({ min: -1000, max: 1000 }), { maxLength: 6 })
const change = fc.constantFrom<SchemaStep>('none', 'add', 'drop', 'rename', 'widen', 'reorder')
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('append' as const), values, change }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('replace' as const), values, change }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('overwrite' as const), values, file: fc.nat(5) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('restore' as const), snapshot: fc.nat(10) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('merge' as const), values }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('delete' as const),
      from: fc.integer({ min: -1000, max: 1000 }),
      width: fc.nat(1000),
    }),
  },
  { weight: 2, arbitrary: fc.constant({ kind: 'compact' as const }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('expire' as const), keep: fc.integer({ min: 1, max: 3 }) }) },
)

const partitionings = [[], [{ column: 'key', transform: 'bucket[3]' }], [{ column: 'key', transform: 'truncate[100]' }]]

test('every snapshot of a random history reads as the model had it', { timeout: 600_000 }, async () => {
  const history = fc.record({ steps: fc.array(step, { minLength: 2, maxLength: 8 }), spec: fc.nat(2) })
  await fc.assert(
    fc.asyncProperty(history, ({ steps, spec }) => check(steps, spec)),
    {
      numRuns: Number(process.env.SLUICE_TEST_HISTORIES ?? 5),
      // Shrinking takes minutes; a failure prints its seed, and with the seed it shrinks.
      endOnFailure: process.env.SLUICE_TEST_SEED === undefined,
      ...(process.env.SLUICE_TEST_SEED === undefined ? {} : { seed: Number(process.env.SLUICE_TEST_SEED) }),
    },
  )
})

async function check(steps: readonly Step[], spec: number): Promise<void> {
  const model = new Model({ warehouse: 'acme', namespace: 'history', table: `t_${randomUUID()}` }, spec)
  for (const next of steps) await model.run(next)
  if (model.snapshots.size === 0) return
  const scans: Scan[] = []
  for (const snapshotId of model.snapshots.keys()) scans.push(await lake.lake.scan(model.ref, { snapshotId }))
  const found = await readScans(lake, scans)
  for (const [at, state] of [...model.snapshots.values()].entries()) {
    const scan = scans[at] as Scan
    assert.deepEqual(
      scan.schema.fields.map(({ name, type }) => [name, type]),
      state.columns.map(({ name, type }) => [name, type]),
    )
    const read = (found[at] ?? []).map((row) => JSON.stringify(row.map(plain)))
    const expected = state.rows.map((row) =>
      JSON.stringify(state.columns.map((column) => plain(row.get(column.id) ?? null))),
    )
    assert.deepEqual(read.sort(), expected.sort())
    assert.equal(scan.rows, state.rows.length)
  }
}

const plain = (value: Value): unknown => (typeof value === 'bigint' ? Number(value) : value)

class Model {
  readonly ref: TableRef
  readonly snapshots = new Map<string, ModelState>()
  readonly #spec: number
  #state: ModelState = {
    columns: [
      { id: 1, name: 'key', type: 'integer' },
      { id: 2, name: 'c2', type: 'integer' },
    ],
    rows: [],
  }
  #lastId = 2

  constructor(ref: TableRef, spec: number) {
    this.ref = ref
    this.#spec = spec
  }

  async run(step: Step): Promise<void> {
    const staged = await this.#staged(step)
    if (staged === null) return
    assert.equal(staged.totalRows, this.#state.rows.length)
    this.snapshots.set(staged.snapshotId as string, this.#state)
  }

  /** The published commit; null where there is no new snapshot. */
  #staged(step: Step): Promise<StagedCommit | null> {
    switch (step.kind) {
      case 'restore':
        return this.#restore(step.snapshot)
      case 'merge':
        return this.#merge(step.values)
      case 'delete':
        return this.#delete(step.from, step.from + step.width)
      case 'compact':
        return this.#compact()
      case 'expire':
        return this.#expire(step.keep)
      default:
        return this.#write(step)
    }
  }

  async #merge(keys: readonly number[]): Promise<StagedCommit | null> {
    const base = await lake.lake.load(this.ref)
    if (base === null) return null
    const { columns, rows } = this.#state
    const unique = [...new Set(keys)]
    const changed = unique.map((key): ModelRow => new Map(columns.map(({ id }) => [id, id === 1 ? key : key - id])))
    const scan = await lake.lake.scan(base)
    const request = {
      base,
      scan,
      schema: asSchema(columns),
      rows: 'keep',
      key: ['key'],
      job: { limits: LIMITS },
    } as const
    const made = await lake.lake.merge(
      { ...request, changed: selectOf(columns, changed) },
      AbortSignal.timeout(600_000),
    )
    this.#state = { columns, rows: [...rows.filter((row) => !unique.includes(row.get(1) as number)), ...changed] }
    return this.#exchange(base, made)
  }

  async #delete(from: number, to: number): Promise<StagedCommit | null> {
    const base = await lake.lake.load(this.ref)
    if (base === null) return null
    const where = `key BETWEEN ${from} AND ${to}`
    const request = { base, scan: await lake.lake.scan(base), where, job: { limits: LIMITS } }
    const made = await lake.lake.deleteWhere(request, AbortSignal.timeout(600_000))
    const { columns, rows } = this.#state
    const kept = rows.filter((row) => (row.get(1) as number) < from || (row.get(1) as number) > to)
    assert.equal(made === null, kept.length === rows.length)
    if (made === null) return null
    this.#state = { columns, rows: kept }
    return this.#exchange(base, made)
  }

  async #exchange(base: TableState, { written, removed, removedFrom }: ChangedFiles): Promise<StagedCommit> {
    const { plan, files, writeId } = written
    const request = { base, plan, operation: 'overwrite', files, removed, removedFrom, writeId, summary: {} } as const
    const staged = await lake.lake.stage(this.ref, request)
    await publish(lake, staged)
    return staged
  }

  async #compact(): Promise<StagedCommit | null> {
    const staged = await lake.lake.stageCompaction(
      this.ref,
      { minFiles: 2, limits: LIMITS },
      AbortSignal.timeout(600_000),
    )
    if (staged !== null) await publish(lake, staged)
    return staged
  }

  async #expire(keep: number): Promise<null> {
    const base = await lake.lake.load(this.ref)
    if (base === null) return null
    const gone = [...this.snapshots.keys()].slice(0, -keep)
    await publish(lake, await lake.lake.stageExpiry(base, gone))
    for (const id of gone) this.snapshots.delete(id)
    return null
  }

  async #write(step: Extract<Step, { kind: 'append' | 'replace' | 'overwrite' }>): Promise<StagedCommit> {
    const isFirst = this.snapshots.size === 0
    const removed = step.kind === 'overwrite' && !isFirst ? await this.#chooseFile(step.file) : null
    const renames = step.kind === 'overwrite' || isFirst ? {} : this.#change(step.change)
    const { columns } = this.#state
    const added = step.values.map(
      (value): ModelRow => new Map(columns.map(({ id }) => [id, id === 1 ? value : value + id])),
    )
    const kept = step.kind === 'replace' ? [] : this.#state.rows.filter((row) => !removed?.rows.includes(row))
    this.#state = { columns, rows: [...kept, ...added] }
    return commitStep(lake, this.ref, {
      operation: step.kind,
      schema: asSchema(columns),
      select: selectOf(columns, added),
      partitioning: partitionings[this.#spec] ?? [],
      renames,
      ...(removed === null ? {} : { removed: removed.uris }),
    })
  }

  /** One file of the current snapshot, and the rows of the model that lie in it. */
  async #chooseFile(at: number): Promise<{ uris: readonly string[]; rows: readonly ModelRow[] }> {
    const scan = await lake.lake.scan(this.ref)
    const file = scan.files[at % Math.max(scan.files.length, 1)]
    if (file === undefined) return { uris: [], rows: [] }
    const left = [...this.#state.rows]
    const rows = (await readScan(lake, { ...scan, files: [file] })).map((row) => {
      const same = (candidate: ModelRow) =>
        scan.schema.fields.every((field, n) => plain(candidate.get(field.id) ?? null) === plain(row[n] ?? null))
      const found = left.findIndex(same)
      assert.notEqual(found, -1, 'the file holds a row that the model has not')
      return left.splice(found, 1)[0] as ModelRow
    })
    return { uris: [file.uri], rows }
  }

  async #restore(at: number): Promise<StagedCommit | null> {
    const chosen = [...this.snapshots][at % Math.max(this.snapshots.size, 1)]
    const base = await lake.lake.load(this.ref)
    if (chosen === undefined || base === null) return null
    const request = { base, operation: 'restore', snapshotId: chosen[0], files: [], summary: {} } as const
    const staged = await lake.lake.stage(this.ref, request)
    await publish(lake, staged)
    this.#state = chosen[1]
    return staged
  }

  /** Changes the columns and gives the renames that the lake must be told. */
  #change(step: SchemaStep): Record<string, string> {
    const { columns, rows } = this.#state
    const last = columns.at(-1)
    const replaceLast = (column: ModelColumn) => {
      this.#state = { columns: [...columns.slice(0, -1), column], rows }
    }
    if (step === 'add') {
      this.#lastId += 1
      this.#state = { columns: [...columns, { id: this.#lastId, name: `c${this.#lastId}`, type: 'integer' }], rows }
    }
    if (step === 'reorder') this.#state = { columns: [columns[0] as ModelColumn, ...columns.slice(1).reverse()], rows }
    if (last === undefined || last.id === 1) return {}
    if (step === 'drop') this.#state = { columns: columns.slice(0, -1), rows }
    if (step === 'widen') replaceLast({ ...last, type: 'long' })
    if (step !== 'rename') return {}
    replaceLast({ ...last, name: `${last.name}x` })
    return { [`${last.name}x`]: last.name }
  }
}

function asSchema(columns: readonly ModelColumn[]): TableSchema {
  return { columns: columns.map(({ name, type }) => ({ name, type, nullable: true })), primaryKey: [] }
}

function selectOf(columns: readonly ModelColumn[], rows: readonly ModelRow[]): string {
  const names = columns.map(({ name }) => `"${name}"`).join(', ')
  if (rows.length === 0) return `SELECT ${columns.map(({ name }) => `NULL AS "${name}"`).join(', ')} WHERE false`
  const tuples = rows.map((row) => `(${columns.map(({ id }) => row.get(id)).join(', ')})`)
  return `SELECT * FROM (VALUES ${tuples.join(', ')}) AS v(${names})`
}
