/** Keys and objects that the engine writes, against `renderKey` and `toJsonValue`, which share no code with its SQL. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import {
  type KeyTemplate,
  keyedRows,
  type LogicalType,
  parseKeyTemplate,
  type Row,
  renderKey,
  type TableSchema,
  toJsonValue,
  type Value,
} from '@sluice/sdk'
import fc from 'fast-check'
import { createEngine, type Engine } from './engine.ts'
import { testEngineProgram } from './testing.ts'

const LIMITS = { memoryBytes: 256 * 1024 * 1024, timeoutMs: 600_000, threads: 1 }
const CHILDREN = { maxChildren: 1, warmChildren: 1, maxQueued: 1 }
const TYPES: readonly LogicalType[] = [
  ...(['string', 'boolean', 'integer', 'long', 'float', 'double', 'decimal(12,3)'] as const),
  ...(['date', 'timestamp', 'timestamptz', 'uuid', 'binary', 'json'] as const),
]
const NAMES = TYPES.map((type) => (type === 'string' ? 'a "name", s' : type.replace(/\(.*/, '')))
const SCHEMA: TableSchema = {
  columns: TYPES.map((type, index) => ({ name: NAMES[index] as string, type, nullable: true })),
  primaryKey: [],
}

const edgy = fc.constantFrom('%', ':', '#', "'", '"', '\n', '\r\n', '\t', '\x1d', '\x1e', '\x1f', '\x7f', '\x85', '-')
const character = fc.oneof({ weight: 2, arbitrary: edgy }, fc.string({ unit: 'grapheme', minLength: 1, maxLength: 3 }))
const string = fc.array(character, { maxLength: 8 }).map((parts) => parts.join('').replaceAll('\0', ''))
const day = fc
  .date({ min: new Date('0001-01-01'), max: new Date('9999-12-31'), noInvalidDate: true })
  .map((date) => date.toISOString())
const instant = fc
  .tuple(day, fc.integer({ min: 0, max: 999 }))
  .map(([text, micros]) => `${text.slice(0, 23)}${String(micros).padStart(3, '0')}`)
const decimal = fc.integer({ min: -999_999_999, max: 999_999_999 }).map(
  (units) =>
    `${units < 0 ? '-' : ''}${String(Math.abs(units))
      .padStart(4, '0')
      .replace(/(...)$/, '.$1')}`,
)
const row: fc.Arbitrary<Row> = fc.tuple(
  ...[
    string,
    fc.boolean(),
    fc.integer(),
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    fc.float(),
    fc.double(),
    decimal,
    day.map((text) => text.slice(0, 10)),
    instant,
    instant.map((text) => `${text}Z`),
    fc.uuid(),
    fc.uint8Array({ maxLength: 9 }),
    fc.oneof(
      fc.jsonValue().map((value) => JSON.stringify(value, null, 1)),
      fc.constantFrom('{"a":NaN}', '[Infinity]'),
    ),
  ].map((value) => fc.option(value as fc.Arbitrary<Value>, { freq: 12 })),
)

const TEMPLATES = [
  '{a "name", s}',
  'x-{a "name", s}-{long}/{date}',
  '{timestamp}-{a "name", s}\'{timestamptz}',
  '{decimal}:{a "name", s}:',
  '{a "name", s}😀{uuid}.{boolean}',
  '{integer}\'{a "name", s}',
]

let engine: Engine
let dir: string

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'sluice-keyed-'))
  engine = createEngine({ scratchDir: join(dir, 'scratch'), ...(await testEngineProgram()), ...CHILDREN })
})
after(async () => {
  await engine.close()
  await rm(dir, { recursive: true, force: true })
})

describe('keyed JSON of the engine', () => {
  for (const text of TEMPLATES) {
    it(`is what the SDK makes of ${text}`, async () => {
      const template = parseKeyTemplate(text)
      assert.ok('parts' in template)
      const rows = fc.sample(row, 400)
      const written = await writtenBy(template, rows)
      assert.deepEqual(
        written.map(({ key }) => key),
        rows.map((cells) => renderKey(template, SCHEMA, (name) => cells[NAMES.indexOf(name)] ?? null)),
      )
      for (const [index, { json }] of written.entries()) checkObject(json, rows[index] as Row)
    })
  }
})

