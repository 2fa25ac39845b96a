import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { after, test } from 'node:test'
import { until } from '../../../test/until.ts'
import { freePort } from '../database/free-port.ts'
import { Reception, type ReceptionOptions, type Seat } from './reception.ts'

const clients: Socket[] = []
after(() => {
  for (const client of clients) client.destroy()
})

interface Taker {
  readonly seat: Seat
  /** By id. */
  readonly given: Map<number, Socket>
}

/** @param takes false: it is held up, and says of nothing that it has it */
function admit(reception: Reception, takes = true): Taker {
  const given = new Map<number, Socket>()
  const seat = reception.admit((socket, id) => {
    given.set(id, socket)
    if (takes) seat.taken(id)
    socket.once('close', () => {
      given.delete(id)
      seat.left(id)
    })
    socket.resume()
  })
  return { seat, given }
}

async function opened(limits: Partial<ReceptionOptions> = {}) {
  const port = await freePort()
  const reception = new Reception({ host: '127.0.0.1', port, maxConnections: 1_000, maxPerAddress: null, ...limits })
  const takers = [admit(reception), admit(reception)] as const
  await reception.listen()
  const join = async () => {
    const client = connect(port, '127.0.0.1')
    clients.push(client)
    client.on('error', () => undefined)
    await once(client, 'connect')
    return client
  }
  return { reception, takers, join, port }
}

test('a connection goes to whoever has the fewest, also when others have left', async () => {
  const { reception, takers, join } = await opened()
  const [first, second] = takers
  for (let at = 1; at <= 6; at += 1) {
    await join()
    await until('it is given', () => first.given.size + second.given.size === at)
    assert.ok(Math.abs(first.given.size - second.given.size) <= 1)
  }
  for (const socket of [...first.given.values()]) socket.destroy()
  await until('they have left', () => first.given.size === 0)
  for (let at = 1; at <= 3; at += 1) {
    await join()
    await until('it is given', () => first.given.size === at)
  }
  assert.deepEqual([first.given.size, second.given.size], [3, 3])
  await reception.close(() => undefined)
})

test('what a process that ended had not taken is given to another, and it counts for nothing', async () => {
  const { reception, takers, join } = await opened()
  const [first, second] = takers
  first.seat.remove()
  const heldUp = admit(reception, false)
  for (let at = 0; at < 4; at += 1) await join()
  await until('both have some', () => heldUp.given.size === 2 && second.given.size === 2)
  heldUp.seat.remove()
  assert.equal(second.given.size, 4)
  assert.equal(reception.size, 1)
  await reception.close(() => undefined)
})

test('one that takes nothing is given no more than a few', async () => {
  const { reception, takers, join } = await opened()
  const [first, second] = takers
  first.seat.remove()
  const heldUp = admit(reception, false)
  for (let at = 0; at < 60; at += 1) await join()
  await until('all are given', () => heldUp.given.size + second.given.size === 60)
  assert.equal(heldUp.given.size, 16)
  await reception.close(() => undefined)
})

test('what does not reach a process is given to others, and that one is given nothing for a while', async () => {
  const { reception, takers, join } = await opened()
  const [first, second] = takers
  first.seat.remove()
  const unreached = admit(reception, false)
  for (let at = 0; at < 4; at += 1) await join()
  await until('both have some', () => unreached.given.size === 2 && second.given.size === 2)
  const [one, other] = [...unreached.given.keys()].toSorted((a, b) => a - b) as [number, number]
  // Of what was told later nobody knows yet.
  unreached.seat.heard(one)
  assert.equal(unreached.seat.isAwaited, true)
  assert.equal(second.given.size, 3)
  unreached.seat.heard(other)
  assert.equal(unreached.seat.isAwaited, false)
  assert.equal(second.given.size, 4)
  assert.equal(second.seat.isAwaited, false)
  for (let at = 0; at < 4; at += 1) await join()
  await until('the other has them', () => second.given.size === 8)
  await reception.close(() => undefined)
})

test('limits of connections and of an address are of all processes together', async () => {
  for (const limits of [{ maxConnections: 3 }, { maxPerAddress: 3 }]) {
    const { reception, takers, join } = await opened(limits)
    const [first, second] = takers
    for (let at = 1; at <= 3; at += 1) {
      await join()
      await until('it is given', () => first.given.size + second.given.size === at)
    }
    const refused = await join()
    if (!refused.destroyed) await once(refused, 'close')
    assert.equal(first.given.size + second.given.size, 3)
    for (const socket of [...first.given.values()]) socket.destroy()
    await until('they have left', () => first.given.size === 0)
    await join()
    await until('there is room again', () => first.given.size === 1)
    await reception.close(() => undefined)
  }
})

test('once it is closed nobody is let in, and who was is told before', async () => {
  const { reception, takers, join, port } = await opened()
  await join()
  await until('it is given', () => takers[0].given.size + takers[1].given.size === 1)
  let isTold = false
  await reception.close(() => {
    isTold = true
  })
  assert.ok(isTold)
  const late = connect(port, '127.0.0.1')
  const [error] = await once(late, 'error')
  assert.equal((error as NodeJS.ErrnoException).code, 'ECONNREFUSED')
})
