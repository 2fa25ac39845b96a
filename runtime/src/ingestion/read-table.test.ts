import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { batchFromRows, type Connector, type ReadEvent, type ReadRequest, type Row } from '@sluice/sdk'
import { readTable, type TableRead } from './read-table.ts'

const SCHEMA = {
  kind: 'schema',
  schema: { columns: [{ name: 'a', type: 'string', nullable: true }], primaryKey: [] },
} as const

const STATE = { kind: 'state', state: { cursor: '7' }, rows: 2 } as unknown as ReadEvent

/** A connector that gives these events; `ended` says whether it was told that nobody listens any more. */
function connectorOf(events: readonly unknown[]) {
  const seen = { ended: false }
  async function* read(): AsyncGenerator<ReadEvent> {
    try {
      for (const event of events) yield event as ReadEvent
    } finally {
      seen.ended = true
    }
  }
  return { connector: { read } as unknown as Connector, seen }
}

function open(events: readonly unknown[]): Promise<TableRead> {
  return readTable(connectorOf(events).connector, {} as ReadRequest, () => {})
}

async function textOf(read: TableRead): Promise<string> {
  const chunks: Uint8Array[] = []
  for await (const chunk of read.rows) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

describe('reading a table from a connector', () => {
  it('passes CSV on as it comes and keeps the state, the counts and the reasons of rejects', async () => {
    const csv = { kind: 'csv', chunk: Buffer.from('"x"\n"y"\n') }
    const rejects = Array.from({ length: 20 }, (_, index) => ({ kind: 'reject', column: 'a', reason: `r${index}` }))
    const read = await open([{ kind: 'estimate', rows: 3 }, SCHEMA, csv, ...rejects, STATE])
    assert.equal(await textOf(read), '"x"\n"y"\n')
    const outcome = read.outcome()
    assert.deepEqual([outcome.rowCount, outcome.bytes, outcome.rejected], [2, 8, 20])
    assert.deepEqual(outcome.state, { cursor: '7' })
    assert.deepEqual([outcome.rejectReasons[0], outcome.rejectReasons.length], ['a: r0', 10])
  })

  it('tells the key of a reject as reads do, and keeps the connector’s own', async () => {
    const schema = { columns: [{ name: 'a', type: 'timestamp', nullable: false }], primaryKey: ['a'] }
    const key = { a: '2024-02-29 12:00:00' }
    const read = await open([{ ...SCHEMA, schema }, { kind: 'reject', column: null, reason: 'r', key }, STATE])
    await textOf(read)
    const [refused] = read.outcome().refused
    assert.deepEqual([refused?.key, refused?.toldKey], [key, { a: '2024-02-29T12:00:00.000000' }])
  })

  it('writes batches as CSV that keeps null, empty text, quotes, line ends and bytes apart', async () => {
    const rows: readonly Row[] = [
      [null, '', 'a"b,c\nd'],
      [true, false, new Uint8Array([0, 255])],
    ]
    const read = await open([SCHEMA, { kind: 'batch', batch: batchFromRows(rows, 3) }, STATE])
    assert.equal(await textOf(read), ',"","a""b,c\nd"\n"t","f","\\x00ff"\n')
  })

  it('writes nothing for an empty batch', async () => {
    const read = await open([SCHEMA, { kind: 'batch', batch: batchFromRows([], 1) }, STATE])
    assert.equal(await textOf(read), '')
  })

  it('takes no end without a state for a success', async () => {
    const read = await open([SCHEMA])
    await textOf(read)
    assert.throws(() => read.outcome(), { code: 'connector_contract' })
  })

  it('says that the rows are the whole table only where the connector does', async () => {
    assert.equal((await open([SCHEMA, STATE])).whole, false)
    assert.equal((await open([{ ...SCHEMA, whole: false }, STATE])).whole, false)
    assert.equal((await open([{ ...SCHEMA, whole: true }, STATE])).whole, true)
  })

  it('takes marks, and rows without a value, where it has asked for them', async () => {
    const marked = { ...SCHEMA, marks: true }
    const lacking = { kind: 'reject', reason: 'it is odd', column: 'b', carried: true }
    const asked = { marked: ['b'] } as unknown as ReadRequest
    const of = async (events: readonly object[], request: ReadRequest) =>
      readTable(connectorOf(events).connector, request, () => {})
    const read = await of([marked, lacking, STATE], asked)
    assert.equal(read.marks, true)
    await textOf(read)
    assert.deepEqual([...read.outcome().withoutValue], [['b', 1]])
    assert.equal(read.outcome().rejected, 0)
    const { connector, seen } = connectorOf([marked, STATE])
    await assert.rejects(
      readTable(connector, {} as ReadRequest, () => {}),
      { code: 'connector_contract' },
    )
    assert.equal(seen.ended, true)
    for (const events of [
      [SCHEMA, lacking, STATE],
      [marked, { ...lacking, column: 'c' }, STATE],
    ]) {
      const broken = await of(events, asked)
      await assert.rejects(textOf(broken), { code: 'connector_contract' })
    }
  })

  it('refuses rows before the schema, and no schema at all', async () => {
    await assert.rejects(open([{ kind: 'csv', chunk: Buffer.from('') }, SCHEMA]), { code: 'connector_contract' })
    await assert.rejects(open([]), { code: 'connector_contract' })
  })

  it('ends the connector where its rows are left half-way', async () => {
    const csv = { kind: 'csv', chunk: Buffer.from('"x"\n') }
    const { connector, seen } = connectorOf([SCHEMA, csv, csv, csv, STATE])
    const read = await readTable(connector, {} as ReadRequest, () => {})
    for await (const _ of read.rows) break
    assert.equal(seen.ended, true)
  })
})
