import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import {
  type ConnectorState,
  isJsonBatch,
  isSluiceError,
  type ReadRequest,
  rowsOf,
  type TableSchema,
} from '@sluice/sdk'
import { openConnector } from './connector.ts'
import { sourceNamed } from './source.ts'

const schema: TableSchema = {
  columns: [
    { name: 'id', type: 'long', nullable: false },
    { name: 'name', type: 'string', nullable: true },
  ],
  primaryKey: ['id'],
}

function request(parts: Partial<ReadRequest> = {}): ReadRequest {
  const signal = new AbortController().signal
  const plain = { schema: 'main', table: 'people', columns: [], primaryKey: ['id'], state: null, signal }
  return { ...plain, mode: 'incremental', cursorColumn: 'id', ...parts }
}

async function readOf(source: ReturnType<typeof sourceNamed>, parts: Partial<ReadRequest> = {}) {
  const rows = []
  const states: ConnectorState[] = []
  let counted = 0
  for await (const event of openConnector(source).read(request(parts))) {
    if (event.kind === 'batch' && !isJsonBatch(event.batch)) rows.push(...rowsOf(event.batch))
    if (event.kind === 'state') {
      states.push(event.state)
      counted += event.rows
    }
  }
  assert.equal(counted, rows.length)
  return { rows, state: states.at(-1) ?? null }
}

test('an increment goes on where the state says, and keeps the state when nothing is new', async () => {
  const source = sourceNamed(randomUUID())
  source.put('people', {
    schema,
    rows: [
      [2n, 'Ada'],
      [10n, 'Grace'],
    ],
  })
  const first = await readOf(source)
  assert.equal(first.rows.length, 2)
  const none = await readOf(source, { state: JSON.parse(JSON.stringify(first.state)) })
  assert.deepEqual([none.rows, none.state], [[], first.state])
  source.put('people', {
    schema,
    rows: [
      [2n, 'Ada'],
      [10n, 'Grace'],
      [11n, 'Edsger'],
    ],
  })
  assert.deepEqual((await readOf(source, { state: first.state })).rows, [[11n, 'Edsger']])
  assert.equal((await readOf(source, { mode: 'full', cursorColumn: null, columns: ['name'] })).rows.length, 3)
})

test('tables are discovered page by page, and what is not there is refused', async () => {
  const source = sourceNamed(randomUUID())
  for (const name of ['b', 'a', 'c']) source.put(name, { schema, rows: [] })
  const connector = openConnector(source)
  const signal = new AbortController().signal
  const first = await connector.discover({ after: null, limit: 2 }, signal)
  const second = await connector.discover({ after: first.next, limit: 2 }, signal)
  assert.deepEqual(
    [...first.tables, ...second.tables].map(({ name }) => name),
    ['a', 'b', 'c'],
  )
  assert.equal(second.next, null)
  await assert.rejects(readOf(source, { table: 'absent' }), (error) => isSluiceError(error, 'CONFIG'))
})
