/** What is near in a log and in lists of tables: keys, captures, names, and what was sent beside what is committed. */
import type { DiscoveredTable, Row } from '@sluice/sdk'
import { callDeadline } from '../call-deadline.ts'
import { isRow } from '../change-reading.ts'
import { expect, vacuous } from '../check.ts'
import { Capture, logOf } from '../connector-capture.ts'
import { rowsOf, SIMPLE } from '../shapes.ts'
import type { ConnectorCheck } from './check.ts'

/** Texts that a collation, a normal form or a trim would take for the one before. */
const NEAR_KEYS = [
  'stra\u00dfe',
  'Stra\u00dfe',
  'strasse',
  'strasse ',
  'strass\u00e9',
  'strasse\u0301',
  'STRASSE\u0301',
  '1',
  '01',
  '1.0',
]

const NEAR_TABLES = ['near_b', 'near_B', 'Near_b', 'near_b1', 'near_b_', 'near', 'near_c']

export const logNearChecks: readonly ConnectorCheck[] = [
  {
    id: 'C76',
    name: 'log-key-changes-to-near-keys',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const columns = SIMPLE.columns.map((column) =>
        column.name === 'id' ? { ...column, type: 'string' as const } : column,
      )
      const table = await context.table({ columns })
      const capture = await Capture.of(context, table)
      const { owner } = capture
      const [plain = []] = rowsOf(SIMPLE, 1, 1, context.random)
      const rowOf = (id: string, name = id): Row => plain.with(0, id).with(2, name)
      const [first = ''] = NEAR_KEYS
      await owner.write({ kind: 'insert', table, rows: [rowOf(first), rowOf('beside')] })
      for (const [index, next] of NEAR_KEYS.slice(1).entries()) {
        const row = rowOf(NEAR_KEYS[index] ?? '')
        await owner.write({ kind: 'update', table, row, cells: { id: next, rank: index } })
      }
      await capture.follow()
      capture.expectTrue('a key that changes a little is another key, and its former row is gone')
    },
  },
  {
    id: 'C77',
    name: 'log-is-kept-for-each-capture-up-to-what-it-acknowledged',
    level: 'core',
    requires: 'cdc',
    async run(context) {
      const { capture, owner, table } = await Capture.filled(context, 2)
      const before = capture.position
      await owner.write({ kind: 'insert', table, rows: rowsOf(SIMPLE, 30, 3, context.random) })
      const middle = (await capture.kept(before)).end
      await owner.write({ kind: 'insert', table, rows: rowsOf(SIMPLE, 40, 3, context.random) })
      const { name, streams, signal } = capture
      // As a run has it: all is sent on one connection before the first part of it is committed and acknowledged.
      await capture.with(async (source) => {
        for await (const _ of source.changes({ capture: name, after: before, streams, signal }));
        await source.ack({ capture: name, position: middle, signal })
      })
      const rest = await capture.kept(middle)
      expect(rest.told.filter(isRow).length === 3, () => ({
        what: 'the source has let go of what was sent and not acknowledged',
        expected: 'the rows behind the position of ack',
        came: `${rest.told.filter(isRow).length} rows`,
        where: 'connector.changes.ack',
        why: 'what was sent may be lost before it is committed, and then comes from nowhere',
        remedy: 'Let go of the position that ack names, and of nothing else.',
      }))
      const near = [`${name}_`, name.replace('_', 'x'), name.slice(0, -1)].filter((one) =>
        /^[a-z0-9_]{1,40}$/.test(one),
      )
      await capture.with(async (source) => {
        for (const one of near) await source.prepare({ capture: one, streams, signal })
      })
      const made = await logOf(context).places()
      context.atEnd(() =>
        capture.with(async (source) => {
          for (const one of near) await source.release({ capture: one, signal: callDeadline() })
        }),
      )
      await capture.release()
      const left = await logOf(context).places()
      const own = made.length - left.length
      const perCapture = made.length / (near.length + 1)
      expect(near.length > 0 && made.length > near.length, () => vacuous('captures of near names have no places'))
      expect(own === perCapture, () => ({
        what: 'the release of a capture takes other captures with it',
        expected: `${perCapture} places less`,
        came: `${own} places less, of ${made.join(', ')}`,
        where: 'connector.changes.release',
        why: 'another connection reads by a capture whose name is nearly the same',
        remedy: 'Compare names as they are: in LIKE an underscore stands for any character.',
      }))
    },
  },
  {
    id: 'C78',
    name: 'discover-pages-over-near-names',
    level: 'core',
    async run(context) {
      // A source that has no such names has fewer to show.
      for (const name of NEAR_TABLES) await context.table({ name }).catch(() => undefined)
      const { connector } = await context.open()
      const signal = callDeadline()
      const whole = (await connector.discover({ after: null, limit: 1000 }, signal)).tables
      for (const limit of [1, 2, 3]) {
        const paged: DiscoveredTable[] = []
        let after: string | null = null
        do {
          const page = await connector.discover({ after, limit }, signal)
          paged.push(...page.tables)
          after = page.next
        } while (after !== null && paged.length <= whole.length)
        const names = (tables: readonly DiscoveredTable[]) =>
          tables.map(({ schema, name }) => `${schema}.${name}`).join(', ')
        expect(names(whole) === names(paged), () => ({
          what: `pages of ${limit} list other tables than one page of all`,
          expected: names(whole),
          came: names(paged),
          where: 'connector.discover',
          why: 'a table that falls between two pages can never be chosen',
          remedy: 'Order and go on by the same comparison, byte by byte, and by the schema first.',
        }))
      }
      expect(whole.length > 3, () => vacuous('there are too few tables for pages'))
    },
  },
]
