/** What a log tells of rows: each change, once, in its order, as a read of the table tells it. */
import type { Row } from '@sluice/sdk'
import { isRow, type Told, type ToldRow } from '../change-reading.ts'
import { expect } from '../check.ts'
import { keyText } from '../compare.ts'
import { Capture } from '../connector-capture.ts'
import { expectRows } from '../connector-context.ts'
import type { SourceTable } from '../connector-fixture.ts'
import { COMPOSITE, changed, extremeRows, rowsOf, SIMPLE } from '../shapes.ts'
import type { ConnectorCheck } from './check.ts'
import { typesOf } from './discovery.ts'
import { EVERY_TYPE } from './values.ts'

export const logRowChecks: readonly ConnectorCheck[] = [
  {
    id: 'C41',
    name: 'log-events-keep-their-form',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const [one, other] = [await context.table(), await context.table()]
      const capture = await Capture.of(context, one, other)
      const { owner } = capture
      const rows = rowsOf(SIMPLE, 1, 12, context.random)
      for (const table of [one, other]) await owner.write({ kind: 'insert', table, rows })
      const [first = [], second = []] = rows
      await owner.write(
        { kind: 'update', table: one, row: first, cells: { name: 'newer' } },
        { kind: 'update', table: one, row: second, cells: { id: 90n } },
        { kind: 'remove', table: other, row: first },
        { kind: 'insert', table: one, rows: rowsOf(SIMPLE, 40, 7, context.random) },
      )
      const { told } = await capture.follow()
      expect(told.filter(isRow).length >= 2 * rows.length + 11, () => wrongRows(told, 'every change of both tables'))
      const again = await capture.follow()
      expect(again.told.filter(isRow).length === 0 && again.end.order >= capture.position.order, () =>
        wrongRows(again.told, 'no row, where nothing was written'),
      )
    },
  },
  {
    id: 'C42',
    name: 'log-first-rows-join-without-gap-or-double',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const { table, rows } = await context.filled(15)
      const capture = Capture.begun(context, table)
      const { owner } = capture
      owner.knows(table, rows)
      const [first = [], second = [], third = [], fourth = []] = rows
      // One transaction is open when the log is asked for, and another when the table is read.
      const early = await owner.begin()
      await early.write({ kind: 'insert', table, rows: rowsOf(SIMPLE, 100, 2, context.random) })
      const preparing = capture.prepare()
      await early.commit()
      await preparing
      await owner.write({ kind: 'insert', table, rows: rowsOf(SIMPLE, 200, 2, context.random) })
      await owner.write({ kind: 'update', table, row: first, cells: { name: 'before the read' } })
      const late = await owner.begin()
      await late.write({ kind: 'update', table, row: second, cells: { name: 'open during the read' } })
      await late.write({ kind: 'remove', table, row: third })
      await owner.write({ kind: 'remove', table, row: fourth })
      await capture.readWhole()
      await late.commit()
      await owner.write({ kind: 'update', table, row: first, cells: { name: 'after the read' } })
      const after = capture.position
      const { told } = await capture.follow()
      capture.expectTrue('the first rows, and the log from the prepared position on, are the table as it is')
      capture.mirror.apply((await capture.read(after)).told)
      capture.expectTrue('applying the log twice gives what applying it once gives')
      expect(
        told.some((one) => isRow(one) && String(one.row[0]) === '200'),
        () => wrongRows(told, 'what was committed between prepare and the read, too'),
      )
    },
  },
  {
    id: 'C43',
    name: 'log-rows-come-in-their-order',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const { capture, table, rows } = await Capture.filled(context, 4)
      const [fresh = []] = rowsOf(SIMPLE, 50, 1, context.random)
      const [, second = []] = rows
      const update = (name: string) => ({ kind: 'update', table, row: fresh, cells: { name } }) as const
      await capture.owner.write({ kind: 'insert', table, rows: [fresh] })
      for (const name of ['one', 'two']) await capture.owner.write(update(name))
      await capture.owner.write(update('three'), update('four'), { kind: 'remove', table, row: second })
      await capture.owner.write({ kind: 'remove', table, row: fresh })
      await capture.owner.write({ kind: 'insert', table, rows: [changed(SIMPLE, fresh, { name: 'back' })] })
      const { told } = await capture.follow()
      capture.expectTrue('rows that came, changed, went and came back are told in their last state')
      const course = told.filter((one): one is ToldRow => isRow(one) && one.row[0] === fresh[0])
      const came = course.map(({ op, row }) => (op === 'd' ? 'gone' : String(row[2]))).join(', ')
      const wanted = [String(fresh[2]), 'one', 'two', 'three', 'four', 'gone', 'back'].join(', ')
      expect(came === wanted, () => ({ ...wrongRows(told, wanted), came }))
    },
  },
  {
    id: 'C44',
    name: 'log-key-change-is-gone-and-come',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const { table, rows } = await context.filled(6)
      const wide = await context.table({ columns: COMPOSITE.columns, primaryKey: COMPOSITE.primaryKey })
      const capture = await Capture.of(context, table, wide)
      const { owner } = capture
      owner.knows(table, rows)
      const at = '2026-03-01T00:00:00.000000Z'
      const pairs: readonly Row[] = [
        ['a', 'b:c', 1, at, 'one'],
        ['a:b', 'c', 1, at, 'two'],
        ['"', ',', 1, at, 'three'],
      ]
      await owner.write({ kind: 'insert', table: wide, rows: pairs })
      const [first = [], second = []] = rows
      const keyed = (row: Row, id: bigint) => changed(SIMPLE, row, { id })
      const move = (row: Row, id: bigint) => ({ kind: 'update', table, row, cells: { id } }) as const
      await owner.write(move(first, 70n))
      // Two rows change their keys with each other.
      await owner.write(move(second, 80n), move(keyed(first, 70n), 2n), move(keyed(second, 80n), 70n))
      const [, pair = [], marks = []] = pairs
      await owner.write({ kind: 'update', table: wide, row: pair, cells: { left: 'a', right: 'c:"d"' } })
      await owner.write({ kind: 'update', table: wide, row: marks, cells: { number: 2 } })
      const { told } = await capture.follow()
      capture.expectTrue('a row with another key is gone from the former, and there under the new one')
      const moved = told.filter((one): one is ToldRow => isRow(one) && one.from !== null)
      const came = moved.map(
        ({ from, row, schema }) => `${from?.join('|')} > ${JSON.parse(keyText(schema, row)).join('|')}`,
      )
      // Streams are told side by side, so that only each one's own order is a promise.
      const wanted = ['1 > 70', '2 > 80', '70 > 2', '80 > 70', 'c|a:b|1 > c:"d"|a|1', ',|"|1 > ,|"|2']
      const inOrder = [0, 1].flatMap((stream) => came.filter((_, index) => moved[index]?.stream === stream))
      expect(inOrder.join('\n') === wanted.join('\n'), () => ({
        ...wrongRows(told, wanted.join('; ')),
        came: inOrder.join('; ') || 'no row with _from',
      }))
    },
  },
  {
    id: 'C45',
    name: 'log-truncate-empties-its-table',
    level: 'core',
    requires: 'cdc',
    notFor: ({ capabilities: { modes } }, { log }) =>
      !modes.includes('cdc') || log === undefined || log.truncates
        ? null
        : 'the source has no statement that empties a table',
    async run(context) {
      const { table, rows } = await context.filled(6)
      const { table: other, rows: kept } = await context.filled(3)
      const capture = await Capture.of(context, table, other)
      capture.owner.knows(table, rows)
      capture.owner.knows(other, kept)
      await capture.owner.write(
        { kind: 'insert', table, rows: rowsOf(SIMPLE, 60, 3, context.random) },
        { kind: 'truncate', table },
        { kind: 'insert', table, rows: rowsOf(SIMPLE, 70, 2, context.random) },
      )
      const { told } = await capture.follow()
      capture.expectTrue('a table that was emptied holds what was written afterwards, and no other was emptied')
      expect(
        told.some(({ kind }) => kind === 'truncate'),
        () => wrongRows(told, 'a truncate'),
      )
    },
  },
  {
    id: 'C46',
    name: 'log-unchanged-values-are-said',
    level: 'core',
    requires: 'cdc',
    notFor: ({ capabilities: { modes } }, { log }) =>
      !modes.includes('cdc') || log === undefined || log.leftOut ? null : 'the log tells every value of a row',
    async run(context) {
      const table = await context.table()
      const { log } = context.fixture
      const large = (index: number) => log?.leftOut?.(index) ?? ''
      const capture = await Capture.of(context, table)
      const rows = rowsOf(SIMPLE, 1, 6, context.random).map((row, index) =>
        changed(SIMPLE, row, { name: large(index) }),
      )
      await capture.owner.write({ kind: 'insert', table, rows })
      await capture.follow()
      const [first = [], second = [], third = []] = rows
      await capture.owner.write({ kind: 'update', table, row: first, cells: { rank: 7 } })
      await capture.owner.write({ kind: 'update', table, row: second, cells: { id: 90n } })
      await capture.owner.write(
        { kind: 'update', table, row: third, cells: { name: 'short' } },
        { kind: 'update', table, row: third, cells: { rank: 8 } },
      )
      const { told } = await capture.follow()
      capture.expectTrue('values that the log leaves out are those that the row had')
      expect(
        told.some((one) => isRow(one) && one.unchanged.length > 0),
        () => wrongRows(told, 'a row whose large value was left out (fixture.log.leftOut)'),
      )
    },
  },
  {
    id: 'C47',
    name: 'log-values-are-those-of-a-read',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const types = typesOf(context, EVERY_TYPE)
      const named = types.map((type) => ({ name: `c_${type.replaceAll(/\W+/g, '_')}`, type, nullable: true }))
      const table = await context.table({ columns: [...SIMPLE.columns.slice(0, 2), ...named] })
      const capture = await Capture.of(context, table)
      const rows = extremeRows(table, context.random)
      for (let from = 0; from < rows.length; from += 20)
        await capture.owner.write({ kind: 'insert', table, rows: rows.slice(from, from + 20) })
      const { told } = await capture.follow()
      capture.expectTrue('the log carries the ends of every type as they are')
      expectSchemaOfRead(told, table, (await context.read((await context.open()).connector, table)).schema.columns)
    },
  },
  {
    id: 'C48',
    name: 'log-reject-not-drop',
    level: 'core',
    requires: 'cdc',
    notFor: ({ capabilities: { modes } }, { putUnfit }) =>
      !modes.includes('cdc') || putUnfit ? null : 'the source can hold nothing that no type carries',
    async run(context) {
      const { capture, table } = await Capture.filled(context, 4)
      await context.fixture.putUnfit?.(table, 3)
      await capture.owner.write({ kind: 'insert', table, rows: rowsOf(SIMPLE, 60, 2, context.random) })
      const { told } = await capture.follow()
      const keys = told.flatMap((one) => (one.kind === 'reject' ? [one.key?.['id'] ?? 'none'] : []))
      expect(keys.toSorted().join() === '-1,-2,-3', () => ({
        ...wrongRows(told, 'three rejects, each with the key of its row'),
        came: `rejects of ${keys.join(', ') || 'no row'}`,
      }))
      expectRows(table, capture.owner.rows(table), capture.mirror.rows(0), 'all other rows have come')
    },
  },
]

function expectSchemaOfRead(told: readonly Told[], table: SourceTable, read: SourceTable['columns']): void {
  const columns = told.find(({ kind }) => kind === 'schema')
  const texts = (all: SourceTable['columns']) => all.map(({ name, type }) => `${name} ${type}`).join(', ')
  const came = columns?.kind === 'schema' ? texts(columns.schema.columns) : 'no schema'
  expect(came === texts(read), () => ({
    what: 'the log tells a table by other columns than a read',
    expected: texts(read),
    came,
    where: `the schema of ${table.name} in connector.changes.changes`,
    why: 'rows of both lie in one table of the lake',
    remedy: 'Take the types of both from one place.',
  }))
}

export function wrongRows(told: readonly Told[], expected: string) {
  return {
    what: 'the log tells other changes than were made',
    expected,
    came: `${told.filter(isRow).length} rows, ${told.filter(({ kind }) => kind === 'truncate').length} truncates`,
    where: 'connector.changes.changes',
    why: 'the runtime knows of the source what its log tells, and no more',
    remedy: 'Tell every change of a stream, in the order of the log, after the position that was asked for.',
  }
}
