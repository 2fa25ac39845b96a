import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createEngine, type Engine } from '@sluice/engine'
import { testEngineProgram } from '@sluice/engine/testing'
import type { LogicalType } from '@sluice/sdk'
import type { Check, OutputColumn, OutputManifest } from '../manifest/manifest-set.ts'
import type { ColumnMask } from '../policy/masking.ts'
import { maskKey } from './mask-sql.ts'
import { runChecks } from './run-checks.ts'
import { stagedColumns } from './staged-columns.ts'
import { violatingRows } from './violating-rows.ts'

const LIMITS = { memoryBytes: 256 * 1024 * 1024, timeoutMs: 600_000, threads: 1 }

let folder: string
let engine: Engine

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-bad-rows-'))
  engine = createEngine({
    scratchDir: folder,
    ...(await testEngineProgram()),
    maxChildren: 1,
    warmChildren: 0,
    maxQueued: 9,
  })
})

after(async () => {
  await engine?.close()
  await rm(folder, { recursive: true, force: true })
})

/** Of each type three values as SQL, and how a read tells them as text. */
const TOLD: Readonly<Record<string, readonly (readonly [sql: string, told: string | null])[]>> = {
  integer: [
    ['-2147483648', '-2147483648'],
    ['0', '0'],
    ['NULL', null],
  ],
  long: [
    ['9223372036854775807', '9223372036854775807'],
    ['0', '0'],
    ['-1', '-1'],
  ],
  float: [
    ['0.1', '0.1'],
    ["'-inf'", '-Infinity'],
    ['16777216', '16777216'],
  ],
  double: [
    ['1e15', '1000000000000000'],
    ["'nan'", 'NaN'],
    ['2::DOUBLE ^ 81', '2.4178516392292583e+24'],
  ],
  'decimal(38,10)': [
    ['1.5', '1.5000000000'],
    ['-0.0000000001', '-0.0000000001'],
    ['0', '0.0000000000'],
  ],
  'decimal(2,2)': [
    ['0.5', '0.50'],
    ['-0.01', '-0.01'],
    ['0', '0.00'],
  ],
  boolean: [
    ['true', 'true'],
    ['false', 'false'],
    ['NULL', null],
  ],
  date: [
    ["'0001-01-01'", '0001-01-01'],
    ["'9999-12-31'", '9999-12-31'],
    ["'1969-12-31'", '1969-12-31'],
  ],
  timestamp: [
    ["'0001-01-01'", '0001-01-01T00:00:00.000000'],
    ["'9999-12-31 23:59:59.999999'", '9999-12-31T23:59:59.999999'],
    ["'1969-12-31 23:59:59.9'", '1969-12-31T23:59:59.900000'],
  ],
  timestamptz: [
    ["'2024-02-29 12:00:00+05:30'", '2024-02-29T06:30:00.000000Z'],
    ["'9999-12-31 23:59:59.999999+00'", '9999-12-31T23:59:59.999999Z'],
    ["'0001-01-01 00:00:00+00'", '0001-01-01T00:00:00.000000Z'],
  ],
  uuid: [
    ["'FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF'", 'ffffffff-ffff-ffff-ffff-ffffffffffff'],
    ['NULL', null],
    ["'00000000-0000-0000-0000-000000000000'", '00000000-0000-0000-0000-000000000000'],
  ],
  binary: [
    ["'\\x00\\xFF\\x22'", 'AP8i'],
    ["''", ''],
    ["repeat('x', 200)::BLOB", `${btoa('x'.repeat(150))}…`],
  ],
  string: [
    ["'it''s'", "it's"],
    ["''", ''],
    ["repeat('ä', 300)", `${'ä'.repeat(200)}…`],
  ],
  json: [
    [`'{"a": 1.10}'`, '{"a": 1.10}'],
    ["'null'", 'null'],
    ["'[1,2]'", '[1,2]'],
  ],
}
const TYPES = Object.keys(TOLD) as LogicalType[]
const SQL_NAMES: Readonly<Record<string, string>> = {
  string: 'VARCHAR',
  binary: 'BLOB',
  long: 'BIGINT',
  json: 'VARCHAR',
}

const COLUMNS: readonly OutputColumn[] = ['id', ...TYPES].map((name) => ({
  name,
  type: name === 'id' ? 'integer' : (name as LogicalType),
  nullable: name !== 'id',
  role: name === 'id' ? 'identity' : 'attribute',
  classification: 'none',
  description: '',
}))

function check(name: string, rule: Check['rule']): Check {
  const rest = {
    severity: 'warn',
    dimension: 'validity',
    weight: 1,
    threshold: { rows: 0 },
    onError: 'publish',
  } as const
  return { name, description: '', ...rest, rule }
}

