/** Keys that are near each other, rows without a key, orders with ties, readers side by side, and tokens beyond a double. */
import {
  type LogicalType,
  type ReadPolicy,
  type Row,
  type RowPredicate,
  type TableSchema,
  typeName,
  type Value,
} from '@sluice/sdk'
import { callDeadline } from '../call-deadline.ts'
import { type Check, CheckFailure, expect, expectRefusal, vacuous } from '../check.ts'
import { cellsText, describeDifference, differenceOf, keyText } from '../compare.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { answerOf, openPolicy, pagesOf, planOf, pointPlan } from '../reading.ts'
import { hook, operation } from '../requirements.ts'
import { COMPOSITE, changed, instantAt, rowsOf, SIMPLE, TIME_COLUMN } from '../shapes.ts'

/** No two of a list are one key, though a driver, a collation or a form of text may make them so. */
const NEAR = {
  string: ['a', 'A', 'a ', ' a', '\u00e9', 'e\u0301', 'null', '1', '01', '1.0'],
  long: [9007199254740992n, 9007199254740993n, -9007199254740993n, -9007199254740992n, 9223372036854775807n],
  decimal: ['1234567890123456789.10', '1234567890123456789.11', '-0.10', '0.10'],
  timestamptz: ['1969-12-31T23:59:59.999999Z', '1969-12-31T23:59:59.999998Z', '2026-01-01T00:00:00.000001Z'],
} as const satisfies Readonly<Record<string, readonly Value[]>>

/** Of each type the value that a language may take for none, and another. */
const NOTHING = [
  ['string', '', 'a'],
  ['integer', 0, 1],
  ['long', 0n, 1n],
  ['decimal(21,2)', '0.00', '1.00'],
  ['boolean', false, true],
  ['date', '1970-01-01', '2026-01-01'],
  ['timestamptz', '1970-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z'],
] as const satisfies readonly (readonly [string, Value, Value])[]

const nameOf = (type: LogicalType) => typeName(type)

const AT = { name: TIME_COLUMN, type: 'timestamptz', nullable: false } as const
const NOTE = { name: 'note', type: 'string', nullable: true } as const

const KEYLESS: TableSchema = {
  columns: [
    { name: 'a', type: 'string', nullable: true },
    AT,
    { name: 'b', type: 'integer', nullable: true },
    { name: 'c', type: 'long', nullable: true },
    { name: 'd', type: 'string', nullable: true },
  ],
  primaryKey: [],
}

export const keyEdgeChecks: readonly Check[] = [
  {
    id: 146,
    name: 'near-keys-stay-apart',
    level: 'core',
    async run(context) {
      const types = (Object.keys(NEAR) as (keyof typeof NEAR)[]).filter(
        (type) => context.capabilities.types[type] === 'exact',
      )
      for (const type of types) await expectApart(context, type === 'decimal' ? 'decimal(21,2)' : type, NEAR[type])
    },
  },
  {
    id: 147,
    name: 'rows-without-a-key-are-each-one',
    level: 'core',
    requires: [operation('scan')],
    async run(context) {
      await expectKeyless(context)
    },
  },
  {
    id: 148,
    name: 'orders-with-ties-and-keys-of-several-columns',
    level: 'core',
    requires: [operation('scan')],
    async run(context) {
      await expectTies(context)
      await expectKeyOrder(context)
    },
  },
  {
    id: 149,
    name: 'readers-side-by-side-and-policies-of-any-size',
    level: 'core',
    async run(context) {
      const dataset = await context.filled(24)
      await expectSideBySide(context, dataset)
      await expectLargePolicies(dataset)
      await expectUnasked(context, dataset)
    },
  },
  {
    id: 150,
    name: 'digest-sees-what-is-near',
    level: 'core',
    requires: [hook('digest')],
    async run(context) {
      await expectDigests(context)
    },
  },
  {
    id: 174,
    name: 'rows-with-a-key-that-is-nothing-are-deleted',
    level: 'core',
    async run(context) {
      for (const [type, none, other] of NOTHING.filter(
        ([type]) => context.capabilities.types[nameOf(type)] === 'exact',
      ))
        await expectDeleted(context, type, none, other)
    },
  },
  {
    id: 151,
    name: 'large-tokens-stay-apart',
    level: 'core',
    async run(context) {
      await expectTokens(context)
    },
  },
]

