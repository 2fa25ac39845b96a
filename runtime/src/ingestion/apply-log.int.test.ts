import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { engineTable, hasMarks, MARKED_COLUMNS, MARKS } from '@sluice/iceberg'
import { collect, commitStep, LIMITS, publish, readScan, startTestLake, type TestLake } from '@sluice/iceberg/testing'
import { type ChangeEvent, type ChangeStream, type Column, SluiceError } from '@sluice/sdk'
import fc from 'fast-check'
import { applyLog } from './apply-log.ts'
import { BASE, type FoldCounts, foldCounts, foldLog } from './change-fold.ts'
import { ChangeSpool, type SpooledTable } from './change-spool.ts'
import { ANY_KINDS } from './told-kinds.ts'

/**
 * A source of its own kind, which shares no code with what is tested: a map that is changed by statements, and that says of
 * each what a log would say. Whatever was changed, the lake is to hold what the map holds.
 */

let lake: TestLake
before(async () => {
  lake = await startTestLake()
})
after(() => lake[Symbol.asyncDispose]())

const COLUMNS: readonly Column[] = [
  { name: 'a', type: 'integer', nullable: false },
  { name: 'b', type: 'string', nullable: false },
  { name: 'n', type: 'integer', nullable: true },
  { name: 'big', type: 'string', nullable: true },
  { name: 'large', type: 'string', nullable: true },
]
const STREAM: ChangeStream = { schema: 'public', table: 't', primaryKey: ['a', 'b'] }
const SCHEMA = { columns: COLUMNS, primaryKey: STREAM.primaryKey }
const BIG = ['big', 'large'] as const
const VALUES = ['n', ...BIG] as const
type Name = (typeof VALUES)[number]

interface Row {
  a: number
  b: string
  n: number | null
  big: string | null
  large: string | null
  /** Of these nothing can carry the value that the source has. */
  lacks?: readonly Name[]
}
type Cell = string | null
type Line =
  | { readonly cells: readonly Cell[]; readonly lacks: readonly Name[] }
  | { readonly truncate: string }
  | { readonly reject: string; readonly key: { readonly a: string; readonly b: string } | null }

/** A table with its log. */
class Source {
  readonly rows = new Map<string, Row>()
  readonly log: Line[] = []
  /** Its log brings rows without values that cannot be carried. */
  readonly #marks: boolean
  #seq = 0

  constructor(marks = false) {
    this.#marks = marks
  }

