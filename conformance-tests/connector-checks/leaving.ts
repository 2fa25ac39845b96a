/**
 * Calls whose caller leaves in the middle. Where a call asks the host for an address, or the source for an answer, it is kept
 * waiting: nothing but the signal can end it then, whatever the machine is busy with.
 */
import { type ChangeSource, isSluiceError } from '@sluice/sdk'
import { expect, vacuous } from '../check.ts'
import { Capture, sourceOf } from '../connector-capture.ts'
import type { ConnectorContext } from '../connector-context.ts'
import type { SourceFixture } from '../connector-fixture.ts'
import { Hold } from '../connector-host.ts'
import type { ConnectorCheck } from './check.ts'
import { LEFT_MS } from './log-waiting.ts'
import { expectNoSessions } from './reading.ts'

/** What keeps a call waiting. */
interface Kept {
  readonly by: string
  /** Of the host that the connector is opened with. */
  readonly hold?: Hold
  readonly reached: Promise<void>
  release(): Promise<void>
}

type Opened = Awaited<ReturnType<ConnectorContext['open']>>['connector']
type Calls = Readonly<Record<string, (connector: Opened, signal: AbortSignal) => Promise<unknown> | null>>

const ALWAYS_OPEN = 'the source has no address to ask for, and nothing keeps it from answering (stall of the fixture)'
const cannotBeKept = ({ steps, stall }: SourceFixture) =>
  steps !== undefined && !steps.includes('dns') && stall === undefined ? ALWAYS_OPEN : null

export const leavingChecks: readonly ConnectorCheck[] = [
  {
    id: 'C80',
    name: 'calls-end-in-their-middle-with-their-caller',
    level: 'core',
    notFor: (_, fixture) => cannotBeKept(fixture),
    async run(context) {
      const { table } = await context.filled(4)
      const calls: Calls = {
        check: (connector, signal) => connector.check(signal),
        discover: (connector, signal) => connector.discover({ after: null, limit: 5 }, signal),
        read: (connector, signal) => Array.fromAsync(context.events(connector, table, { signal })),
      }
      await expectLeft(context, calls)
    },
  },
  {
    id: 'C81',
    name: 'calls-of-the-log-end-in-their-middle-with-their-caller',
    level: 'core',
    requires: 'cdc',
    notFor: ({ capabilities: { modes } }, fixture) => (modes.includes('cdc') ? cannotBeKept(fixture) : null),
    async run(context) {
      const { capture, table } = await Capture.filled(context, 4)
      await expectLeft(context, callsOfLog(capture))
      await capture.owner.write({ kind: 'remove', table, row: capture.owner.rows(table)[0] ?? [] })
      await capture.follow()
      capture.expectTrue('calls that were ended have changed nothing')
    },
  },
]

function callsOfLog({ name: capture, streams, position }: Capture): Calls {
  const of =
    (call: (source: ChangeSource, signal: AbortSignal) => Promise<unknown> | undefined) =>
    (connector: Opened, signal: AbortSignal) =>
      call(sourceOf(connector), signal) ?? null
  return {
    refusals: of((source, signal) => source.refusals?.({ streams, signal })),
    prepare: of((source, signal) => source.prepare({ capture, streams, signal })),
    changes: of((source, signal) => Array.fromAsync(source.changes({ capture, after: position, streams, signal }))),
    awaitChanges: of((source, signal) =>
      source.awaitChanges?.({ capture, after: position, streams, waitMs: 3_600_000, signal }),
    ),
    ack: of((source, signal) => source.ack({ capture, position, signal })),
    health: of((source, signal) => source.health({ capture, saved: position, signal })),
    release: of((source, signal) => source.release({ capture, signal })),
  }
}

/** Every call, kept waiting by whatever can. */
async function expectLeft(context: ConnectorContext, calls: Calls): Promise<void> {
  let kept = 0
  const { stall } = context.fixture
  for (const keep of [byHost, ...(stall ? [() => bySource(stall)] : [])])
    for (const [name, call] of Object.entries(calls)) if (await wasKept(context, keep, name, call)) kept += 1
  expect(kept > 0, () =>
    vacuous('no call has asked for an address, or for an answer', 'Say in steps which the source has.'),
  )
  await expectNoSessions(context)
}

function byHost(): Promise<Kept> {
  const hold = new Hold()
  return Promise.resolve({
    ...{ by: 'the host for an address', hold, reached: hold.reached },
    release: async () => hold.release(),
  })
}

async function bySource(stall: NonNullable<SourceFixture['stall']>): Promise<Kept> {
  return { by: 'the source for an answer', ...(await stall()) }
}

async function wasKept(
  context: ConnectorContext,
  keep: () => Promise<Kept>,
  name: string,
  call: Calls[string],
): Promise<boolean> {
  const { by, hold, reached, release } = await keep()
  const leave = new AbortController()
  const { connector } = await context.open(undefined, hold ? { hold } : {})
  try {
    const made = call(connector, leave.signal)
    if (made === null) return false
    const ended = made.catch((error: unknown) => error)
    const isKept = await Promise.race([reached.then(() => true), ended.then(() => false)])
    if (!isKept) return false
    leave.abort()
    const outcome = await orLate(ended)
    const isEnded = isSluiceError(outcome, 'TRANSIENT') || (name === 'check' && saysNo(outcome))
    expect(isEnded, () => ({
      what: `${name} does not end with its caller while it asks ${by}`,
      expected: 'a SluiceError of kind TRANSIENT as soon as the signal is aborted',
      came: outcome === LATE ? 'a call that goes on' : outcome instanceof Error ? String(outcome) : 'an answer',
      where: `connector${name in { check: 0, discover: 0, read: 0 } ? '' : '.changes'}.${name}`,
      why: 'who asked may leave at any moment, and what goes on for nobody holds sessions at the source and a place in the runtime',
      remedy: 'Hand the signal of the call to whatever waits: resolve, connections, questions, timers.',
    }))
    return true
  } finally {
    await release()
    await connector.close()
  }
}

const saysNo = (outcome: unknown) => (outcome as { readonly ok?: unknown } | null)?.ok === false

const LATE = Symbol('late')

async function orLate(ended: Promise<unknown>): Promise<unknown> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise((resolve) => (timer = setTimeout(() => resolve(LATE), LEFT_MS)))
  try {
    return await Promise.race([ended, late])
  } finally {
    clearTimeout(timer)
  }
}
