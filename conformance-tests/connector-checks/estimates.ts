/** How many rows there are, before anybody has counted them. */
import { callDeadline } from '../call-deadline.ts'
import { expect, vacuous } from '../check.ts'
import type { ConnectorContext } from '../connector-context.ts'
import type { SourceTable } from '../connector-fixture.ts'
import { rowsOf, SIMPLE } from '../shapes.ts'
import type { ConnectorCheck } from './check.ts'

/** An estimate may be old, and is off by a part: this much more than was ever written is no estimate of it. */
const FEW = 1000
const TIMES = 100

export const estimateChecks: readonly ConnectorCheck[] = [
  {
    id: 'C79',
    name: 'estimates-are-counts-of-rows',
    level: 'core',
    async run(context) {
      const { table, rows } = await context.filled(12)
      await expectEstimates(context, table, rows.length)
      await context.put(table, rowsOf(SIMPLE, 100, 60, context.random))
      await expectEstimates(context, table, rows.length + 60)
      await expectEstimates(context, await context.table(), 0)
    },
  },
]

async function expectEstimates(context: ConnectorContext, table: SourceTable, written: number): Promise<void> {
  const { connector } = await context.open()
  const most = FEW + TIMES * written
  let after: string | null = null
  let isListed = false
  do {
    const page: Awaited<ReturnType<typeof connector.discover>> = await connector.discover(
      { after, limit: 500 },
      callDeadline(),
    )
    for (const { name, estimatedRows } of page.tables) {
      const isOwn = name === table.name
      isListed ||= isOwn
      expectCount(
        estimatedRows,
        isOwn ? most : Number.MAX_SAFE_INTEGER,
        `estimatedRows of ${name}, of connector.discover`,
      )
    }
    after = page.next
  } while (after !== null)
  expect(isListed, () => vacuous('the table is in no page of discover', 'Look first at C6.'))
  for (const mode of context.plugin.capabilities.modes.filter((one) => one !== 'cdc')) {
    const first = await Array.fromAsync(context.events(connector, table, { mode }))
    const state = first.findLast((event) => event.kind === 'state')?.state ?? null
    const rest = mode === 'full' ? [] : await Array.fromAsync(context.events(connector, table, { mode, state }))
    for (const event of [...first, ...rest])
      if (event.kind === 'estimate') expectCount(event.rows, most, `the estimate of connector.read, mode ${mode}`)
  }
  await connector.close()
}

function expectCount(rows: number | null, most: number, where: string): void {
  const isCount = rows === null || (Number.isSafeInteger(rows) && rows >= 0 && rows <= most)
  expect(isCount, () => ({
    what: 'an estimate is no count of rows that there could be',
    expected: `a whole number from 0 to ${most}, or null where the source does not say`,
    came: String(rows),
    where,
    why: 'people choose by it what they read, and a plan says by it how much that is',
    remedy:
      'Give what the source estimates as a whole number; null where it has none, whichever number it says that by.',
  }))
}