  next(): string {
    this.#seq += 1
    return String(this.#seq).padStart(8, '0')
  }
  static key = ({ a, b }: Pick<Row, 'a' | 'b'>) => JSON.stringify([a, b])

  #say(op: 'u' | 'd', row: Row, unchanged: readonly string[] = [], from: Row | null = null) {
    const of = (value: number | string | null) => (value === null ? null : String(value))
    const values =
      op === 'd'
        ? [of(row.a), row.b, null, null, null]
        : [of(row.a), row.b, of(row.n), ...BIG.map((name) => (unchanged.includes(name) ? null : row[name]))]
    const left = unchanged.length === 0 ? null : JSON.stringify(unchanged)
    const former = from === null ? null : JSON.stringify([String(from.a), from.b])
    const lacks = op === 'd' ? [] : (row.lacks ?? []).filter((name) => !unchanged.includes(name))
    const mark = lacks.length === 0 ? null : JSON.stringify(lacks)
    this.log.push({ cells: [op, this.next(), left, former, ...values, ...(this.#marks ? [mark] : [])], lacks })
  }

  upsert(row: Row) {
    const there = this.rows.get(Source.key(row))
    if (there === undefined) this.#say('u', row)
    else this.#update(there, row)
    this.rows.set(Source.key(row), row)
  }
  #update(before: Row, now: Row) {
    // Large values that stay are not told.
    this.#say(
      'u',
      now,
      BIG.filter(
        (name) => Source.stays(before, name) && before[name] === now[name] && lacks(before, name) === lacks(now, name),
      ),
    )
  }
  static stays = (row: Row, name: Name) => row[name] !== null || lacks(row, name)

  /** It has a value of the column from now on that cannot be carried, and comes without it. */
  lose(key: Pick<Row, 'a' | 'b'>, name: Name) {
    const row = this.rows.get(Source.key(key))
    if (row === undefined) return
    const now = { ...row, [name]: null, lacks: [...new Set([...(row.lacks ?? []), name])] }
    this.#update({ ...row, lacks: (row.lacks ?? []).filter((one) => one !== name) }, now)
    this.rows.set(Source.key(now), now)
  }
  touch(key: Pick<Row, 'a' | 'b'>, n: number) {
    const row = this.rows.get(Source.key(key))
    if (row === undefined) return
    const now = { ...row, n, lacks: (row.lacks ?? []).filter((name) => name !== 'n') }
    this.#update(row, now)
    this.rows.set(Source.key(now), now)
  }
  move(key: Pick<Row, 'a' | 'b'>, to: Pick<Row, 'a' | 'b'>) {
    const row = this.rows.get(Source.key(key))
    if (row === undefined || this.rows.has(Source.key(to))) return
    const now = { ...row, ...to }
    this.#say('d', row)
    this.#say(
      'u',
      now,
      BIG.filter((name) => Source.stays(row, name)),
      row,
    )
    this.rows.delete(Source.key(row))
    this.rows.set(Source.key(now), now)
  }
  remove(key: Pick<Row, 'a' | 'b'>) {
    const row = this.rows.get(Source.key(key))
    if (row === undefined) return
    this.#say('d', row)
    this.rows.delete(Source.key(row))
  }
  /** It has a value from now on that cannot be carried; `isKnown`: the log tells the key. */
  spoil(row: Pick<Row, 'a' | 'b'>, isKnown: boolean) {
    const isThere = this.rows.has(Source.key(row))
    const key = isKnown || isThere ? { a: String(row.a), b: row.b } : null
    this.log.push({ reject: this.next(), key })
    this.rows.delete(Source.key(row))
  }
  truncate() {
    this.log.push({ truncate: this.next() })
    this.rows.clear()
  }
  content() {
    return [...this.rows.values()].map(({ a, b, n, big, large }) => [a, b, n, big, large]).toSorted(byText)
  }
  /** With what each row lacks at its end. */
  marked() {
    return [...this.rows.values()]
      .map(({ a, b, n, big, large, lacks = [] }) => [a, b, n, big, large, [...lacks].toSorted().join()])
      .toSorted(byText)
  }
}

const lacks = (row: Row, name: Name): boolean => row.lacks?.includes(name) === true

const byText = (one: unknown, other: unknown) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1)
const csv = (cells: readonly Cell[]) =>
  Buffer.from(`${cells.map((cell) => (cell === null ? '' : `"${cell.replaceAll('"', '""')}"`)).join(',')}\n`)

const newRef = () => ({ warehouse: 'acme', namespace: 'raw_db', table: `t_${randomUUID()}` })
const signal = () => AbortSignal.timeout(600_000)
const ROOM = { bytes: 1e9, exceeded: () => new SluiceError('QUOTA', 'too much', { code: 'tier_limit_exceeded' }) }

async function writeWhole(ref: ReturnType<typeof newRef>, rows: readonly Row[], marks = false) {
  const markOf = ({ lacks = [] }: Row) => text(lacks.length === 0 ? null : JSON.stringify(lacks))
  const values = rows.map(
    (row) =>
      `(${[row.a, text(row.b), row.n ?? 'NULL', text(row.big), text(row.large), ...(marks ? [markOf(row)] : [])].join(', ')})`,
  )
  const nothing = `(VALUES (1, NULL, 1, NULL, NULL${marks ? ', NULL' : ''})) WHERE false`
  const from = values.length === 0 ? nothing : `(VALUES ${values.join(', ')})`
  const list = from.replace(/\)( WHERE false)?$/, `) v(a, b, n, big, large${marks ? `, "${MARKS.name}"` : ''})$1`)
  const more = marks ? `, "${MARKS.name}"::VARCHAR AS "${MARKS.name}"` : ''
  const select = `SELECT a::INTEGER AS a, b::VARCHAR AS b, n::INTEGER AS n, big::VARCHAR AS big, large::VARCHAR AS large${more} FROM ${list}`
  const summary = marks ? { [MARKED_COLUMNS]: JSON.stringify(VALUES) } : {}
  await commitStep(lake, ref, { operation: 'replace', schema: SCHEMA, select, summary, ...(marks ? { marks } : {}) })
}
const text = (value: string | null) => (value === null ? 'NULL' : `'${value.replaceAll("'", "''")}'`)

