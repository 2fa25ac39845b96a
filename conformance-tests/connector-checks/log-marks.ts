/** Rows of a log that come without a value which nothing can carry, and say so. */
import type { Row } from '@sluice/sdk'
import { isRow, type Told } from '../change-reading.ts'
import { expect, vacuous } from '../check.ts'
import { keyText } from '../compare.ts'
import { Capture, logOf, markedIn } from '../connector-capture.ts'
import type { SourceTable } from '../connector-fixture.ts'
import { NothingToTry } from '../overheard.ts'
import { rowsOf, WIDER } from '../shapes.ts'
import type { SourceOwner } from '../source-owner.ts'
import type { ConnectorCheck } from './check.ts'
import { wrongRows } from './log-rows.ts'

const STEPS = 24

export const logMarkChecks: readonly ConnectorCheck[] = [
  {
    id: 'C73',
    name: 'log-marks-name-what-rows-lack',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const { capture, owner, table } = await Capture.filled(context, 8)
      const probe = await logOf(context).begin()
      await probe.rollback()
      if (probe.spoil === undefined)
        throw new NothingToTry('no column of the source can hold what nothing can carry (spoil)')
      const plain = capture.position
      capture.marks = true
      const spoilt = new Set<string>()
      await act(capture, table, spoilt)
      const before = await capture.follow()
      const isHeeded = before.told.some((one) => one.kind === 'schema' && one.marks === true)
      if (isHeeded) await expectMarks(capture, table)
      // The same in another shape, with what was lacking still lacking.
      const wider = { ...table, columns: WIDER.columns }
      await context.alter(table, wider)
      widen(owner, table, wider)
      capture.tables = [wider]
      await act(capture, wider, spoilt)
      await capture.follow()
      expect(spoilt.size > 0, () => vacuous('no row was given a value that nothing can carry'))
      if (isHeeded) await expectMarks(capture, wider)
      const { told } = await capture.kept(plain)
      capture.marks = false
      await expectNoneUnasked(capture, plain, told, isHeeded)
    },
  },
]

/** Rows are made, changed, spoilt, mended, moved and removed, some of them several times in one transaction. */
async function act({ owner, context: { random } }: Capture, table: SourceTable, spoilt: Set<string>): Promise<void> {
  const schema = { columns: table.columns, primaryKey: table.primaryKey }
  let next = 100 + spoilt.size * 100
  for (let step = 0; step < STEPS; step += 1) {
    const transaction = await owner.begin()
    const touched = new Set<string>()
    for (let part = 0; part < 2; part += 1) {
      const free = owner.rows(table).filter((row) => !touched.has(keyText(table, row)))
      const lacking = free.filter((row) => owner.lacking(table).has(keyText(table, row)))
      const row = random.pick(step % 3 === 2 && lacking.length > 0 ? lacking : free)
      touched.add(keyText(table, row))
      const kind = random.pick(['spoil', 'mend', 'touch', 'move', 'insert', 'remove', 'spoil', 'touch'] as const)
      if (kind === 'spoil') {
        await transaction.spoil(table, row)
        spoilt.add(keyText(table, row))
      } else if (kind === 'insert')
        await transaction.write({ kind, table, rows: rowsOf(schema, (next += 1), 1, random) })
      else if (kind === 'remove') {
        if (free.length > 4) await transaction.write({ kind, table, row })
      } else await transaction.write({ kind: 'update', table, row, cells: cellsOf(kind, (next += 1)) })
    }
    await transaction.commit()
  }
}

function cellsOf(kind: 'mend' | 'touch' | 'move', number: number): Readonly<Record<string, Row[number]>> {
  if (kind === 'mend') return { amount: `${number}.25` }
  return kind === 'move' ? { id: BigInt(number) } : { name: `touched ${number}` }
}

function widen(owner: SourceOwner, table: SourceTable, wider: SourceTable): void {
  const lacking = owner.lacking(table)
  owner.knows(
    wider,
    owner.rows(table).map((row) => [...row, null]),
    lacking,
  )
}

/** What has come is the table as it is, and each row lacks what its owner has spoilt. */
async function expectMarks(capture: Capture, table: SourceTable): Promise<void> {
  capture.expectTrue('a row with a value that nothing can carry comes with the others, where it is asked for so')
  const wanted = [...capture.owner.lacking(table)].map(([key, column]) => `${key} lacks ${column}`).sort()
  const came = [...capture.mirror.lacking(0)].map(([key, names]) => `${key} lacks ${names.join(', ')}`).sort()
  expect(wanted.join('\n') === came.join('\n'), () => ({
    what: 'the marks of a log name other columns than rows lack',
    expected: wanted.join('; ') || 'no row lacks anything',
    came: came.join('; ') || 'no mark',
    where: 'connector.changes.changes, the last cell of rows of a stream with marks',
    why: 'products that use one of these columns are made without the row, and all others with it',
    remedy:
      'Name what the row that is told lacks: no more once a value has come, and in every row that is told before.',
  }))
  const { connector } = await capture.context.open()
  const { marks } = await capture.context.read(connector, table, markedIn(table))
  await connector.close()
  expect(marks !== null, () => ({
    what: 'the log of a table has marks and a read of it has none',
    expected: 'marks of a read that asks for them by marked',
    came: 'none',
    where: 'connector.read',
    why: 'what a row lacks when its table is read whole would be taken for null',
    remedy: 'Say marks with the schema of such a read too.',
  }))
}

async function expectNoneUnasked(
  capture: Capture,
  from: Capture['position'],
  marked: readonly Told[],
  isHeeded: boolean,
): Promise<void> {
  const { told } = await capture.read(from)
  const carried = told.filter((one) => one.kind === 'reject' && one.carried === true)
  expect(carried.length === 0, () => ({
    ...wrongRows(told, 'rejects of which the row has not come'),
    came: `${carried.length} rejects that are carried`,
  }))
  const count = (all: readonly Told[]) => all.filter((one) => one.kind === 'reject').length
  expect(!isHeeded || count(marked) === count(told), () => ({
    ...wrongRows(told, `${count(marked)} rejects, whether rows come without the value or not at all`),
    came: `${count(told)} rejects`,
  }))
  const rows = (all: readonly Told[]) => all.filter((one) => isRow(one) && one.op === 'u').length
  expect(!isHeeded || rows(marked) - rows(told) === count(told), () => ({
    ...wrongRows(told, 'all rows but those that are rejected'),
    came: `${rows(told)} rows and ${count(told)} rejects, of ${rows(marked)}`,
  }))
}