async function expectApart(context: CheckContext, type: string, keys: readonly Value[]): Promise<void> {
  const columns = [{ name: 'k', type, nullable: false }, AT, NOTE] as TableSchema['columns']
  const schema: TableSchema = { columns, primaryKey: ['k'] }
  const dataset = await context.dataset(schema, { indexed: ['k'] })
  const rows = keys.map((key, index): Row => [key, instantAt(index), `row ${index}`])
  await dataset.full(rows)
  const [first = [], second = [], ...others] = rows
  for (const way of dataset.ways()) await dataset.expectRows('keys that differ are different rows', rows, { way })
  await dataset.delta([changed(schema, first, { note: 'replaced' })], [second])
  for (const way of dataset.ways()) {
    const expected = [changed(schema, first, { note: 'replaced' }), ...others]
    await dataset.expectRows('a delta changes the rows of its keys, and none with a key that is near', expected, {
      way,
    })
  }
}

/** One row of each key; the one goes by a delta and comes back; then the whole key of two columns is nothing. */
async function expectDeleted(context: CheckContext, type: LogicalType, none: Value, other: Value): Promise<void> {
  for (const keys of [['k'], ['k', 'l']]) {
    const columns = [...keys.map((name) => ({ name, type, nullable: false })), AT, NOTE] as TableSchema['columns']
    const schema: TableSchema = { columns, primaryKey: keys }
    const dataset = await context.dataset(schema, { indexed: keys })
    const row = (value: Value): Row => [...keys.map(() => value), instantAt(0), 'a row']
    const expectRows = async (what: string, rows: readonly Row[]) => {
      for (const way of dataset.ways()) await dataset.expectRows(`${what}, ${type}`, rows, { way })
    }
    await dataset.full([row(none), row(other)])
    await dataset.delta([], [row(none)])
    await expectRows('a row goes whose key is empty, 0 or false', [row(other)])
    await dataset.delta([row(none)], [row(other)])
    await expectRows('and is there again when it comes back', [row(none)])
    await dataset.delta([], [row(none)])
    await expectRows('and goes as the only one', [])
  }
}

/** Rows that differ in their last column alone, page by page; then equal ones, which deltas of new processes add. */
async function expectKeyless(context: CheckContext): Promise<void> {
  const dataset = await context.dataset(KEYLESS)
  const rows = ['x', 'y', 'z', null].map((last, index): Row => ['a', instantAt(0), 1, index < 2 ? 1n : null, last])
  await dataset.full(rows)
  for (const limit of [1, 3]) {
    const { rows: given } = await pagesOf(() => context.store, dataset.target, planOf(KEYLESS, 'scan', { limit }))
    expectBag(rows, given, `page by page of ${limit}`)
  }
  // A lake is given here as one row of each, so that a store that reads it is asked for others.
  const isLake = context.capabilities.commit === 'lake'
  const [first = [], last = []] = [rows[0], rows[3]]
  const held = [...rows]
  for (let time = 1; time <= 2; time += 1) {
    await context.reopen()
    const added = isLake ? [changed(KEYLESS, first, { b: 10 + time })] : [first, first, last]
    await dataset.delta(added)
    held.push(...added)
    const { rows: given } = await answerOf(context.store, dataset.target, planOf(KEYLESS, 'scan'))
    expectBag(held, given, `after delta ${time} of a new process`)
  }
}

