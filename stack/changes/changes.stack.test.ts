/** Topics of changed rows, as consumers of a tenant meet them. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { Admin } from '@platformatic/kafka'
import type { Content } from '../../test/crash/source.ts'
import { serverProcess } from '../server-process.ts'
import { ChangingProducts } from './changing-products.ts'
import { type Change, ConsoleConsumer, type Login } from './console-consumer.ts'

const broker = new URL(process.env['SLUICE_TEST_KAFKA_URL'] ?? 'kafka://unset')
const brokerProcess = serverProcess('SLUICE_TEST_KAFKA_PROCESS')
const MASKED = 'sluice-changes.acme.crm.people.masked'
const CLEAR = 'sluice-changes.acme.crm.people.clear'
const VISITS = 'sluice-changes.acme.web.visits.masked'
const logins = {
  reader: { user: 'acme', password: 'of-acme' },
  cleared: { user: 'acme-cleared', password: 'of-acme-cleared' },
  stranger: { user: 'other', password: 'of-other' },
}

const LATEST = -1n
const EARLIEST = -2n

const { username, password } = broker
const sasl = { mechanism: 'PLAIN', username, password } as const
const admin = new Admin({ clientId: 'test', bootstrapBrokers: [broker.host], sasl })
const products = await ChangingProducts.open(broker)
const consumers: ConsoleConsumer[] = []
after(async () => {
  for (const consumer of consumers) await consumer.close()
  await admin.close()
  await products.close()
})

async function consume(topic: string, login: Login): Promise<ConsoleConsumer> {
  const consumer = await ConsoleConsumer.open(broker.host, topic, login, join(products.folder, 'consumers'))
  consumers.push(consumer)
  return consumer
}

/** All that is in a topic now, as a login of the tenant reads it. */
async function readAll(topic: string, login: Login): Promise<{ changes: readonly Change[]; text: string }> {
  const ends = await endsOf(topic)
  const consumer = await consume(topic, login)
  const changes = await consumer.until((read) =>
    ends.every(({ partition, last }) => read.some((one) => one.partition === partition && one.offset >= last)),
  )
  return { changes, text: consumer.text }
}

/** The last message of each partition that has one: behind it lies the mark of its transaction. */
async function endsOf(topic: string): Promise<readonly { readonly partition: number; readonly last: number }[]> {
  const offsets = async (timestamp: bigint) => {
    const partitions = [0, 1, 2].map((partitionIndex) => ({ partitionIndex, timestamp }))
    const [listed] = await admin.listOffsets({ topics: [{ name: topic, partitions }] })
    return new Map(listed?.partitions.map(({ partitionIndex, offset }) => [partitionIndex, Number(offset)]))
  }
  const [first, end] = [await offsets(EARLIEST), await offsets(LATEST)]
  return [...end]
    .filter(([partition, offset]) => offset > (first.get(partition) ?? 0))
    .map(([partition, offset]) => ({ partition, last: offset - 2 }))
}

const epochOf = ({ headers }: Change): number => Number(headers['ce_epoch'])

/** What a consumer has that keeps the newest of each key, and drops what is older than that. */
function folded(
  changes: readonly Change[],
  untilEpoch = Number.POSITIVE_INFINITY,
): Map<string, Record<string, unknown>> {
  const newest = new Map<string, Change>()
  for (const one of changes.filter((change) => epochOf(change) <= untilEpoch)) {
    const key = JSON.stringify(one.key)
    if (epochOf(newest.get(key) ?? one) <= epochOf(one)) newest.set(key, one)
  }
  const rows = new Map<string, Record<string, unknown>>()
  for (const [key, { value }] of newest) if (value !== null) rows.set(key, { ...value })
  return rows
}

/** Rows of the script, in the shape of messages. */
function rowsOf(content: Content): Map<string, Record<string, unknown>> {
  return new Map(
    [...content.values()].map((row) => {
      const number = Number(row['person_no'])
      return [JSON.stringify({ person_no: number }), { ...row, person_no: number }]
    }),
  )
}

