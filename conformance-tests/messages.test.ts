/** What authors are told: what was expected, what came, how to see it again, and nothing that has no bearing on it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Connector, ConnectorPlugin, ServingPlugin, ServingStore } from '@sluice/sdk'
import { SluiceError } from '@sluice/sdk'
import { CheckFailure } from './check.ts'
import { runConnectorSuite, testConnector } from './connector-suite.ts'
import { start } from './reference/conformance.ts'
import reference from './reference/index.ts'
import { start as startSource } from './reference-connector/conformance.ts'
import connector from './reference-connector/index.ts'
import { runSuite, testServingStore } from './suite.ts'
import { told } from './told.fixture.ts'

async function ofStore(only: string, replace: (store: ServingStore) => object): Promise<string> {
  const open = async (...args: Parameters<typeof reference.open>) => {
    const store = (await reference.open(...args)) as ServingStore
    return { ...store, ...replace(store) }
  }
  const plugin = { ...reference, open } as unknown as ServingPlugin
  const [result] = await runSuite({ plugin, start, only: [only] })
  return told(result)
}

async function ofConnector(only: string, replace: (one: Connector) => object): Promise<string> {
  const open = async (...args: Parameters<typeof connector.open>) => {
    const opened = await connector.open(...args)
    return { ...opened, ...replace(opened) }
  }
  const plugin = { ...connector, open } as unknown as ConnectorPlugin
  const [result] = await runConnectorSuite({ plugin, start: startSource, only: [only] })
  return told(result)
}

const refusal = new SluiceError('CONFLICT', 'not now', { code: 'schema_conflict', remedy: 'Ask your administrator.' })
const throws = () => {
  throw refusal
}

test('a hook that throws synchronously is named, with what it threw and what a hook does', async () => {
  const text = await ofStore('37', () => ({ write: throws }))
  assert.match(
    text,
    /^store.write threw synchronously\n {2}expected: .*promise.*\n {2}came: +CONFLICT schema_conflict: not now/,
  )
  assert.match(text, /remedy: +Make store.write an async function/)
  assert.match(await ofStore('37', ({ rls }) => ({ rls: { ...rls, install: throws } })), /^store.rls.install threw/)
  assert.match(await ofConnector('C6', () => ({ discover: throws })), /^connector.discover threw synchronously/)
})

test('a read may throw at the call or at its first step: both are the same to whoever iterates', async () => {
  for (const read of [throws, () => ({ [Symbol.asyncIterator]: () => ({ next: async () => throws() }) })]) {
    const text = await ofStore('37', () => ({ read }))
    assert.match(
      text,
      /^the store threw CONFLICT schema_conflict: not now\n {2}expected: a call that keeps the contract is done/,
    )
    assert.match(text, /remedy: +Find out what the hook refused.*The plugin itself advises: Ask your administrator\./)
  }
})

test('what is no promise and no stream is named', async () => {
  const none = await ofStore('37', () => ({ provision: () => undefined }))
  assert.match(none, /^store.provision returned no promise\n {2}expected: a promise\n {2}came: +undefined/)
  assert.match(
    await ofConnector('C10', () => ({ read: () => [] })),
    /^connector.read returned no async iterable\n.*\n {2}came: +an array/,
  )
  const ofLog = (hooks: object) => ofConnector('C61', ({ changes }) => ({ changes: { ...changes, ...hooks } }))
  assert.match(
    await ofConnector('C40', ({ changes }) => ({ changes: { ...changes, changes: async () => [] } })),
    /^connector.changes.changes returned no async iterable/,
  )
  assert.match(await ofLog({ health: () => ({ state: 'ok' }) }), /^connector.changes.health returned no promise/)
})

test('counts that do not fit are told as counts, and not as rows that are missing', async () => {
  const fewer = await ofStore('37', (store) => ({
    async *read(...args: Parameters<ServingStore['read']>) {
      for await (const batch of store.read(...args)) yield { ...batch, rowCount: batch.rowCount + 2 }
    },
  }))
  assert.match(
    fewer,
    /^the counts of a batch do not fit together\n {2}expected: rowCount 22, .*\n {2}came: +rowCount 22, 6 columns with 20, /,
  )
  const narrow = await ofConnector('C10', (opened) => ({
    async *read(...args: Parameters<Connector['read']>) {
      for await (const event of opened.read(...args))
        yield event.kind === 'batch' && 'columns' in event.batch
          ? { ...event, batch: { ...event.batch, columns: event.batch.columns.slice(1) } }
          : event
    },
  }))
  assert.match(
    narrow,
    /^the counts .*\n {2}expected: rowCount 5, and so many values in each of 6 columns\n {2}came: .* 5 columns/,
  )
})

test('an error that is no SluiceError is told as one', async () => {
  const text = await ofStore('37', () => ({ write: async () => Promise.reject(new TypeError('x is not a function')) }))
  assert.match(text, /^the check was ended by an error that is no SluiceError: TypeError: x is not a function/)
  assert.match(text, /expected: upsert last wins within batch/)
})

test('as a test of a runner a failure says how the command runs it again', async () => {
  const errors: unknown[] = []
  const runs: (() => Promise<void>)[] = []
  const runner = Object.assign((_: string, run: () => Promise<void>) => void runs.push(run), {
    after: (run: () => Promise<void>) => void runs.push(run),
  })
  const open = async () => ({ write: throws, provision: throws, dropTenant: async () => {}, close: async () => {} })
  const store = { ...reference, open } as unknown as ServingPlugin
  testServingStore({ plugin: store, start, only: ['37'], seed: 3, test: runner })
  const reader = {
    ...connector,
    open: async () => ({ read: throws, close: async () => {} }),
  } as unknown as ConnectorPlugin
  testConnector({ plugin: reader, start: startSource, only: ['C10'], level: 'full', test: runner })
  for (const run of runs) await run().catch((error: unknown) => errors.push(error))
  assert.equal(errors.length, 2)
  assert.ok(errors.every((error) => error instanceof CheckFailure))
  assert.match(
    String(errors[0] ?? errors),
    /replay: +npx sluice-conformance \. --level core --seed 3 --only upsert-last-wins/,
  )
  assert.match(String(errors[1]), /replay: +npx sluice-conformance \. --level full --seed 1 --only C10/)
})