async function apply(
  ref: ReturnType<typeof newRef>,
  lines: readonly Line[],
  isFresh = false,
  events: readonly ChangeEvent[] = [],
  marks = false,
) {
  const dir = join(lake.dir, randomUUID())
  await mkdir(dir)
  const spool = new ChangeSpool(dir, [{ ...STREAM, ...(marks ? { marks } : {}) }], ROOM)
  await spool.take({ kind: 'schema', stream: 0, schema: SCHEMA, ...(marks ? { marks } : {}) })
  for (const line of lines) {
    if ('reject' in line) {
      const { reject: seq, key } = line
      await spool.take({ kind: 'reject', stream: 0, seq, reason: 'odd', column: 'n', ...(key === null ? {} : { key }) })
    } else if ('truncate' in line) await spool.take({ kind: 'truncate', stream: 0, seq: line.truncate })
    else {
      await spool.take({ kind: 'rows', stream: 0, chunk: csv(line.cells), rows: 1 })
      for (const column of line.lacks) {
        await spool.take({
          kind: 'reject',
          stream: 0,
          seq: String(line.cells[1]),
          reason: 'odd',
          column,
          carried: true,
        })
      }
    }
  }
  for (const event of events) await spool.take(event)
  await spool.flush()
  const base = await lake.lake.load(ref)
  const table = spool.table(0)
  assert.ok(base)
  const request = { ref, base, table, primaryKey: STREAM.primaryKey, isFresh } as const
  const about = { runId: 'run_1', moment: 'log-1', readAt: new Date(), source: '', limits: LIMITS, signal: signal() }
  const applied = await applyLog({ ...request, ...about }, lake.lake)
  if (applied.commit !== null) await publish(lake, applied.commit)
  checkConserved(lines, table, applied.counts)
  return applied
}

/** Nothing is lost without a word: what was read is applied, followed by something newer, in the quarantine, or gone. */
function checkConserved(lines: readonly Line[], table: SpooledTable, counts: FoldCounts) {
  const read = lines.filter((line) => !('truncate' in line)).length
  assert.equal(read, table.rows + table.rejected)
  assert.equal(counts.changed + counts.superseded + table.rejected + counts.deleted, read)
}

const rowsOf = async (ref: ReturnType<typeof newRef>) =>
  (await readScan(lake, await lake.lake.scan(ref))).toSorted(byText)

const KEY = fc.record({ a: fc.integer({ min: 1, max: 3 }), b: fc.constantFrom('x', 'y"') })
const VALUE = fc.constantFrom(null, '', 'one', 'two, "quoted"\nlines')
const STATEMENT = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.tuple(KEY, fc.integer({ min: 0, max: 9 }), VALUE, VALUE).map(
      ([key, n, big, large]) =>
        (source: Source) =>
          source.upsert({ ...key, n, big, large }),
    ),
  },
  {
    weight: 4,
    arbitrary: fc.tuple(KEY, fc.integer({ min: 0, max: 9 })).map(
      ([key, n]) =>
        (source: Source) =>
          source.touch(key, n),
    ),
  },
  {
    weight: 4,
    arbitrary: fc.tuple(KEY, KEY).map(
      ([key, to]) =>
        (source: Source) =>
          source.move(key, to),
    ),
  },
  { weight: 2, arbitrary: KEY.map((key) => (source: Source) => source.remove(key)) },
  {
    weight: 1,
    arbitrary: fc.tuple(KEY, fc.boolean()).map(
      ([key, isKnown]) =>
        (source: Source) =>
          source.spoil(key, isKnown),
    ),
  },
  { weight: 1, arbitrary: fc.constant((source: Source) => source.truncate()) },
)
const STATEMENTS = fc.array(STATEMENT, { minLength: 1, maxLength: 14 })