function expectBag(expected: readonly Row[], given: readonly Row[], where: string): void {
  const text = (rows: readonly Row[]) => rows.map(cellsText).sort().join('\n')
  expect(text(expected) === text(given), () => ({
    what: `a table without a key shows ${given.length} rows in the place of ${expected.length}, or others`,
    expected: `${expected.length} rows`,
    came: `${given.length} rows`,
    where: `read scan, ${where}`,
    why: 'rows without identity are plainly added, equal ones too, and are ordered by every column',
    remedy: 'Give each row a number that no process uses twice, and continue pages by all columns.',
  }))
}

/** By two columns of few values, so that the key decides within each group. */
async function expectTies(context: CheckContext): Promise<void> {
  const dataset = await context.dataset(SIMPLE, { indexed: ['name', 'rank'] })
  const rows = rowsOf(SIMPLE, 1, 24, context.random).map((row, index) =>
    changed(SIMPLE, row, { name: `n${index % 2}`, rank: Math.floor(index / 2) % 3 }),
  )
  await dataset.full(context.random.shuffled(rows))
  const by = (row: Row) => [row[2], -Number(row[4]), Number(row[0])] as const
  const expected = rows.toSorted((left, right) => {
    const [[a, b, c], [x, y, z]] = [by(left), by(right)]
    return a !== x ? (String(a) < String(x) ? -1 : 1) : b - y || c - z
  })
  for (const limit of [1, 3, 5]) {
    const orderBy = [
      { column: 'name', direction: 'asc' },
      { column: 'rank', direction: 'desc' },
    ] as const
    const { rows: given } = await pagesOf(
      () => context.store,
      dataset.target,
      planOf(SIMPLE, 'scan', { orderBy, limit }),
    )
    expectSequence(SIMPLE, expected, given, `by name and rank desc, pages of ${limit}`)
  }
}

async function expectKeyOrder(context: CheckContext): Promise<void> {
  const dataset = await context.dataset(COMPOSITE)
  const texts = ['a', 'b']
  const rows = texts.flatMap((left) =>
    texts.flatMap((right) => [2, 10].map((number): Row => [left, right, number, instantAt(0), null])),
  )
  await dataset.full(context.random.shuffled(rows))
  const expected = rows.toSorted((one, other) => {
    const [x, y] = [`${one[1]} ${one[0]}`, `${other[1]} ${other[0]}`]
    return x === y ? Number(one[2]) - Number(other[2]) : x < y ? -1 : 1
  })
  for (const limit of [1, 3, 100]) {
    const { rows: given } = await pagesOf(() => context.store, dataset.target, planOf(COMPOSITE, 'scan', { limit }))
    expectSequence(COMPOSITE, expected, given, `of a key of several columns, pages of ${limit}`)
  }
}

function expectSequence(schema: TableSchema, expected: readonly Row[], given: readonly Row[], where: string): void {
  const keys = (rows: readonly Row[]) => rows.map((row) => keyText(schema, row))
  const [wanted, found] = [keys(expected), keys(given)]
  const at = wanted.findIndex((key, index) => key !== found[index])
  expect(wanted.join() === found.join(), () => ({
    what: `rows come in another order, or not each once: number ${at + 1} is ${found[at] ?? 'not there'}`,
    expected: wanted[at] ?? `${wanted.length} rows`,
    came: found[at] ?? `${found.length} rows`,
    where: `read scan ${where}`,
    why: 'what is asked orders first, and the key, in the order of its columns, makes the order total',
    remedy: 'Order by all that is asked and then by the columns of the primary key, as the schema names them.',
  }))
}

const only = (rows: RowPredicate, claims: ReadPolicy['claims'] = {}): ReadPolicy => ({
  ...openPolicy(SIMPLE),
  rows,
  claims,
})

