/** Tables of random histories, written by Sluice, with the model of every snapshot beside them. The last ones lose rows by lists. */

import assert from 'node:assert/strict'
import { sqlType } from '@sluice/engine'
import type { TableRef } from '@sluice/iceberg'
import { commitStep, LIMITS, publish, type TestLake } from '@sluice/iceberg/testing'
import { SANDBOX } from '../../runtime/src/lake/tenant-layout.ts'
import { type Cell, isFloating } from './cells.ts'
import { type Question, questions } from './filters.ts'
import { History, KEY, type Partitioning, type Step, type TableState } from './history.ts'
import { Random } from './random.ts'
import { quoted, writingSelect } from './sql.ts'

export interface GeneratedTable {
  readonly ref: TableRef
  /** For messages: how it is partitioned. */
  readonly title: string
  /** Of the newest snapshot. */
  readonly metadataUri: string
  readonly snapshots: readonly { readonly id: string; readonly state: TableState }[]
  /** About the newest snapshot. */
  readonly questions: readonly Question[]
}

/** Each list is one table's; a second spec in it comes with a later snapshot. */
const PARTITIONINGS: readonly (readonly (readonly Partitioning[])[])[] = [
  [[]],
  [[by('ok', 'identity')], [by('s', 'truncate[2]')]],
  [[by('z', 'day')], [by('i', 'truncate[100]'), by('l', 'bucket[2]')]],
  [[by('at', 'hour')], []],
  [[by('n38', 'bucket[3]')], [by('n9', 'truncate[5000]')]],
  [[by('u', 'bucket[2]'), by('b', 'bucket[2]')]],
  [[by('s', 'identity')], [by('s', 'bucket[3]')]],
  [[by('day', 'identity')], [by('z', 'month')], [by('at', 'year')]],
]

const SNAPSHOTS = 4

export async function generateLake(lake: TestLake, tenant: string, seed: number): Promise<readonly GeneratedTable[]> {
  const tables: GeneratedTable[] = []
  for (const [at, partitionings] of PARTITIONINGS.entries()) {
    tables.push(
      await generateTable(lake, { warehouse: tenant, namespace: SANDBOX, table: `t${at}` }, partitionings, seed + at),
    )
  }
  const scans = await Promise.all(tables.map(({ ref }) => lake.lake.scan(ref)))
  assert.ok(
    scans.some(({ deletes }) => deletes.length > 0),
    'lists are there to be read',
  )
  return tables
}

async function generateTable(
  lake: TestLake,
  ref: TableRef,
  partitionings: readonly (readonly Partitioning[])[],
  seed: number,
): Promise<GeneratedTable> {
  const random = new Random(seed)
  const snapshots: { id: string; state: TableState }[] = []
  for (const step of new History(random, partitionings).steps(SNAPSHOTS)) {
    const { snapshotId } = await commitStep(lake, ref, await lakeStep(lake, ref, step))
    snapshots.push({ id: snapshotId as string, state: withoutNegativeZero(step.after) })
  }
  // The second list of a file takes the place of the first.
  for (let round = 0; round < 2; round += 1) {
    const before = snapshots.at(-1)?.state as TableState
    const after = { ...before, rows: before.rows.filter(() => random.chance(0.8)) }
    const id = await deleteByLists(lake, ref, before, after)
    if (id !== null) snapshots.push({ id, state: after })
  }
  const state = await lake.lake.load(ref)
  return {
    ref,
    title: partitionings.map((spec) => spec.map(describe).join(' + ') || 'nothing').join(', then '),
    metadataUri: state?.location as string,
    snapshots,
    questions: questions(random, snapshots.at(-1)?.state as TableState),
  }
}

/** Null where no row goes. */
async function deleteByLists(
  lake: TestLake,
  ref: TableRef,
  before: TableState,
  after: TableState,
): Promise<string | null> {
  const id = keyId(before)
  const gone = before.rows.filter((row) => !after.rows.includes(row)).map((row) => row.get(id))
  if (gone.length === 0) return null
  const base = (await lake.lake.load(ref)) ?? assert.fail('there is no table')
  const schema = schemaOf(before)
  const none = schema.columns.map(({ name, type }) => `CAST(NULL AS ${sqlType(type)}) AS ${quoted(name)}`)
  const { written, removed, removedFrom } = await lake.lake.merge(
    {
      ...{ base, scan: await lake.lake.scan(base), schema, rows: 'keep', key: [KEY], job: { limits: LIMITS } },
      ...{ smallFileRows: 0, maxDeletedShare: 1 },
      changed: `SELECT ${none.join(', ')} WHERE false`,
      gone: `SELECT CAST(unnest([${gone.join(', ')}]) AS INTEGER) AS ${quoted(KEY)}`,
    },
    AbortSignal.timeout(600_000),
  )
  const { plan, files, writeId } = written
  const change = { base, plan, operation: 'overwrite', files, removed, removedFrom, writeId, summary: {} } as const
  const staged = await lake.lake.stage(ref, change)
  await publish(lake, staged)
  return staged.snapshotId
}

const keyId = ({ columns }: TableState) =>
  columns.find(({ name }) => name === KEY)?.id ?? assert.fail('there is no key')

const schemaOf = ({ columns }: TableState) => ({
  columns: columns.map(({ name, type }) => ({ name, type, nullable: name !== KEY })),
  primaryKey: [KEY],
})

/** The lake writes each zero without a sign. */
function withoutNegativeZero({ columns, rows }: TableState): TableState {
  const positive = (cell: Cell): Cell => (cell !== null && /^80{7}(0{8})?$/.test(cell) ? cell.replace('8', '0') : cell)
  const floats = new Set(columns.filter(({ type }) => isFloating(type)).map(({ id }) => id))
  const changed = rows.map((row) => new Map([...row].map(([id, cell]) => [id, floats.has(id) ? positive(cell) : cell])))
  return { columns, rows: changed }
}

async function lakeStep(lake: TestLake, ref: TableRef, step: Step) {
  const { operation, renames, partitioning, after } = step
  const common = { schema: schemaOf(after), select: writingSelect(step), partitioning, renames }
  if (operation !== 'rewrite') return { ...common, operation }
  const { files } = await lake.lake.scan(ref)
  return { ...common, operation: 'overwrite', removed: files.map(({ uri }) => uri) } as const
}

function by(column: string, transform: string): Partitioning {
  return { column, transform }
}

const describe = ({ column, transform }: Partitioning): string => `${transform}(${column})`