test('whatever was changed, and wherever the log was cut, the table is as its source', {
  timeout: 600_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(STATEMENTS, STATEMENTS, STATEMENTS, async (early, middle, late) => {
      const source = new Source()
      const ref = newRef()
      for (const statement of early) statement(source)
      await writeWhole(ref, [...source.rows.values()])
      const at = source.log.length
      for (const statement of middle) statement(source)
      const cut = source.log.length
      const first = await apply(ref, source.log.slice(at))
      assert.equal(first.counts.unknown, 0)
      assert.deepEqual(await rowsOf(ref), source.content())
      for (const statement of late) statement(source)
      await apply(ref, source.log.slice(cut))
      assert.deepEqual(await rowsOf(ref), source.content())
    }),
    { numRuns: Number(process.env['LOG_RUNS'] ?? 5) },
  )
})

const LOSS = fc.tuple(KEY, fc.constantFrom(...VALUES)).map(
  ([key, name]) =>
    (source: Source) =>
      source.lose(key, name),
)
const MARKING = fc.array(fc.oneof({ weight: 3, arbitrary: LOSS }, { weight: 5, arbitrary: STATEMENT }), {
  minLength: 2,
  maxLength: 14,
})

/** The rows with what each is marked to lack, by the files. */
async function markedRows(ref: ReturnType<typeof newRef>) {
  const scan = await lake.lake.scan(ref)
  const marks = hasMarks(scan.summary)
  const fields = marks ? [...scan.schema.fields, MARKS] : scan.schema.fields
  const mark = marks ? `"${MARKS.name}"` : 'NULL::VARCHAR'
  const select = `SELECT a, b, n, big, large, coalesce(array_to_string(list_sort(from_json(${mark}, '["VARCHAR"]')), ','), '') FROM t`
  const [rows = []] = await collect(lake.engine, [engineTable(scan, ['t'], { ...scan.schema, fields })], [select])
  return { rows: rows.map((row) => [...row]).toSorted(byText), named: JSON.parse(scan.summary[MARKED_COLUMNS] ?? '[]') }
}

test('of each row the table says what it lacks, whatever was changed, wherever the log was cut, and by which of them it was told', {
  timeout: 600_000,
}, async () => {
  let unknown = 0
  await fc.assert(
    fc.asyncProperty(
      MARKING,
      MARKING,
      MARKING,
      fc.boolean(),
      fc.boolean(),
      async (early, middle, late, isNew, isFresh) => {
        const source = new Source(true)
        const ref = newRef()
        // Of a table that was written before, no row lacks anything.
        if (!isNew) for (const statement of early) statement(source)
        const at = isFresh ? 0 : source.log.length
        await writeWhole(ref, [...source.rows.values()], !isNew)
        const check = async (lines: readonly Line[]) => {
          const { counts } = await apply(ref, lines, isFresh, [], true)
          if (counts.unknown > 0) {
            unknown += 1
            return false
          }
          const { rows, named } = await markedRows(ref)
          assert.deepEqual(rows, source.marked())
          for (const { lacks = [] } of source.rows.values()) for (const name of lacks) assert.ok(named.includes(name))
          return true
        }
        for (const statement of middle) statement(source)
        const cut = source.log.length
        if (!(await check(source.log.slice(at)))) return assert.ok(isFresh)
        for (const statement of late) statement(source)
        await check(source.log.slice(cut))
      },
    ),
    { numRuns: Number(process.env['LOG_RUNS'] ?? 4) },
  )
  if (process.env['LOG_RUNS'] !== undefined) console.log({ unknown })
})

test('a log without marks keeps those of the table, and a value that it tells is lacked no more', async () => {
  const source = new Source()
  const ref = newRef()
  const row = (a: number): Row => ({ a, b: 'x', n: 1, big: null, large: null, lacks: ['big', 'large'] })
  for (const a of [1, 2, 3]) source.rows.set(Source.key(row(a)), row(a))
  await writeWhole(ref, [...source.rows.values()], true)
  // Told with what is unchanged, told whole, and not told.
  source.touch(row(1), 7)
  source.rows.set(Source.key(row(2)), { ...row(2), lacks: [] })
  source.upsert({ a: 2, b: 'x', n: 2, big: 'B', large: 'L' })
  await apply(ref, source.log)
  const { rows } = await markedRows(ref)
  assert.deepEqual(rows, source.marked())
  assert.deepEqual(
    rows.map((one) => one.at(-1)),
    ['big,large', '', 'big,large'],
  )
})

