/** Places in a log: where transactions end, where to read on, what is kept, and what is said of what is not. */
import { type ChangePosition, isSluiceError } from '@sluice/sdk'
import { isRow, type Told } from '../change-reading.ts'
import { expect, expectRefusal } from '../check.ts'
import { Capture, logOf } from '../connector-capture.ts'
import { type ConnectorContext, expectRows } from '../connector-context.ts'
import type { SourceTable } from '../connector-fixture.ts'
import { rowsOf, SIMPLE } from '../shapes.ts'
import type { ConnectorCheck } from './check.ts'
import { wrongRows } from './log-rows.ts'

export const logPlaceChecks: readonly ConnectorCheck[] = [
  {
    id: 'C49',
    name: 'log-transactions-lie-whole-between-checkpoints',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const capture = await Capture.of(context, await context.table(), await context.table())
      await writeInterleaved(capture)
      const { told } = await capture.follow()
      capture.expectTrue('all of each transaction has come')
      const open = new Map<string, number>()
      for (const one of told) {
        if (isRow(one)) open.set(String(one.row[2]), (open.get(String(one.row[2])) ?? 0) + 1)
        if (one.kind !== 'checkpoint') continue
        const halves = [...open].filter(([, count]) => count !== OF_TRANSACTION)
        expect(halves.length === 0, () => ({
          ...wrongRows(told, `${OF_TRANSACTION} rows of each transaction before the checkpoint after its first`),
          came: halves.map(([name, count]) => `${count} rows of ${name}`).join(', '),
          why: 'what stands before a checkpoint is committed, and half of a transaction was never true',
        }))
      }
    },
  },
  {
    id: 'C50',
    name: 'log-never-tells-what-was-rolled-back',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const { capture, owner, table, rows } = await Capture.filled(context, 4)
      const insert = (from: number) =>
        ({ kind: 'insert', table, rows: rowsOf(SIMPLE, from, 3, context.random) }) as const
      const [first = []] = rows
      const undone = await owner.begin()
      await undone.write(insert(500))
      await undone.write({ kind: 'remove', table, row: first })
      await undone.rollback()
      const parts = await owner.begin()
      await parts.write(insert(10))
      if ((await hasParts(context)) === true) {
        await parts.mark()
        await parts.write(insert(600))
        await parts.undo()
      }
      await parts.write(insert(20))
      await parts.commit()
      const { told } = await capture.follow()
      capture.expectTrue('what was rolled back did not happen')
      const wrong = told.filter((one) => isRow(one) && (one.op === 'd' || Number(one.row[0]) >= 500))
      expect(wrong.length === 0, () => ({
        ...wrongRows(told, 'no row of what was rolled back'),
        came: `${wrong.length} of its rows`,
      }))
    },
  },
  {
    id: 'C51',
    name: 'log-is-read-on-from-every-checkpoint',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const capture = await Capture.of(context, await context.table(), await context.table())
      const begin = capture.position
      await writeInterleaved(capture)
      const whole = await capture.kept(begin)
      await writeInterleaved(capture, 10)
      const { told } = await capture.kept(begin)
      expectSame(whole.told, told, 'what was read once is told again before what came since', true)
      for (const [index, one] of told.entries()) {
        if (one.kind !== 'checkpoint') continue
        const rest = await capture.kept(one.position)
        expectSame(told.slice(index), rest.told, `after ${one.position.order} all that follows comes, and no more`)
      }
    },
  },
  {
    id: 'C52',
    name: 'log-ack-lets-go-and-loses-nothing',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const capture = await Capture.of(context, await context.table(), await context.table())
      await writeInterleaved(capture)
      const middle = (await capture.kept(capture.position)).end
      await writeInterleaved(capture, 10)
      const begin = capture.position
      const all = await capture.kept(begin)
      const again = await capture.kept(begin)
      expectSame(all.told, again.told, 'what was not acknowledged comes again')
      await capture.ack(middle)
      const rest = await capture.kept(middle)
      await capture.ack(middle)
      expectSame(rest.told, (await capture.kept(middle)).told, 'ack goes exactly to its position, and repeats')
      expect(rest.told.filter(isRow).length === OF_TRANSACTION * TRANSACTIONS, () =>
        wrongRows(rest.told, 'what came after the position that was acknowledged'),
      )
      const older = await capture.read(begin).catch((error: unknown) => error)
      if (!isSluiceError(older, 'CONFLICT')) {
        if (older instanceof Error) throw older
        expectSame(all.told, (older as typeof all).told, 'a log that begins later than it was asked for is no log')
      }
      await expectRetained(capture, middle)
    },
  },
  {
    id: 'C53',
    name: 'log-lost-position-is-said',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const { table, rows } = await context.filled(4)
      const capture = await Capture.of(context, table)
      const saved = capture.position
      const other = await Capture.of(context, table)
      await expectLost(capture, { ...saved, lineage: `${saved.lineage}0` }, 'a position of another lineage')
      await expectLost(capture, { ...saved, lineage: other.position.lineage }, 'a position of another capture')
      const anew = await capture.prepare({ anew: true })
      expect(anew.position.lineage !== saved.lineage, () =>
        wrongPlace('a log that was begun anew has the same lineage'),
      )
      await expectLost(capture, saved, 'a position of before the log was begun anew')
      await capture.readWhole()
      capture.owner.knows(table, rows)
      await capture.owner.write({ kind: 'insert', table, rows: rowsOf(SIMPLE, 50, 2, context.random) })
      await capture.follow()
      capture.expectTrue('the log that was begun anew is read on')
      await logOf(context).lose()
      await expectLost(capture, capture.position, 'a position whose log is gone')
      const health = await capture.health()
      expect(health.state === 'lost' && (health.remedy ?? '') !== '', () =>
        wrongPlace('health does not say that the log is lost, and what to do', `lost, with a remedy`, health.state),
      )
      await capture.prepare({ anew: true })
      await capture.readWhole()
      await capture.owner.write({ kind: 'insert', table, rows: rowsOf(SIMPLE, 60, 2, context.random) })
      await capture.follow()
      capture.expectTrue('after the loss the tables are read whole, and the log goes on')
    },
  },
  {
    id: 'C54',
    name: 'log-prepare-makes-one-place',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const [one, other] = [await context.table(), await context.table()]
      const before = await logOf(context).places()
      const capture = Capture.begun(context, one)
      const prepared = [...(await Promise.all([capture.prepare(), capture.prepare()])), await capture.prepare()]
      const lineages = new Set(prepared.map(({ position }) => position.lineage))
      const once = await logOf(context).places()
      expect(lineages.size === 1 && once.length > before.length, () =>
        wrongPlace('prepare, asked three times, gave several places', 'one lineage', [...lineages].join(', ')),
      )
      await capture.readWhole()
      await capture.owner.write({ kind: 'insert', table: one, rows: rowsOf(SIMPLE, 1, 3, context.random) })
      capture.tables = [one, other]
      await capture.prepare()
      const after = await logOf(context).places()
      expect(after.length === once.length, () =>
        wrongPlace('prepare with one table more made another place', once.join(', '), after.join(', ')),
      )
      await capture.readWhole([1])
      await capture.owner.write({ kind: 'insert', table: other, rows: rowsOf(SIMPLE, 1, 3, context.random) })
      await capture.follow()
      capture.expectTrue('a table that was added later is told, and what was not read yet is not lost by it')
    },
  },
  {
    id: 'C55',
    name: 'log-release-leaves-nothing',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const { table } = await context.filled(4)
      const before = (await logOf(context).places()).toSorted().join(', ')
      const capture = await Capture.of(context, table)
      expect((await logOf(context).places()).toSorted().join(', ') !== before, () =>
        wrongPlace('prepare has made nothing at the source', 'a place (fixture.log.places)', before || 'none'),
      )
      const { position } = capture
      await capture.release()
      await capture.release()
      const left = (await logOf(context).places()).toSorted().join(', ')
      expect(left === before, () => wrongPlace('release leaves something at the source', before || 'nothing', left))
      await expectLost(capture, position, 'a position of a capture that was released')
    },
  },
  {
    id: 'C56',
    name: 'log-captures-do-not-meet',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const { table, rows } = await context.filled(4)
      const [one, other] = [await Capture.of(context, table), await Capture.of(context, table)]
      for (const { owner } of [one, other]) owner.knows(table, rows)
      const more = rowsOf(SIMPLE, 50, 4, context.random)
      await one.owner.write({ kind: 'insert', table, rows: more })
      await one.follow()
      one.expectTrue('one of two captures is told')
      await one.ack()
      other.owner.knows(table, [...rows, ...more])
      await other.follow()
      other.expectTrue('what one capture has acknowledged is not gone for the other')
      await one.release()
      const last = rowsOf(SIMPLE, 80, 2, context.random)
      await other.owner.write({ kind: 'insert', table, rows: last })
      await other.follow()
      expectRows(
        table,
        [...rows, ...more, ...last],
        other.mirror.rows(0),
        'the release of one leaves the other as it is',
      )
    },
  },
]