test('bad rows are told as reads tell their values, whatever found them', async () => {
  const dir = join(folder, 'staged')
  await mkdir(dir)
  const columns = stagedColumns(COLUMNS)
  const row = (at: number) =>
    TYPES.map((type) => `(${TOLD[type]?.[at]?.[0]})::${SQL_NAMES[type] ?? type} AS "${type}"`).join(', ')
  const sql = [0, 1, 2].map((at) => `SELECT ${at} AS id, ${row(at)}`).join(' UNION ALL ')
  const wanted = { kind: 'parquet-files' as const, sql, dir, columns: columns.map((c) => ({ ...c, fieldId: c.id })) }
  const signal = AbortSignal.timeout(600_000)
  const { files } = await engine.run({ trust: 'own', output: wanted, limits: LIMITS }, signal)
  const staged = { files: files.map(({ path }) => path), columns, primaryKey: ['id'], rowCount: 3, lost: {} }
  const run = { tenant: 'acme', engine, limits: LIMITS, ownLimits: LIMITS, nowMs: Date.now(), signal }
  const names = TYPES.map((type) => `"${type}"`).join(', ')
  const checks = [
    check('rule', { kind: 'unique', columns: ['id'] }),
    check('query', { kind: 'sql', sql: `SELECT id, ${names} FROM {{this}} ORDER BY id DESC` } as Check['rule']),
    check('nested', {
      kind: 'sql',
      sql: `SELECT [date, NULL] AS d, {'at': "timestamp"} AS s FROM {{this}} WHERE id = 1`,
    } as Check['rule']),
  ]
  const checked = await runChecks(checks, staged, [], null, run)
  const mask: ColumnMask = { column: 'string', classification: 'pii.name', strategy: 'partial' }
  const schema = { columns: COLUMNS, primaryKey: ['id'] }
  const results = checked.results.map((result) =>
    result.name === 'rule' ? { ...result, passed: false, violations: 3, reads: { output: TYPES, raw: [] } } : result,
  )
  const found = await violatingRows(
    // A condition that every row meets: it is of the rows that are shown, not of the rule.
    { ...checked, results, plan: { ...checked.plan, badRows: new Map([['rule', 'true']]) } },
    staged,
    [],
    {
      output: { columns: COLUMNS, primaryKey: ['id'] } as unknown as OutputManifest,
      variants: [
        { variant: 'clear', masks: [], schema },
        { variant: 'masked', masks: [mask], schema },
      ] as unknown as Parameters<typeof violatingRows>[3]['variants'],
      keys: [maskKey('pii.name', new Uint8Array(32))],
    },
    run,
  )
  const told = [0, 1, 2].map((at) => [String(at), ...TYPES.map((type) => TOLD[type]?.[at]?.[1] ?? null)])
  const [rule, query, nested] = found.get('clear') ?? []
  assert.deepEqual([rule?.rows, query?.rows], [told, told])
  assert.deepEqual(nested?.rows, [['["9999-12-31",null]', '{"at":"9999-12-31T23:59:59.999999"}']])
  const masked = found.get('masked')?.map((rows) => rows.check)
  assert.deepEqual(masked, ['nested'], 'others look at what is hidden')
})

/** By how many rows a check finds bad, how many are told. */
for (const [bad, shown] of [
  [99, 99],
  [100, 100],
  [101, 100],
  [1000, 100],
] as const) {
  test(`of ${bad} bad rows ${shown} are told, of each variant, whatever found them`, async () => {
    const dir = join(folder, `many-${bad}`)
    await mkdir(dir)
    const own = COLUMNS.filter(({ name }) => name === 'id' || name === 'string')
    const columns = stagedColumns(own)
    const sql = `SELECT i::INTEGER AS id, 'v' || i AS "string" FROM range(${bad}) t(i)`
    const wanted = { kind: 'parquet-files' as const, sql, dir, columns: columns.map((c) => ({ ...c, fieldId: c.id })) }
    const signal = AbortSignal.timeout(600_000)
    const { files } = await engine.run({ trust: 'own', output: wanted, limits: LIMITS }, signal)
    const staged = { files: files.map(({ path }) => path), columns, primaryKey: ['id'], rowCount: bad, lost: {} }
    const run = { tenant: 'acme', engine, limits: LIMITS, ownLimits: LIMITS, nowMs: Date.now(), signal }
    const checks = [
      check('rule', { kind: 'unique', columns: ['id'] }),
      check('query', { kind: 'sql', sql: 'SELECT id FROM {{this}}' } as Check['rule']),
    ]
    const checked = await runChecks(checks, staged, [], null, run)
    const results = checked.results.map((result) =>
      result.name === 'rule'
        ? { ...result, passed: false, violations: bad, reads: { output: ['id'], raw: [] } }
        : result,
    )
    const mask: ColumnMask = { column: 'string', classification: 'pii.name', strategy: 'partial' }
    const schema = { columns: own, primaryKey: ['id'] }
    const found = await violatingRows(
      { ...checked, results, plan: { ...checked.plan, badRows: new Map([['rule', 'true']]) } },
      staged,
      [],
      {
        output: { columns: own, primaryKey: ['id'] } as unknown as OutputManifest,
        variants: [
          { variant: 'clear', masks: [], schema },
          { variant: 'masked', masks: [mask], schema },
        ] as unknown as Parameters<typeof violatingRows>[3]['variants'],
        keys: [maskKey('pii.name', new Uint8Array(32))],
      },
      run,
    )
    for (const variant of ['clear', 'masked'] as const) {
      const told = found.get(variant)?.map(({ check: name, rows }) => [name, rows.length])
      assert.deepEqual(
        told,
        [
          ['rule', shown],
          ['query', shown],
        ],
        variant,
      )
    }
    assert.equal(results.find(({ name }) => name === 'query')?.violations, bad, 'all of them are counted')
  })
}
