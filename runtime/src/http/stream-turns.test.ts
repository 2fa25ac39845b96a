/** Streams of events that have endlessly much to send: what else there is to do comes between their pieces. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { eventStream, type ServerEvent } from './event-stream.ts'
import { StreamTurns } from './stream-turns.ts'

const TURNS = 300
/** No more than this of all streams together before anything else is worked on. */
const MOST_AT_ONCE = 100

/** How many events streams of those tenants are asked for, all of them read as fast as they come. */
async function flooded(tenants: readonly string[]) {
  const pulled = new Map<string, number>()
  const over = new AbortController()
  // Each is asked for its first event when it begins.
  let left = tenants.length + MOST_AT_ONCE
  async function* endless(stream: string): AsyncGenerator<ServerEvent> {
    // One that would keep the event loop for ever ends.
    while (left > 0) {
      left -= 1
      pulled.set(stream, (pulled.get(stream) ?? 0) + 1)
      yield { data: 'x' }
    }
  }
  const reading = tenants.map(async (tenant, index) => {
    const { chunks } = eventStream(endless(`${tenant} ${index}`), { tenant, signal: over.signal })
    for await (const chunk of chunks) assert.ok(chunk.length > 0)
  })
  let most = 0
  for (let turn = 0; turn < TURNS; turn += 1) {
    await nextTurn()
    if (turn > 0) most = Math.max(most, MOST_AT_ONCE - left)
    if (left > 0) left = MOST_AT_ONCE
  }
  over.abort()
  await Promise.all(reading)
  return { most, pulled }
}

describe('streams of events', () => {
  for (const count of [1, 7, 200]) {
    it(`keep the event loop for no longer where there are ${count}`, async () => {
      const { most } = await flooded(Array.from({ length: count }, () => 'acme'))
      assert.ok(most > 0 && most < MOST_AT_ONCE, `${most} events at once`)
    })
  }

  it('of one tenant with many have as much as the only one of another', async () => {
    const { pulled } = await flooded([...Array.from({ length: 50 }, () => 'loud'), 'quiet'])
    const of = (tenant: string) =>
      [...pulled].reduce((sum, [stream, events]) => sum + (stream.startsWith(tenant) ? events : 0), 0)
    assert.ok(of('quiet') > of('loud') / 3, `${of('quiet')} beside ${of('loud')}`)
  })

  it('that fail say what came before, and then fail', async () => {
    async function* failing(): AsyncGenerator<ServerEvent> {
      yield { data: '1' }
      yield { data: '2' }
      throw new Error('lost')
    }
    let text = ''
    const { chunks } = eventStream(failing(), { tenant: 'acme', signal: new AbortController().signal })
    const reading = (async () => {
      for await (const chunk of chunks) {
        text += chunk
        // It fails while its client is waited for.
        await nextTurn()
        await nextTurn()
      }
    })()
    await assert.rejects(reading, { message: 'lost' })
    assert.equal(text, 'retry: 3000\n\ndata: 1\n\ndata: 2\n\n')
  })
})

it('a turn is of one at a time, and whoever does not come again is not waited for', async () => {
  const turns = new StreamTurns()
  const begun: string[] = []
  const ask = (tenant: string, name: string) => void turns.next(tenant).then(() => begun.push(name))
  for (const name of ['a1', 'a2', 'a3']) ask('a', name)
  for (const name of ['b1', 'b2']) ask('b', name)
  const seen: string[] = []
  while (begun.length < 5) {
    await nextTurn()
    seen.push(begun.join(' '))
  }
  assert.equal(seen.at(-1), 'a1 b1 a2 b2 a3')
  assert.ok(seen.length >= 5, 'one in a turn of the event loop')
})
