/** What fits a column's former type, for every pair of types, and what each word makes of the values that do not. */
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createEngine, type Engine, sqlType } from '@sluice/engine'
import { testEngineProgram } from '@sluice/engine/testing'
import { isSluiceError, type LogicalType } from '@sluice/sdk'
import type { ContractKind, ContractWord } from '../manifest/files/schema-contract.ts'
import type { Input, ManifestSet } from '../manifest/manifest-set.ts'
import { contractTerms } from './contract-terms.ts'
import { heldInputs } from './held-inputs.ts'
import type { InputState } from './input-state.ts'
import { type LakeState, stateTable } from './lake-state.ts'

const LIMITS = { memoryBytes: 256 * 1024 * 1024, timeoutMs: 600_000, threads: 1 }
const MANIFESTS = {
  compute: { engine: 'auto' },
  quality: { checks: [], maxRejected: { percent: 100, rows: 1_000_000 } },
} as unknown as ManifestSet

let folder: string
let engine: Engine
let places = 0
const { signal } = new AbortController()

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-held-'))
  engine = createEngine({
    scratchDir: folder,
    ...(await testEngineProgram()),
    ...{ maxChildren: 1, warmChildren: 0, maxQueued: 9 },
  })
})

after(async () => {
  await engine?.close()
  await rm(folder, { recursive: true, force: true })
})

/** A value of the type that the source has now, the type of before, and what it is in that; null: it does not fit. */
type Case = readonly [from: LogicalType, value: string, to: LogicalType, fits: string | null]

const CASES: readonly Case[] = [
  ['string', "'12'", 'integer', '12'],
  ['string', "'-7'", 'long', '-7'],
  ['string', "'1.5'", 'integer', null],
  ['string', "'x'", 'integer', null],
  ['string', "''", 'integer', null],
  ['string', "'99999999999'", 'integer', null],
  ['string', "'99999999999'", 'long', '99999999999'],
  ['string', "'1.25'", 'decimal(5,2)', '1.25'],
  ['string', "'1.255'", 'decimal(5,2)', null],
  ['string', "'12345.5'", 'decimal(5,2)', null],
  ['string', "'0.5'", 'double', '0.5'],
  ['string', "'true'", 'boolean', 'true'],
  ['string', "'yes'", 'boolean', null],
  ['string', "'2026-02-28'", 'date', '2026-02-28'],
  ['string', "'2026-02-30'", 'date', null],
  ['string', "'2026-02-28 01:00:00'", 'date', null],
  ['string', "'0.123456789'", 'decimal(38,9)', '0.123456789'],
  ['string', "'0.1234567891'", 'decimal(38,9)', null],
  ['string', "'1e400'", 'double', null],
  ['string', "'6f9619ff-8b86-d011-b42d-00c04fc964ff'", 'uuid', '6f9619ff-8b86-d011-b42d-00c04fc964ff'],
  ['string', "'6f9619ff'", 'uuid', null],
  ['long', '2147483647', 'integer', '2147483647'],
  ['long', '2147483648', 'integer', null],
  ['integer', '5', 'long', '5'],
  ['integer', '5', 'string', '5'],
  ['double', '2.0', 'long', '2'],
  ['double', '2.5', 'long', null],
  ['double', "'nan'::DOUBLE", 'long', null],
  ['double', "'inf'::DOUBLE", 'integer', null],
  ['double', '0.5', 'float', '0.5'],
  ['double', '0.1', 'float', null],
  ['decimal(10,2)', '1.50', 'decimal(10,1)', '1.5'],
  ['decimal(10,2)', '1.55', 'decimal(10,1)', null],
  ['decimal(10,2)', '3.00', 'integer', '3'],
  ['timestamp', "TIMESTAMP '2026-01-02 00:00:00'", 'date', '2026-01-02'],
  ['timestamp', "TIMESTAMP '2026-01-02 03:00:00'", 'date', null],
  ['date', "DATE '2026-01-02'", 'string', '2026-01-02'],
  ['boolean', 'true', 'string', 'true'],
  ['boolean', 'true', 'date', null],
  ['integer', '1', 'date', null],
  ['date', "DATE '2026-01-02'", 'integer', null],
  ['json', `'{"a":1}'`, 'string', '{"a":1}'],
  ['string', `'{"a":1}'`, 'json', '{"a":1}'],
  ['string', "'{'", 'json', null],
]

const input = (
  words: Readonly<Partial<Record<ContractKind, ContractWord>>>,
  columns: readonly string[] | null = null,
) =>
  ({
    ...{ name: 'source', connection: 'db', table: 't', columns, where: null },
    ...{ onSchemaChange: 'evolve', schemaContract: words },
  }) as unknown as Input

