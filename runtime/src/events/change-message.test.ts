import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type BusMessage, type ChangeSet, toJsonValue } from '@sluice/sdk'
import { changeMessages, changeTopic, changeTopicPrefix, inBatches } from './change-message.ts'

describe('names of change topics', () => {
  it('tell tenant, namespace, product and variant, and never two products by one', () => {
    assert.equal(
      changeTopic('acme', 'sales', 'daily_orders', 'masked'),
      'sluice-changes.acme.sales.daily-orders.masked',
    )
    // Kafka refuses a topic whose name differs from another's by "." and "_" alone.
    const taken = [
      ['a_b', 'c'],
      ['a', 'b_c'],
    ].map(([domain = '', product = '']) => changeTopic('acme', domain, product, 'clear').replaceAll('.', '_'))
    assert.equal(new Set(taken).size, 2)
  })

  it('stay within what Kafka takes, and apart', () => {
    const long = 'n'.repeat(200)
    const names = [`${long}a`, `${long}b`].map((product) => changeTopic('acme', long, product, 'masked'))
    assert.equal(new Set(names).size, 2)
    for (const name of names) {
      assert.ok(name.length <= 249)
      assert.ok(name.startsWith(changeTopicPrefix('acme')) && name.endsWith('.masked'))
    }
  })
})

const stream = {
  tenant: 'acme',
  productId: 'prd_1',
  domain: 'sales',
  product: 'orders',
  variant: 'masked',
  topic: 'topic',
} as const

const changes = {
  schema: {
    columns: [
      { name: 'amount', type: 'decimal(6,2)', nullable: true },
      { name: 'id', type: 'long', nullable: false },
      { name: 'part', type: 'string', nullable: false },
    ],
    primaryKey: ['part', 'id'],
  },
  async *upserts() {
    yield {
      rowCount: 2,
      columns: [
        ['1.50', null],
        [2n ** 60n, 2n],
        ['a', 'b'],
      ],
    }
  },
  async *deletes() {
    yield { rowCount: 1, columns: [['c'], [3n]] }
  },
} as unknown as ChangeSet

async function messagesOf(epoch: number): Promise<BusMessage[]> {
  const committedAt = new Date('2026-01-02T03:04:05.678Z')
  return Array.fromAsync(changeMessages(stream, { epoch, version: '1.2.3', committedAt }, changes))
}

describe('messages of changes', () => {
  it('are keyed by the primary key in its order, and hold rows as answers of REST do', async () => {
    const all = await messagesOf(7)
    assert.deepEqual(
      all.map(({ key, value }) => [key, value]),
      [
        [`{"part":"a","id":"${2n ** 60n}"}`, `{"amount":"1.50","id":"${toJsonValue(2n ** 60n, 'long')}","part":"a"}`],
        ['{"part":"b","id":2}', '{"amount":null,"id":2,"part":"b"}'],
        ['{"part":"c","id":3}', null],
      ],
    )
  })

  it('have one id for a row in an epoch, whenever they are made', async () => {
    const ids = async (epoch: number) => (await messagesOf(epoch)).map(({ headers }) => headers['ce_id'])
    const first = await ids(7)
    assert.deepEqual(await ids(7), first)
    assert.equal(new Set([...first, ...(await ids(8))]).size, 6)
  })

  it('are sent in bounded batches, and a large one alone', async () => {
    const message = (size: number) => ({ topic: 't', key: 'k', value: 'v'.repeat(size - 1), headers: {} })
    async function* source() {
      for (const size of [10, 10, 10, 500, 10, 60, 60]) yield message(size)
    }
    const batches = await Array.fromAsync(inBatches(source(), { messages: 2, characters: 100 }))
    assert.deepEqual(
      batches.map((batch) => batch.map(({ key, value }) => key.length + (value?.length ?? 0))),
      [[10, 10], [10], [500], [10, 60], [60]],
    )
  })
})