const sorted = (rows: Map<string, unknown>) => [...rows].sort(([left], [right]) => (left < right ? -1 : 1))

describe('topics of changed rows', { timeout: 1_200_000 }, () => {
  it('are made where a product is deployed: masked, and in clear where columns are hidden', async () => {
    await products.until('topics are made', async () => (await products.topics('people')).length === 2)
    await products.until('topics are made', async () => (await products.topics('visits')).length === 1)
    const topics = [...(await products.topics('people')), ...(await products.topics('visits'))]
    assert.deepEqual(topics.map(({ topic }) => topic).sort(), [CLEAR, MASKED, VISITS])
  })

  it('hold what each epoch changed: replayed, every epoch is as the lake has it', async () => {
    for (let epoch = 1; epoch <= 4; epoch += 1) {
      await products.change()
      await products.synced()
      await products.sent('people', epoch)
    }
    const { changes: clear } = await readAll(CLEAR, logins.cleared)
    for (const [index, { people }] of products.expected.entries()) {
      assert.deepEqual(sorted(folded(clear, index + 1)), sorted(rowsOf(people)), `epoch ${index + 1}`)
    }
    const first = clear.find((change) => epochOf(change) === 1) as Change
    const { ce_id: id, ce_source: source, ce_time: time, ...headers } = first.headers
    assert.match(id ?? '', /^prd_\w+\.clear\.1\.[0-9a-f]{24}$/)
    assert.match(source ?? '', /^\/tenants\/acme\/products\/prd_\w+$/)
    assert.ok(Date.parse(time ?? '') > 0)
    assert.deepEqual(headers, {
      ce_specversion: '1.0',
      ce_type: 'sluice.row.upserted',
      ce_subject: 'crm.people',
      ce_tenantid: 'acme',
      ce_variant: 'clear',
      ce_epoch: '1',
      ce_productversion: '1.0.0',
      'content-type': 'application/json; charset=UTF-8',
    })
    assert.ok(
      clear.some(({ value }) => value === null),
      'the script has deleted rows',
    )
    assertKeysInOrder(clear)
    // A row that an epoch has not changed is not sent for it.
    assert.ok(clear.filter((change) => epochOf(change) > 1).length < 20)
  })

  it('show nothing that is masked, in keys, values and headers', async () => {
    const { changes: masked, text } = await readAll(MASKED, logins.reader)
    assert.equal(/Person |@example\.com/.test(text), false)
    const answer = await products.readers.viewer.post<{ rows: readonly (readonly unknown[])[] }>('/api/v1/query', {
      sql: 'SELECT person_no, full_name, email, city, plan FROM crm.people',
    })
    const lake = answer.rows.map(([person_no, full_name, email, city, plan]): [string, unknown] => [
      JSON.stringify({ person_no }),
      { person_no, full_name, email, city, plan },
    ])
    assert.deepEqual(sorted(folded(masked)), sorted(new Map(lake)))
    assertKeysInOrder(masked)
  })

  it('are closed to logins that nobody has opened them to', async () => {
    const refused = await Promise.all([
      consume(CLEAR, logins.reader),
      consume(CLEAR, logins.stranger),
      consume(MASKED, logins.stranger),
    ])
    for (const consumer of refused) {
      assert.match(await consumer.refusal(), /(Topic|Group)AuthorizationException/)
      assert.deepEqual(consumer.changes, [])
    }
    assert.ok((await readAll(MASKED, logins.cleared)).changes.length > 0)
  })

  it('miss nothing where the runtime is killed between the commit and the sending, or before it has noted it', async () => {
    for (const [index, point] of ['changes.before-send', 'changes.after-send'].entries()) {
      const epoch = 5 + index
      // What is still to be sent would end the next runtime before the source has changed.
      for (const product of ['people', 'visits'] as const) await products.sent(product, epoch - 1)
      await products.restart(`${point}@1`)
      await products.change()
      assert.equal(await products.killed(), 'SIGKILL')
      await products.restart(null)
      await products.sent('people', epoch)
    }
    await products.synced()
    const { changes: clear } = await readAll(CLEAR, logins.cleared)
    for (const [index, { people }] of products.expected.entries()) {
      assert.deepEqual(sorted(folded(clear, index + 1)), sorted(rowsOf(people)), `epoch ${index + 1}`)
    }
    assertKeysInOrder(clear)
  })

  it('wait for a broker that hangs, while runs and reads go on and everybody is told', {
    skip: !brokerProcess,
  }, async () => {
    await brokerProcess?.signal('SIGSTOP')
    try {
      await products.change()
      await products.synced()
      const read = await products.readers.viewer.ask('/api/v1/products/people/latest?filter=person_no:3')
      assert.equal(read.status, 200, JSON.stringify(read.body))
      await products.until('it is told', async () =>
        (await products.topics('people')).some(
          ({ state, error }) => state === 'failed' && error?.code === 'bus_unavailable',
        ),
      )
      const ready = await fetch(`${products.url}/readyz`)
      const { checks } = (await ready.json()) as { checks: { name: string; state?: string }[] }
      assert.equal(ready.status, 200)
      assert.equal(checks.find(({ name }) => name === 'change-topics')?.state, 'degraded')
      assert.ok((await metric('sluice_change_topics_failing')) >= 1)
      assert.ok((await metric('sluice_change_epochs_behind')) >= 1)
    } finally {
      await brokerProcess?.signal('SIGCONT')
    }
    await products.sent('people', 7)
    await products.sent('visits', 7)
    assert.equal(await metric('sluice_change_topics_failing'), 0)
    const { changes } = await readAll(CLEAR, logins.cleared)
    assert.deepEqual(sorted(folded(changes)), sorted(rowsOf(products.expected[6]?.people as Content)))
  })

  it('hold nothing in clear of a column any more whose class was raised', async () => {
    const { changes: before } = await readAll(MASKED, logins.reader)
    assert.ok(before.some(({ value }) => String(value?.['city']).startsWith('City ')))
    await products.reclassify('2.0.0', 'city', 'pii.name')
    await products.change()
    await products.synced()
    await products.until('the new mask is sent', async () =>
      (await products.topics('people')).every(({ state, epoch }) => state === 'ok' && (epoch ?? 0) >= 8),
    )
    const { changes: now, text } = await readAll(MASKED, logins.reader)
    assert.equal(/City |Person |@example\.com/.test(text), false)
    assert.equal(folded(now).size, products.expected.at(-1)?.people.size)
  })

  it('go with their product and their tenant', async () => {
    const remaining = async () =>
      (await admin.listTopics({})).filter((topic) => topic.startsWith('sluice-changes.acme.'))
    // It is made of the people, who are kept for as long as it is there.
    await remove('/api/v1/products/reach', 'developer')
    await remove('/api/v1/products/people', 'developer')
    await products.until('its topics are gone', async () => (await remaining()).join() === VISITS)
    await remove('/api/v1/tenants/acme?confirm=acme', 'admin')
    assert.deepEqual(await remaining(), [])
  })
})

/** A key lies in one partition, and its epochs come in order. */
function assertKeysInOrder(changes: readonly Change[]): void {
  const partitions = new Map<string, number>()
  const last = new Map<string, number>()
  for (const change of changes) {
    const key = JSON.stringify(change.key)
    assert.equal(partitions.get(key) ?? change.partition, change.partition)
    assert.ok((last.get(key) ?? 0) <= epochOf(change), `${key} at ${epochOf(change)}`)
    partitions.set(key, change.partition)
    last.set(key, epochOf(change))
  }
}

/** The largest value of a metric, over its labels. */
async function metric(name: string): Promise<number> {
  const text = await products.readers.admin.text('/metrics')
  const values = [...text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'gm'))].map(([, value]) =>
    Number(value),
  )
  return Math.max(...values)
}

async function remove(path: string, who: 'developer' | 'admin'): Promise<void> {
  await products.readers[who].delete(path)
}
