/** What a read makes of a partition whose broker holds records back, has lost some, or shows other ones than before. */
import assert from 'node:assert/strict'
import { afterEach, test } from 'node:test'
import { createRecordsBatch, offsetForLeaderEpochV4 } from '@platformatic/kafka'
import { type ConnectorState, isSluiceError, type ReadEvent, type ReadRequest } from '@sluice/sdk'
import plugin from './index.ts'
import {
  APIS,
  asksFirst,
  broker,
  closeBrokers,
  epochEnd,
  fetchAsked,
  fetched,
  hostWith,
  hurriedClock,
  metadata,
  offsets,
  VERSIONS,
} from './scripted-broker.fixture.ts'
import type { TopicSettings } from './topic-settings.ts'
import { EPOCH_ENDS } from './wire/answers.ts'

afterEach(closeBrokers)

interface Entry {
  readonly key?: string
  readonly value: string | null
}

/** As a log holds it from that offset on. */
function batchAt(offset: number, entries: readonly Entry[], epoch = 0): Buffer {
  const messages = entries.map(({ key = 'k', value }) => ({
    ...{ topic: 'orders', key: Buffer.from(key), timestamp: 5n },
    value: value === null ? undefined : Buffer.from(value),
  }))
  const bytes = Buffer.from(createRecordsBatch(messages as never, {}).buffer)
  bytes.writeBigInt64BE(BigInt(offset), 0)
  bytes.writeInt32BE(epoch, 12)
  return bytes
}

interface Log {
  readonly end: number
  readonly epochEnd?: number
  fetch(asked: ReturnType<typeof fetchAsked>): Buffer
}

async function read(
  log: Log,
  settings: TopicSettings = {},
  request: Partial<ReadRequest> = {},
): Promise<{ readonly events: readonly ReadEvent[]; readonly text: string; readonly state: ConnectorState }> {
  const port = await broker((own) => (api, message) => {
    if (api === APIS.versions) return VERSIONS
    if (api === APIS.metadata) return metadata('127.0.0.1', own)
    if (api === APIS.offsets) return offsets(asksFirst(message) ? 0 : log.end)
    if (api === APIS.epochs) return epochEnd(0, log.epochEnd ?? log.end)
    return log.fetch(fetchAsked(message))
  })
  const own = { brokers: [`127.0.0.1:${port}`], tls: false, topics: ['orders'], tables: { orders: settings } }
  const connector = await plugin.open(own, hostWith(hurriedClock()))
  try {
    const events = await Array.fromAsync(
      connector.read({
        ...({ schema: 'kafka', table: 'orders', mode: 'full', columns: [], primaryKey: [] } as const),
        ...{ cursorColumn: null, state: null, signal: new AbortController().signal, ...request },
      }),
    )
    const text = events.map((event) => (event.kind === 'csv' ? Buffer.from(event.chunk).toString() : '')).join('')
    const last = events.at(-1)
    assert.equal(last?.kind, 'state')
    return { events, text, state: last.state }
  } finally {
    await connector.close()
  }
}

const COLUMNS = { columns: [{ name: 'id', type: 'long' }], metadata: false } as const
const FIRST = batchAt(0, [{ value: '{"id":1}' }, { value: '{"id":2}' }])
const NONE = Buffer.alloc(0)

test('an answer without records is no end of a partition: what it may hide is neither lost nor gone', async () => {
  let asked = 0
  const log: Log = {
    end: 4,
    fetch: ({ offset }) => {
      asked += 1
      return fetched(offset === 0 ? FIRST : NONE, { end: 4 })
    },
  }
  await assert.rejects(
    read(log, COLUMNS),
    (error) => isSluiceError(error, 'TRANSIENT') && error.code === 'source_timeout',
  )
  assert.ok(asked > 100, 'it was asked for again and again')
  // What was held back comes.
  let held = 50
  const slow = batchAt(2, [{ value: '{"id":3}' }, { value: '{"id":4}' }])
  const late: Log = {
    end: 4,
    fetch: ({ offset }) => {
      held -= 1
      return fetched(offset === 0 ? FIRST : held > 0 ? NONE : slow, { end: 4 })
    },
  }
  assert.equal((await read(late, COLUMNS)).text, '"1"\n"2"\n"3"\n"4"\n')
})

test('columns are not found out from an answer that holds records back', async () => {
  const records = batchAt(0, [{ value: '{"id":1}' }])
  let held = 5
  const fetch = () => {
    held -= 1
    return fetched(held > 0 ? NONE : records, { end: 1 })
  }
  assert.equal((await read({ end: 1, fetch }, { metadata: false })).text, '"1"\n')
})