/** Many readers at once under one policy: each is given what his own claims allow. */
async function expectSideBySide(context: CheckContext, dataset: Dataset): Promise<void> {
  const rows = [...dataset.content.values()]
  const [way = 'scan'] = dataset.ways()
  const { target, template } = dataset
  const policyOf = (id: Value) => only({ op: 'eq', column: 'id', value: { claim: 'id' } }, { id })
  const asked = rows.map((row, index) => {
    const policy = policyOf(rows[(index + (index % 2)) % rows.length]?.[0] ?? null)
    const isPoint = way === 'key' || way === 'get'
    const plan = isPoint
      ? pointPlan(way, row, { target, template, candidates: [], policy })
      : planOf(SIMPLE, way, { policy })
    const expected = rows.filter(([id]) => id === policy.claims['id'] && (!isPoint || id === row[0]))
    return { plan, expected }
  })
  const answers = await Promise.all(asked.map(({ plan }) => answerOf(context.store, target, plan)))
  for (const [index, { expected }] of asked.entries()) {
    expectSeen(expected, answers[index]?.rows ?? [], `read ${way}, ${rows.length} readers at once`)
  }
}

/** More values than anybody writes by hand, deeper than anybody nests, and a claim that is an empty text. */
async function expectLargePolicies(dataset: Dataset): Promise<void> {
  const rows = [...dataset.content.values()]
  const wanted = rows.slice(0, 9)
  const values = [...Array.from({ length: 140 }, (_, at) => BigInt(5000 + at)), ...wanted.map(([id]) => id ?? null)]
  const many: RowPredicate = { op: 'in', column: 'id', values: values.map((literal) => ({ literal })) }
  let deep: RowPredicate = { op: 'le', column: 'id', value: { literal: wanted.at(-1)?.[0] ?? null } }
  for (let level = 0; level < 6; level += 1) {
    deep = level % 2 === 0 ? { op: 'or', of: [deep, { op: 'none' }] } : { op: 'and', of: [deep, { op: 'all' }] }
  }
  for (const [policy, where] of [
    [only(many), 'under a policy of 149 values'],
    [only(deep), 'under a policy of six levels'],
  ] as const) {
    for (const way of dataset.ways()) expectSeen(wanted, await dataset.see({ way, policy }), `read ${way} ${where}`)
  }
  const blank = changed(SIMPLE, rows[0] ?? [], { name: '' })
  await dataset.delta([blank])
  const policy = only({ op: 'eq', column: 'name', value: { claim: 'name' } }, { name: '' })
  const named = [...dataset.content.values()].filter((row) => row[2] === '')
  for (const way of dataset.ways()) {
    expectSeen(named, await dataset.see({ way, policy }), `read ${way} with a claim that is an empty text`)
  }
}

/** The policy goes by a column that is neither asked for nor visible. */
async function expectUnasked({ store }: CheckContext, dataset: Dataset): Promise<void> {
  const rows = [...dataset.content.values()]
  const { target, template } = dataset
  const middle = rows[11]?.[0] ?? null
  const rule: RowPredicate = { op: 'le', column: 'id', value: { literal: middle } }
  for (const way of dataset.ways()) {
    const policy = { ...only(rule), visibleColumns: ['name', ...(way === 'get' ? ['id'] : [])] }
    const parts = { columns: ['name'], policy }
    const isPoint = way === 'key' || way === 'get'
    const plans = isPoint
      ? rows.map((row) => pointPlan(way, row, { target, template, candidates: [] }, parts))
      : [planOf(SIMPLE, way, parts)]
    let seen = 0
    for (const plan of plans) seen += (await answerOf(store, target, plan)).rows.length
    const expected = rows.filter(([id]) => Number(id) <= Number(middle)).length
    expect(expected > 0 && expected < rows.length, () => vacuous('the policy hides no row'))
    expect(seen === expected, () => ({
      what: `${seen} rows came in the place of ${expected}, where the policy goes by a column that is not asked for`,
      where: `read ${way} of the column name alone`,
      why: 'which rows a reader has is decided by whole rows, whatever columns he asks for',
      remedy: 'Apply the policy before the projection.',
    }))
  }
}