test('of a mark that cannot be understood the row may lack whatever was told with it', async () => {
  const ref = newRef()
  await writeWhole(ref, [])
  const line = (seq: string, left: string | null, mark: string | null): Line => ({
    cells: ['u', seq, left, null, '1', 'x', '1', null, null, mark],
    lacks: [],
  })
  await apply(ref, [line('1', null, '{"big":1}'), line('2', '["big","large"]', null)], false, [], true)
  assert.deepEqual((await markedRows(ref)).rows, [[1, 'x', 1, null, null, 'big,large']])
})

test('marks that nobody asked for, or of a column of the key, or without a column, are a breach', async () => {
  const ref = newRef()
  await writeWhole(ref, [])
  const breach = { kind: 'INTERNAL', code: 'connector_contract' }
  const reject = { kind: 'reject', stream: 0, seq: '1', reason: 'odd', carried: true } as const
  for (const column of [null, 'a', 'other']) {
    await assert.rejects(apply(ref, [], false, [{ ...reject, column }], true), breach)
  }
  await assert.rejects(apply(ref, [], false, [{ ...reject, column: 'n' }]), breach)
  await assert.rejects(apply(ref, [], false, [{ kind: 'schema', stream: 0, schema: SCHEMA, marks: true }]), breach)
  await assert.rejects(apply(ref, [], false, [{ kind: 'schema', stream: 0, schema: SCHEMA }], true), breach)
})

test('a log that tells what the read has seen already changes nothing of it, or the table is read again', {
  timeout: 600_000,
}, async () => {
  let unknown = 0
  await fc.assert(
    fc.asyncProperty(STATEMENTS, STATEMENTS, STATEMENTS, async (early, seen, late) => {
      const source = new Source()
      const ref = newRef()
      for (const statement of early) statement(source)
      const at = source.log.length
      for (const statement of seen) statement(source)
      await writeWhole(ref, [...source.rows.values()])
      for (const statement of late) statement(source)
      const { counts } = await apply(ref, source.log.slice(at), true)
      if (counts.unknown > 0) unknown += 1
      else assert.deepEqual(await rowsOf(ref), source.content())
    }),
    { numRuns: Number(process.env['LOG_RUNS'] ?? 5) },
  )
  if (process.env['LOG_RUNS'] !== undefined) console.log({ unknown })
})

/** What is changed and what is gone, by the fold's statements alone, over a table without rows. */
async function folded(table: SpooledTable, kinds: SpooledTable['kinds'], marks: boolean) {
  const { segments } = table
  const base = COLUMNS.map(({ name }) => name)
  const { steps, changed, gone, readsBase } = foldLog({ segments, schema: SCHEMA, base, marks, isFresh: false, kinds })
  const types = COLUMNS.map(({ name, type }) => `NULL::${type} AS ${name}`)
  const none = {
    sql: `CREATE TEMP VIEW ${BASE} AS SELECT ${[...types, ...(marks ? [`NULL::VARCHAR AS "${MARKS.name}"`] : [])]} WHERE false`,
  }
  const all = [changed, ...(gone === null ? [] : [gone])].map((sql) => ({ sql, rows: 'collect' as const }))
  const job = { trust: 'own', steps: [...(readsBase ? [none] : []), ...steps, ...all], limits: LIMITS } as const
  const runner = lake.aside.engineFor(lake.engine)
  const { results } = await runner.run({ ...job, readPaths: segments.map(({ file }) => file) }, signal())
  const rowsIn = (at: number) => (results[at]?.rows ?? []).map((row) => [...row]).toSorted(byText)
  return { counts: foldCounts(results[0]?.rows[0]), changed: rowsIn(1), gone: rowsIn(2) }
}

