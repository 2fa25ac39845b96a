import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ChangeEvent, ChangeSource, Connector } from '@sluice/sdk'
import type { ParentLine } from './child/parent-line.ts'
import { serveChanges } from './child/serve-changes.ts'
import type { ChangeCall } from './source-protocol.ts'
import type { Part } from './source-session.ts'
import { type WalledChanges, walledChanges } from './walled-changes.ts'

const { signal } = new AbortController()
const AFTER = { lineage: 'one', order: '005' }
const STREAMS = ['t', 'u'].map((table) => ({ schema: 'public', table, primaryKey: ['id'] }))
const schema = { columns: [{ name: 'id', type: 'integer', nullable: false }], primaryKey: ['id'] } as const

/** The source as the runtime sees it, over what the child says. */
function walled(source: Partial<ChangeSource>): WalledChanges {
  return walledChanges(async function* (call: ChangeCall) {
    const parts: Part[] = []
    const line = {
      say: (message: { readonly part: unknown }) =>
        parts.push({ type: 'part', part: JSON.parse(JSON.stringify(message.part)) }),
      async tell(message: { readonly part: unknown }) {
        this.say(message)
      },
      sayRows: (bytes: Uint8Array) => parts.push({ type: 'csv', bytes }),
      drained: async () => undefined,
    }
    await serveChanges(call, { changes: source } as unknown as Connector, line as unknown as ParentLine, signal)
    yield* parts
    return null
  })
}

async function eventsOf(events: readonly unknown[]): Promise<ChangeEvent[]> {
  const source = walled({
    async *changes() {
      yield* events as ChangeEvent[]
    },
  })
  const all: ChangeEvent[] = []
  for await (const event of source.changes({ capture: 'c', after: AFTER, streams: STREAMS, signal })) all.push(event)
  return all
}
const rows = (stream: number, text: string) => ({ kind: 'rows', stream, chunk: Buffer.from(text), rows: 1 })
const checkpoint = (order: string, lineage = 'one') => {
  return { kind: 'checkpoint', position: { lineage, order }, sourceTime: null }
}

test('events come in their order, each row with its stream', async () => {
  const events = await eventsOf([
    { kind: 'schema', stream: 0, schema },
    { kind: 'schema', stream: 1, schema },
    rows(0, 'a\n'),
    rows(0, 'b\n'),
    rows(1, 'c\n'),
    { kind: 'truncate', stream: 1, seq: '7' },
    rows(0, 'd\n'),
    { kind: 'reject', stream: 0, seq: '8', reason: 'odd', column: null, key: { id: '1' } },
    checkpoint('006'),
  ])
  const told = events.flatMap((event) => {
    if (event.kind !== 'rows') return [event.kind]
    return event.chunk.length > 0 ? [`${event.stream}: ${Buffer.from(event.chunk)}`] : []
  })
  assert.deepEqual(told, ['schema', 'schema', '0: a\nb\n', '1: c\n', 'truncate', '0: d\n', 'reject', 'checkpoint'])
  const counted = events.reduce((sum, event) => sum + (event.kind === 'rows' ? event.rows : 0), 0)
  assert.equal(counted, 4)
})

test('the key of a row that cannot be carried comes whole: cut, it would be the key of another', async () => {
  const key = { id: 'k'.repeat(9000), part: null }
  const [event] = await eventsOf([{ kind: 'reject', stream: 0, seq: '8', reason: 'odd', column: null, key }])
  assert.ok(event?.kind === 'reject')
  assert.deepEqual(event.key, key)
})

test('that rows say what they lack comes with their columns, and each value after its row', async () => {
  const reject = { kind: 'reject', stream: 0, seq: '8', reason: 'odd', column: 'v', carried: true }
  const events = await eventsOf([
    { kind: 'schema', stream: 0, schema, marks: true },
    rows(0, 'a\n'),
    reject,
    rows(0, 'b\n'),
  ])
  const told = events.map((event) => (event.kind === 'rows' ? `${Buffer.from(event.chunk)}${event.rows}` : event.kind))
  assert.deepEqual(told, ['schema', 'a\n0', '1', 'reject', 'b\n0', '1'])
  assert.deepEqual([events[0], events[3]], [{ kind: 'schema', stream: 0, schema, marks: true }, reject])
})

test('what a log may not say is not believed', async () => {
  for (const event of [
    { kind: 'schema', stream: 2, schema },
    { kind: 'truncate', stream: 0, seq: '' },
    { kind: 'truncate', stream: -1, seq: '1' },
    { kind: 'reject', stream: 0, seq: '1', reason: 'odd', column: 7 },
    checkpoint('004'),
    checkpoint('006', 'another'),
    checkpoint('é'),
    checkpoint('0'.repeat(201)),
    { ...checkpoint('006'), sourceTime: 'yesterday' },
    { kind: 'something' },
  ]) {
    await assert.rejects(eventsOf([event]), { code: 'source_answer_invalid' }, JSON.stringify(event))
  }
  await assert.rejects(eventsOf([rows(2, 'a\n')]), { code: 'source_answer_invalid' })
})

test('positions, refusals and health come as they were said, and no others', async () => {
  const position = { lineage: 'one', order: '1' }
  const refused = [{ schema: 'public', table: 't', code: 'no_identity', reason: 'none', remedy: 'Give it one.' }]
  const request = { capture: 'c', streams: STREAMS, signal }
  const incarnations = [{ schema: 'public', table: 'u', incarnation: 'first' }]
  assert.deepEqual(await walled({ prepare: async () => ({ position, refused, incarnations }) }).prepare(request), {
    position,
    refused,
    incarnations,
  })
  assert.deepEqual(await walled({ prepare: async () => ({ position, refused }) }).prepare(request), {
    position,
    refused,
    incarnations: [],
  })
  for (const incarnation of ['', 'x'.repeat(201), 7]) {
    const lying = { position, refused, incarnations: [{ schema: 'public', table: 'u', incarnation }] } as never
    await assert.rejects(walled({ prepare: async () => lying }).prepare(request), { code: 'source_answer_invalid' })
  }
  assert.deepEqual(await walled({ refusals: async () => refused }).refusals?.(request), refused)
  assert.deepEqual(await walled({}).refusals?.(request), [])
  assert.deepEqual(
    [await walled({ refusals: async () => [] }).judges(signal), await walled({}).judges(signal)],
    [true, false],
  )
  const ofCapture = async ({ capture }: { readonly capture?: string }) => (capture === 'c' ? refused : [])
  assert.deepEqual(await walled({ refusals: ofCapture }).refusals?.(request), refused)
  assert.deepEqual(await walled({ refusals: ofCapture }).refusals?.({ streams: STREAMS, signal }), [])
  const many = Array.from({ length: 3 }, () => refused[0] as (typeof refused)[0])
  await assert.rejects(walled({ refusals: async () => many }).refusals?.(request) as Promise<unknown>, {
    code: 'source_answer_invalid',
  })
  const health = { state: 'ok', retainedBytes: null, limitBytes: 5, message: 'well' } as const
  const asked = { capture: 'c', saved: null, signal }
  assert.deepEqual(await walled({ health: async () => health }).health(asked), health)
  await assert.rejects(walled({ health: async () => ({ ...health, retainedBytes: -1 }) }).health(asked), {
    code: 'source_answer_invalid',
  })
})