test('a partition ends where the next batch of the log lies behind its end', async () => {
  const behind = batchAt(9, [{ value: '{"id":9}' }])
  const inside = batchAt(3, [{ value: '{"id":3}' }])
  const logOf = (next: Buffer): Log => ({
    end: 4,
    fetch: ({ offset, sees }) => fetched(offset === 0 ? FIRST : sees === 'all' ? next : NONE, { end: 4 }),
  })
  const { text, state } = await read(logOf(behind), COLUMNS)
  assert.equal(text, '"1"\n"2"\n')
  assert.deepEqual(state.value['next'], [4])
  assert.deepEqual(state.value['epochs'], [-1], 'nothing is known of what stood before the end')
  await assert.rejects(read(logOf(inside), COLUMNS), (error) => isSluiceError(error, 'TRANSIENT'))
})

test('a leader that lags behind, or a quota that never ends, ends the read', async () => {
  for (const answer of [fetched(NONE, { end: 1 }), fetched(NONE, { end: 4, throttleMs: 900 })])
    await assert.rejects(
      read({ end: 4, fetch: () => answer }, COLUMNS),
      (error) => isSluiceError(error, 'TRANSIENT') && error.code === 'source_timeout',
    )
})

test('keys that nobody has described are texts in every read, whatever its sample shows', async () => {
  const uuid = '0B1E3A66-7C1D-4E0B-9D1D-3C5B8A9E0F11'
  for (const [settings, keys] of [
    [{ mode: 'upsert', key_format: 'json', primary_key: ['id'] }, ['{"id":"A1"}', '{"id":7}']],
    [{ mode: 'upsert', key_format: 'json', primary_key: ['id'] }, [`{"id":"${uuid}"}`]],
    [{ mode: 'upsert', primary_key: ['id'] }, ['x', '7']],
  ] as const) {
    const records = batchAt(
      0,
      keys.map((key) => ({ key, value: '{"id":5}' })),
    )
    const log: Log = { end: keys.length, fetch: () => fetched(records, { end: keys.length }) }
    const { text, events } = await read(log, { ...settings, metadata: false }, { columns: ['id'], primaryKey: ['id'] })
    assert.deepEqual(events[0]?.kind === 'schema' && events[0].schema.columns.map(({ type }) => type), ['string'])
    const texts = keys.map((key) => /"id":"?([^"}]+)/.exec(key)?.[1] ?? key)
    assert.equal(text, texts.map((one) => `"${one}"\n`).join(''))
  }
  const appended = batchAt(0, [{ value: '{"id":5}' }])
  const log: Log = { end: 1, fetch: () => fetched(appended, { end: 1 }) }
  const { events } = await read(log, { primary_key: ['id'], metadata: false })
  assert.deepEqual(events[0]?.kind === 'schema' && events[0].schema.columns.map(({ type }) => type), ['string'])
})

test('a tombstone deletes the row of its key, however the key is written', async () => {
  const records = batchAt(0, [
    { key: '{"id":1}', value: '{}' },
    { key: '{"id":2}', value: '{}' },
    { key: '{"id": 1}', value: null },
    { key: '{ "id":2 }', value: '{}' },
  ])
  const log: Log = { end: 4, fetch: () => fetched(records, { end: 4 }) }
  const { text } = await read(log, { ...COLUMNS, mode: 'upsert', key_format: 'json', primary_key: ['id'] })
  assert.equal(text, '"2"\n')
})

test('a log that was cut off and filled anew between two reads is found out by the epochs of its leaders', async () => {
  const logOf = (ends: number): Log => ({
    ...{ end: 2, epochEnd: ends },
    fetch: () => fetched(batchAt(0, [{ value: '{"id":1}' }, { value: '{"id":2}' }], 7), { end: 2 }),
  })
  const { state } = await read(logOf(2), COLUMNS, { mode: 'incremental' })
  assert.deepEqual(state.value['epochs'], [7])
  const again = await read(logOf(2), COLUMNS, { mode: 'incremental', state })
  assert.deepEqual([again.text, again.state], ['', state])
  assert.deepEqual((await read(logOf(-1), COLUMNS, { mode: 'incremental', state })).state, state, 'nothing is known')
  await assert.rejects(
    read(logOf(1), COLUMNS, { mode: 'incremental', state }),
    (error) => isSluiceError(error, 'CONFIG') && error.code === 'source_topic_replaced',
  )
})

test('a topic whose state would be too large is refused before its records are read', async () => {
  const fields = Array.from({ length: 1500 }, (_, at) => [`a field with a long name, number ${at}`, at])
  const records = batchAt(0, [{ value: JSON.stringify(Object.fromEntries(fields)) }])
  let asked = 0
  const fetch = () => {
    asked += 1
    return fetched(records, { end: 1 })
  }
  await assert.rejects(read({ end: 1, fetch }), (error) => isSluiceError(error, 'QUOTA'))
  assert.equal(asked, 1, 'for the sample')
})

test('epochs are asked for as other clients do', () => {
  const partitions = [{ partition: 3, epoch: 7 }]
  const theirs = offsetForLeaderEpochV4.createRequest(-1, [
    { name: 'orders', partitions: [{ partitionIndex: 3, currentLeaderEpoch: -1, leaderEpoch: 7 }] },
  ] as never)
  assert.deepEqual(EPOCH_ENDS.write({ topic: 'orders', partitions }), theirs.buffer)
})