function expectSeen(expected: readonly Row[], given: readonly Row[], where: string): void {
  const difference = differenceOf(SIMPLE, expected, given)
  if (difference === null) return
  throw new CheckFailure({
    what: `a reader is given other rows than his policy allows: ${describeDifference(difference)}`,
    expected: `${expected.length} rows`,
    came: `${given.length} rows`,
    where,
    why: 'each reader is judged by his own claims, and by the whole of his policy',
    remedy: 'Keep nothing of one reader for another; compile policies of any size.',
  })
}

/** Pairs of contents that differ, with two rows each; the first of each pair is the same at both. */
async function expectDigests(context: CheckContext): Promise<void> {
  const columns = [
    { name: 'k', type: 'long', nullable: false },
    AT,
    ...(['long', 'string', 'binary'] as const).map((type) => ({ name: type, type, nullable: true })),
  ] as TableSchema['columns']
  const schema: TableSchema = { columns, primaryKey: ['k'] }
  const long = 'x'.repeat(5000)
  const pairs: readonly (readonly [column: string, Value, Value])[] = [
    ['long', 9007199254740992n, 9007199254740993n],
    ['string', '\u00e9', 'e\u0301'],
    ['string', `${long}a`, `${long}b`],
    ['string', 'a', 'a '],
    ['string', '', null],
    ['binary', Uint8Array.of(0xff), Uint8Array.of(0xfe)],
  ]
  const bare: Row = [1n, instantAt(1), 1n, 'a', Uint8Array.of(1)]
  for (const [column, left, right] of pairs.filter(
    ([name]) => context.capabilities.types[name as 'long'] === 'exact',
  )) {
    const of = async (value: Value) =>
      digestOf(context, schema, [bare, changed(schema, bare, { k: 2n, [column]: value })])
    expectOther(
      await of(left),
      await of(right),
      `${column} ${cellsText([left]).slice(0, 20)} and ${cellsText([right]).slice(0, 20)}`,
    )
  }
  if (!context.capabilities.operations.includes('scan')) return
  const row = (last: string): Row => ['a', instantAt(0), 1, 1n, last]
  const twice = async (last: string) => digestOf(context, KEYLESS, [row('x'), row(last), row(last)])
  expectOther(await twice('y'), await twice('z'), 'rows without a key that are there twice')
}

async function digestOf(context: CheckContext, schema: TableSchema, rows: readonly Row[]): Promise<string> {
  const dataset = await context.dataset(schema)
  const commit = { committedAt: '2026-03-01T00:00:30.000000Z' }
  await dataset.apply(await dataset.prepare({ mode: 'full', upserts: rows, commit }))
  return (await context.store.digest?.(dataset.target, callDeadline()))?.sha256 ?? ''
}

function expectOther(one: string, other: string, between: string): void {
  expect(one !== other && one !== '', () => ({
    what: `contents that differ have one digest: ${between}`,
    where: 'store.digest',
    why: 'a copy that is not the lake’s is found by its digest alone',
    remedy: 'Hash all bytes of every cell, and rows in an order; never add hashes up so that equal rows cancel.',
  }))
}

/** Tokens beyond what a double holds: those of a writer and of the one that it has replaced are near. */
async function expectTokens(context: CheckContext): Promise<void> {
  const upserts = rowsOf(SIMPLE, 200, 2, context.random)
  const refused = async (dataset: Dataset, fence: bigint, tried: string) => {
    const write = await dataset.prepare({ mode: 'delta', upserts, commit: { fence } })
    const why = 'whoever holds an older token has been replaced, and must write nothing'
    await expectRefusal({ kind: 'FENCED', tried, where: 'store.write', why }, () =>
      context.store.write(dataset.target, write.changes, write.commit),
    )
    await dataset.expectRows('a refused writer leaves nothing')
  }
  const large = await context.filled(4)
  await large.apply(await large.prepare({ mode: 'delta', upserts, commit: { fence: 9007199254740993n } }))
  await refused(large, 9007199254740992n, 'a token that is one less, beyond what a double holds')
}