/** A table of one row, or of as many as there are of each value. */
async function tableOf(
  columns: readonly (readonly [name: string, type: LogicalType])[],
  rows: readonly (readonly string[])[],
) {
  places += 1
  const dir = join(folder, `table-${places}`)
  await mkdir(dir)
  const own = columns.map(([name, type], index) => ({ id: index + 1, name, type, nullable: true }))
  const cells = (row: readonly string[]) =>
    row
      .map((value, at) => `CAST(${value} AS ${sqlType(own[at]?.type as LogicalType)}) AS "${own[at]?.name}"`)
      .join(', ')
  const { files } = await engine.run(
    {
      trust: 'own',
      output: {
        kind: 'parquet-files',
        sql: rows.map((row) => `SELECT ${cells(row)}`).join(' UNION ALL '),
        dir,
        columns: own.map(({ id, name, type }) => ({ name, type, fieldId: id })),
      },
      limits: LIMITS,
    },
    signal,
  )
  const state: LakeState = {
    ...{ snapshotId: '1', columns: own, primaryKey: ['id'], rowCount: rows.length },
    files: files.filter((file) => file.rows > 0).map(({ path }) => path),
  }
  return state
}

async function held(
  one: Input,
  state: LakeState,
  shape: readonly { name: string; type: LogicalType; nullable: boolean }[],
) {
  const terms = contractTerms(one, MANIFESTS, shape, state, state.columns)
  const directory = join(folder, `work-${places}`)
  await mkdir(directory, { recursive: true })
  const given = { input: one, state, ...(terms === null ? {} : { terms }) } as unknown as InputState
  const [found] = await heldInputs([given], MANIFESTS, {
    ...{ engine, ownLimits: LIMITS, directory },
    signal,
  })
  return found as InputState
}

async function textsOf({ state }: InputState): Promise<readonly (readonly unknown[])[]> {
  const names = state.columns.map(({ name }) => `"${name}"`).join(', ')
  const steps = [{ sql: `SELECT ${names} FROM seen ORDER BY 1`, rows: 'collect', textCharacters: 100 }] as const
  const { results } = await engine.run(
    { trust: 'own', tables: [stateTable('seen', state)], steps, limits: LIMITS },
    signal,
  )
  return results[0]?.rows ?? []
}

test('a value fits its former type where nothing of it is lost, and becomes null where it does not', async () => {
  const columns = CASES.map(([from], index) => [`c${index}`, from] as const)
  const state = await tableOf([['id', 'integer'], ...columns], [['1', ...CASES.map(([, value]) => value)]])
  const shape = CASES.map(([, , to], index) => ({ name: `c${index}`, type: to, nullable: true }))
  const id = { name: 'id', type: 'integer', nullable: false } as const
  const found = await held(input({ types: 'null_value' }), state, [id, ...shape])
  const [[, ...texts] = []] = await textsOf(found)
  for (const [index, [from, value, to, fits]] of CASES.entries()) {
    assert.equal(texts[index], fits, `${value}, a ${from}, as ${to}`)
  }
  const misfits = CASES.filter(([, , , fits]) => fits === null).length
  assert.equal(found.held?.notes.filter((note) => note.includes('has made null at most 1 values')).length, misfits)
})

test('values that do not fit end the run under freeze, or put their rows aside, with what is lost said of no value', async () => {
  const secret = 'a secret'
  const state = await tableOf(
    [
      ['id', 'integer'],
      ['n', 'string'],
      ['x', 'string'],
    ],
    [
      ['1', "'10'", 'NULL'],
      ['2', `'${secret}'`, 'NULL'],
      ['3', "'30'", `'${secret}'`],
      ['4', 'NULL', 'NULL'],
    ],
  )
  const shape = [
    { name: 'id', type: 'integer', nullable: false },
    { name: 'n', type: 'integer', nullable: false },
    { name: 'gone', type: 'date', nullable: true },
  ] as const
  const all = (word: ContractWord) => ({ columns: word, types: word, nullability: word })
  const aside = await held(input(all('quarantine_row')), state, shape)
  assert.deepEqual(await textsOf(aside), [['1', '10', null]])
  assert.deepEqual(aside.held?.aside.map(({ column, key }) => [column, key?.['id']]).toSorted(), [
    ['n', '2'],
    ['n', '4'],
    ['x', '3'],
  ])
  assert.equal(aside.leftOut, 3)
  assert.ok(!JSON.stringify([aside.held?.notes, aside.held?.aside.map(({ reason }) => reason)]).includes(secret))
  const broken = await held(input(all('freeze')), state, shape).catch((error: unknown) => error)
  assert.ok(isSluiceError(broken, 'INVALID_DATA') && broken.code === 'source_schema_changed')
  assert.ok(!`${broken.message} ${broken.remedy}`.includes(secret))
  const chosen = await held(input({ columns: 'fail', types: 'fail' }, ['id']), state, shape)
  assert.equal(chosen.terms, undefined, 'columns that are not chosen are nothing to the contract')
})