const TRANSACTIONS = 3
/** In each of two tables; more than an event of the reference has. */
const ROWS = 7
const OF_TRANSACTION = 2 * ROWS

/** Transactions that are open side by side, each with rows of its own name in both tables. */
async function writeInterleaved({ owner, tables, context }: Capture, from = 0): Promise<void> {
  const open = []
  for (let number = 0; number < TRANSACTIONS; number += 1) open.push(await owner.begin())
  const rowsFor = (number: number) =>
    rowsOf(SIMPLE, 100 * (from + number + 1), ROWS, context.random).map((row) => row.with(2, `t${from + number}`))
  for (const part of [0, 1, 2]) {
    for (const [number, transaction] of open.entries()) {
      for (const table of tables as readonly SourceTable[]) {
        const rows = rowsFor(number).slice(part * 3, part * 3 + 3)
        await transaction.write({ kind: 'insert', table, rows })
      }
    }
  }
  for (const transaction of open.toReversed()) await transaction.commit()
}

async function hasParts(context: ConnectorContext): Promise<boolean> {
  const transaction = await logOf(context).begin()
  await transaction.rollback()
  return transaction.mark !== undefined && transaction.undo !== undefined
}

/** Of each stream the same changes in the same order; checkpoints may stand elsewhere. */
function expectSame(expected: readonly Told[], told: readonly Told[], why: string, isBeginning = false): void {
  const wanted = textsOf(expected)
  const came = textsOf(told)
  for (const [stream, texts] of wanted) {
    const given = (came.get(stream) ?? []).slice(0, isBeginning ? texts.length : undefined)
    const at = [...texts, ...given].findIndex((_, index) => texts[index] !== given[index])
    expect(at === -1, () => ({ ...wrongRows(told, texts[at] ?? 'no more'), came: given[at] ?? 'no more', why }))
  }
  const others = [...came.keys()].filter((stream) => !wanted.has(stream))
  expect(isBeginning || others.length === 0, () => ({ ...wrongRows(told, 'nothing of this table'), why }))
}

