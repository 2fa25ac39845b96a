/** What must never be told, by whatever a connector gives back. */
import { callDeadline } from '../call-deadline.ts'
import { expect } from '../check.ts'
import { Capture, markedIn } from '../connector-capture.ts'
import type { ConnectorContext } from '../connector-context.ts'
import type { SourceTable } from '../connector-fixture.ts'
import { secretNames, secretsOf } from '../overheard.ts'
import { rowsOf, SIMPLE } from '../shapes.ts'
import type { ConnectorCheck } from './check.ts'

export const secretChecks: readonly ConnectorCheck[] = [
  {
    id: 'C5',
    name: 'secret-redaction',
    level: 'core',
    notFor: ({ settingsSchema }) =>
      secretNames(settingsSchema).length > 0 ? null : 'its settings have nothing that is secret',
    /** Every hook is called, with settings that work and settings that fail; whoever listens to the context hears what comes. */
    async run(context) {
      const { table } = await context.filled()
      const { fixture, plugin } = context
      const given = [fixture.settings, ...Object.values(fixture.broken)]
      const secrets = given.flatMap((settings) => secretsOf(plugin.settingsSchema, settings))
      expect(secrets.length > 0, () => ({
        what: 'the settings of the fixture hold no secret of more than five letters',
        expected: `a value for ${secretNames(plugin.settingsSchema).join(', ')}, which the schema calls secret`,
        where: 'settings of the fixture in conformance.ts',
        why: 'whether a secret is told can be seen only where there is one',
        remedy: 'Start the source with a password of its own.',
      }))
      for (const settings of given) await askEverything(context, table, settings)
      if (plugin.capabilities.modes.includes('cdc') && fixture.log) await followLog(context, table)
    },
  },
]

async function askEverything(context: ConnectorContext, table: SourceTable, settings: unknown): Promise<void> {
  const { connector } = await context.open(settings)
  const { changes } = connector
  const signal = callDeadline()
  const streams = [{ schema: context.fixture.schema, table: table.name, primaryKey: table.primaryKey }]
  const lost = { lineage: 'no lineage', order: '0' }
  const capture = 'secrets_of_nobody'
  await heard(() => connector.check(signal))
  await heard(() => connector.discover({ after: null, limit: 1 }, signal))
  await heard(() => connector.discover({ after: '\0nonsense', limit: 1 }, signal))
  await heard(() => context.read(connector, { ...table, name: 'no_such_table' }))
  for (const mode of context.plugin.capabilities.modes.filter((one) => one !== 'cdc'))
    for (const parts of [{}, markedIn(table), { columns: ['no_such_column'] }])
      await heard(() => context.read(connector, table, { mode, ...parts }))
  await heard(() => connector.ack(streams[0] as (typeof streams)[number], { version: 1, value: {} }))
  if (changes !== undefined) {
    await heard(async () => changes.refusals?.({ streams, signal }))
    await heard(() => changes.health({ capture, saved: lost, signal }))
    await heard(() => Array.fromAsync(changes.changes({ capture, after: lost, streams, signal })))
    await heard(async () => changes.awaitChanges?.({ capture, after: lost, streams, waitMs: 1, signal }))
    await heard(() => changes.ack({ capture, position: lost, signal }))
    await heard(() => changes.release({ capture, signal }))
  }
  await connector.close()
}

/** A log that has something to tell, with a table that it refuses beside it. */
async function followLog(context: ConnectorContext, table: SourceTable): Promise<void> {
  const capture = await Capture.of(context, table)
  await capture.owner.write({ kind: 'insert', table, rows: rowsOf(SIMPLE, 500, 3, context.random) })
  await context.fixture.putUnfit?.(table, 1)
  const { name, streams, signal } = capture
  const wrong = [{ schema: context.fixture.schema, table: 'no_such_table', primaryKey: ['id'] }]
  await capture.with(async (source) => {
    await source.refusals?.({ streams: [...streams, ...wrong], signal })
    await source.prepare({ capture: name, streams: [...streams, ...wrong], signal })
    await source.awaitChanges?.({ capture: name, after: capture.position, streams, waitMs: 1, signal })
  })
  await capture.follow()
  await capture.health()
  await capture.ack()
  await capture.with(async (source) =>
    source.awaitChanges?.({ capture: name, after: capture.position, streams, waitMs: 1, signal }),
  )
}

/** What it throws is heard as what it gives. */
async function heard(run: () => Promise<unknown>): Promise<void> {
  try {
    await run()
  } catch (error) {
    if (!(error instanceof Error)) throw error
  }
}
