import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type NetworkPolicy, SluiceError } from '@sluice/sdk'
import { SourcePlaces } from './source-places.ts'

const SIGNAL = new AbortController().signal
const REFUSED = { kind: 'PERMISSION', code: 'address_refused' } as const
const PUBLIC = '198.51.100.7'
const INNER = '127.0.0.1'

/** Names lead to what `answers` says when they are asked for, one after the other; nothing within this machine is allowed. */
function namesThatChange(answers: readonly string[]) {
  const asked: string[] = []
  const network: NetworkPolicy = {
    async resolve(host, port) {
      const address = /^[\d.]+$/.test(host) ? host : (answers[asked.length] ?? answers.at(-1) ?? '')
      asked.push(`${host} ${port}`)
      if (address.startsWith('127.'))
        throw new SluiceError('PERMISSION', 'no', { code: 'address_refused', remedy: 'no' })
      return { address, family: 4 }
    },
    allowsCleartextPassword: () => false,
  }
  return { network, asked }
}

describe('a name whose answers change', () => {
  it('leads one open connection to the address that was judged, however often it is asked for', async () => {
    const { network, asked } = namesThatChange([PUBLIC, INNER])
    const places = new SourcePlaces(network, { host: 'db.example' })
    for (let time = 0; time < 3; time++) {
      assert.equal((await places.resolve('db.example', 5432, SIGNAL)).address, PUBLIC)
    }
    assert.deepEqual(asked, ['db.example 5432'])
    assert.equal((await places.known(PUBLIC, 5432, SIGNAL)).address, PUBLIC)
  })

  it('is judged for each port, and anew where nothing answered', async () => {
    const { network } = namesThatChange([PUBLIC, INNER])
    const places = new SourcePlaces(network, { host: 'db.example' })
    await places.resolve('db.example', 5432, SIGNAL)
    await assert.rejects(places.resolve('db.example', 5433, SIGNAL), REFUSED)
    places.forget(PUBLIC)
    await new Promise((resolve) => setImmediate(resolve))
    await assert.rejects(places.resolve('db.example', 5432, SIGNAL), REFUSED)
  })

  it('opens the way to no other address and no other host', async () => {
    const { network } = namesThatChange([PUBLIC])
    const places = new SourcePlaces(network, { host: 'db.example' })
    await places.resolve('db.example', 5432, SIGNAL)
    const others = [
      () => places.known(PUBLIC, 22, SIGNAL),
      () => places.known('198.51.100.8', 5432, SIGNAL),
      () => places.known(INNER, 5432, SIGNAL),
      async () => places.resolve('other.example', 5432, SIGNAL),
      async () => places.resolve(PUBLIC, 5432, SIGNAL),
    ]
    for (const other of others) await assert.rejects(other, REFUSED)
  })

  it('opens the way to so many places at most, where the settings name no host', async () => {
    const { network } = namesThatChange([PUBLIC])
    const places = new SourcePlaces(network, {})
    for (let port = 1; port <= 64; port++) await places.resolve('db.example', port, SIGNAL)
    await assert.rejects(async () => places.resolve('db.example', 65, SIGNAL), REFUSED)
  })
})