it('numbers have the digits of JSON.stringify, whatever the engine makes of them', async () => {
  const powers = Array.from({ length: 2098 }, (_, at) => 2 ** (at - 1074))
  const halves = fc.sample(fc.integer({ min: 0, max: 2 ** 27 }), 2000).map((quarters) => quarters / 4)
  const large = fc.sample(fc.float({ noNaN: true, min: 2 ** 24, max: 2 ** 70 }), 2000)
  const small = Array.from({ length: 100 }, (_, at) => at * 2 ** -149)
  const numbers = [...powers, ...halves, ...large, ...small, 1e15, 1e16, 1e20, 1e21, 1.5e-5, 1e-6, 1e-7, 0.1, -0]
  const template = parseKeyTemplate('{integer}')
  assert.ok('parts' in template)
  const rows = numbers.map((number, at) =>
    TYPES.map((type): Value => (type === 'float' || type === 'double' ? number : type === 'integer' ? at : null)),
  )
  const written = await writtenBy(
    template,
    rows.map((cells) => cells.map((cell, at) => (TYPES[at] === 'float' ? floatOf(cell) : cell))),
  )
  for (const [index, { json }] of written.entries()) {
    const [double, float] = [rows[index]?.[TYPES.indexOf('double')], floatOf(rows[index]?.[TYPES.indexOf('float')])]
    checkDigits(json, 'double', toJsonValue(double ?? null, 'double'))
    checkDigits(json, 'float', toJsonValue(float, 'float'))
  }
})

/** Null where it is too large for 32 bits. */
function floatOf(cell: Value | undefined): Value {
  const float = Math.fround(Number(cell))
  return Number.isFinite(float) ? float : null
}

interface Written {
  readonly key: string | null
  readonly json: string
}

async function writtenBy(template: KeyTemplate, rows: readonly Row[]): Promise<readonly Written[]> {
  const source = async function* () {
    yield Buffer.from(rows.map((cells) => `${cells.map(csvCell).join(',')}\n`).join(''))
  }
  const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`
  const selected = [...NAMES, ...template.parts.map(({ column }) => column)].map(quoted).join(', ')
  const run = await engine.run(
    {
      trust: 'own',
      csvInput: { name: 'in', columns: SCHEMA.columns, source: source() },
      output: { kind: 'keyed-json', template, sql: `SELECT ${selected} FROM "in"` },
      limits: LIMITS,
    },
    AbortSignal.timeout(600_000),
  )
  const written: Written[] = []
  for await (const some of keyedRows(run.output, 7)) {
    assert.ok(some.rowCount <= 7)
    for (let at = 0; at < some.rowCount; at += 1) {
      written.push({ key: some.hasKey(at) ? some.key(at) : null, json: some.json(at) })
    }
  }
  await run.finished
  return written
}

function csvCell(value: Value): string {
  if (value === null) return ''
  if (value instanceof Uint8Array) return `"\\x${Buffer.from(value).toString('hex')}"`
  return `"${(Object.is(value, -0) ? '-0' : String(value)).replaceAll('"', '""')}"`
}

function checkObject(json: string, cells: Row): void {
  const object = JSON.parse(json) as Record<string, unknown>
  assert.deepEqual(Object.keys(object), NAMES)
  for (const [index, name] of NAMES.entries()) {
    const type = TYPES[index] as LogicalType
    const wanted = toJsonValue(cells[index] ?? null, type)
    assert.deepEqual(object[name], wanted, name)
    if (type === 'float' || type === 'double') checkDigits(json, name, wanted)
  }
}

/** No text holds the name in quotes, whose own are escaped. */
function checkDigits(json: string, name: string, wanted: unknown): void {
  const digits = Object.is(wanted, -0) ? '-0' : JSON.stringify(wanted)
  const [, written] = json.match(new RegExp(`"${name}":("[A-Za-z-]+"|[^,}]+)`)) ?? []
  assert.equal(written, digits, name)
}
