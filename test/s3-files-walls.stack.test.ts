/** The connector as the runtime runs it: in a process behind walls, on sockets that the runtime connects. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { SourceFixture } from '@sluice/conformance'
import { type Connector, type ConnectorPlugin, isSluiceError } from '@sluice/sdk'
import { start } from '../plugins/connectors/s3-files/conformance.ts'
import plugin from '../plugins/connectors/s3-files/index.ts'
import { createNetworkPolicy } from '../runtime/src/ingestion/network.ts'
import { SourceReaders } from '../runtime/src/ingestion/source-readers.ts'
import { createClock } from '../runtime/src/plugins/host.ts'

let fixture: SourceFixture
let readers: SourceReaders
let walled: ConnectorPlugin
const logger = { debug() {}, info() {}, warn() {}, error() {} }

before(async () => {
  fixture = await start()
  readers = new SourceReaders({
    maxReaders: 2,
    memoryBytes: 512 << 20,
    silenceMs: 30_000,
    callMs: 60_000,
    readMs: 60_000,
    privateFolders: [],
  })
  walled = readers.wall(plugin as ConnectorPlugin, import.meta.resolve('@sluice/connectors/s3-files'))
})
after(async () => {
  await readers?.close()
  await fixture?.stop()
})

function open(allowLoopback: boolean): Promise<Connector> {
  return walled.open(fixture.settings, {
    ...{ logger, clock: createClock(logger) },
    metrics: { count() {}, observe() {} },
    randomBytes: (count) => new Uint8Array(count),
    faultPoint: async () => undefined,
    network: createNetworkPolicy({ allow: [], allowLoopback, allowCleartextPasswords: false, ownEndpoints: () => [] }),
  })
}

test('a table of a bucket is checked, listed and read', async () => {
  const connector = await open(true)
  const { signal } = new AbortController()
  const report = await connector.check(signal)
  assert.deepEqual(
    report.steps.map(({ name, ok }) => `${name} ${ok}`),
    ['dns true', 'tcp true', 'auth true', 'privileges true'],
    JSON.stringify(report),
  )
  const { tables } = await connector.discover({ after: null, limit: 10 }, signal)
  assert.deepEqual(
    tables.map(({ name }) => name),
    ['by_hand', 'of_avro', 'of_parquet'],
  )
  const request = {
    ...({ schema: 'files', mode: 'full', columns: ['id'] } as const),
    ...{ primaryKey: [], cursorColumn: null, state: null, signal },
  }
  const rowsOf = async (table: string) => {
    let rows = ''
    for await (const event of connector.read({ ...request, table }))
      if (event.kind === 'csv') rows += Buffer.from(event.chunk)
    return rows
  }
  assert.equal(await rowsOf('by_hand'), '"9007199254740993"\n"-1"\n"2"\n"3"\n')
  for (const table of ['of_parquet', 'of_avro'])
    assert.equal(await rowsOf(table), '"9223372036854775807"\n"-1"\n', table)
  await connector.close()
})

test('an address that the rules do not allow is not reached', async () => {
  const connector = await open(false)
  const { signal } = new AbortController()
  const report = await connector.check(signal)
  assert.deepEqual(
    report.steps.map(({ name, ok }) => `${name} ${ok}`),
    ['dns false'],
  )
  assert.match(report.steps[0]?.remedy ?? '', /network\.allow/)
  await assert.rejects(
    connector.discover({ after: null, limit: 10 }, signal),
    (error: unknown) => isSluiceError(error) && error.code === 'address_refused',
  )
  await connector.close()
})