test('rows that are all told whole come to the same by few statements, and those that are not are never taken for such', async () => {
  const cells = fc.record({
    key: KEY,
    n: fc.integer({ min: 0, max: 9 }),
    big: VALUE,
    large: VALUE,
    op: fc.constantFrom('u', 'u', 'd'),
  })
  const lines = fc.array(fc.tuple(cells, fc.boolean(), fc.constantFrom(null, null, '["big"]')), {
    minLength: 1,
    maxLength: 8,
  })
  const check = async (all: typeof lines extends fc.Arbitrary<infer Made> ? Made : never, marks: boolean) => {
    const dir = join(lake.dir, randomUUID())
    await mkdir(dir)
    const spool = new ChangeSpool(dir, [{ ...STREAM, marks }], ROOM)
    await spool.take({ kind: 'schema', stream: 0, schema: SCHEMA, marks })
    const [wanted, deleted] = [new Map<string, unknown[]>(), new Map<string, unknown[]>()]
    for (const [at, [{ key, n, big, large, op }, isTold, mark]] of all.entries()) {
      const { a, b } = key
      const seq = String(at).padStart(4, '0')
      const named = JSON.stringify([a, b])
      const [to, from] = op === 'd' || !isTold ? [deleted, wanted] : [wanted, deleted]
      const values = op === 'd' ? [null, null, null] : [String(n), big, large]
      const lacks = op === 'd' ? null : mark
      from.delete(named)
      to.set(named, to === deleted ? [a, b] : [a, b, n, big, large, ...(marks ? [lacks] : [])])
      if (isTold) {
        const line = csv([op, seq, null, null, String(a), b, ...values, ...(marks ? [lacks] : [])])
        await spool.take({ kind: 'rows', stream: 0, chunk: line, rows: 1 })
      } else await spool.take({ kind: 'reject', stream: 0, seq, reason: 'odd', column: 'n', key: { a: String(a), b } })
    }
    await spool.flush()
    const table = spool.table(0)
    assert.equal(table.kinds.isPlain, true)
    const plain = await folded(table, table.kinds, marks)
    assert.deepEqual(plain.changed, [...wanted.values()].toSorted(byText))
    assert.deepEqual(plain.gone, [...deleted.values()].toSorted(byText))
    assert.deepEqual(plain, await folded(table, ANY_KINDS, marks))
    // A wrong word about them is found out by the count, and then the table is read whole.
    if (deleted.size > 0) {
      const { counts } = await folded(table, { isPlain: true, hasGone: false }, marks)
      assert.ok(counts.unknown > 0)
    }
    await spool.take({
      kind: 'rows',
      stream: 0,
      chunk: csv(['u', '9999', '["big"]', null, '1', 'x', '1', null, 'l', ...(marks ? [null] : [])]),
      rows: 1,
    })
    await spool.flush()
    assert.equal(spool.table(0).kinds.isPlain, false)
    const { counts } = await folded(spool.table(0), { isPlain: true, hasGone: true }, marks)
    assert.equal(counts.unknown, 1)
  }
  await fc.assert(fc.asyncProperty(lines, fc.boolean(), check), { numRuns: Number(process.env['LOG_RUNS'] ?? 4) })
})

test('of the rows of a piece it is counted what became of each', async () => {
  const source = new Source()
  const ref = newRef()
  const row = (a: number, n: number) => ({ a, b: 'x', n, big: null, large: null })
  await writeWhole(ref, [])
  source.upsert(row(1, 1))
  source.truncate()
  for (const a of [1, 2, 3]) source.upsert(row(a, 1))
  source.upsert(row(1, 2))
  source.remove(row(2, 1))
  source.spoil(row(3, 1), true)
  source.spoil(row(4, 1), false)
  const { counts } = await apply(ref, source.log)
  assert.deepEqual(counts, { changed: 1, gone: 2, unknown: 0, deleted: 1, superseded: 4 })
})

test('a source that counts other rows than it gives is not believed, and nothing of it is committed', async () => {
  const source = new Source()
  const ref = newRef()
  await writeWhole(ref, [])
  source.upsert({ a: 1, b: 'x', n: 1, big: null, large: null })
  const extra = { kind: 'rows', stream: 0, chunk: Buffer.alloc(0), rows: 1 } as const
  await assert.rejects(apply(ref, source.log, false, [extra]), { kind: 'INTERNAL', code: 'connector_contract' })
  assert.deepEqual(await rowsOf(ref), [])
})
