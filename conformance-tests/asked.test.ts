/** A check that has tried nothing never passes: it says why there is nothing to try, or it fails. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ConnectorPlugin } from '@sluice/sdk'
import type { ConnectorCheck } from './connector-checks/check.ts'
import type { SourceFixture } from './connector-fixture.ts'
import { runConnectorSuite } from './connector-suite.ts'
import type { LoggedSource, SourceTransaction } from './log-fixture.ts'
import { NothingToTry } from './overheard.ts'
import { start } from './reference-connector/conformance.ts'
import reference from './reference-connector/index.ts'

type Plugin = typeof reference

const run = (fixture: Partial<SourceFixture> | null, checks?: readonly ConnectorCheck[], plugin: Plugin = reference) =>
  runConnectorSuite({
    plugin,
    start: async () => (fixture === null ? start() : without(await start(), fixture)),
    level: 'core',
    ...(checks ? { checks } : {}),
  })

/** Undefined parts are taken away. */
function without(whole: SourceFixture, parts: Partial<SourceFixture>): SourceFixture {
  return Object.fromEntries(
    Object.entries({ ...whole, ...parts }).filter(([, value]) => value !== undefined),
  ) as unknown as SourceFixture
}

const check = (name: string, body: ConnectorCheck['run']): ConnectorCheck => ({
  ...{ id: 'C9999', name, level: 'core' },
  run: body,
})

test('a check that asks the connector nothing, beside what it begins with, fails', async () => {
  const idle = [
    check('does-nothing', async () => undefined),
    check('fills-a-table', async (context) => void (await context.filled())),
    check('opens-and-closes', async (context) => {
      const { connector } = await context.open()
      await connector.close()
    }),
    check(
      'looks-for-a-hook',
      async (context) => void ((await context.open()).connector.changes?.awaitChanges === null),
    ),
  ]
  for (const { name, status, error } of await run(null, idle)) {
    assert.equal(status, 'failed', name)
    assert.match(String(error), /has asked the connector nothing/)
  }
  const [asking] = await run(null, [
    check('reads', async (context) => {
      const { table } = await context.filled()
      await context.read((await context.open()).connector, table)
    }),
  ])
  assert.equal(asking?.status, 'passed')
})

test('a check that finds nothing to try says why, and one that has failed before that has failed', async () => {
  const nothing = async () => {
    throw new NothingToTry('the source has no such thing')
  }
  const [said, failed] = await run(null, [
    check('nothing', nothing),
    check('leaks', async (context) => {
      await context.filled()
      context.listener.hear('somewhere', 'open sesame 51c9')
      await nothing()
    }),
  ])
  assert.deepEqual([said?.status, said?.reason], ['not_applicable', 'the source has no such thing'])
  assert.equal(failed?.status, 'failed')
})

/** What a fixture need not have, and the checks that say so where it has not. */
const LEFT_OUT: readonly (readonly [string, readonly (keyof SourceFixture)[], readonly string[]])[] = [
  ['what befalls a source', ['refuse', 'stall', 'hold', 'future', 'breakNetwork'], ['C31']],
  ['rows that a source alone can make', ['expected', 'putUnfit', 'putWithout'], ['C35', 'C48', 'C67', 'C71', 'C84']],
  ['rows that go', ['remove'], ['C28']],
  ['columns that change', ['alter'], ['C26', 'C57', 'C73']],
]

const saidOf = (results: Awaited<ReturnType<typeof run>>) => {
  const failed = results.filter(({ status }) => status === 'failed')
  assert.deepEqual(
    failed.map(({ id, error }) => `${id} ${String(error)}`),
    [],
  )
  const not = results.filter(({ status }) => status === 'not_applicable')
  assert.ok(not.every(({ reason }) => (reason ?? '').length > 10))
  return not.map(({ id }) => id)
}

for (const [what, parts, said] of LEFT_OUT) {
  test(`a fixture without ${what}: what cannot be tried is said not to apply`, async () => {
    const less = Object.fromEntries(parts.map((part) => [part, undefined])) as Partial<SourceFixture>
    assert.deepEqual(saidOf(await run(less)), said)
  })
}

test('a log without what a log need not have, and a connector that does not wait at it', async () => {
  const plugin: Plugin = {
    ...reference,
    async open(settings, host) {
      const connector = await reference.open(settings, host)
      const { awaitChanges: _, refusals: __, ...changes } = connector.changes as NonNullable<typeof connector.changes>
      return { ...connector, changes }
    },
  }
  const whole = await start()
  const { begin, places, lose, traffic } = whole.log as LoggedSource
  const plain = async (): Promise<SourceTransaction> => {
    const own = await begin()
    return { write: (write) => own.write(write), commit: () => own.commit(), rollback: () => own.rollback() }
  }
  const log: LoggedSource = { begin: plain, places, lose, traffic }
  const results = await runConnectorSuite({ plugin, level: 'core', start: async () => ({ ...whole, log }) })
  assert.deepEqual(saidOf(results), ['C45', 'C46', 'C73', 'C74', 'C75'])
})

test('a source that only ever adds rows, and keeps its columns, is certified by what applies', async () => {
  const { modes: _, ...capabilities } = reference.capabilities
  const plugin = {
    ...reference,
    capabilities: { ...capabilities, modes: ['full', 'incremental'] as const },
    async open(settings, host) {
      const { changes: _changes, ...connector } = await reference.open(settings, host)
      return connector
    },
  } satisfies ConnectorPlugin<Parameters<Plugin['open']>[0]>
  const parts = {
    appendsOnly: true,
    remove: undefined,
    alter: undefined,
    log: undefined,
  } as unknown as Partial<SourceFixture>
  assert.deepEqual(saidOf(await run(parts, undefined, plugin)), ['C26', 'C28', 'C65'])
})