function textsOf(told: readonly Told[]): Map<number, string[]> {
  const texts = new Map<number, string[]>()
  for (const one of told) {
    if (one.kind === 'checkpoint' || one.kind === 'schema') continue
    const text = isRow(one)
      ? [one.op, one.seq, one.unchanged, one.from, ...one.row].join(' ')
      : `${one.kind} ${one.seq}`
    texts.set(one.stream, [...(texts.get(one.stream) ?? []), text])
  }
  return texts
}

async function expectRetained(capture: Capture, saved: ChangePosition): Promise<void> {
  const grown = await logOf(capture.context).traffic()
  const before = await capture.health(saved)
  if (before.retainedBytes === null) return
  expect(before.retainedBytes >= grown / 2, () =>
    wrongPlace('health does not say what the source keeps', `about ${grown} bytes`, `${before.retainedBytes} bytes`),
  )
  const { end } = await capture.kept(saved)
  await capture.ack(end)
  const after = await capture.health(end)
  expect((after.retainedBytes ?? 0) < Math.max(1, before.retainedBytes / 2), () =>
    wrongPlace(
      'what was acknowledged is kept',
      `less than half of ${before.retainedBytes} bytes`,
      `${after.retainedBytes} bytes`,
    ),
  )
}

async function expectLost(capture: Capture, position: ChangePosition, tried: string): Promise<void> {
  await expectRefusal(
    {
      kind: 'CONFLICT',
      codes: ['position_lost'],
      tried,
      where: 'connector.changes.changes, request.after',
      why: 'a log that begins later in silence leaves out changes that nobody ever sees',
    },
    () => capture.read(position),
  )
}

function wrongPlace(what: string, expected = 'as ChangeSource has it', came = 'otherwise') {
  return {
    what,
    expected,
    came,
    where: 'connector.changes',
    why: 'the source keeps its log for one place of a capture, and nothing else',
    remedy: 'Compare what is kept at the source with what ChangeSource says.',
  }
}
